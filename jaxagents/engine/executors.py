"""An agent's programs on one device, or on several that share its environments or data."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, ArrayLike, PyTree, Shaped

from jaxagents.core import processes
from jaxagents.core.arrays import RandomKey, as_int32, portable, rebuild_of
from jaxagents.core.compilation import (
    Jitted,
    compile_at_once,
    is_tracing,
    jit_in_place,
    nan_is_allowed,
    quick_jit,
)
from jaxagents.core.metrics import Metrics
from jaxagents.core.report import FirstNonfinite
from jaxagents.engine.behaviour import Behaviour
from jaxagents.engine.host_play import HostPlayer
from jaxagents.sharding import DATA_AXIS, check_axis

RunnerT = TypeVar("RunnerT", bound=Any)

_SPLIT, _WHOLE = PartitionSpec(DATA_AXIS), PartitionSpec()


class OnDevice(Generic[RunnerT]):
    """An agent's programs on one device.

    Attributes:
        player: Plays episodes (`play`, `play_point`) and records them (`record`).
    """

    def __init__(self, agent: Behaviour[Any, Any, RunnerT]) -> None:
        """Compiles nothing yet."""
        self._program, self._data = agent.program, agent.data
        self._jitted: Any = agent.programs.get(OnDevice, _on_device)
        self.player = HostPlayer(agent) if agent.episodes.env.on_host else self._jitted

    shared_by_processes = False
    """Whether several processes make the updates together."""
    _devices: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    """Makes the context in which programs are traced, compiled and called."""

    keeps_environments: Callable[[], contextlib.AbstractContextManager[Any]] = (
        contextlib.nullcontext
    )
    """Makes a context that reserves environments on the host between calls."""

    def _placed(self, shapes: PyTree) -> PyTree:
        """The shapes of a runner, with the sharding of the runners that `start` returns."""
        return shapes

    def compile(self, rng: RandomKey, hyperparams: PyTree) -> None:
        """Compiles programs ahead of their first calls; mistakes in hooks raise before compilation."""
        jitted = self._jitted
        with self._devices():
            start = jitted.start.trace(rng, hyperparams)
            fresh = self._placed(start.out_info)
            advance = jitted.advance.trace(fresh, np.int32(1), self._data)
            programs = [advance, start]
            if self._program.evaluates and self.player is jitted:
                runner = self._placed(advance.out_info[0].replace(info={}))
                play_point = jitted.play_point.trace(runner)
                played = play_point.out_info
                self._program.report(advance.out_info[0], played)  # raises if a name is taken
                programs.append(play_point)
            compile_at_once(programs)

    @nan_is_allowed
    def start(self, rng: RandomKey, hyperparams: PyTree) -> RunnerT:
        """Makes a fresh runner."""
        with self._devices():
            return self._jitted.start(rng, hyperparams)

    @nan_is_allowed
    def place(self, runner: RunnerT) -> RunnerT:
        """A copy of a runner to continue from."""
        return jax.device_put(runner, may_alias=False)

    @nan_is_allowed
    def restart(self, runner: RunnerT, hyperparams: PyTree) -> RunnerT:
        """Replaces the hyperparameters of a runner."""
        return self._jitted.restart(runner, hyperparams)

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> tuple[RunnerT, FirstNonfinite]:
        """Makes updates, donating the runner; also returns the first with non-finite numbers."""
        if is_zero(n_updates):
            return runner, {}
        with self._devices():
            return self._jitted.advance(runner.replace(info={}), as_int32(n_updates), self._data)

    @nan_is_allowed
    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point."""
        played: Metrics = {}
        if self._program.evaluates:
            with self._devices():
                played = self.player.play_point(runner.replace(info={}))
        return self._program.report(runner, played)

    @nan_is_allowed
    def train(
        self,
        rng: RandomKey | None,
        hyperparams: PyTree,
        runner: RunnerT | None,
        n_steps: int,
        progress: bool,
    ) -> tuple[RunnerT, Metrics]:
        """Makes a whole run in one program."""
        return self._jitted.train(rng, hyperparams, runner, self._data, n_steps, progress)


def is_zero(n_updates: ArrayLike) -> bool:
    """Whether a number of updates is known to be zero."""
    return not is_tracing(n_updates) and not np.asarray(n_updates)


class _OnDevice(NamedTuple):
    start: Jitted
    restart: Jitted
    advance: Jitted
    play_point: Jitted
    play: Jitted
    record: Jitted
    train: Jitted


def _on_device(behaviour: Behaviour) -> _OnDevice:
    """The compiled functions that equal agents share on one device."""
    program = behaviour.program
    return _OnDevice(
        start=(jax.jit if behaviour.collects_at_start else quick_jit)(program.start),
        restart=jax.jit(program.restart),
        advance=jit_in_place(program.advance),
        play_point=jax.jit(program.play_point),
        play=jax.jit(program.play, static_argnums=(2, 3)),
        record=jax.jit(program.record, static_argnums=(2, 3)),
        train=jax.jit(program.train, static_argnums=(4, 5)),
    )


class OnMesh(OnDevice[RunnerT]):
    """An agent's programs on the devices of a mesh.

    The compiler partitions them by the sharding of their inputs: arrays of environments are split over
    the axis `"data"`, and everything else is replicated.
    """

    def __init__(self, agent: Behaviour[Any, Any, RunnerT], mesh: Mesh) -> None:
        """Compiles nothing yet.

        Args:
            agent: The agent.
            mesh: The devices.

        Raises:
            TypeError: `mesh` is not a mesh.
            ValueError: It lacks the axis, or its devices cannot share the work equally.
        """
        if not isinstance(mesh, Mesh):
            raise TypeError(
                "mesh must be a jax.sharding.Mesh, such as jaxagents.sharding.make_mesh(), got "
                f"{mesh!r}."
            )
        check_axis(mesh)
        agent.config.check_devices(mesh.shape[DATA_AXIS])
        self._mesh = Mesh(mesh.devices, mesh.axis_names)
        self._devices = functools.partial(jax.set_mesh, self._mesh)
        self._program, self._data = agent.program, _data_on(self._mesh, agent.data)
        self.player = self._jitted = agent.programs.get(
            (OnMesh, self._mesh), functools.partial(_on_mesh, mesh=self._mesh)
        )

    @property
    def shared_by_processes(self) -> bool:
        """Whether several processes make the updates together."""
        return self._mesh.is_multi_process

    def _placed(self, shapes: PyTree) -> PyTree:
        def placed(x: jax.ShapeDtypeStruct, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

        return jax.tree.map(placed, shapes, _shardings(self._program.behaviour, self._mesh, shapes))

    @nan_is_allowed
    def place(self, runner: RunnerT) -> RunnerT:
        """A copy of a runner to continue from."""
        leaves, structure = jax.tree.flatten(runner)
        rebuilds = [rebuild_of(leaf) for leaf in leaves]

        def place(portable: list[Array]) -> RunnerT:
            rebuilt = [rebuild(leaf) for rebuild, leaf in zip(rebuilds, portable, strict=True)]
            runner = jax.tree.unflatten(structure, rebuilt)
            return _place(self._program.behaviour, self._mesh, runner)

        with self._devices():
            return jax.jit(place)([portable(leaf) for leaf in leaves])


class SplitPrograms(NamedTuple):
    """The compiled functions that equal agents share if their work is split over devices."""

    start: Jitted
    advance: Jitted
    play_point: Jitted


def _on_mesh(behaviour: Behaviour, mesh: Mesh) -> SplitPrograms:
    """The compiled functions that equal agents share on a mesh."""
    whole, program = NamedSharding(mesh, _WHOLE), behaviour.program

    def start(rng: RandomKey, hyperparams: PyTree) -> PyTree:
        return _place(behaviour, mesh, program.start(rng, hyperparams))

    def advance(
        runner: PyTree, n_updates: ArrayLike, data: PyTree
    ) -> tuple[PyTree, FirstNonfinite]:
        runner, first = program.advance(runner, n_updates, data)
        return _place(behaviour, mesh, runner), first

    def play_point(runner: PyTree) -> Metrics:
        return jax.lax.with_sharding_constraint(program.play_point(runner), whole)

    return SplitPrograms(
        start=(jax.jit if behaviour.collects_at_start else quick_jit)(start),
        advance=jit_in_place(advance),
        play_point=jax.jit(play_point),
    )


def _data_on(mesh: Mesh, data: PyTree) -> PyTree:
    """Shards data of shape `(groups, ...)` or `(groups, rows, ...)`; each process holds some groups."""
    sharding = NamedSharding(mesh, _SPLIT)
    if not mesh.is_multi_process:
        return jax.device_put(data, sharding)

    def join(array: Shaped[Array | np.ndarray, "groups ..."]) -> Shaped[Array, "all_groups ..."]:
        rows = array.shape[1:2]
        missing = [(0, int(processes.gathered(np.int32(n)).max()) - n) for n in rows]
        widths = [(0, 0), *missing, *[(0, 0)] * (array.ndim - 1 - len(rows))]
        return jax.make_array_from_process_local_data(sharding, np.pad(array, widths))

    return jax.tree.map(join, data)


def _place(behaviour: Behaviour[Any, Any, RunnerT], mesh: Mesh, runner: RunnerT) -> RunnerT:
    """Constrains the sharding of a runner inside a compiled function."""
    shardings = _shardings(behaviour, mesh, runner)
    return jax.tree.map(jax.lax.with_sharding_constraint, runner, shardings)


def _shardings(behaviour: Behaviour, mesh: Mesh, runner: PyTree) -> PyTree:
    """The shardings of a runner's arrays; the runner may hold shapes."""

    def sharding(path: tuple, array: Array) -> NamedSharding:
        is_split = path[0].name in behaviour.split_fields and len(array.shape)
        return NamedSharding(mesh, _SPLIT if is_split else _WHOLE)

    return jax.tree_util.tree_map_with_path(sharding, runner)
