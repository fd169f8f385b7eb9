"""The members of a sweep, run together on the cores of a CPU or on accelerators."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, ArrayLike, Key, PyTree

from jaxagents.core.arrays import as_int32, stack, unstack
from jaxagents.core.compilation import jit_in_place, nan_is_allowed
from jaxagents.core.metrics import Metrics, stack_metrics
from jaxagents.core.report import FirstNonfinite
from jaxagents.engine.behaviour import Behaviour
from jaxagents.engine.executors import OnDevice, RunnerT, SplitPrograms, is_zero

T = TypeVar("T")

_MEMBERS = PartitionSpec("members")


@contextlib.contextmanager
def members_of(agent: Behaviour, n_members: int) -> "Iterator[MembersOnCores | MembersOnDevices]":
    """The members of a sweep, on the devices where they run fastest.

    Args:
        agent: The agent.
        n_members: Number of members.

    Yields:
        The members. Their threads end with the context.
    """
    devices = jax.devices()
    if devices[0].platform == "cpu":
        with ThreadPoolExecutor(min(n_members, _n_cores())) as threads:
            yield MembersOnCores(agent, threads)
    else:
        yield MembersOnDevices(agent, devices[:n_members])


class MembersOnCores(Generic[RunnerT]):
    """An agent's programs for many members, run in parallel with one member per CPU core.

    They are the programs of a single run. On a CPU this is faster than one wide program, which does
    most of its work on one core.
    """

    def __init__(self, agent: Behaviour[Any, Any, RunnerT], threads: ThreadPoolExecutor) -> None:
        """Compiles nothing yet.

        Args:
            agent: The agent.
            threads: One thread per core to use.
        """
        self._executor, self._refill_missing = OnDevice(agent), agent._refill_missing
        self._threads = threads
        self._called: set[str] = set()

    def compile(self, rngs: Key[Array, "members"], hyperparams: PyTree) -> None:
        """Compiles the programs, shared by all members."""
        self._executor.compile(rngs[0], jax.tree.map(lambda x: x[0], hyperparams))

    def start(self, rngs: Key[Array, "members"], hyperparams: PyTree) -> list[RunnerT]:
        """Fresh runners."""
        sets = [jax.tree.map(lambda x, i=i: x[i], hyperparams) for i in range(len(rngs))]
        return self._map(self._executor.start, list(rngs), sets)

    @nan_is_allowed
    def place(self, stacked: RunnerT) -> list[RunnerT]:
        """Unstacks the runners of a checkpoint, to continue from."""
        return [self._refill_missing(runner) for runner in unstack(stacked)]

    def advance(
        self, runners: list[RunnerT], n_updates: ArrayLike
    ) -> tuple[list[RunnerT], FirstNonfinite]:
        """Makes updates; also returns the first with non-finite numbers, members first."""
        made = self._map(self._executor.advance, runners, [n_updates] * len(runners))
        return [runner for runner, _ in made], stack_metrics([first for _, first in made])

    def evaluate(self, runners: list[RunnerT]) -> Metrics:
        """The metrics of one evaluation point, members first except in `update_step`."""
        return _in_step(stack_metrics(self._map(self._executor.evaluate, runners)))

    @nan_is_allowed
    def gather(self, runners: list[RunnerT]) -> RunnerT:
        """Stacks the runners, with a leading axis of members."""
        return stack(runners)

    def _map(self, function: Callable[..., T], *args: Sequence[PyTree]) -> list[T]:
        def run(*member: PyTree) -> T:
            return jax.block_until_ready(function(*member))

        if function.__name__ in self._called:
            return list(self._threads.map(run, *args))
        first = run(*(members[0] for members in args))  # alone, so that only one thread compiles
        self._called.add(function.__name__)
        return [first, *self._threads.map(run, *(members[1:] for members in args))]


class MembersOnDevices:
    """An agent's programs for many members, split over accelerators and vmapped on each."""

    def __init__(self, agent: Behaviour, devices: Sequence[Any]) -> None:
        """Compiles nothing yet.

        Args:
            agent: The agent.
            devices: The devices, no more than members.
        """
        self._mesh = Mesh(np.asarray(devices), ("members",))
        self._data, self._program = agent.data, agent.program
        self._refill_missing: Callable = agent._refill_missing
        self._jitted = agent.programs.get(
            (MembersOnDevices, self._mesh), functools.partial(_on_devices, mesh=self._mesh)
        )

    def compile(self, rngs: Key[Array, "members"], hyperparams: PyTree) -> None:
        """Traces the programs; their first calls compile them."""
        sharding = NamedSharding(self._mesh, _MEMBERS)
        runners = self._jitted.start.trace(*self._filled((rngs, hyperparams), len(rngs))).out_info
        placed = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), runners
        )
        self._jitted.advance.trace(placed, np.int32(1), self._data)

    @nan_is_allowed
    def start(self, rngs: Key[Array, "members"], hyperparams: PyTree) -> PyTree:
        """Fresh runners, padded with copies to fill the devices."""
        return self._jitted.start(*self._filled((rngs, hyperparams), len(rngs)))

    @nan_is_allowed
    def place(self, stacked: RunnerT) -> RunnerT:
        """Runners to continue from, padded with copies to fill the devices."""
        return jax.vmap(self._refill_missing)(self._filled(stacked, len(stacked.update_step)))

    def advance(self, runners: PyTree, n_updates: ArrayLike) -> tuple[PyTree, FirstNonfinite]:
        """Makes updates; also returns the first with non-finite numbers, members first."""
        if is_zero(n_updates):
            return runners, {}
        made = self._jitted.advance(runners.replace(info={}), as_int32(n_updates), self._data)
        runners, first = made
        return runners, self.gather(first)

    @nan_is_allowed
    def evaluate(self, runners: PyTree) -> Metrics:
        """The metrics of one evaluation point, members first except in `update_step`."""
        played = self._jitted.play_point(runners.replace(info={}))
        return _in_step(self.gather(self._program.report(runners, played)))

    def gather(self, runners: PyTree) -> PyTree:
        """The runners without padding."""
        return jax.tree.map(lambda x: x[: self._n_members], runners)

    def _filled(self, stacked: T, n_members: int) -> T:
        self._n_members = n_members
        n_filled = n_members + -n_members % self._mesh.size
        members = np.arange(n_filled) % n_members
        filled = jax.tree.map(lambda x: x[members], stacked)
        return jax.device_put(filled, NamedSharding(self._mesh, _MEMBERS))


def _in_step(metrics: Metrics) -> Metrics:
    """Metrics of members, with `update_step`, which is the same for all, given once."""
    return {**metrics, "update_step": metrics["update_step"][0]}


def _on_devices(behaviour: Behaviour, mesh: Mesh) -> SplitPrograms:
    """The compiled functions that equal agents share for many members."""
    program = behaviour.program

    def of_members(function: Callable, *in_axes: int | None) -> Callable:
        return jax.shard_map(
            jax.vmap(function, in_axes),
            mesh=mesh,
            in_specs=tuple(PartitionSpec() if axis is None else _MEMBERS for axis in in_axes),
            out_specs=_MEMBERS,
            check_vma=False,
        )

    return SplitPrograms(
        start=jax.jit(of_members(program.start, 0, 0)),
        advance=jit_in_place(of_members(program.advance, 0, None, None)),
        play_point=jax.jit(of_members(program.play_point, 0)),
    )


def _n_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
