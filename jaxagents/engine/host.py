"""The programs of a training whose environments are stepped on the host."""

import contextlib
import itertools
from typing import Any, Generic, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int, Key, PyTree, UInt8, UInt32

from jaxagents.core.arrays import in_float32
from jaxagents.core.compilation import Jitted, is_tracing, jit_in_place, nan_is_allowed, quick_jit
from jaxagents.core.keys import RandomKey
from jaxagents.core.metrics import Metrics
from jaxagents.core.report import FirstNonfinite, Record, Report
from jaxagents.engine.behaviour import Behaviour
from jaxagents.engine.executors import RunnerT
from jaxagents.engine.host_play import Player, begun_again, film_one, play_one_each
from jaxagents.engine.host_rollout import HostRollout, Rows
from jaxagents.engine.program import Program
from jaxagents.envs.environment import Moment
from jaxagents.envs.episodes import EpisodeState
from jaxagents.envs.on_host.environment import HostEnvironment, HostState, Terms
from jaxagents.envs.on_host.episodes import HostEpisodes
from jaxagents.envs.on_host.played import Played


class OnHost(Generic[RunnerT]):
    """An agent's program whose environments are stepped on the host, and that learns on one device.

    A runner says which episodes are being played in its environments. If others are, such as after a
    restart, those of the runner are first played again.
    """

    shared_by_processes = False
    """Whether several processes make the updates together."""

    def __init__(self, agent: Behaviour[Any, Any, RunnerT]) -> None:
        """Compiles nothing yet."""
        self._behaviour = agent.behaviour
        self._program = agent.program
        self._jitted = agent.compiled.get(OnHost, lambda behaviour: _on_host(behaviour.program))
        self._env = cast(HostEnvironment, agent.episodes.env)
        self._n_envs = agent.config.batch_size
        episodes = agent.episodes
        self._terms = Terms(
            episodes.max_steps,
            episodes.shows_critic_state,
            episodes.info_names,
            episodes.terminate_at_limits,
        )

    @nan_is_allowed
    def start(self, rng: RandomKey, hyperparams: PyTree) -> RunnerT:
        """Makes a fresh runner, whose environments have begun their first episodes."""
        runner = self._jitted.start(rng, in_float32(hyperparams))
        if is_tracing(runner):
            return runner
        episodes = self._training()
        episodes.go_to(_played(runner), runner.obs)
        return runner.replace(obs=jax.tree.map(jnp.array, episodes.obs))

    @nan_is_allowed
    def place(self, runner: RunnerT) -> RunnerT:
        """A copy of a runner to go on from."""
        return jax.device_put(runner, may_alias=False)

    @nan_is_allowed
    def restart(self, runner: RunnerT, hyperparams: PyTree) -> RunnerT:
        """Replaces the hyperparameters of a runner."""
        return self._jitted.restart(runner, in_float32(hyperparams))

    def compile(self, rng: RandomKey, hyperparams: PyTree) -> None:
        """Leaves all to the first calls."""

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> tuple[RunnerT, FirstNonfinite]:
        """Makes updates, using up the runner; also gives the first that met non-finite numbers."""
        first, numbers, outcomes = int(runner.update_step), runner.info, []
        for _ in range(int(np.asarray(n_updates))):
            players, rollout, begins = self._collect(runner)
            runner = self._behaviour._begin_episodes(runner.replace(**players), begins)
            runner, report, is_finite = self._jitted.learn(runner.replace(info={}), rollout)
            numbers = report.numbers
            outcomes.append((report, is_finite))
        return runner.replace(info=numbers), _first_nonfinite(outcomes, first)

    @nan_is_allowed
    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point."""
        program = self._program
        if not program.evaluates:
            return program.report(runner, {})
        acting, deterministic = self._behaviour._acting(runner), program.config.eval_deterministic
        played = self.play(program.eval_rng, acting, program.n_evals, deterministic)
        return program.report(runner, played)

    def play(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        n_evals: int,
        deterministic: bool,
        moment: Moment | None = None,
    ) -> Metrics:
        """The outcomes of episodes, of greedy actions or drawn ones, the same at any moment."""
        n_envs = max(n for n in range(1, self._n_envs + 1) if n_evals % n == 0)
        environments = self._env.evaluation(n_envs, self._terms)
        rounds = np.arange(n_evals, dtype=np.int32).reshape(-1, n_envs)
        outcomes = [
            play_one_each(environments, *self._round(rng, episodes, acting, deterministic))
            for episodes in rounds
        ]
        environments.infos.warn()
        joined = jax.tree.map(lambda *parts: jnp.concatenate(parts), *outcomes)
        return self._program.metrics_of(joined)

    def record(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        max_steps: int,
        deterministic: bool,
        moment: Moment | None = None,
    ) -> tuple[UInt8[np.ndarray, "time height width 3"], int]:
        """The pictures of one episode, the first that `play` plays, and its number of steps."""
        seeds, player = self._round(rng, np.zeros(1, np.int32), acting, deterministic)
        terms = self._terms._replace(max_steps=max_steps)
        with contextlib.closing(self._env.film(terms)) as environment:
            pictures = film_one(environment, seeds, player)
        return pictures, len(pictures) - 1

    def _round(
        self,
        rng: Key[Array, ""],
        episodes: Int[np.ndarray, "environments"],
        acting: PyTree,
        deterministic: bool,
    ) -> tuple[UInt32[np.ndarray, "environments"], Player]:
        """The seeds of some episodes of an evaluation, and what acts in them."""
        jitted = self._jitted

        def act(carry: PyTree, obs: PyTree, time: int) -> tuple[PyTree, PyTree]:
            if deterministic:
                return jitted.act_greedily(acting, carry, obs)
            return jitted.act_at_random(acting, carry, obs, rng, episodes, np.int32(time))

        (root,) = jax.device_get(jax.random.bits(rng, (1,), jnp.uint32))
        seeds = [np.random.SeedSequence((int(root), int(n))).generate_state(1) for n in episodes]
        return np.concatenate(seeds), Player(act, jitted.initial_carry(acting))

    def _collect(
        self, runner: RunnerT
    ) -> tuple[dict[str, PyTree], HostRollout, Bool[np.ndarray, "environments"]]:
        """The new parts of a runner, a rollout, and where it begins with a new episode."""
        jitted, n_steps = self._jitted, self._program.config.rollout_length
        episodes = self._training()
        goes_on = episodes.go_to(_played(runner), runner.obs)
        acting = self._behaviour._acting(runner)
        initial = jitted.initial_carry(acting)
        carry = begun_again(runner.carry, initial, ~goes_on)
        rows = Rows(n_steps, self._n_envs)
        for time in itertools.takewhile(lambda _: not rows.are_complete, itertools.count()):
            if time % n_steps == 0:
                draws = jitted.draw(runner, np.int32(time // n_steps))
            obs, before, begins = episodes.obs, carry, episodes.played.step == 0
            carry, action, log_prob = jitted.act(
                acting, before, obs, draws, np.int32(time % n_steps)
            )
            action, log_prob = jax.device_get((action, log_prob))
            step = episodes.step(action)
            ends = step.terminated, step.truncated
            info = step.info or ()
            row = HostRollout(
                obs, action, log_prob, step.reward, step.next_obs, *ends, before, info
            )
            rows.add(row, step.counts, begins)
            carry = begun_again(carry, initial, step.starts)
        players = {"obs": episodes.obs, "envstate": _state(episodes.played), "carry": carry}
        return jax.tree.map(jnp.array, players), rows.rollout(), rows.begins

    def _training(self) -> HostEpisodes:
        return self._env.training(self._n_envs, self._terms)


class _OnHost(NamedTuple):
    start: Jitted
    restart: Jitted
    draw: Jitted
    act: Jitted
    initial_carry: Jitted
    learn: Jitted
    act_greedily: Jitted
    act_at_random: Jitted


def _on_host(program: Program) -> _OnHost:
    """The compiled functions of equal agents whose environments are on the host."""

    def learn(runner: Any, rollout: HostRollout) -> tuple[Any, Report, Bool[Array, ""]]:
        runner, report = program.learn(runner, rollout)
        record = Record.before(report).after(jnp.ones((), jnp.int32), report)
        is_finite = jnp.stack([(x == 0).all() for x in jax.tree.leaves(record)]).all()
        return runner, report, is_finite

    return _OnHost(
        start=quick_jit(program.start),
        restart=jax.jit(program.restart),
        draw=jax.jit(program.behaviour._draw_on_host),
        act=jax.jit(program.act_in_training),
        initial_carry=quick_jit(program.behaviour.initial_carry),
        learn=jit_in_place(learn),
        act_greedily=jax.jit(program.act_greedily),
        act_at_random=jax.jit(program.act_at_random),
    )


def _first_nonfinite(outcomes: list[tuple[Report, Bool[Array, ""]]], first: int) -> FirstNonfinite:
    """The first updates that met non-finite numbers, of those after a number of updates."""
    if all(jax.device_get([is_finite for _, is_finite in outcomes])):
        return {}
    reports = [report for report, _ in outcomes]
    record = Record.before(reports[0])
    for step, report in enumerate(reports, first + 1):
        record = record.after(jnp.int32(step), report)
    return record.by_name(reports[0].numbers)


def _played(runner: Any) -> Played:
    """The episodes that are being played in the environments of a runner."""
    state: EpisodeState = jax.tree.map(np.asarray, runner.envstate)
    return Played(*state.envstate, step=state.step)


def _state(played: Played) -> EpisodeState:
    seed, number, actions, step = played
    return EpisodeState(envstate=HostState(seed, number, actions), step=step)
