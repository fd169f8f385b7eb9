"""The pure part of an agent: training as functions of a runner, without files or other state."""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Int, Key, PyTree

from jaxagents.core.arrays import RandomKey, as_key, without_weak_types, written_in_jax
from jaxagents.core.compilation import nan_is_allowed
from jaxagents.core.hyperparameters import Hyperparameters, has_schedules, values_at
from jaxagents.core.metrics import Metrics
from jaxagents.core.report import FirstNonfinite, Record, Report, check_not_taken
from jaxagents.engine.checks import check_metrics, check_update, takes_info
from jaxagents.engine.host_rollout import HostCollection
from jaxagents.engine.loop import updates_between_points
from jaxagents.envs.environment import Moment
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.play import EpisodeOutcomes, play_episodes, record_episode

if TYPE_CHECKING:
    from jaxagents.engine.behaviour import Behaviour

_DEFAULT_N_EVALS = 32
_DEFAULT_N_EVALS_ON_HOST = 10

HyperparametersT = TypeVar("HyperparametersT", bound=Hyperparameters)
RunnerT = TypeVar("RunnerT", bound=Any)


@dataclasses.dataclass(frozen=True)
class Program(Generic[HyperparametersT, RunnerT]):
    """Training as pure functions of a runner, built from an agent's hooks.

    Executors compile these functions for one device, for a mesh, vmapped over many members, or around
    environments that are stepped on the host. Programs of equal behaviours are equal.

    Attributes:
        behaviour: An agent without its files and its last run.
    """

    behaviour: "Behaviour[Any, HyperparametersT, RunnerT]"

    @property
    def n_evals(self) -> int:
        """Number of episodes per evaluation point."""
        on_host = self.behaviour.episodes.env.on_host
        default = _DEFAULT_N_EVALS_ON_HOST if on_host else _DEFAULT_N_EVALS
        return self.behaviour.config.n_evals or default

    @property
    def evaluates(self) -> bool:
        """Whether the agent plays episodes at evaluation points."""
        return self.behaviour.eval_during_training

    @property
    def eval_rng(self) -> Key[Array, ""]:
        """Random key for the episodes at evaluation points."""
        rng = self.behaviour.config.eval_rng
        return as_key(jax.random.key(0) if rng is None else rng)

    def with_data(self, data: PyTree) -> "Program[HyperparametersT, RunnerT]":
        """The same program with different data."""
        return Program(self.behaviour.with_data(data))

    def start(self, rng: RandomKey, hyperparams: HyperparametersT | None) -> RunnerT:
        """A fresh runner."""
        given = _float32_copy(hyperparams)
        first = values_at(given, 0)
        behaviour = self.behaviour.at(Moment(0, first.env_params))
        runner = behaviour._create_runner(as_key(rng), first)
        if has_schedules(given):
            runner = self.behaviour._with_schedules(runner, given)
        return without_weak_types(runner)

    def restart(self, runner: RunnerT, hyperparams: HyperparametersT) -> RunnerT:
        """Replaces the hyperparameters of a runner."""
        scheduled = self.behaviour._with_schedules(runner, _float32_copy(hyperparams))
        given = scheduled.hyperparams
        now = values_at(given, runner.update_step)
        return self.behaviour._with_schedules(
            self.behaviour._with_hyperparams(scheduled, now), given
        )

    def advance(
        self, runner: RunnerT, n_updates: ArrayLike, data: PyTree = None
    ) -> tuple[RunnerT, FirstNonfinite]:
        """Runs updates; returns the runner, and the first updates with non-finite values.

        If `data` holds any arrays, updates read them instead of the agent's own data.
        """
        update = (self.with_data(data) if jax.tree.leaves(data) else self)._traced_update
        info, runner = runner.info, runner.replace(info={})
        _, report = jax.eval_shape(update, runner)

        def next_update(
            i: Array, carry: tuple[RunnerT, dict[str, Array], Record]
        ) -> tuple[RunnerT, dict[str, Array], Record]:
            runner, _, record = carry
            runner, report = update(runner)
            return runner, report.numbers, record.after(runner.update_step, report)

        carry = runner, info or report.numbers_before(), Record.before(report)
        runner, numbers, record = jax.lax.fori_loop(0, n_updates, next_update, carry)
        return runner.replace(info=numbers), record.by_name(numbers)

    @functools.cached_property
    def _traced_update(self) -> Callable[[RunnerT], tuple[RunnerT, Report]]:
        """`_update`, traced once for all calls."""
        return jax.jit(self._update, inline=True)

    def _update(self, runner: RunnerT) -> tuple[RunnerT, Report]:
        """Performs one update."""
        present = at_present(self.behaviour, runner)
        behaviour = self.behaviour.at(self.behaviour.moment(runner))
        with written_in_jax(f"The agent {type(behaviour).__name__}"):
            outcome = behaviour._training_step(present)
        return self._counted(outcome, present, runner)

    def learn(self, runner: RunnerT, *rollout: PyTree) -> tuple[RunnerT, Report]:
        """Performs one update with environments on the host.

        It learns from the given rollout, or, if the runner stores rollouts, from earlier ones.
        """
        runner = runner.replace(info={})
        present = at_present(self.behaviour, runner)
        outcome = collection_of(self.behaviour).learn(present, *rollout)
        return self._counted(outcome, present, runner)

    def _counted(
        self, outcome: object, present: RunnerT, before: RunnerT
    ) -> tuple[RunnerT, Report]:
        """Checks an update, counts it, and restores the runner's schedules."""
        behaviour = self.behaviour
        runner, report = check_update(outcome, present, type(behaviour).__name__, behaviour.config)
        runner = runner.replace(update_step=before.update_step + 1, info={})
        return with_schedules_of(before, behaviour, runner), report

    def train(
        self,
        rng: RandomKey | None,
        hyperparams: HyperparametersT | None,
        runner: RunnerT | None,
        data: PyTree,
        n_steps: int,
        progress: bool,
    ) -> tuple[RunnerT, Metrics]:
        """Runs all updates; returns the final runner, and metrics with an axis of evaluation points."""
        program = self.with_data(data)
        if runner is None:
            first = self.start(as_key(rng), hyperparams)
        else:
            first = self.behaviour._refill_missing(runner)
            first = first if hyperparams is None else self.restart(first, hyperparams)
        lengths = updates_between_points(n_steps, self.behaviour.config.eval_frequency)

        def to_next_point(
            runner: RunnerT, x: tuple[ArrayLike, ArrayLike]
        ) -> tuple[RunnerT, Metrics]:
            _, n_updates = x
            runner, _ = program.advance(runner, n_updates)
            return runner, self.evaluate(runner)

        step: Callable = to_next_point
        if progress:
            from jax_tqdm.scan_pbar import scan_tqdm  # it imports notebook widgets

            step = scan_tqdm(len(lengths), desc="evaluation points")(to_next_point)
        if not first.info:
            _, report = jax.eval_shape(program._traced_update, first)
            first = first.replace(info=report.numbers_before())
        points = jnp.arange(len(lengths))
        return jax.lax.scan(step, first, (points, jnp.asarray(lengths, jnp.int32)))

    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point: the update step, the losses, and episode outcomes."""
        return self.report(runner, self.play_point(runner))

    def play_point(self, runner: RunnerT) -> Metrics:
        """Plays the episodes of one evaluation point, if any; returns their metrics."""
        if not self.evaluates:
            return {}
        acting, deterministic = (
            self.behaviour._acting(runner),
            self.behaviour.config.eval_deterministic,
        )
        moment = self.behaviour.moment(runner)
        return self.play(self.eval_rng, acting, self.n_evals, deterministic, moment)

    @nan_is_allowed
    def shapes_of_metrics(self, runner: RunnerT) -> Metrics:
        """The shapes of one evaluation point's metrics; the runner may hold shapes instead of arrays.

        On the host, hooks that compute metrics need not be traceable: they are called with one-step
        episodes.
        """
        episodes = self.behaviour.episodes
        if not episodes.env.on_host:
            return jax.eval_shape(self.evaluate, runner)
        metrics = jax.eval_shape(self.report, runner, {})
        if not self.evaluates:
            return metrics
        ends = jnp.ones(self.n_evals, bool)
        numbers = jnp.ones((self.n_evals, *episodes.actors_shape), jnp.float32)
        names = episodes.info_names
        info = dict.fromkeys([*names.final, *names.summed], numbers)
        outcomes = EpisodeOutcomes(numbers, numbers, ends, ends, ends.astype(jnp.int32), info)
        return metrics | self.metrics_of(outcomes)

    def report(self, runner: RunnerT, played: Metrics) -> Metrics:
        """The update step, the metrics of the last report, and the metrics of episodes."""
        hook = f"{type(self.behaviour).__name__}._eval_metrics"
        check_not_taken(f"{hook} gives", played, runner.info, "which updates already report")
        return {"update_step": runner.update_step, **runner.info, **played}

    def play(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        n_evals: int = _DEFAULT_N_EVALS,
        deterministic: bool = True,
        moment: Moment | None = None,
    ) -> Metrics:
        """Plays episodes with the acting part of a runner, with greedy or sampled actions.

        The environment is the one at the given moment of a run; `None` uses the agent's own.
        """
        act = functools.partial(self.behaviour.act, acting)
        carry = self.behaviour.initial_carry(acting)
        outcomes = play_episodes(
            self._episodes(moment), act, carry, rng, n_evals, deterministic=deterministic
        )
        return self.metrics_of(outcomes)

    def metrics_of(self, outcomes: EpisodeOutcomes) -> Metrics:
        """Computes the metrics of an evaluation."""
        hook: Callable[..., Metrics] = self.behaviour._eval_metrics
        info = {"info": outcomes.info} if takes_info(hook) else {}
        metrics = hook(
            outcomes.terminated,
            outcomes.truncated,
            outcomes.final_rewards,
            outcomes.returns,
            **info,
        )
        check_metrics(metrics, outcomes.returns.shape[0], type(self.behaviour).__name__)
        return {**outcomes.info, **metrics, "lengths": outcomes.lengths}

    def record(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        max_steps: int,
        deterministic: bool = True,
        moment: Moment | None = None,
    ) -> tuple[PyTree, Int[Array, ""]]:
        """Records the first episode that `play` plays; returns its states and number of steps."""
        act = functools.partial(self.behaviour.act, acting)
        carry = self.behaviour.initial_carry(acting)
        return record_episode(
            self._episodes(moment), act, carry, rng, max_steps, deterministic=deterministic
        )

    def _episodes(self, moment: Moment | None) -> Episodes:
        episodes = self.behaviour.episodes
        return episodes if moment is None else episodes.at_update(*moment)

    # Acting in all environments on the host at once.

    def act_greedily(self, acting: PyTree, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree]:
        """New memories, and greedy actions."""
        return jax.vmap(self.behaviour.act, (None, 0, 0))(acting, carry, obs)

    def act_at_random(
        self,
        acting: PyTree,
        carry: PyTree,
        obs: PyTree,
        rng: Key[Array, ""],
        episodes: Int[Array, "environments"],
        time: ArrayLike,
    ) -> tuple[PyTree, PyTree]:
        """New memories, and actions sampled with a key for each episode and step."""

        def act(carry: PyTree, obs: PyTree, episode: Array) -> tuple[PyTree, PyTree]:
            key = jax.random.fold_in(jax.random.fold_in(rng, episode), time)
            return self.behaviour.act(acting, carry, obs, key)

        return jax.vmap(act)(carry, obs, episodes)


def collection_of(behaviour: "Behaviour") -> HostCollection:
    """The parts of an update on the host, for a behaviour that plays during training."""
    assert behaviour.host_collection is not None
    return behaviour.host_collection


def at_present(behaviour: "Behaviour[Any, Any, RunnerT]", runner: RunnerT) -> RunnerT:
    """A runner with its schedules evaluated for the next update."""
    if not has_schedules(runner.hyperparams):
        return runner
    now = values_at(runner.hyperparams, runner.update_step)
    return behaviour._with_hyperparams(runner, now)


def with_schedules_of(
    earlier: RunnerT, behaviour: "Behaviour[Any, Any, RunnerT]", runner: RunnerT
) -> RunnerT:
    """A runner with the schedules of an earlier one."""
    given = earlier.hyperparams
    return behaviour._with_schedules(runner, given) if has_schedules(given) else runner


def _float32_copy(hyperparams: PyTree) -> PyTree:
    """Copies hyperparameters to arrays, since updates donate them."""
    return jax.tree.map(functools.partial(jnp.array, dtype=jnp.float32), hyperparams)
