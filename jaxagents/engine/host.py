"""An agent's programs around environments that are stepped on the host."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, PyTree

from jaxagents.core.arrays import RandomKey
from jaxagents.core.compilation import (
    Jitted,
    is_tracing,
    jit_in_place,
    nan_is_allowed,
    quick_jit,
)
from jaxagents.core.metrics import Metrics
from jaxagents.core.report import FirstNonfinite, Record, Report
from jaxagents.engine.behaviour import Behaviour
from jaxagents.engine.executors import OnDevice, RunnerT
from jaxagents.engine.host_play import HostPlayer, reset_memories, terms_of
from jaxagents.engine.host_rollout import HostRollout, Rows
from jaxagents.engine.program import Program, collection_of
from jaxagents.envs.episodes import EpisodeState
from jaxagents.envs.on_host.environment import HostEnvironment, HostState
from jaxagents.envs.on_host.episodes import HostEpisodes, Played


class OnHost(OnDevice[RunnerT]):
    """An agent's programs around environments that are stepped on the host; it learns on one device.

    A runner records which episodes its environments are playing. If the environments are playing
    others, for example after a restart, the runner's episodes are first replayed.
    """

    def __init__(self, agent: Behaviour[Any, Any, RunnerT]) -> None:
        """Compiles nothing yet."""
        self._behaviour, self._program = agent.behaviour, agent.program
        self._collection = collection_of(agent.behaviour)
        self._jitted = agent.programs.get(OnHost, lambda it: _on_host(it.program))
        self._env = cast(HostEnvironment, agent.episodes.env)
        self._n_envs = agent.config.batch_size
        self._terms = terms_of(agent.episodes)
        self._kept: contextlib.ExitStack | None = None
        self._episodes: HostEpisodes | None = None
        self.player = HostPlayer(agent)

    def compile(self, rng: RandomKey, hyperparams: PyTree) -> None:
        """Traces an update, so that mistakes in hooks raise before anything compiles."""
        jitted, zero = self._jitted, np.int32(0)
        runner: Any = jitted.start.trace(rng, hyperparams).out_info
        learning, flags = _without_players(runner), np.zeros(self._n_envs, bool)
        draws = jitted.draw.trace(learning, zero).out_info
        acting = jax.eval_shape(self._behaviour._acting, learning)
        acted: Any = jitted.act.trace(acting, runner.carry, runner.obs, draws, zero).out_info
        _, action, log_prob = acted
        reward = np.zeros((self._n_envs, *self._behaviour.episodes.actors_shape), np.float32)
        names = self._behaviour.episodes.info_names
        info: Any = dict.fromkeys((*names.final, *names.summed), reward) or ()
        step = HostRollout(
            runner.obs, action, log_prob, reward, runner.obs, flags, flags, runner.carry, info
        )
        n_steps = self._behaviour.config.rollout_length
        rollout = jax.tree.map(lambda x: jax.ShapeDtypeStruct((n_steps, *x.shape), x.dtype), step)
        storage = self._collection.storage
        if storage is None:
            jitted.learn.trace(learning, rollout)
            return
        stored: Any = jitted.store.trace(learning.buffer, storage.read(learning), rollout).out_info
        learning, batches = learning.replace(**stored[0]), ()
        if storage.batches is not None:
            batches = (jitted.batches.trace(*_drawn_from(learning)).out_info,)
            learning = learning.replace(buffer=None)
        jitted.learn.trace(learning, *batches)

    @nan_is_allowed
    def start(self, rng: RandomKey, hyperparams: PyTree) -> RunnerT:
        """Makes a fresh runner, with environments at the start of their first episodes."""
        storage = self._collection.storage
        with storage.near if storage else contextlib.nullcontext():
            runner = self._jitted.start(rng, hyperparams)
        if is_tracing(runner):
            return runner
        played = _played(runner)
        with self._environments(played) as episodes:
            episodes.go_to(played, runner.obs)
            runner = runner.replace(obs=jax.tree.map(jnp.array, episodes.obs))
        return self.warm_up(runner) if storage and storage.n_first else runner

    @nan_is_allowed
    def warm_up(self, runner: RunnerT) -> RunnerT:
        """Takes and stores the first steps of a fresh runner."""
        return self._after_first(runner, self._jitted.act_first)

    @nan_is_allowed
    def refill(self, runner: RunnerT) -> RunnerT:
        """Like `warm_up`, but with the current policy and into a new buffer."""
        storage = self._collection.storage
        assert storage is not None
        with storage.near:
            runner = runner.replace(buffer=storage.empty())
        return self._after_first(runner, self._jitted.act)

    @nan_is_allowed
    def place(self, runner: RunnerT) -> RunnerT:
        """A copy of a runner to continue from; its buffer stays where it is."""
        storage = self._collection.storage
        if storage is None or storage.batches is None:
            return super().place(runner)
        with storage.near:
            buffer = jax.device_put(runner.buffer, may_alias=False)
        return super().place(runner.replace(buffer=None)).replace(buffer=buffer)

    def _after_first(self, runner: RunnerT, act: Jitted) -> RunnerT:
        storage = self._collection.storage
        assert storage is not None
        with self._playing(runner) as playing:
            rollout, rows = playing.collect(storage.n_first, act)
            playing.store(rollout)
            self._leave_out(playing, rows)
            return playing.runner()

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> tuple[RunnerT, FirstNonfinite]:
        """Makes updates, donating the runner; also returns the first with non-finite numbers."""
        reports: list[Report] = []
        first = int(runner.update_step)
        with self._playing(runner) as playing:
            for _ in range(int(np.asarray(n_updates))):
                self._update(playing)
                reports.append(playing.report)
            numbers = reports[-1].numbers if reports else runner.info
            is_finite = all(jax.device_get(playing.is_finite))
            nonfinite = {} if is_finite else _first_nonfinite(reports, first)
            return playing.runner().replace(info=numbers), nonfinite

    def _update(self, playing: "_Playing") -> None:
        """Makes an update.

        An agent that stores rollouts learns from earlier ones while the environments take the last step
        of this one. Any other agent learns from this rollout once it is complete.
        """
        stores = self._collection.storage is not None
        n_steps = self._behaviour.config.rollout_length
        playing.report = Report({})
        act, meanwhile = self._jitted.act, playing.learn if stores else None
        rollout, rows = playing.collect(n_steps, act, meanwhile)
        playing.learning = self._collection.begin(playing.learning, rows.begins)
        (playing.store if stores else playing.learn)(rollout)
        self._leave_out(playing, rows)

    def _leave_out(self, playing: "_Playing", rows: Rows) -> None:
        storage = self._collection.storage
        if storage and rows.left_out.any():
            playing.learning = storage.interrupt(playing.learning, rows.left_out)

    @nan_is_allowed
    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point."""
        played = self.player.play_point(runner) if self._program.evaluates else {}
        return self._program.report(runner, played)

    @contextlib.contextmanager
    def keeps_environments(self) -> Iterator[None]:
        """A context that reserves the environments, also between calls."""
        with contextlib.ExitStack() as self._kept:
            yield

    @contextlib.contextmanager
    def _environments(self, played: Played) -> Iterator[HostEpisodes]:
        with contextlib.ExitStack() as stack:
            episodes = self._episodes
            if episodes is None:
                taken = self._env.playing("training", self._n_envs, self._terms, played)
                episodes = (self._kept or stack).enter_context(taken)
            if self._kept:
                self._episodes = episodes
            with episodes.watched():
                yield episodes

    @contextlib.contextmanager
    def _playing(self, runner: RunnerT) -> Iterator["_Playing"]:
        with self._environments(_played(runner)) as episodes:
            yield _Playing(episodes, self._jitted, self._behaviour, runner)


class _Playing:
    """A runner during `advance`, with its environments.

    Attributes:
        learning: The part of the runner that updates change.
        report: The report of the current update.
        is_finite: Whether each report was finite.
    """

    def __init__(
        self, episodes: HostEpisodes, jitted: "_OnHost", behaviour: Behaviour, runner: Any
    ) -> None:
        self._episodes, self._jitted, self._behaviour = episodes, jitted, behaviour
        self._storage = collection_of(behaviour).storage
        self._block = behaviour.config.rollout_length
        self._draws: PyTree = None
        self.learning = _without_players(runner)
        self.report, self.is_finite = Report({}), []
        goes_on = episodes.go_to(_played(runner), runner.obs)
        self._initial = jitted.initial(behaviour._acting(runner))
        self._carry = reset_memories(runner.carry, self._initial, ~goes_on)

    def learn(self, *rollout: HostRollout) -> None:
        """Learns from a rollout, or from stored ones."""
        learning, storage = self.learning, self._storage
        if storage is None or storage.batches is None:
            self.learning, *reported = self._jitted.learn(learning, *rollout)
        else:
            with storage.near:
                batches = self._jitted.batches(*_drawn_from(learning))
            after, *reported = self._jitted.learn(learning.replace(buffer=None), batches)
            self.learning = after.replace(buffer=learning.buffer)
        self._note(*reported)

    def store(self, rollout: HostRollout) -> None:
        """Stores a rollout, and draws the random numbers of the next one."""
        assert self._storage is not None
        read = self._storage.read(self.learning)
        with self._storage.near:
            changed, *reported, self._draws = self._jitted.store(
                self.learning.buffer, read, rollout
            )
        self.learning = self.learning.replace(**changed)
        self._note(*reported)

    def _note(self, report: Report, is_finite: Array) -> None:
        self.report = self.report.then(report)
        self.is_finite.append(is_finite)

    def collect(
        self, n_steps: int, act: Jitted, meanwhile: Callable[[], None] | None = None
    ) -> tuple[HostRollout, Rows]:
        """Collects a rollout.

        Args:
            n_steps: Number of steps of each environment.
            act: The program that acts.
            meanwhile: Called while the environments take the last step.

        Returns:
            The rollout, and the rows in which it was collected.
        """
        episodes = self._episodes
        rows = Rows(n_steps, len(episodes.played.step))
        for time in itertools.takewhile(lambda _: not rows.are_complete, itertools.count()):
            block, time_in_block = divmod(time, self._block)
            if not time_in_block:
                draws = self._draws_of(block)
            obs, before, begins = episodes.obs, self._carry, episodes.played.step == 0
            acting = self._behaviour._acting(self.learning)
            carry, action, log_prob = act(acting, before, obs, draws, np.int32(time_in_block))
            if meanwhile and time == n_steps - 1:
                meanwhile()  # the device runs it after acting
            action, log_prob = jax.tree.map(np.asarray, (action, log_prob))
            step = episodes.step(action)
            ends = step.terminated, step.truncated
            row = HostRollout(
                obs, action, log_prob, step.reward, step.next_obs, *ends, before, step.info or ()
            )
            rows.add(row, step.counts, begins)
            self._carry = reset_memories(carry, self._initial, step.starts)
        return rows.rollout(), rows

    def _draws_of(self, block: int) -> PyTree:
        """The random numbers of a block of a rollout; the first block's may be drawn already."""
        if block or self._draws is None:
            return self._jitted.draw(self.learning, np.int32(block))
        return self._draws

    def runner(self) -> Any:
        """The runner, with the environments as they are now."""
        seed, number, actions, step = self._episodes.played
        envstate = EpisodeState(envstate=HostState(seed, number, actions), step=step)
        players = {"obs": self._episodes.obs, "envstate": envstate, "carry": self._carry}
        return self.learning.replace(**jax.tree.map(jnp.array, players))


def _without_players(runner: Any) -> Any:
    """The part of a runner that updates change."""
    return runner.replace(info={}, obs=(), envstate=(), carry=())


class _OnHost(NamedTuple):
    start: Jitted
    restart: Jitted
    draw: Jitted
    act: Jitted
    act_first: Jitted
    initial: Jitted
    store: Jitted
    batches: Any
    learn: Jitted


def _on_host(program: Program) -> _OnHost:
    """The compiled functions that equal agents share if environments are on the host."""
    collection = collection_of(program.behaviour)
    storage = collection.storage

    def at_time(act: Callable[..., Any]) -> Jitted:
        def at(acting: PyTree, carry: PyTree, obs: PyTree, draws: PyTree, time: ArrayLike) -> Any:
            return act(acting, carry, obs, jax.tree.map(lambda x: x[time], draws))

        return jax.jit(at)

    def learn(runner: Any, *rollout: HostRollout) -> tuple[Any, Report, Bool[Array, ""]]:
        runner, report = program.learn(runner, *rollout)
        return runner, report, _is_finite(report)

    def store(buffer: PyTree, read: Any, rollout: HostRollout) -> tuple[Any, ...]:
        assert storage is not None
        changed, report = storage.store(buffer, read, rollout)
        draws = collection.draw(read.replace(**changed), 0)
        return changed, report, _is_finite(report), draws

    return _OnHost(
        start=quick_jit(program.start),
        restart=jax.jit(program.restart),
        draw=jax.jit(collection.draw),
        act=at_time(collection.act),
        act_first=at_time(storage.act_first if storage else collection.act),
        initial=quick_jit(collection.initial),
        store=jit_in_place(store),
        batches=jax.jit(storage.batches) if storage and storage.batches else None,
        learn=jit_in_place(learn),
    )


def _drawn_from(runner: Any) -> tuple[PyTree, ...]:
    """The parts of a runner that the batches of its next update are drawn from."""
    return runner.buffer, runner.rng, runner.hyperparams, runner.update_step


def _is_finite(report: Report) -> Bool[Array, ""]:
    """Whether all numbers of a report are finite."""
    record = Record.before(report).after(jnp.ones((), jnp.int32), report)
    return jnp.stack([(x == 0).all() for x in jax.tree.leaves(record)]).all()


def _first_nonfinite(reports: list[Report], first: int) -> FirstNonfinite:
    """The first updates with non-finite numbers, given the reports after update `first`."""
    record = Record.before(reports[0])
    for step, report in enumerate(reports, first + 1):
        record = record.after(jnp.int32(step), report)
    return record.by_name(reports[0].numbers)


def _played(runner: Any) -> Played:
    """The episodes that a runner's environments are playing."""
    state: EpisodeState = jax.tree.map(np.asarray, runner.envstate)
    return Played(*state.envstate, step=state.step)
