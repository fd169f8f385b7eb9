"""The programs of a training on one device, or on several that share its environments or its data."""

import functools
from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.stages import Lowered
from jaxtyping import Array, ArrayLike, Int, Key, PyTree, Shaped

from jaxagents.core import processes
from jaxagents.core.arrays import as_int32, in_float32, portable, rebuild_of
from jaxagents.core.compilation import (
    Jitted,
    compile_meanwhile,
    is_tracing,
    jit_in_place,
    nan_is_allowed,
    quick_jit,
)
from jaxagents.core.keys import RandomKey
from jaxagents.core.metrics import Metrics
from jaxagents.core.report import FirstNonfinite
from jaxagents.envs.environment import Moment
from jaxagents.running.trainable import Compilable, RunnerT, programs_of
from jaxagents.sharding import DATA_AXIS, check_axis

_SPLIT, _WHOLE = PartitionSpec(DATA_AXIS), PartitionSpec()


class OnDevice(Generic[RunnerT]):
    """An agent's program on one device."""

    shared_by_processes = False
    """Whether several processes make the updates together."""

    def __init__(self, agent: Compilable[RunnerT]) -> None:
        """Compiles nothing yet."""
        self._compiled = programs_of(agent).get(OnDevice, _OnDevice)
        self._data = agent.data

    @nan_is_allowed
    def start(self, rng: RandomKey, hyperparams: PyTree) -> RunnerT:
        """Makes a fresh runner; `advance` is traced while this is compiled."""
        hyperparams = in_float32(hyperparams)
        without_jit = jax.config.jax_disable_jit  # pyright: ignore[reportAttributeAccessIssue]
        if not (without_jit or is_tracing((rng, hyperparams))):
            self._compile_start(rng, hyperparams)
        return self._compiled.start(rng, hyperparams)

    def _compile_start(self, rng: RandomKey, hyperparams: PyTree) -> None:
        start = self._compiled.start.lower(rng, hyperparams)
        args = start.out_info, self._data, np.int32(1)
        compile_meanwhile(start, lambda: self._compiled.watch.lower(*args))

    @nan_is_allowed
    def place(self, runner: RunnerT) -> RunnerT:
        """A copy of a runner to go on from."""
        return jax.device_put(runner, may_alias=False)

    @nan_is_allowed
    def restart(self, runner: RunnerT, hyperparams: PyTree) -> RunnerT:
        """Replaces the hyperparameters of a runner."""
        return self._compiled.restart(runner, in_float32(hyperparams))

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> RunnerT:
        """Makes updates, using up the runner."""
        return self.watch(runner, n_updates)[0]

    def watch(self, runner: RunnerT, n_updates: ArrayLike) -> tuple[RunnerT, FirstNonfinite]:
        """Makes updates, using up the runner; also gives the first that met non-finite numbers."""
        return self._compiled.watch(runner, self._data, as_int32(n_updates))

    @nan_is_allowed
    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point."""
        return self._compiled.evaluate(runner)

    def play(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        n_evals: int,
        deterministic: bool,
        moment: Moment | None = None,
    ) -> Metrics:
        """The outcomes of episodes at a moment of a training, of greedy actions or drawn ones."""
        return self._compiled.play(rng, acting, n_evals, deterministic, moment)

    def record(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        max_steps: int,
        deterministic: bool,
        moment: Moment | None = None,
    ) -> tuple[PyTree, Int[Array, ""]]:
        """The states of one episode at a moment of a training, and its number of steps."""
        return self._compiled.record(rng, acting, max_steps, deterministic, moment)

    @nan_is_allowed
    def train(
        self,
        rng: RandomKey | None,
        hyperparams: PyTree,
        runner: RunnerT | None,
        n_steps: int,
        progress: bool,
    ) -> tuple[RunnerT, Metrics]:
        """Makes a whole training in one program."""
        return self._compiled.train(rng, hyperparams, runner, self._data, n_steps, progress)


class _OnDevice:
    """The compiled functions of equal agents on one device."""

    def __init__(self, behaviour: Compilable) -> None:
        program = behaviour.program

        def watch(
            runner: PyTree, data: PyTree, n_updates: ArrayLike
        ) -> tuple[PyTree, FirstNonfinite]:
            return program.with_data(data).watch(runner, n_updates)

        def train(
            rng: RandomKey | None,
            hyperparams: PyTree,
            runner: PyTree,
            data: PyTree,
            n_steps: int,
            progress: bool,
        ) -> tuple[PyTree, Metrics]:
            given = program.with_data(data)
            return given.train(rng, hyperparams, runner, n_steps, progress)

        self.start: Jitted = (jax.jit if behaviour.collects_at_start else quick_jit)(program.start)
        self.restart = jax.jit(program.restart)
        self.watch = jit_in_place(watch)
        self.evaluate = jax.jit(program.evaluate)
        self.play = jax.jit(program.play, static_argnums=(2, 3))
        self.record = jax.jit(program.record, static_argnums=(2, 3))
        self.train = jax.jit(train, static_argnums=(4, 5))


class OnMesh(Generic[RunnerT]):
    """An agent's programs on the devices of a mesh.

    The compiler splits them up by where their inputs lie: what belongs to environments over the axis
    `"data"`, and copies of everything else on every device.
    """

    def __init__(self, agent: Compilable[RunnerT], mesh: Mesh) -> None:
        """Compiles nothing yet.

        Args:
            agent: The agent.
            mesh: The devices.

        Raises:
            TypeError: It is no mesh.
            ValueError: It lacks the axis, or its devices cannot share the work equally.
        """
        if not isinstance(mesh, Mesh):
            raise TypeError(
                "mesh must be a jax.sharding.Mesh, such as jaxagents.sharding.make_mesh(), got "
                f"{mesh!r}."
            )
        check_axis(mesh)
        agent.config.check_devices(mesh.shape[DATA_AXIS])
        self._behaviour = agent.behaviour
        self._mesh = Mesh(mesh.devices, mesh.axis_names)
        self._data = _data_on(self._mesh, agent.data)
        self._programs = programs_of(agent).get(
            (OnMesh, self._mesh), functools.partial(_compile, mesh=self._mesh)
        )

    @nan_is_allowed
    def start(self, rng: RandomKey, hyperparams: PyTree) -> RunnerT:
        """Makes a fresh runner, on the devices."""
        with jax.set_mesh(self._mesh):
            return self._programs.start(rng, in_float32(hyperparams))

    @property
    def shared_by_processes(self) -> bool:
        """Whether several processes make the updates together."""
        return self._mesh.is_multi_process

    @nan_is_allowed
    def place(self, runner: RunnerT) -> RunnerT:
        """A copy of a runner to go on from."""
        leaves, structure = jax.tree.flatten(runner)
        rebuilds = [rebuild_of(leaf) for leaf in leaves]

        def place(portable: list[Array]) -> RunnerT:
            rebuilt = [rebuild(leaf) for rebuild, leaf in zip(rebuilds, portable, strict=True)]
            return _place(self._behaviour, self._mesh, jax.tree.unflatten(structure, rebuilt))

        with jax.set_mesh(self._mesh):
            return jax.jit(place)([portable(leaf) for leaf in leaves])

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> RunnerT:
        """Makes updates, using up the runner."""
        return self.watch(runner, n_updates)[0]

    def watch(self, runner: RunnerT, n_updates: ArrayLike) -> tuple[RunnerT, FirstNonfinite]:
        """Makes updates, using up the runner; also gives the first that met non-finite numbers."""
        with jax.set_mesh(self._mesh):
            return self._programs.watch(runner, as_int32(n_updates), self._data)

    @nan_is_allowed
    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point."""
        with jax.set_mesh(self._mesh):
            return self._programs.evaluate(runner)

    def lowered_advance(self, rng: RandomKey, hyperparams: PyTree) -> Lowered:
        """The program of updates before it is compiled, such as to see what devices tell each other."""
        with jax.set_mesh(self._mesh):
            return self._programs.watch.lower(self.start(rng, hyperparams), np.int32(1), self._data)


class _Programs(NamedTuple):
    start: Jitted
    watch: Jitted
    evaluate: Jitted


def _compile(behaviour: Compilable, mesh: Mesh) -> _Programs:
    whole, program = NamedSharding(mesh, _WHOLE), behaviour.program

    def start(rng: RandomKey, hyperparams: PyTree) -> PyTree:
        return _place(behaviour, mesh, program.start(rng, hyperparams))

    def watch(runner: PyTree, n_updates: ArrayLike, data: PyTree) -> tuple[PyTree, FirstNonfinite]:
        runner, first = program.with_data(data).watch(runner, n_updates)
        return _place(behaviour, mesh, runner), first

    def evaluate(runner: PyTree) -> Metrics:
        return jax.lax.with_sharding_constraint(program.evaluate(runner), whole)

    return _Programs(
        start=(jax.jit if behaviour.collects_at_start else quick_jit)(start),
        watch=jit_in_place(watch),
        evaluate=jax.jit(evaluate),
    )


def _data_on(mesh: Mesh, data: PyTree) -> PyTree:
    """Data of which each process has its own groups, shaped `(groups, ...)` or `(groups, rows, ...)`."""
    sharding = NamedSharding(mesh, _SPLIT)
    if not mesh.is_multi_process:
        return jax.device_put(data, sharding)

    def join(array: Shaped[Array | np.ndarray, "groups ..."]) -> Shaped[Array, "all_groups ..."]:
        rows = array.shape[1:2]
        missing = [(0, processes.largest(n) - n) for n in rows]
        widths = [(0, 0), *missing, *[(0, 0)] * (array.ndim - 1 - len(rows))]
        return jax.make_array_from_process_local_data(sharding, np.pad(array, widths))

    return jax.tree.map(join, data)


def _place(behaviour: Compilable[RunnerT], mesh: Mesh, runner: RunnerT) -> RunnerT:
    """A runner, inside of a compiled function, with its arrays where they belong."""

    def place(path: tuple, array: Array) -> Array:
        is_split = path[0].name in behaviour.split_fields and jnp.ndim(array)
        sharding = NamedSharding(mesh, _SPLIT if is_split else _WHOLE)
        return jax.lax.with_sharding_constraint(array, sharding)

    return jax.tree_util.tree_map_with_path(place, runner)
