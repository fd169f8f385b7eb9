"""Meshes of devices: sharding and replicating arrays."""

import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from jaxagents.core.arrays import leaves_by_name
from jaxagents.core.numbers import multiples_near, positive

DATA_AXIS = "data"
"""Name of the mesh axis that splits the work of a run."""


_N_PROCESSES = ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
"""Environment variables that launchers set to the number of processes."""
_LAUNCHED = ("JAX_COORDINATOR_ADDRESS", "SLURM_STEP_NODELIST", "OMPI_MCA_orte_hnp_uri")
"""Environment variables that tell JAX how processes were launched."""


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    heartbeat_timeout_seconds: int = 30,
    **options: Any,
) -> None:
    """Connects this process to the others of a distributed run.

    Call it before JAX computes anything, and so before importing gymnax. Under Slurm, under Open MPI
    and on TPUs, JAX detects all arguments. A single process continues alone, so a script can
    always start with this call. A second call does nothing.

    ```python
    from jaxagents import sharding

    sharding.initialize()
    ...
    agent.train(rng, hyperparams, mesh=sharding.make_mesh())
    ```

    This is `jax.distributed.initialize`, except that the other processes stop 30 seconds after one dies,
    instead of 100.

    Args:
        coordinator_address: Host and port of process 0, such as `"10.0.0.1:12345"`.
        num_processes: Number of processes.
        process_id: Index of this process, from 0.
        heartbeat_timeout_seconds: Seconds without a heartbeat after which a process counts as dead.
        **options: Additional arguments of `jax.distributed.initialize`.

    Raises:
        ValueError: Only some of the first three arguments are given, and JAX cannot detect the others.
        RuntimeError: JAX has already computed something, for example when gymnax was imported.
    """
    if jax.distributed.is_initialized() or _is_alone(num_processes):
        return
    given = (coordinator_address, num_processes, process_id)
    launched = options or any(x is not None for x in given) or any(map(os.environ.get, _LAUNCHED))
    try:
        jax.distributed.initialize(
            *given, heartbeat_timeout_seconds=heartbeat_timeout_seconds, **options
        )
    except ValueError as error:
        if launched or "coordinator_address should be defined" not in str(error):
            raise
    except RuntimeError as error:
        if launched or jax.default_backend() == "tpu":
            error.add_note("Importing gymnax is such a call: import it after initialize().")
            raise


def _is_alone(num_processes: int | None) -> bool:
    """Whether this is known to be the only process."""
    counts = [os.environ[name] for name in _N_PROCESSES if name in os.environ]
    return num_processes == 1 if num_processes is not None else counts[:1] == ["1"]


def make_mesh(n_devices: int | None = None) -> Mesh:
    """Creates a mesh with one axis, for `agent.train(..., mesh=make_mesh(4))`.

    Args:
        n_devices: Number of devices over all processes; by default, all devices.

    Returns:
        The mesh.

    Raises:
        TypeError: `n_devices` is not an integer.
        ValueError: There are not that many devices.
    """
    devices = jax.devices()
    n_devices = len(devices) if n_devices is None else positive("n_devices", n_devices)
    if not 1 <= n_devices <= len(devices):
        raise ValueError(
            f"A mesh can have 1 to {len(devices)} devices here, got {n_devices}. Set the "
            "environment variable XLA_FLAGS=--xla_force_host_platform_device_count=8 for more "
            "CPU devices."
        )
    return Mesh(np.array(devices[:n_devices]), (DATA_AXIS,))


def shard_batch(batch: PyTree, mesh: Mesh | None = None, axis: str = DATA_AXIS) -> PyTree:
    """Splits the samples of a batch across devices.

    A compiled function then runs on all of them, without changes:

    ```python
    learner = replicate(learner)
    learner, info = learner.update(shard_batch(batch))
    ```

    Args:
        batch: Pytree of arrays with a leading axis of samples.
        mesh: Devices; by default, all devices of this process.
        axis: Mesh axis to split the samples along.

    Returns:
        The batch, on the devices.

    Raises:
        ValueError: The mesh has no such axis, or the devices cannot share the samples of an array
            equally; the error names the array.
    """
    mesh = _mesh_with(axis) if mesh is None else mesh
    check_axis(mesh, axis)
    for name, array in leaves_by_name(batch).items():
        _check_divisible(name, np.shape(array), mesh.shape[axis])
    return jax.device_put(batch, NamedSharding(mesh, PartitionSpec(axis)))


def replicate(tree: PyTree, mesh: Mesh | None = None) -> PyTree:
    """Copies arrays to every device.

    Args:
        tree: Pytree of arrays, such as a learner.
        mesh: Devices; by default, all devices of this process.

    Returns:
        The pytree, on the devices.
    """
    return jax.device_put(tree, NamedSharding(mesh or _mesh_with(DATA_AXIS), PartitionSpec()))


def check_axis(mesh: Mesh, axis: str = DATA_AXIS) -> None:
    """Raises if a mesh lacks an axis.

    Args:
        mesh: The mesh.
        axis: Name of the axis.

    Raises:
        ValueError: The axis is missing.
    """
    if axis not in mesh.shape:
        raise ValueError(f"The mesh has no axis {axis!r}; it has {list(mesh.axis_names)}.")


def on_each_device(function: Callable, *args: PyTree) -> PyTree:
    """Calls a function of rows on each device of the mesh of `jax.set_mesh`, with the device's rows.

    If the function makes a decision based on all its rows, each device makes it separately.

    Args:
        function: Function that returns a row for each row.
        *args: Pytrees of arrays with a common leading axis.

    Returns:
        The results for all rows. Without a mesh, or if the devices cannot share the rows equally, the
        function is called once with all of them.
    """
    n = n_devices()
    if n == 1 or any(len(x) % n for x in jax.tree.leaves(args)):
        return function(*args)
    rows = PartitionSpec(DATA_AXIS)
    return jax.shard_map(function, in_specs=rows, out_specs=rows, check_vma=False)(*args)


def mean_over_devices(function: Callable, *args: PyTree) -> PyTree:
    """Calls a function of rows on each device of the mesh of `jax.set_mesh`, with the device's rows.

    Args:
        function: Function of rows, such as a mean over them.
        *args: Pytrees of arrays with a common leading axis, which the devices share equally.

    Returns:
        The mean of the results over devices.
    """

    def average(*args: PyTree) -> PyTree:
        return jax.lax.pmean(function(*args), DATA_AXIS)

    rows = PartitionSpec(DATA_AXIS)
    shared = jax.shard_map(average, in_specs=rows, out_specs=PartitionSpec(), check_vma=False)
    return shared(*args)


def n_devices() -> int:
    """Number of devices that the mesh of `jax.set_mesh` splits rows over; 1 without a mesh."""
    return jax.sharding.get_abstract_mesh().shape.get(DATA_AXIS, 1)


def whole(tree: PyTree) -> PyTree:
    """Replicates arrays on the devices of the mesh of `jax.set_mesh`, inside a compiled function.

    Args:
        tree: Pytree of arrays.

    Returns:
        The pytree.
    """
    if n_devices() == 1:
        return tree
    return jax.lax.with_sharding_constraint(tree, PartitionSpec())


def in_one_order(rollout: PyTree, replicated: bool = True) -> PyTree:
    """Flattens a replicated rollout to samples, in the same order for any mesh.

    The rounding of a sum over two axes depends on the memory layout, which the compiler may choose
    differently for arrays that were split.

    Args:
        rollout: Pytree of arrays shaped `(time, environments, ...)`.
        replicated: Whether it is replicated; otherwise it is returned unchanged.

    Returns:
        The pytree, shaped `(samples, ...)`.
    """
    if not replicated:
        return rollout
    samples = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rollout)
    return jax.lax.optimization_barrier(samples)


def _mesh_with(axis: str) -> Mesh:
    return Mesh(np.array(jax.local_devices()), (axis,))


def _check_divisible(name: str, shape: tuple[int, ...], n_devices: int) -> None:
    if not shape:
        raise ValueError(f"{name!r} is a scalar, but needs a leading axis of samples.")
    if shape[0] % n_devices:
        raise ValueError(
            f"{name!r} has {shape[0]} samples, which {n_devices} devices cannot share equally; "
            f"{multiples_near(shape[0], n_devices)}."
        )
