"""Lifting a single-actor network to several actors."""

import functools

import jax
from flax import linen as nn
from jaxtyping import Array, Key, PyTree

from jaxagents.networks.initialisation import initialise_params


class PerActor(nn.Module):
    """Runs one network for each actor, and stacks the outputs along a leading `n_actors` axis.

    Attributes:
        network: The network of one actor.
        n_actors: Number of actors.
        shared_params: Whether all actors share the same parameters; otherwise each has its own.
        own_observations: Whether observations have a leading `n_actors` axis; otherwise every actor
            sees the whole observation.
    """

    network: nn.Module
    n_actors: int
    shared_params: bool = False
    own_observations: bool = True

    @nn.compact
    def __call__(self, obs: PyTree) -> PyTree:
        """Outputs of all actors, each with a leading `n_actors` axis."""
        network = self.network.clone(parent=None)
        obs_axis = 0 if self.own_observations else None
        params_axis = None if self.shared_params else 0

        def init(rng: Key[Array, ""]) -> PyTree:
            if self.shared_params:
                first = jax.tree.map(lambda x: x[0], obs) if self.own_observations else obs
                return initialise_params(network, rng, first)
            rngs = jax.random.split(rng, self.n_actors)
            each = jax.vmap(functools.partial(initialise_params, network), (0, obs_axis))
            return each(rngs, obs)

        params = self.param("actors", init)
        apply = jax.vmap(network.apply, (params_axis, obs_axis), axis_size=self.n_actors)
        return apply({"params": params}, obs)
