"""Several networks of one kind, each with its own parameters."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Key, PyTree

from jaxagents.networks.initialisation import InitialisedOnce, initialise_params


class Ensemble(InitialisedOnce):
    """Runs several copies of a network on the same inputs, and stacks their outputs.

    Attributes:
        network: The network of one member.
        n_members: Number of members.
    """

    network: nn.Module
    n_members: int = 2

    @nn.compact
    def __call__(self, *args: Any, **kwargs: Any) -> PyTree:
        """Outputs of all members, each with a leading `n_members` axis."""
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

        # If inputs have the axis of members too, every product is a batch of plain ones. Otherwise
        # XLA merges all first layers into a single product, whose outputs it has to transpose.
        own_args = jax.tree.map(
            lambda x: jnp.broadcast_to(x, (self.n_members, *jnp.shape(x))), args
        )
        return jax.vmap(apply)(params, jnp.arange(self.n_members), *own_args)


def ensemblize(network: Callable[..., nn.Module], n_members: int) -> Callable[..., Ensemble]:
    """Turns the class of a network into one of several copies of it.

    ```python
    critic = ensemblize(Critic, 2)(features=(256, 256))
    ```

    Args:
        network: Class of a network.
        n_members: Number of copies.

    Returns:
        A function that takes the arguments of the class and gives an
        [`Ensemble`][jaxagents.networks.Ensemble].
    """
    return lambda *args, **kwargs: Ensemble(network(*args, **kwargs), n_members)
