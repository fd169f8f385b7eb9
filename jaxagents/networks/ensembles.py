"""Copies of a network: the members of an ensemble, or one per actor."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Key, PyTree

from jaxagents.networks.initialisation import InitialisedOnce, initialise_params
from jaxagents.networks.recurrent import NetworkWrapper, remembers


class Ensemble(InitialisedOnce):
    """Runs several copies of a network on the same inputs and stacks their outputs.

    Attributes:
        network: The network of each member.
        n_members: Number of members.
    """

    network: nn.Module
    n_members: int = 2

    @nn.compact
    def __call__(self, *args: Any, **kwargs: Any) -> PyTree:
        """The outputs of all members, with a leading `n_members` axis."""
        network = self.network.clone(parent=None)

        def init(rng: Key[Array, ""]) -> PyTree:
            rngs = jax.random.split(rng, self.n_members)
            member = functools.partial(initialise_params, network, **kwargs)
            return jax.vmap(member, (0, *[None] * len(args)))(rngs, *args)

        params = self.param("members", init)
        rngs = {"dropout": self.make_rng("dropout")} if self.has_rng("dropout") else {}

        def apply(params: PyTree, member: Array, *args: Any) -> PyTree:
            own = {name: jax.random.fold_in(rng, member) for name, rng in rngs.items()}
            return network.apply({"params": params}, *args, rngs=own, **kwargs)

        # With a member axis on the inputs too, every product is a plain batched one. Otherwise XLA
        # merges all first layers into a single product and has to transpose its outputs.
        own_args = jax.tree.map(
            lambda x: jnp.broadcast_to(x, (self.n_members, *jnp.shape(x))), args
        )
        return jax.vmap(apply)(params, jnp.arange(self.n_members), *own_args)


def ensemblize(network: Callable[..., nn.Module], n_members: int) -> Callable[..., Ensemble]:
    """Turns a network class into a constructor of ensembles.

    ```python
    critic = ensemblize(Critic, 2)(features=(256, 256))
    ```

    Args:
        network: Network class.
        n_members: Number of members.

    Returns:
        A function that takes the arguments of the class and returns an
        [`Ensemble`][jaxagents.networks.Ensemble].
    """
    return lambda *args, **kwargs: Ensemble(network(*args, **kwargs), n_members)


class PerActor(InitialisedOnce, NetworkWrapper):
    """Runs one network per actor and stacks memories and outputs along a leading actor axis.

    Attributes:
        network: The network of one actor, with or without memory.
        n_actors: Number of actors.
        shared_params: Whether all actors share parameters; otherwise each has its own.
        own_observations: Whether observations have a leading `n_actors` axis; otherwise every actor
            sees the whole observation.
    """

    n_actors: int
    shared_params: bool = False
    own_observations: bool = True

    @nn.nowrap
    def initial(self) -> PyTree:
        """Returns the memories of all actors at the start of an episode."""
        initial = super().initial()
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.n_actors, *x.shape)), initial)

    @nn.compact
    def __call__(self, *inputs: PyTree) -> PyTree:
        """Takes one step.

        Args:
            *inputs: The memories, if any, and the observation.

        Returns:
            The outputs, with a leading `n_actors` axis; for networks with memory, the memories and the
            outputs.
        """
        own = 0 if self.own_observations else None
        axes = (0, own) if remembers(self) else (own,)
        params = self.param("actors", lambda rng: self._initial_params(rng, axes, inputs))
        return self._apply(params, axes, inputs)

    def unroll(
        self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"]
    ) -> tuple[PyTree, PyTree]:
        """Unrolls the networks over a sequence; see `Recurrent`."""
        if not remembers(self):
            return super().unroll(carry, obs, first)
        axes = (0, 1 if self.own_observations else None, None)
        params = self.get_variable("params", "actors")
        return self._apply(params, axes, (carry, obs, first), method="unroll", actors_axis=1)

    def _initial_params(
        self, rng: Key[Array, ""], axes: tuple[int | None, ...], inputs: tuple[PyTree, ...]
    ) -> PyTree:
        network = self.network.clone(parent=None)
        if self.shared_params:
            pairs = zip(inputs, axes, strict=True)
            of_one = [x if axis is None else jax.tree.map(lambda y: y[0], x) for x, axis in pairs]
            return initialise_params(network, rng, *of_one)
        rngs = jax.random.split(rng, self.n_actors)
        return jax.vmap(functools.partial(initialise_params, network), (0, *axes))(rngs, *inputs)

    def _apply(
        self,
        params: PyTree,
        axes: tuple[int | None, ...],
        inputs: tuple[PyTree, ...],
        method: str | None = None,
        actors_axis: int = 0,
    ) -> PyTree:
        """The outputs of all actors; `axes` holds the actor axis of each input, if any."""
        network = self.network.clone(parent=None)

        def apply(params: PyTree, *inputs: PyTree) -> PyTree:
            return network.apply({"params": params}, *inputs, method=method)

        params_axis = None if self.shared_params else 0
        each = jax.vmap(apply, (params_axis, *axes), actors_axis, axis_size=self.n_actors)
        return each(params, *inputs)
