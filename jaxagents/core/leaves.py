"""The leaves of pytrees as they are saved: by path, as raw arrays, with a digest."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxagents.core.arrays import is_key

Leaf = tuple[str, Any]


def leaves_of(tree: Any) -> list[Leaf]:
    """Paths and leaves of a pytree, random keys as their data."""

    def raw(leaf: Any) -> Any:
        if not is_key(leaf):
            return leaf
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.eval_shape(jax.random.key_data, leaf)
        return jax.random.key_data(leaf)

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), raw(x)) for path, x in leaves]


def signature(path: str, array: Any, n_blocks: int = 1) -> dict[str, Any]:
    """What identifies a saved leaf, as JSON.

    Args:
        path: Its path.
        array: Its array.
        n_blocks: Number of equal blocks of rows that are digested one by one.

    Returns:
        Path, shape, type and digest.
    """
    array = np.asarray(array)
    blocks = np.split(array, n_blocks) if n_blocks > 1 else [array]
    return signature_of(path, array, [zlib.crc32(block.tobytes()) for block in blocks])


def signature_of(path: str, array: Any, digests: Sequence[int]) -> dict[str, Any]:
    """What identifies a saved leaf whose blocks have been digested."""
    blocks = {"blocks": len(digests)} if len(digests) > 1 else {}
    whole = zlib.crc32(np.asarray(digests, np.uint32).tobytes()) if blocks else int(digests[0])
    described = {"path": path, "shape": list(array.shape), "dtype": str(array.dtype)}
    return {**described, "crc32": whole, **blocks}


def with_leaves(template: Any, saved: Mapping[str, np.ndarray]) -> Any:
    """A pytree like a template with saved leaves, by path."""

    def as_leaf(array: np.ndarray, like: Any) -> Any:
        return jax.random.wrap_key_data(jnp.asarray(array)) if is_key(like) else jnp.asarray(array)

    like, structure = jax.tree.flatten(template)
    arrays = [saved[path] for path, _ in leaves_of(template)]
    return jax.tree.unflatten(
        structure, [as_leaf(*pair) for pair in zip(arrays, like, strict=True)]
    )


def check_leaves(saved: list[dict[str, Any]], own: list[Leaf], place: str, owner: str) -> None:
    """Raises if saved leaves are not those of a pytree.

    Args:
        saved: Their signatures.
        own: Paths and leaves of the pytree; shapes are enough.
        place: Where they were saved, in words.
        owner: Whose pytree it is, in words.

    Raises:
        ValueError: They differ; the first leaf that differs is named.
    """
    for found, (path, leaf) in zip(saved, own, strict=False):
        expected = {"path": path, "shape": list(leaf.shape), "dtype": str(leaf.dtype)}
        if {name: found[name] for name in expected} != expected:
            raise ValueError(
                f"{place} does not fit this {owner}. The first leaf that differs is {found['path']} "
                f"with shape {tuple(found['shape'])} and dtype {found['dtype']}, where this {owner} "
                f"has {path} with shape {leaf.shape} and dtype {leaf.dtype}."
            )
    if len(saved) != len(own):
        longer = [s["path"] for s in saved] if len(saved) > len(own) else [path for path, _ in own]
        raise ValueError(
            f"{place} has {len(saved)} leaves, but this {owner} has {len(own)}; the first without a "
            f"counterpart is {longer[min(len(saved), len(own))]}."
        )
