"""Agents, as their checkpoints see them: the agents themselves are on a floor above."""

import os
from typing import Any, Protocol

from jaxtyping import PyTree

from jaxagents.core.keys import RandomKey
from jaxagents.envs.episodes import Episodes


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
