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
    info = {name: jnp.asarray(x) if isinstance(x, int | float) else x for name, x in info.items()}
    if not all(hasattr(x, "dtype") for x in [losses, *info.values()]):
        raise TypeError(
            "A loss hook must return an array of losses, one for each sample or one for all, alone or "
            f"with a dict of arrays that describe the samples, got {output!r}."
        )
    losses = jnp.asarray(losses)
    if not jnp.issubdtype(losses.dtype, jnp.floating):
        raise TypeError(
            f"A loss hook must return losses that are real numbers, got {losses.dtype}, which has no "
            "gradient."
        )
    return losses, info


def check_mean_loss(function: str, output: PyTree, *, has_info: bool = True) -> None:
    """Raises unless a function returns one loss for all samples, which JAX can differentiate.

    Args:
        function: Its name.
        output: What it returns.
        has_info: Whether it is to return what describes the loss as well.

    Raises:
        TypeError: It does not return both, or more than the loss though it should not.
        ValueError: It returns several losses.
    """
    is_tuple = isinstance(output, tuple)
    if is_tuple != has_info or (is_tuple and len(output) != 2):
        due = "a tuple of a loss and a dict that describes it, which may be empty"
        given = f"a tuple of {len(output)}" if is_tuple else "no tuple"
        raise TypeError(
            f"{function} must return {due if has_info else 'a loss and nothing else'}, got {given}."
        )
    shape = jnp.shape(output[0] if is_tuple else output)
    if shape != ():
        raise ValueError(
            f"{function} must return one loss for all samples, their mean perhaps, got losses of shape "
            f"{shape}."
        )


def check_shape(
    hook: str,
    shape: tuple[int, ...],
    n_samples: int,
    actors_shape: tuple[int, ...] = (),
    *,
    may_be_one: bool = True,
) -> None:
    """Raises unless losses are of samples, or a single number.

    Args:
        hook: Name of the hook that gives them.
        shape: Their shape.
        n_samples: Number of samples of a minibatch.
        actors_shape: `()` for one actor, `(n_actors,)` for several.
        may_be_one: Whether they may be a single number.

    Raises:
        ValueError: The shape is another, as of arrays that were broadcast against each other.
    """
    expected = (n_samples, *actors_shape)
    if shape in ((n_samples,), expected) or (may_be_one and shape == ()):
        return
    of_each = " and actor" if actors_shape else ""
    or_one = ", or a single number" if may_be_one else ""
    hint = (
        f": is one of its arrays of shape ({n_samples}, 1)?" if shape else ", their mean perhaps."
    )
    raise ValueError(
        f"{hook} must give one loss for each sample{of_each}, of shape {expected}{or_one}, got shape "
        f"{shape}{hint}"
    )
