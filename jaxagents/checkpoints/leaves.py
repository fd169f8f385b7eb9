"""The leaves of pytrees as they are saved: by path, as raw arrays, with a digest."""

import collections
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxagents.core.arrays import is_key, narrow
from jaxagents.core.keys import implementation_of

Leaf = tuple[str, Any]

_ALONE, _JOINED = "alone", "joined"
_FEW_NUMBERS = 65_536
"""Arrays of at most this many are joined. Orbax writes larger ones side by side."""


def leaves_of(tree: PyTree) -> list[Leaf]:
    """Paths and leaves of a pytree, random keys as their data."""

    def raw(leaf: PyTree) -> Array:
        if not is_key(leaf):
            return leaf
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.eval_shape(jax.random.key_data, leaf)
        return jax.random.key_data(leaf)

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), raw(x)) for path, x in leaves]


def signature(path: str, array: Array | np.ndarray, digests: Sequence[int]) -> dict[str, Any]:
    """The signature of a saved leaf, as JSON.

    Args:
        path: Its path.
        array: Its array.
        digests: Digests of its equal blocks of rows, or the single one of all of it.

    Returns:
        Path, shape, type and digest.
    """
    blocks = {"blocks": len(digests)} if len(digests) > 1 else {}
    leaf = {"path": path, "shape": list(array.shape), "dtype": str(array.dtype)}
    return {**leaf, "crc32": _digest_of_all(digests), **blocks}


def digest(array: np.ndarray) -> int:
    """A number that changes if an array does."""
    return zlib.crc32(array.tobytes())


def pack(leaves: Iterable[Leaf]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Copies leaves into few arrays, since each costs orbax time: small ones are joined by type.

    Args:
        leaves: Paths and leaves.

    Returns:
        The arrays by name, and signatures of the leaves, which say where in an array a joined one
        begins.
    """
    large: dict[str, np.ndarray] = {}
    small: dict[str, list[np.ndarray]] = collections.defaultdict(list)
    signatures = []
    for path, leaf in leaves:
        array = np.asarray(leaf)
        entry = signature(path, array, [digest(array)])
        if array.size <= _FEW_NUMBERS:
            parts = small[str(array.dtype)]
            entry["start"] = sum(part.size for part in parts)
            parts.append(array.ravel())
        else:
            large[path] = array.copy()
        signatures.append(entry)
    arrays = {f"{_ALONE}/{path}": array for path, array in large.items()}
    arrays |= {f"{_JOINED}/{dtype}": np.concatenate(parts) for dtype, parts in small.items()}
    return without_empty(arrays), signatures


def without_empty(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays without the empty ones, which orbax does not save."""
    return {name: array for name, array in arrays.items() if array.size}


def array_name(saved: Mapping[str, Any]) -> str:
    """Name of the saved array that holds a leaf, by its signature."""
    return f"{_JOINED}/{saved['dtype']}" if "start" in saved else f"{_ALONE}/{saved['path']}"


def unpack(saved: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """A leaf from saved arrays.

    Args:
        saved: Its signature.
        arrays: The arrays by name.

    Returns:
        Its array, or `None` if that is not as it was saved.
    """
    array = arrays.get(array_name(saved), np.zeros(0, jnp.dtype(saved["dtype"])))
    if "start" in saved:
        array = array[saved["start"] :][: math.prod(saved["shape"])]
    n_blocks = saved.get("blocks", 1)
    blocks = np.split(array, n_blocks) if n_blocks > 1 else [array]
    if _digest_of_all([digest(block) for block in blocks]) != saved["crc32"]:
        return None
    return array.reshape(saved["shape"])


def _digest_of_all(digests: Sequence[int]) -> int:
    return digest(np.asarray(digests, np.uint32)) if len(digests) > 1 else int(digests[0])


def with_leaves(template: PyTree, saved: Mapping[str, np.ndarray]) -> PyTree:
    """A pytree like a template with saved leaves, by path."""

    def as_leaf(array: np.ndarray, like: Array) -> PyTree:
        if not is_key(like):
            return jax.device_put(array)
        return jax.random.wrap_key_data(jax.device_put(array), impl=implementation_of(like))

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
                f"{_of_widths(found, expected)}"
            )
    if len(saved) != len(own):
        longer = [s["path"] for s in saved] if len(saved) > len(own) else [path for path, _ in own]
        raise ValueError(
            f"{place} has {len(saved)} leaves, but this {owner} has {len(own)}; the first without a "
            f"counterpart is {longer[min(len(saved), len(own))]}."
        )


def _of_widths(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """Advice, where a leaf differs only as it has 64 bits instead of 32, or 32 instead of 64."""
    if {**expected, "dtype": found["dtype"]} != {name: found[name] for name in expected}:
        return ""
    its, own = jnp.dtype(found["dtype"]), jnp.dtype(expected["dtype"])
    if narrow(its) != narrow(own):
        return ""
    had, value = ("with", True) if its.itemsize > own.itemsize else ("without", False)
    return (
        f' It is of JAX {had} numbers of 64 bits: set jax.config.update("jax_enable_x64", {value}).'
    )
