"""Lifting a single-actor network to several actors."""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Key, PyTree

from jaxagents.networks.initialisation import InitialisedOnce, initialise_params
from jaxagents.networks.recurrent import Recurrent


class PerActor(InitialisedOnce):
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
        axes = (0 if self.own_observations else None,)
        params = self.param("actors", lambda rng: _initial(self, rng, axes, obs))
        return _apply(self, params, axes, obs)


class PerActorWithMemory(InitialisedOnce, Recurrent):
    """Runs one network with a memory for each actor; memories and outputs have an axis of actors.

    Attributes:
        network: The network of one actor.
        n_actors: Number of actors.
        shared_params: As in [`PerActor`][jaxagents.networks.PerActor].
        own_observations: As in [`PerActor`][jaxagents.networks.PerActor].
    """

    network: Recurrent
    n_actors: int
    shared_params: bool = False
    own_observations: bool = True

    @nn.nowrap
    def initial(self) -> PyTree:
        """The memories of all actors at the start of an episode."""
        initial = self.network.initial()
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.n_actors, *x.shape)), initial)

    @nn.compact
    def __call__(self, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree]:
        """Takes one step; see `Recurrent`."""
        axes = (0, 0 if self.own_observations else None)
        params = self.param("actors", lambda rng: _initial(self, rng, axes, carry, obs))
        return _apply(self, params, axes, carry, obs)

    def unroll(
        self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"]
    ) -> tuple[PyTree, PyTree]:
        """Takes the steps of a sequence; see `Recurrent`."""
        axes = (0, 1 if self.own_observations else None, None)
        params = self.get_variable("params", "actors")
        return _apply(self, params, axes, carry, obs, first, method="unroll", actors_axis=1)


def for_each_actor(
    network: nn.Module, n_actors: int, shared_params: bool = False, own_observations: bool = True
) -> PerActor | PerActorWithMemory:
    """A network, with or without a memory, run for each actor.

    Args:
        network: The network of one actor.
        n_actors: Number of actors.
        shared_params: As in [`PerActor`][jaxagents.networks.PerActor].
        own_observations: As in [`PerActor`][jaxagents.networks.PerActor].

    Returns:
        The network of all of them.
    """
    how = shared_params, own_observations
    if isinstance(network, Recurrent):
        return PerActorWithMemory(network, n_actors, *how)
    return PerActor(network, n_actors, *how)


_Axes = tuple[int | None, ...]
"""For each input its axis of actors; `None` for what all of them are given."""


def _initial(
    lifted: PerActor | PerActorWithMemory, rng: Key[Array, ""], axes: _Axes, *inputs: PyTree
) -> PyTree:
    """The parameters of all actors."""
    network = lifted.network.clone(parent=None)
    if lifted.shared_params:
        pairs = zip(inputs, axes, strict=True)
        of_one = [x if axis is None else jax.tree.map(lambda y: y[0], x) for x, axis in pairs]
        return initialise_params(network, rng, *of_one)
    rngs = jax.random.split(rng, lifted.n_actors)
    return jax.vmap(functools.partial(initialise_params, network), (0, *axes))(rngs, *inputs)


def _apply(
    lifted: PerActor | PerActorWithMemory,
    params: PyTree,
    axes: _Axes,
    *inputs: PyTree,
    method: str | None = None,
    actors_axis: int = 0,
) -> PyTree:
    """The outputs of all actors."""
    network = lifted.network.clone(parent=None)

    def apply(params: PyTree, *inputs: PyTree) -> PyTree:
        return network.apply({"params": params}, *inputs, method=method)

    params_axis = None if lifted.shared_params else 0
    each = jax.vmap(apply, (params_axis, *axes), actors_axis, axis_size=lifted.n_actors)
    return each(params, *inputs)
