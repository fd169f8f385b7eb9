"""The pure part of an agent: a training as functions of a runner, with neither memory nor files."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Int, Key, PyTree

from jaxagents.agents.checks.metrics import check_metrics
from jaxagents.agents.checks.updates import check_runner, check_update
from jaxagents.agents.kept_info import check_names_of_info, takes_info
from jaxagents.agents.runners import AnyRunner
from jaxagents.core.arrays import without_weak_types
from jaxagents.core.clashes import check_not_taken
from jaxagents.core.first_spoilt import FirstSpoilt, Record, without_flags
from jaxagents.core.hyperparameters import Hyperparameters
from jaxagents.core.keys import RandomKey, as_key
from jaxagents.core.metrics import Metrics
from jaxagents.core.schedules import has_schedules, values_at
from jaxagents.envs.environment import Moment
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.play import EpisodeOutcomes, play_episodes, record_episode
from jaxagents.running.driver import train_in_one_program

if TYPE_CHECKING:
    from jaxagents.agents.behaviour import Behaviour

_DEFAULT_N_EVALS = 32

HyperparametersT = TypeVar("HyperparametersT", bound=Hyperparameters)
RunnerT = TypeVar("RunnerT", bound=AnyRunner)


class Program(Generic[HyperparametersT, RunnerT]):
    """A training as pure functions of a runner, made of an agent's hooks.

    Nothing is compiled here: whoever runs it does so at its own door, on one device, on a mesh, or
    vmapped over many members.
    Programs of equal behaviour are equal.
    """

    def __init__(self, behaviour: "Behaviour[Any, HyperparametersT, RunnerT]") -> None:
        """Calls nothing yet.

        Args:
            behaviour: An agent without memory and files.
        """
        self.behaviour = behaviour
        self.config = behaviour.config

    @property
    def n_evals(self) -> int:
        """Number of episodes of an evaluation point."""
        return self.config.n_evals or _DEFAULT_N_EVALS

    def with_data(self, data: PyTree) -> "Program[HyperparametersT, RunnerT]":
        """The same program, reading other data."""
        return Program(self.behaviour.with_data(data))

    def start(self, rng: RandomKey, hyperparams: HyperparametersT | None) -> RunnerT:
        """A fresh runner."""
        given = _float32_copy(hyperparams)
        first = values_at(given, 0)
        behaviour = self.behaviour.at(Moment(0, first.of_environment))
        runner = behaviour._create_runner(as_key(rng), first)
        check_names_of_info(self.config, runner.info)
        if has_schedules(given):
            runner = self.behaviour._with_schedules(runner, given)
        return without_weak_types(runner)

    def restart(self, runner: RunnerT, hyperparams: HyperparametersT) -> RunnerT:
        """The runner with other hyperparameters."""
        scheduled = self.behaviour._with_schedules(runner, _float32_copy(hyperparams))
        given = scheduled.hyperparams
        now = values_at(given, runner.update_step)
        return self.behaviour._with_schedules(
            self.behaviour._with_hyperparams(scheduled, now), given
        )

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> RunnerT:
        """The runner after updates."""
        return self.watch(runner, n_updates)[0]

    def watch(self, runner: RunnerT, n_updates: ArrayLike) -> tuple[RunnerT, FirstSpoilt]:
        """The runner after updates, and the first ones that met numbers that are not finite."""

        def update(_: Array, carry: tuple[RunnerT, Record]) -> tuple[RunnerT, Record]:
            present = self.behaviour._at_present(carry[0])
            return self._noted(self._now(present)._training_step(present), *carry)

        record = self.no_record(runner)
        runner, record = jax.lax.fori_loop(0, n_updates, update, (runner, record))
        return runner, record.by_name(runner.info)

    def no_record(self, runner: RunnerT) -> Record:
        """A record of what is not finite, before any update."""
        return Record.none_yet(runner.info, self.behaviour._n_watched_environments)

    def _noted(self, runner: RunnerT, earlier: RunnerT, record: Record) -> tuple[RunnerT, Record]:
        """A runner after an update, with the schedules that it had, and the record with the update."""
        agent = type(self.behaviour).__name__
        check_runner(runner, earlier, f"{agent}._training_step")
        runner = self.behaviour._as_before(runner, earlier)
        info, flags = without_flags(runner.info)
        runner = runner.replace(info=info)
        check_update(runner, earlier, agent)
        return runner, record.after(runner.update_step, info, flags)

    def reports_of_minibatches(self, runner: RunnerT) -> Metrics:
        """The numbers that the minibatches of the next update report, in order, by name."""
        present = self.behaviour._at_present(runner)
        return self._now(present)._reports_of_minibatches(present)

    def _now(self, runner: RunnerT) -> "Behaviour[Any, HyperparametersT, RunnerT]":
        """The behaviour in its environment as it is at the moment of a runner."""
        return self.behaviour.at(self.moment(runner))

    def moment(self, runner: RunnerT) -> Moment:
        """The moment of the training at which a runner stands, as far as the environment knows of it."""
        return self.behaviour.moment(runner)

    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point: the update step, the losses, and episodes."""
        if not self.evaluates:
            return self.report(runner)
        acting, deterministic = self.acting(runner), self.config.eval_deterministic
        moment = self.moment(runner)
        played = self.play(self.eval_rng, acting, self.n_evals, deterministic, moment)
        return self.report(runner, played)

    def shapes_of_metrics(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point, as shapes, of a runner that may be of shapes too."""
        return jax.eval_shape(self.evaluate, runner)

    @property
    def evaluates(self) -> bool:
        """Whether evaluation points play episodes."""
        return self.behaviour.eval_during_training

    @property
    def eval_rng(self) -> Key[Array, ""]:
        """Random key of the episodes of evaluation points."""
        return as_key(jax.random.key(0) if self.config.eval_rng is None else self.config.eval_rng)

    def acting(self, runner: RunnerT) -> PyTree:
        """The part of a runner that acts."""
        return self.behaviour._acting(runner)

    def report(self, runner: RunnerT, played: Metrics | None = None) -> Metrics:
        """The update step, what the last update reported, and the metrics of an evaluation if given."""
        played, hook = played or {}, f"{type(self.behaviour).__name__}._eval_metrics"
        check_not_taken(f"{hook} gives", played, runner.info, "which updates report already")
        return {"update_step": runner.update_step, **runner.info, **played}

    def play(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        n_evals: int = _DEFAULT_N_EVALS,
        deterministic: bool = True,
        moment: Moment | None = None,
    ) -> Metrics:
        """The outcomes of episodes of what acts in a runner, by greedy actions or drawn ones.

        The environment is that of a moment of a training, or as the agent was given it.
        """
        act = functools.partial(self.behaviour.act, acting)
        carry = self.behaviour.initial_carry(acting)
        outcomes = play_episodes(
            self._episodes(moment), act, carry, rng, n_evals, deterministic=deterministic
        )
        return self.metrics_of(outcomes)

    def metrics_of(self, outcomes: EpisodeOutcomes) -> Metrics:
        """The metrics of an evaluation."""
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
        """The states of one episode, the first that `play` plays, and its number of steps."""
        act = functools.partial(self.behaviour.act, acting)
        carry = self.behaviour.initial_carry(acting)
        return record_episode(
            self._episodes(moment), act, carry, rng, max_steps, deterministic=deterministic
        )

    def _episodes(self, moment: Moment | None) -> Episodes:
        episodes = self.behaviour.episodes
        return episodes if moment is None else episodes.at_update(*moment)

    def train(
        self,
        rng: RandomKey | None,
        hyperparams: HyperparametersT | None,
        runner: RunnerT | None,
        n_steps: int,
        progress: bool,
    ) -> tuple[RunnerT, Metrics]:
        """A whole training: the final runner, and metrics with a leading axis of points."""
        if runner is not None:
            first = self.behaviour._complete(runner)
            first = first if hyperparams is None else self.restart(first, hyperparams)
        else:
            first = self.start(as_key(rng), hyperparams)
        return train_in_one_program(self, first, n_steps, progress)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.behaviour == other.behaviour

    def __hash__(self) -> int:
        return hash((Program, self.behaviour))


def _float32_copy(hyperparams: PyTree) -> PyTree:
    """Hyperparameters as arrays that are not the user's own, which updates would use up."""
    return jax.tree.map(lambda x: jnp.array(x, jnp.float32), hyperparams)
