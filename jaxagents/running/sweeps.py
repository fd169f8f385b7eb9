"""Many trainings at once: seeds times sets of hyperparameters."""

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.stages import Lowered
from jaxtyping import Array, ArrayLike, Bool, Key, PyTree

from jaxagents.core.arrays import stack
from jaxagents.core.compilation import Jitted, jit_in_place, nan_is_allowed
from jaxagents.core.finite import finite_members
from jaxagents.core.metrics import Metrics, stack_metrics
from jaxagents.running.chunks import TimedChunks
from jaxagents.running.interruption import Interruption
from jaxagents.running.loop import drive, updates_between_points
from jaxagents.running.progress import SweepBar
from jaxagents.running.trainable import Compilable, RunnerT, Trainable, programs_of

T = TypeVar("T")

_MEMBERS = PartitionSpec("members")
_SECONDS_PER_CHUNK = 1.0
"""Of all members together: each one's part of a chunk begins with cold caches."""


class SweepResult(NamedTuple):
    """The outcome of a sweep.

    Attributes:
        runners: Final runners, with leading axes `(n_sets, n_seeds)`.
        metrics: Metrics, with leading axes `(n_sets, n_seeds, n_points)`.
        best: Index of the set of hyperparameters with the highest mean return at the last
            evaluation; `None` without evaluation during training.
        best_hyperparams: That set.
    """

    runners: PyTree
    metrics: dict[str, Array]
    best: int | None
    best_hyperparams: PyTree


def sweep(
    agent: Trainable,
    rngs: Key[Array, "n_seeds"],
    hyperparams: PyTree,
    n_steps: int,
    progress: bool,
) -> SweepResult:
    """Trains every seed with every set of hyperparameters.

    Args:
        agent: The agent.
        rngs: Keys, shaped `(n_seeds,)`.
        hyperparams: Hyperparameters whose array leaves have a common leading axis of sets.
        n_steps: Number of updates.
        progress: Whether to show progress.

    Returns:
        Runners and metrics with leading axes `(n_sets, n_seeds)`, and the best set.
    """
    if rngs.ndim != 1:
        raise ValueError(
            f"rngs must be keys with one leading axis of seeds, got shape {rngs.shape}: make them with "
            "jax.random.split(key, 4)."
        )
    if not len(rngs):
        raise ValueError("There are no seeds: make some with jax.random.split(key, 4).")
    n_sets, n_seeds = _number_of_sets(hyperparams), len(rngs)
    sets = jax.tree.map(lambda x: np.broadcast_to(np.asarray(x, np.float32), n_sets), hyperparams)
    member_rngs = jnp.tile(rngs, n_sets)
    member_sets = jax.tree.map(lambda x: np.repeat(x, n_seeds), sets)
    lengths = updates_between_points(n_steps, agent.config.eval_frequency)
    with (
        _members(agent, n_sets * n_seeds) as members,
        Interruption() as interruption,
        SweepBar(agent, 0, n_steps, disable=not progress) as bar,
    ):
        runners = members.start(member_rngs, member_sets)
        chunks = TimedChunks(interruption, _SECONDS_PER_CHUNK)
        runners, metrics = drive(members, runners, lengths, [bar], chunks)
        runners = members.gather(runners)
    are_sound = finite_members(agent.vital_arrays(runners)).reshape(n_sets, n_seeds)
    metrics = jax.tree.map(lambda x: np.moveaxis(x, 1, 0), metrics)
    runners, metrics = jax.tree.map(
        lambda x: x.reshape(n_sets, n_seeds, *x.shape[1:]), (runners, metrics)
    )
    _warn_of(are_sound)
    best = _best_set(metrics, are_sound)
    best_hyperparams = None if best is None else jax.tree.map(lambda x: x[best], sets)
    return SweepResult(runners, metrics, best, best_hyperparams)


@contextlib.contextmanager
def _members(agent: Trainable, n_members: int) -> Iterator["MembersOnCores | MembersOnDevices"]:
    devices = jax.devices()
    if devices[0].platform == "cpu":
        with ThreadPoolExecutor(min(n_members, _n_cores())) as threads:
            yield MembersOnCores(agent, threads)
    else:
        yield MembersOnDevices(agent, devices[:n_members])


class MembersOnCores(Generic[RunnerT]):
    """An agent's program for many members, which the cores of a CPU run side by side, one each.

    It runs the very programs of a single training. On a CPU that is faster than one wide program,
    which leaves most of its work to one core.
    """

    def __init__(self, agent: Trainable[RunnerT], threads: ThreadPoolExecutor) -> None:
        """Compiles nothing yet.

        Args:
            agent: The agent.
            threads: One for each core that is to be used.
        """
        self._agent = agent
        self._threads = threads
        self._compiled: set[Callable] = set()

    def start(self, rngs: Key[Array, "members"], hyperparams: PyTree) -> list[RunnerT]:
        """Fresh runners."""
        sets = [jax.tree.map(lambda x, i=i: x[i], hyperparams) for i in range(len(rngs))]
        return self._map(self._agent.start, list(rngs), sets)

    def advance(self, runners: list[RunnerT], n_updates: ArrayLike) -> list[RunnerT]:
        """Makes updates."""
        return self._map(self._agent.advance, runners, [n_updates] * len(runners))

    def evaluate(self, runners: list[RunnerT]) -> Metrics:
        """The metrics of one evaluation point."""
        return stack_metrics(self._map(self._agent.evaluate, runners))

    def gather(self, runners: list[RunnerT]) -> RunnerT:
        """The runners as one, with a leading axis of members."""
        return stack(runners)

    def _map(self, function: Callable[..., T], *args: Sequence[PyTree]) -> list[T]:
        def run(*member: PyTree) -> T:
            return jax.block_until_ready(function(*member))

        if function in self._compiled:
            return list(self._threads.map(run, *args))
        first = run(*(members[0] for members in args))  # alone, lest every thread compiles
        self._compiled.add(function)
        return [first, *self._threads.map(run, *(members[1:] for members in args))]


class MembersOnDevices:
    """An agent's program for many members, split over accelerators and vmapped on each."""

    def __init__(self, agent: Compilable, devices: Sequence[Any]) -> None:
        """Compiles nothing yet.

        Args:
            agent: The agent.
            devices: The devices, no more than members.
        """
        self._mesh = Mesh(np.asarray(devices), ("members",))
        self._data = agent.data
        self._start, self._advance, self._evaluate = programs_of(agent).get(
            (MembersOnDevices, self._mesh), functools.partial(_compile, mesh=self._mesh)
        )

    @nan_is_allowed
    def start(self, rngs: Key[Array, "members"], hyperparams: PyTree) -> PyTree:
        """Fresh runners, some of them twice to fill up the devices."""
        self._n_members = len(rngs)
        n_filled = self._n_members + -self._n_members % self._mesh.size
        members = np.arange(n_filled) % self._n_members
        filled = jax.tree.map(lambda x: x[members], (rngs, hyperparams))
        return self._start(*jax.device_put(filled, NamedSharding(self._mesh, _MEMBERS)))

    def advance(self, runners: PyTree, n_updates: ArrayLike) -> PyTree:
        """Makes updates."""
        return self._advance(runners, n_updates, self._data)

    @nan_is_allowed
    def evaluate(self, runners: PyTree) -> Metrics:
        """The metrics of one evaluation point."""
        return self.gather(self._evaluate(runners))

    def gather(self, runners: PyTree) -> PyTree:
        """The runners without those that fill up the devices."""
        return jax.tree.map(lambda x: x[: self._n_members], runners)

    def lowered_advance(self, rngs: Key[Array, "members"], hyperparams: PyTree) -> Lowered:
        """The program of updates before it is compiled, such as to see what devices tell each other."""
        return self._advance.lower(self.start(rngs, hyperparams), np.int32(1), self._data)


def _compile(behaviour: Compilable, mesh: Mesh) -> tuple[Jitted, Jitted, Jitted]:
    """An agent's `start`, `advance` and `evaluate` for many members."""
    program = behaviour.program

    def advance(runner: PyTree, n_updates: ArrayLike, data: PyTree) -> PyTree:
        return program.with_data(data).advance(runner, n_updates)

    def of_members(function: Callable, *in_axes: int | None) -> Callable:
        return jax.shard_map(
            jax.vmap(function, in_axes),
            mesh=mesh,
            in_specs=tuple(PartitionSpec() if axis is None else _MEMBERS for axis in in_axes),
            out_specs=_MEMBERS,
            check_vma=False,
        )

    return (
        jax.jit(of_members(program.start, 0, 0)),
        jit_in_place(of_members(advance, 0, None, None)),
        jax.jit(of_members(program.evaluate, 0)),
    )


def _n_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _number_of_sets(hyperparams: PyTree) -> int:
    sizes = {np.shape(x) for x in jax.tree.leaves(hyperparams) if np.ndim(x)}
    if not sizes:
        return 1
    if len(sizes) > 1 or len(next(iter(sizes))) != 1:
        raise ValueError(
            "The array leaves of hyperparams must share one leading axis of sets, got shapes "
            f"{sorted(sizes)}."
        )
    (n_sets,) = next(iter(sizes))
    if n_sets == 0:
        raise ValueError(
            "There are no sets of hyperparameters to train with: their array leaves have shape (0,)."
        )
    return n_sets


def _best_set(metrics: Metrics, are_sound: Bool[np.ndarray, "n_sets n_seeds"]) -> int | None:
    """The set of the highest mean return, of those whose members all have finite numbers."""
    if "returns" not in metrics:
        return None
    last = metrics["returns"][:, :, -1]
    means = last.reshape(last.shape[0], -1).mean(axis=1)
    means = np.where(np.isfinite(means) & are_sound.all(axis=1), means, -np.inf)
    return int(np.argmax(means)) if np.isfinite(means).any() else None


def _warn_of(are_sound: Bool[np.ndarray, "n_sets n_seeds"]) -> None:
    if not are_sound.all():
        members = [tuple(member) for member in np.argwhere(~are_sound).tolist()]
        warnings.warn(
            f"Numbers are not finite in {len(members)} of {are_sound.size} members of the sweep, by "
            f"(set, seed): {members[:8]}. Their sets are not taken for the best.",
            stacklevel=4,
        )
