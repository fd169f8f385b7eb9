"""Agents, as trainings see them: the agents themselves are on the floor above."""

import os
from typing import Any, Protocol, TypeVar

from jaxtyping import Array, ArrayLike, Int, Key, PyTree

from jaxagents.core.first_spoilt import FirstSpoilt
from jaxagents.core.keys import RandomKey
from jaxagents.core.metrics import Metrics
from jaxagents.core.shared_programs import Programs
from jaxagents.envs.environment import Moment
from jaxagents.envs.episodes import Episodes


class HasStep(Protocol):
    """A runner of any family."""

    @property
    def update_step(self) -> Int[Array, ""]:
        """Number of updates made so far."""
        ...


RunnerT = TypeVar("RunnerT", bound=HasStep)


class RecordedConfig(Protocol):
    """An agent's configuration, as far as its records concern it."""

    @property
    def checkpoint_dir(self) -> str | os.PathLike | None:
        """Folder for the records."""
        ...

    @property
    def restore_agent(self) -> bool:
        """Whether that folder may already hold checkpoints."""
        ...

    @property
    def keep_checkpoints(self) -> int | None:
        """Number of latest checkpoints to keep besides the best; `None` keeps all."""

    def computation(self) -> dict[str, Any]:
        """The fields that concern the computation, by name."""
        ...


class RecordedAgent(Protocol):
    """An agent, as far as its records concern it."""

    @property
    def config(self) -> RecordedConfig:
        """The static configuration."""
        ...

    @property
    def episodes(self) -> Episodes:
        """The environment with its time limit and resets."""
        ...

    @property
    def env_params(self) -> PyTree:
        """The parameters of the environment."""
        ...

    def start(self, rng: RandomKey, hyperparams: PyTree, /) -> PyTree:
        """Makes a fresh runner."""
        ...

    def vital_arrays(self, runner: PyTree, /) -> dict[str, PyTree]:
        """The arrays of a runner that must stay finite, by what they are."""
        ...

    def checkpointed(self, runner: PyTree, /) -> PyTree:
        """A runner as checkpoints hold it."""
        ...


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
        """Raises if that many devices cannot share the work equally."""


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
        """The runner after updates, and the first ones that met numbers that are not finite."""
        ...

    def reports_of_minibatches(self, runner: RunnerT, /) -> Metrics:
        """The numbers that the minibatches of the next update report, in order, by name."""
        ...

    def evaluate(self, runner: RunnerT, /) -> Metrics:
        """The metrics of one evaluation point."""
        ...

    def play(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        n_evals: int,
        deterministic: bool,
        moment: Moment | None = None,
        /,
    ) -> Metrics:
        """The outcomes of episodes at a moment of a training, of greedy actions or drawn ones."""
        ...

    def record(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        max_steps: int,
        deterministic: bool,
        moment: Moment | None = None,
        /,
    ) -> tuple[PyTree, Int[Array, ""]]:
        """The states of one episode at a moment of a training, and its number of steps."""
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
    def episodes(self) -> Episodes:
        """The environment with its time limit."""
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
