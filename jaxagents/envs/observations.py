"""How networks read observations, given their space: categories, pixels and image axes."""

import warnings
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxagents.envs.spaces import Space, is_box, is_discrete, is_multi_discrete, parts
from jaxagents.networks.preprocessing import Part, Pixels
from jaxagents.networks.torsos import IMAGE_NDIM

_LARGEST_PIXEL = 2.0**16 - 1
"""Larger bounds are assumed to be the range of a dtype, not of pixels."""
_MOST_CHANNELS = 16
_SMALLEST_SIDE = 8


def preprocessing(
    space: Space, obs: PyTree, *, n_leading: int = 0, channels_first: bool | None = None
) -> tuple[Part, ...]:
    """Determines how networks should read observations from a space.

    ```python
    parts = preprocessing(env.observation_space, observation)
    network = jaxagents.networks.Preprocessed(network, parts)
    ```

    Args:
        space: The space; `None` if none is declared.
        obs: One observation, or its shapes and dtypes.
        n_leading: Number of leading axes, such as an actor axis, that a network does not see.
        channels_first: Whether images have their channels first.

    Returns:
        The `parts` of [`preprocess`][jaxagents.networks.preprocess]. Integers are categories. Images
            are divided by the upper bound of their space if the lower bound is 0 and the upper bound
            is not what networks assume anyway (255 for integers, 1 for real numbers).
    """

    def part_of(space: Space, x: jax.ShapeDtypeStruct) -> Part:
        if is_discrete(space):
            return int(space.n)
        if is_multi_discrete(space):
            n_values = np.asarray(space.nvec)
            return tuple(map(int, n_values.reshape(-1, n_values.shape[-1]).max(axis=0)))
        if x.ndim - n_leading != IMAGE_NDIM:
            return None
        pixels = Pixels(_largest_pixel(space, x.dtype), bool(channels_first))
        return pixels if any(pixels) else None

    return tuple(part_of(*pair) for pair in _with_spaces(space, jax.eval_shape(lambda x: x, obs)))


def _with_spaces(space: Space, obs: PyTree) -> Iterator[tuple[Space, jax.ShapeDtypeStruct]]:
    """Yields each array of an observation with its space, `None` if none is declared."""
    if jax.tree_util.all_leaves([obs]):
        yield space, obs
        return
    declared = parts(space) or {}
    children = jax.tree_util.tree_leaves_with_path(obs, is_leaf=lambda x: x is not obs)
    for i, ((key,), child) in enumerate(children):
        name = next(getattr(key, kind) for kind in ("key", "name", "idx") if hasattr(key, kind))
        yield from _with_spaces(declared.get(name, declared.get(i)), child)


def _largest_pixel(space: Space, dtype: np.dtype) -> float | None:
    """The number to divide images by; `None` if networks can infer it from the dtype."""
    is_real = jnp.issubdtype(dtype, jnp.floating)
    if not is_box(space) or np.dtype(dtype).kind == "b" or (is_real and _is_of_integers(space)):
        return None
    low, high = np.asarray(space.low), float(np.max(space.high))
    is_range = np.all(low == 0) and 0.0 < high <= _LARGEST_PIXEL
    return high if is_range and high != (1.0 if is_real else 255.0) else None


def _is_of_integers(space: Space) -> bool:
    return jnp.issubdtype(getattr(space, "dtype", np.float32), jnp.integer)


def doubts_about_axes(obs: PyTree, name: str, n_leading: int = 0) -> list[str]:
    """Warnings about images that seem to have their channels first."""
    shapes = [x.shape[n_leading:] for x in jax.tree.leaves(obs)]
    return [
        f"{name} returns observations of shape {shape}, which look like images with channels "
        "first. Default networks expect height, width and channels: set channels_first=True in "
        "the agent's configuration to move the axis, or channels_first=False if the order is "
        "right."
        for shape in dict.fromkeys(shapes)
        if len(shape) == IMAGE_NDIM
        and shape[0] <= _MOST_CHANNELS
        and min(shape[1:]) >= max(_SMALLEST_SIDE, 2 * shape[0])
    ]


def check_channels_first(
    config: object,
    obs: PyTree,
    env: str,
    *,
    is_heeded: bool,
    is_ours: bool | None = None,
    n_leading: int = 0,
) -> None:
    """Checks `channels_first` of a configuration against the observations.

    Args:
        config: The configuration of an agent.
        obs: One observation, as shapes.
        env: Name of the environment.
        is_heeded: Whether a network uses `channels_first`.
        is_ours: Whether that network is the library's, which expects channels last; by default
            `is_heeded`.
        n_leading: Number of leading axes that a network does not see.

    Raises:
        ValueError: `channels_first` is true, but no network uses it or there are no images.
    """
    first, name = getattr(config, "channels_first", None), type(config).__name__
    if first and not is_heeded:
        raise ValueError(
            f"{name}.channels_first is for the default networks and encoder, but the networks "
            "are given: move the axis in them, with jaxagents.networks.Preprocessed."
        )
    shapes = [x.shape[n_leading:] for x in jax.tree.leaves(obs)]
    if first and not any(len(shape) == IMAGE_NDIM for shape in shapes):
        raise ValueError(
            f"{name}.channels_first is for images, of shape (channels, height, width), but the "
            f"observations of {env} have shape {' and '.join(map(str, shapes))}: leave it out."
        )
    is_ours = is_heeded if is_ours is None else is_ours
    for doubt in doubts_about_axes(obs, env, n_leading) if first is None and is_ours else []:
        warnings.warn(doubt, stacklevel=2)
