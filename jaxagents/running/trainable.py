"""Agents, as trainings see them: the agents themselves are on the floor above."""

from typing import Protocol, TypeVar

import numpy as np
from jaxtyping import Array, ArrayLike, Int, Key, PyTree

from jaxagents.checkpoints.recorded import RecordedAgent, RecordedConfig
from jaxagents.core.compilation import Programs
from jaxagents.core.first_spoilt import FirstSpoilt, Record
from jaxagents.core.keys import RandomKey
from jaxagents.core.metrics import Metrics
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.play import EpisodeOutcomes
from jaxagents.running.host_rollout import HostRollout


class HasStep(Protocol):
    """A runner of any family."""

    @property
    def update_step(self) -> Int[Array, ""]:
        """Number of updates made so far."""
        ...


RunnerT = TypeVar("RunnerT", bound=HasStep)


class TrainableConfig(RecordedConfig, Protocol):
    """An agent's configuration, as far as trainings read it."""

    @property
    def eval_frequency(self) -> int:
        """Number of updates between evaluation points."""
        ...

    @property
    def stop_if_not_finite(self) -> bool:
        """Whether training ends with an error once its numbers are not finite."""
        ...

    def check_devices(self, n_devices: int, /) -> None:
        """Raises if so many devices cannot share the work equally."""


class HostTrainableConfig(TrainableConfig, Protocol):
    """A configuration of an agent that may play on the host."""

    @property
    def batch_size(self) -> int:
        """Number of environments."""
        ...

    @property
    def rollout_length(self) -> int:
        """Number of steps in each of them from one update to the next."""
        ...

    @property
    def eval_deterministic(self) -> bool:
        """Whether evaluations take greedy actions."""
        ...


class PureProgram(Protocol[RunnerT]):
    """The pure functions of a runner that a training consists of."""

    @property
    def config(self) -> TrainableConfig:
        """The agent's configuration."""
        ...

    def with_data(self, data: PyTree, /) -> "PureProgram[RunnerT]":
        """The same program, reading other data."""
        ...

    def start(self, rng: RandomKey, hyperparams: PyTree, /) -> RunnerT:
        """A fresh runner."""
        ...

    def restart(self, runner: RunnerT, hyperparams: PyTree, /) -> RunnerT:
        """The runner with other hyperparameters."""
        ...

    def advance(self, runner: RunnerT, n_updates: ArrayLike, /) -> RunnerT:
        """The runner after updates."""
        ...

    def watch(self, runner: RunnerT, n_updates: ArrayLike, /) -> tuple[RunnerT, FirstSpoilt]:
        """The runner after updates, and which of them first came upon what is not finite."""
        ...

    def reports_of_minibatches(self, runner: RunnerT, /) -> Metrics:
        """The numbers that the minibatches of the next update report, in order, by name."""
        ...

    def evaluate(self, runner: RunnerT, /) -> Metrics:
        """The metrics of one evaluation point."""
        ...

    def play(
        self, rng: Key[Array, ""], acting: PyTree, n_evals: int, deterministic: bool, /
    ) -> Metrics:
        """The outcomes of episodes, of greedy actions or drawn ones."""
        ...

    def record(
        self, rng: Key[Array, ""], acting: PyTree, max_steps: int, deterministic: bool, /
    ) -> tuple[PyTree, Int[Array, ""]]:
        """The states of one episode, and its number of steps."""
        ...

    def train(
        self,
        rng: RandomKey | None,
        hyperparams: PyTree,
        runner: RunnerT | None,
        n_steps: int,
        progress: bool,
        /,
    ) -> tuple[RunnerT, Metrics]:
        """A whole training: the final runner, and metrics with a leading axis of points."""
        ...


class HostProgram(PureProgram[RunnerT], Protocol[RunnerT]):
    """The functions of a training whose environments are stepped on the host."""

    @property
    def config(self) -> HostTrainableConfig:
        """The agent's configuration."""
        ...

    @property
    def evaluates(self) -> bool:
        """Whether evaluation points play episodes."""
        ...

    @property
    def n_evals(self) -> int:
        """Number of episodes of an evaluation point."""
        ...

    @property
    def eval_rng(self) -> Key[Array, ""]:
        """Random key of the episodes of evaluation points."""
        ...

    def acting(self, runner: RunnerT, /) -> PyTree:
        """The part of a runner that acts."""
        ...

    def initial_carry(self, acting: PyTree, /) -> PyTree:
        """The memory of what acts at the start of an episode."""
        ...

    def draw(self, runner: RunnerT, block: ArrayLike, /) -> PyTree:
        """Random numbers of as many steps of all environments as a rollout has.

        Args:
            runner: The runner before the rollout.
            block: 0 for the first steps of the rollout, 1 for as many that follow, and so on.
        """
        ...

    def act(
        self, acting: PyTree, carry: PyTree, obs: PyTree, draws: PyTree, time: ArrayLike, /
    ) -> tuple[PyTree, PyTree, Array]:
        """The memories after a step of all environments, the actions, and their log-probabilities."""
        ...

    def act_greedily(self, acting: PyTree, carry: PyTree, obs: PyTree, /) -> tuple[PyTree, PyTree]:
        """The memories after a step of all environments, and greedy actions."""
        ...

    def act_at_random(
        self,
        acting: PyTree,
        carry: PyTree,
        obs: PyTree,
        rng: Key[Array, ""],
        episodes: Int[np.ndarray, "environments"],
        time: ArrayLike,
        /,
    ) -> tuple[PyTree, PyTree]:
        """The memories after a step of all environments, and actions that are drawn.

        Args:
            acting: What acts.
            carry: Memories.
            obs: Observations.
            rng: Random key of an evaluation.
            episodes: Number of the episode in each environment.
            time: Number of the step.
        """
        ...

    def no_record(self, runner: RunnerT, /) -> Record:
        """A record of what is not finite, before any update."""
        ...

    def learn(
        self, runner: RunnerT, record: Record, rollout: HostRollout, /
    ) -> tuple[RunnerT, Record]:
        """The runner and the record after an update that learns from a rollout."""
        ...

    def reports_of_rollout(self, runner: RunnerT, rollout: HostRollout, /) -> Metrics:
        """The numbers that the minibatches report of an update that learns from a rollout."""
        ...

    def report(self, runner: RunnerT, /) -> Metrics:
        """The update step, and what the last update reported."""
        ...

    def metrics_of(self, outcomes: EpisodeOutcomes, /) -> Metrics:
        """The metrics of an evaluation."""
        ...


class Compilable(Protocol[RunnerT]):
    """An agent, or its behaviour alone, whose program is compiled."""

    @property
    def program(self) -> PureProgram[RunnerT]:
        """The pure functions of a runner that a training consists of."""
        ...

    @property
    def programs(self) -> Programs | None:
        """The compiled programs; `None` within a program, which itself is compiled."""

    @property
    def behaviour(self) -> "Compilable[RunnerT]":
        """The same agent without files and memory."""
        ...

    @property
    def config(self) -> TrainableConfig:
        """The static configuration."""
        ...

    @property
    def data(self) -> PyTree:
        """Arrays that updates read and never change."""
        ...

    @property
    def split_fields(self) -> tuple[str, ...]:
        """Fields of a runner whose arrays have a first axis of environments."""
        ...

    @property
    def collects_at_start(self) -> bool:
        """Whether fresh runners have played in the environment."""
        ...


class PlaysOnHost(Compilable[RunnerT], Protocol[RunnerT]):
    """An agent whose environments are stepped on the host."""

    @property
    def program(self) -> HostProgram[RunnerT]:
        """The functions of a training."""
        ...

    @property
    def config(self) -> HostTrainableConfig:
        """The static configuration."""
        ...

    @property
    def episodes(self) -> Episodes:
        """The environment with its time limit."""
        ...


class Trainable(Compilable[RunnerT], RecordedAgent, Protocol[RunnerT]):
    """An agent that is trained from Python."""

    @property
    def config(self) -> TrainableConfig:
        """The static configuration."""
        ...

    def start(self, rng: RandomKey, hyperparams: PyTree, /) -> RunnerT:
        """Makes a fresh runner."""
        ...

    def advance(self, runner: RunnerT, n_updates: ArrayLike, /) -> RunnerT:
        """Makes updates, using up the runner."""
        ...

    def evaluate(self, runner: RunnerT, /) -> Metrics:
        """The metrics of one evaluation point."""
        ...

    def collect_training(self, runner: RunnerT, metrics: Metrics, /) -> None:
        """Makes the agent remember a runner and its metrics."""


def programs_of(agent: Compilable[RunnerT]) -> Programs:
    """The compiled programs of an agent that is not itself within one."""
    programs = agent.programs
    assert programs is not None
    return programs
