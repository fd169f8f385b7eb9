"""Batches split over devices, and what every device has a copy of."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def shard_batch(batch: Any, mesh: Mesh | None = None, axis: str = "data") -> Any:
    """Splits the samples of a batch over devices.

    A compiled function of what it returns runs on all of them, without a change to it:

    ```python
    learner = replicate(learner)
    learner, info = learner.update(shard_batch(batch))
    ```

    Args:
        batch: Pytree of arrays with a leading axis of samples.
        mesh: Devices; all that this process has, by default.
        axis: Axis of the mesh over which the samples are split.

    Returns:
        The batch, on the devices.

    Raises:
        ValueError: The mesh has no such axis, or an array's samples cannot be shared out equally; the
            error names the array.
    """
    mesh = _mesh_with(axis) if mesh is None else mesh
    if axis not in mesh.shape:
        raise ValueError(f"The mesh has no axis {axis!r}; it has {list(mesh.axis_names)}.")
    for path, array in jax.tree_util.tree_flatten_with_path(batch)[0]:
        _check_divisible(path, np.shape(array), mesh.shape[axis])
    return jax.device_put(batch, NamedSharding(mesh, PartitionSpec(axis)))


def replicate(tree: Any, mesh: Mesh | None = None) -> Any:
    """Copies arrays to every device.

    Args:
        tree: Pytree of arrays, such as a learner.
        mesh: Devices; all that this process has, by default.

    Returns:
        The pytree, on the devices.
    """
    return jax.device_put(tree, NamedSharding(mesh or _mesh_with("data"), PartitionSpec()))


def _mesh_with(axis: str) -> Mesh:
    return Mesh(np.array(jax.local_devices()), (axis,))


def _check_divisible(path: Any, shape: tuple[int, ...], n_devices: int) -> None:
    name = jax.tree_util.keystr(path, simple=True, separator="/")
    if not shape:
        raise ValueError(f"{name!r} is a scalar, but needs a leading axis of samples.")
    if shape[0] % n_devices:
        below = shape[0] - shape[0] % n_devices
        sizes = f"{below} or {below + n_devices}" if below else f"{n_devices}"
        raise ValueError(
            f"{name!r} has {shape[0]} samples, which {n_devices} devices cannot share equally; "
            f"{sizes} would do."
        )
