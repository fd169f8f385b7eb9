"""Fresh parameters of a network."""

from typing import Any

import jax
from flax import linen as nn
from jax.custom_batching import custom_vmap, sequential_vmap
from jaxtyping import Array, Key


def initialise(network: nn.Module, rng: Key[Array, ""], obs: Any) -> dict[str, Any]:
    """The variables of a network; vmapped on a CPU, those of one network after another.

    Orthogonal initialisation is a QR decomposition. On a CPU, XLA runs a batch of those in tasks on the
    very threads that wait for the batch: a program in which as many batches wait at once as there are
    threads never ends.

    Args:
        network: The network.
        rng: Random key.
        obs: One observation.

    Returns:
        Collections of variables by name.
    """

    def init(rng: Key[Array, ""], obs: Any) -> dict[str, Any]:
        return dict(network.init(rng, obs))

    initialised = custom_vmap(init)

    @initialised.def_vmap
    def _(axis_size: int, in_batched: Any, rng: Any, obs: Any) -> tuple[Any, Any]:
        in_axes = tuple(jax.tree.map(lambda batched: 0 if batched else None, in_batched))
        variables = jax.lax.platform_dependent(
            rng,
            obs,
            cpu=jax.vmap(sequential_vmap(init), in_axes, axis_size=axis_size),
            default=jax.vmap(init, in_axes, axis_size=axis_size),
        )
        return variables, jax.tree.map(lambda _: True, variables)

    return initialised(rng, obs)
