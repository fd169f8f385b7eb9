"""Losses as hooks return them: of each sample with arrays to report, or of a whole minibatch."""

import jax.numpy as jnp
from jaxtyping import Array, PyTree

Info = dict[str, Array]


def losses_and_info(output: PyTree) -> tuple[Array, Info]:
    """Losses and a dict of arrays that describe samples, of anything that a loss hook may return.

    Args:
        output: Losses alone; or losses and a dict of arrays; or a loss and a mean KL divergence.

    Returns:
        The losses, and the dict.

    Raises:
        TypeError: It is something else.
    """
    losses, info = output if isinstance(output, tuple) and len(output) == 2 else (output, {})
    if not isinstance(info, dict):
        info = {"kl": info}
    if not all(hasattr(x, "dtype") for x in [losses, *info.values()]):
        raise TypeError(
            "A loss hook must return an array of losses, one for each sample or one for all, alone or "
            f"with a dict of arrays that describe the samples, got {output!r}."
        )
    return jnp.asarray(losses), info
