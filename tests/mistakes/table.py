"""The table of all mistakes: by theme and title, a function that makes each."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mistakes import (
    agents,
    checkpoints,
    configurations,
    datasets,
    environments,
    habits,
    hyperparameters,
    meshes,
    networks,
    on_host,
    parallel,
)


class Mistake(NamedTuple):
    """A mistake.

    Attributes:
        title: The mistake in words.
        make: Makes it. If it takes `folder`, it is given an empty one.
    """

    title: str
    make: Callable[..., Any]

    def __call__(self, folder: Path) -> None:
        """Makes the mistake."""
        self.make(*[folder] * ("folder" in inspect.signature(self.make).parameters))


_THEMES = {
    "Configurations": configurations,
    "Hyperparameters": hyperparameters,
    "Agents and hooks": agents,
    "Networks": networks,
    "Environments": environments,
    "Checkpoints and restoring": checkpoints,
    "Datasets and replay": datasets,
    "Environments of Gymnasium": on_host,
    "Environments of PettingZoo": parallel,
    "Meshes": meshes,
    "Habits from other libraries": habits,
}

THEMES = {
    theme: [Mistake(*row) for row in module.MISTAKES.items()] for theme, module in _THEMES.items()
}
MISTAKES = [mistake for mistakes in THEMES.values() for mistake in mistakes]
