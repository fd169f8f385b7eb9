"""Agents whose environments are stepped on the host, as trainings see them."""

from typing import Any, Protocol, Self, TypeVar

import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int, Key, PyTree

from jaxagents.core.metrics import Metrics
from jaxagents.core.report import Record
from jaxagents.envs.play import EpisodeOutcomes
from jaxagents.running.host_rollout import HostRollout
from jaxagents.running.trainable import Compilable, HasStep, PureProgram, TrainableConfig


class PlayingRunner(HasStep, Protocol):
    """A runner of environments that are stepped on the host."""

    @property
    def info(self) -> dict[str, Any]:
        """Scalars that describe the last update."""
        ...

    @property
    def obs(self) -> PyTree:
        """Current observations, environments first."""
        ...

    @property
    def envstate(self) -> PyTree:
        """The episodes that are being played."""
        ...

    @property
    def carry(self) -> PyTree:
        """Memories of the policy, environments first."""
        ...

    def replace(self, **fields: Any) -> Self:
        """The runner with other fields."""
        ...


PlayingRunnerT = TypeVar("PlayingRunnerT", bound=PlayingRunner)


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


class HostProgram(PureProgram[PlayingRunnerT], Protocol[PlayingRunnerT]):
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

    def acting(self, runner: PlayingRunnerT, /) -> PyTree:
        """The part of a runner that acts."""
        ...

    def initial_carry(self, acting: PyTree, /) -> PyTree:
        """The memory of what acts at the start of an episode."""
        ...

    def begin_episodes(
        self, runner: PlayingRunnerT, where: Bool[np.ndarray, "environments"], /
    ) -> PlayingRunnerT:
        """The runner before a rollout that begins with new episodes in some environments."""
        ...

    def draw(self, runner: PlayingRunnerT, block: ArrayLike, /) -> PyTree:
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

    def no_record(self, runner: PlayingRunnerT, /) -> Record:
        """A record of what is not finite, before any update."""
        ...

    def learn(
        self, runner: PlayingRunnerT, record: Record, rollout: HostRollout, /
    ) -> tuple[PlayingRunnerT, Record]:
        """The runner and the record after an update that learns from a rollout."""
        ...

    def report(self, runner: PlayingRunnerT, played: Metrics | None = None, /) -> Metrics:
        """The update step, what the last update reported, and the metrics of an evaluation if given."""
        ...

    def metrics_of(self, outcomes: EpisodeOutcomes, /) -> Metrics:
        """The metrics of an evaluation."""
        ...


class PlaysOnHost(Compilable[PlayingRunnerT], Protocol[PlayingRunnerT]):
    """An agent whose environments are stepped on the host."""

    @property
    def program(self) -> HostProgram[PlayingRunnerT]:
        """The functions of a training."""
        ...

    @property
    def config(self) -> HostTrainableConfig:
        """The static configuration."""
        ...
