"""The programs of a training whose environments are stepped on the host."""

import itertools
from typing import Any, Generic, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, PyTree

from jaxagents.core.arrays import in_float32
from jaxagents.core.compilation import Jitted, is_tracing, jit_in_place, nan_is_allowed, quick_jit
from jaxagents.core.keys import RandomKey
from jaxagents.core.metrics import Metrics
from jaxagents.core.report import FirstNonfinite, Record, Report
from jaxagents.core.shared_programs import programs_of
from jaxagents.engine.behaviour import Behaviour
from jaxagents.engine.executors import OnDevice, RunnerT
from jaxagents.engine.host_play import HostPlayer, begun_again, terms_of
from jaxagents.engine.host_rollout import HostRollout, Rows
from jaxagents.engine.program import Program, collection_of
from jaxagents.envs.episodes import EpisodeState
from jaxagents.envs.on_host.environment import HostEnvironment, HostState
from jaxagents.envs.on_host.episodes import HostEpisodes, Played


class OnHost(Generic[RunnerT]):
    """An agent's programs around environments that are stepped on the host; it learns on one device.

    A runner says which episodes are being played in its environments. If others are, such as after a
    restart, those of the runner are first played again.
    """

    shared_by_processes = False
    """Whether several processes make the updates together."""

    def __init__(self, agent: Behaviour[Any, Any, RunnerT]) -> None:
        """Compiles nothing yet."""
        self._behaviour, self._program = agent.behaviour, agent.program
        self._collection = collection_of(agent.behaviour)
        self._jitted = programs_of(agent).get(OnHost, lambda it: _on_host(it.program))
        self._env = cast(HostEnvironment, agent.episodes.env)
        self._n_envs = agent.config.batch_size
        self._terms = terms_of(agent.episodes)
        self.player = HostPlayer(agent)

    @nan_is_allowed
    def start(self, rng: RandomKey, hyperparams: PyTree) -> RunnerT:
        """Makes a fresh runner, whose environments have begun their first episodes."""
        runner = self._jitted.start(rng, in_float32(hyperparams))
        if is_tracing(runner):
            return runner
        episodes = self._training()
        episodes.go_to(_played(runner), runner.obs)
        runner = runner.replace(obs=jax.tree.map(jnp.array, episodes.obs))
        return self.warm_up(runner) if self._collection.n_first else runner

    @nan_is_allowed
    def warm_up(self, runner: RunnerT) -> RunnerT:
        """Has a runner take and store the steps that fresh ones begin with."""
        return self._after_first(runner, self._jitted.act_first)

    @nan_is_allowed
    def refill(self, runner: RunnerT) -> RunnerT:
        """Has a runner, whose buffer is empty, take and store as many steps as it acts by now."""
        return self._after_first(runner, self._jitted.act)

    def _after_first(self, runner: RunnerT, act: Jitted) -> RunnerT:
        playing, learning = self._playing(runner), _without_players(runner)
        rollout, rows = playing.collect(learning, self._collection.n_first, act)
        return playing.put_into(self._after(self._jitted.store(learning, rollout), rows))

    @nan_is_allowed
    def place(self, runner: RunnerT) -> RunnerT:
        """A copy of a runner to go on from."""
        return jax.device_put(runner, may_alias=False)

    @nan_is_allowed
    def restart(self, runner: RunnerT, hyperparams: PyTree) -> RunnerT:
        """Replaces the hyperparameters of a runner."""
        return self._jitted.restart(runner, in_float32(hyperparams))

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> tuple[RunnerT, FirstNonfinite]:
        """Makes updates, using up the runner; also gives the first that met non-finite numbers."""
        reports: list[Report] = []
        finite: list[Bool[Array, ""]] = []
        first, numbers = int(runner.update_step), runner.info
        playing, learning = self._playing(runner), _without_players(runner)
        n_steps, jitted = self._program.config.rollout_length, self._jitted
        for _ in range(int(np.asarray(n_updates))):
            rollout, rows = playing.collect(learning, n_steps, jitted.act)
            learning = self._collection.begin(learning, rows.begins)
            learning, report, is_finite = jitted.learn(learning, rollout)
            learning = self._after(learning, rows)
            reports.append(report)
            finite.append(is_finite)
            numbers = report.numbers
        runner = playing.put_into(learning).replace(info=numbers)
        return runner, {} if all(jax.device_get(finite)) else _first_nonfinite(reports, first)

    def _after(self, learning: RunnerT, rows: Rows) -> RunnerT:
        interrupt = self._collection.interrupt
        return interrupt(learning, rows.left_out) if interrupt and rows.left_out.any() else learning

    @nan_is_allowed
    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point."""
        played = self.player.play_point(runner) if self._program.evaluates else {}
        return self._program.report(runner, played)

    def _training(self) -> HostEpisodes:
        return self._env.episodes("training", self._n_envs, self._terms)

    def _playing(self, runner: RunnerT) -> "_Playing":
        return _Playing(self._training(), self._jitted, self._behaviour, runner)


def executor_of(agent: Behaviour[Any, Any, RunnerT]) -> OnDevice[RunnerT] | OnHost[RunnerT]:
    """An agent's programs: whole, or around environments that are stepped on the host."""
    plays_on_host = agent.episodes.env.on_host and agent.host_collection is not None
    return OnHost(agent) if plays_on_host else OnDevice(agent)


class _Playing:
    """The environments of a runner, while it is advanced, and the memories of what acts in them."""

    def __init__(
        self, episodes: HostEpisodes, jitted: "_OnHost", behaviour: Behaviour, runner: Any
    ) -> None:
        self._episodes, self._jitted, self._behaviour = episodes, jitted, behaviour
        self._block = behaviour.config.rollout_length
        goes_on = episodes.go_to(_played(runner), runner.obs)
        self._initial = jitted.initial(behaviour._acting(runner))
        self._carry = begun_again(runner.carry, self._initial, ~goes_on)

    def collect(self, learning: Any, n_steps: int, act: Jitted) -> tuple[HostRollout, Rows]:
        """A rollout, and the rows that it was collected in."""
        episodes, acting = self._episodes, self._behaviour._acting(learning)
        rows = Rows(n_steps, len(episodes.played.step))
        for time in itertools.takewhile(lambda _: not rows.are_complete, itertools.count()):
            block, time_in_block = divmod(time, self._block)
            if not time_in_block:
                draws = self._jitted.draw(learning, np.int32(block))
            obs, before, begins = episodes.obs, self._carry, episodes.played.step == 0
            carry, action, log_prob = act(acting, before, obs, draws, np.int32(time_in_block))
            action, log_prob = jax.device_get((action, log_prob))
            step = episodes.step(action)
            ends = step.terminated, step.truncated
            row = HostRollout(
                obs, action, log_prob, step.reward, step.next_obs, *ends, before, step.info or ()
            )
            rows.add(row, step.counts, begins)
            self._carry = begun_again(carry, self._initial, step.starts)
        return rows.rollout(), rows

    def put_into(self, learning: Any) -> Any:
        """A runner with the environments as they are now."""
        seed, number, actions, step = self._episodes.played
        envstate = EpisodeState(envstate=HostState(seed, number, actions), step=step)
        players = {"obs": self._episodes.obs, "envstate": envstate, "carry": self._carry}
        return learning.replace(**jax.tree.map(jnp.array, players))


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
    learn: Jitted


def _on_host(program: Program) -> _OnHost:
    """The compiled functions of equal agents whose environments are on the host."""
    collection = collection_of(program.behaviour)

    def at_time(act: Any) -> Any:
        def at(acting: PyTree, carry: PyTree, obs: PyTree, draws: PyTree, time: ArrayLike) -> Any:
            return act(acting, carry, obs, jax.tree.map(lambda x: x[time], draws))

        return at

    def learn(runner: Any, rollout: HostRollout) -> tuple[Any, Report, Bool[Array, ""]]:
        runner, report = program.learn(runner, rollout)
        record = Record.before(report).after(jnp.ones((), jnp.int32), report)
        is_finite = [(x == 0).all() for x in jax.tree.leaves(record)]
        return runner, report, jnp.stack(is_finite).all()

    return _OnHost(
        start=quick_jit(program.start),
        restart=jax.jit(program.restart),
        draw=jax.jit(collection.draw),
        act=jax.jit(at_time(collection.act)),
        act_first=jax.jit(at_time(collection.act_first)),
        initial=quick_jit(collection.initial),
        store=jit_in_place(collection.store or (lambda runner, rollout: runner)),
        learn=jit_in_place(learn),
    )


def _first_nonfinite(reports: list[Report], first: int) -> FirstNonfinite:
    """The first updates that met non-finite numbers, of those after a number of updates."""
    record = Record.before(reports[0])
    for step, report in enumerate(reports, first + 1):
        record = record.after(jnp.int32(step), report)
    return record.by_name(reports[0].numbers)


def _played(runner: Any) -> Played:
    """The episodes that are being played in the environments of a runner."""
    state: EpisodeState = jax.tree.map(np.asarray, runner.envstate)
    return Played(*state.envstate, step=state.step)
