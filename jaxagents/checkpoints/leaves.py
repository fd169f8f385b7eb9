"""Saved leaves of pytrees: by path, as raw arrays, with digests."""

import collections
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from jaxagents.checkpoints.notes import CorruptCheckpointError
from jaxagents.core.arrays import implementation_of, is_key

Leaf = tuple[str, Any]
Signature = Mapping[str, Any]
"""Path, shape, dtype and digest of a saved leaf, as JSON; also `start` if it is joined with others."""

_FEW_NUMBERS = 65_536
"""Arrays up to this size are joined. Orbax writes larger ones in parallel."""


def leaves_of(tree: PyTree) -> list[Leaf]:
    """Paths and leaves of a pytree of arrays or shapes, with random keys as their data."""

    def raw(leaf: PyTree) -> Array:
        if not is_key(leaf):
            return leaf
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.eval_shape(jax.random.key_data, leaf)
        return jax.random.key_data(leaf)

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), raw(x)) for path, x in leaves]


def with_leaves(template: PyTree, saved: Mapping[str, np.ndarray]) -> PyTree:
    """Fills a template with saved leaves, by path."""

    def as_leaf(array: np.ndarray, like: Array) -> PyTree:
        if not is_key(like):
            return jax.device_put(array)
        return jax.random.wrap_key_data(jax.device_put(array), impl=implementation_of(like))

    like, structure = jax.tree.flatten(template)
    arrays = [saved[path] for path, _ in leaves_of(template)]
    return jax.tree.unflatten(structure, map(as_leaf, arrays, like))


def signature(path: str, array: Array | np.ndarray, digests: Sequence[int]) -> dict[str, Any]:
    """The signature of a leaf, from the digest of the whole array or of equal blocks of rows."""
    blocks = {"blocks": len(digests)} if len(digests) > 1 else {}
    leaf = {"path": path, "shape": list(array.shape), "dtype": str(array.dtype)}
    return {**leaf, "crc32": _digest_of_all(digests), **blocks}


def digest(array: np.ndarray) -> int:
    """The CRC-32 of an array."""
    return zlib.crc32(array.tobytes())


def _digest_of_all(digests: Sequence[int]) -> int:
    return digest(np.asarray(digests, np.uint32)) if len(digests) > 1 else int(digests[0])


def pack(leaves: Iterable[Leaf]) -> tuple[dict[str, np.ndarray], list[dict[str, Any]]]:
    """Copies leaves into few arrays, since each costs orbax time: small ones are joined by dtype.

    Returns:
        The arrays by name, and the signatures of the leaves.
    """
    arrays: dict[str, np.ndarray] = {}
    joined: dict[str, list[np.ndarray]] = collections.defaultdict(list)
    signatures = []
    for path, leaf in leaves:
        array = np.asarray(leaf)
        saved = signature(path, array, [digest(array)])
        if array.size <= _FEW_NUMBERS:
            parts = joined[str(array.dtype)]
            saved["start"] = sum(part.size for part in parts)
            parts.append(array.ravel())
        else:
            arrays[array_name(saved)] = array.copy()
        signatures.append(saved)
    for dtype, parts in joined.items():
        if any(part.size for part in parts):  # orbax saves no empty arrays
            arrays[f"joined/{dtype}"] = np.concatenate(parts)
    return arrays, signatures


def array_name(saved: Signature) -> str:
    """Name of the saved array that holds a leaf."""
    return f"joined/{saved['dtype']}" if "start" in saved else f"alone/{saved['path']}"


def unpack(saved: Signature, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """Extracts a leaf from saved arrays; raises a `CorruptCheckpointError` if its digest differs."""
    array = arrays.get(array_name(saved), np.zeros(0, jnp.dtype(saved["dtype"])))
    if "start" in saved:
        array = array[saved["start"] :][: math.prod(saved["shape"])]
    blocks = np.split(array, saved["blocks"]) if "blocks" in saved else [array]
    if _digest_of_all([digest(block) for block in blocks]) != saved["crc32"]:
        raise CorruptCheckpointError(f"it has changed at {saved['path']}")
    return array.reshape(saved["shape"])


def read_leaves(folder: Path, part: str, signatures: Sequence[Signature]) -> dict[str, np.ndarray]:
    """Reads the leaves of a part of a checkpoint, and compares them with their digests.

    Orbax writes an OCDBT database of zarr arrays. It is read with tensorstore alone: if a file is
    damaged, orbax leaves tasks behind that log errors later.

    Returns:
        The leaves by path.

    Raises:
        CorruptCheckpointError: They differ from what was written.
    """
    import tensorstore

    context = tensorstore.Context()

    def opened(name: str) -> Any:
        base = {"driver": "file", "path": f"{folder}/"}
        store = {"driver": "ocdbt", "base": base, "path": f"{part}.{name}/"}
        return tensorstore.open({"driver": "zarr", "kvstore": store}, read=True, context=context)

    try:
        names = {array_name(saved) for saved in signatures if math.prod(saved["shape"])}
        opening = {name: opened(name) for name in names}
        reading = {name: array.result().read() for name, array in opening.items()}
        arrays = {name: array.result() for name, array in reading.items()}
        return {saved["path"]: unpack(saved, arrays) for saved in signatures}
    except CorruptCheckpointError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise CorruptCheckpointError(f"its arrays cannot be read ({reason})") from error


def check_leaves(
    signatures: Sequence[Signature], own: Sequence[Leaf], place: str, owner: str
) -> None:
    """Raises a `ValueError` with the first saved leaf that differs from a pytree's.

    Args:
        signatures: Signatures of the saved leaves.
        own: Paths and leaves of the pytree; shapes are enough.
        place: The checkpoint, in words.
        owner: The owner of the pytree, in words.
    """
    for found, (path, leaf) in zip(signatures, own, strict=False):
        expected = {"path": path, "shape": list(leaf.shape), "dtype": str(leaf.dtype)}
        if {name: found[name] for name in expected} != expected:
            raise ValueError(
                f"{place} does not fit this {owner}. The first leaf that differs is "
                f"{found['path']} with shape {tuple(found['shape'])} and dtype "
                f"{found['dtype']}, while this {owner} has {path} with shape {leaf.shape} and "
                f"dtype {leaf.dtype}."
            )
    if len(signatures) != len(own):
        paths = [saved["path"] for saved in signatures], [path for path, _ in own]
        raise ValueError(
            f"{place} has {len(signatures)} leaves, but this {owner} has {len(own)}; the first without "
            f"a counterpart is {max(paths, key=len)[min(map(len, paths))]}."
        )
