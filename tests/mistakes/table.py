"""The table of all mistakes: by theme and title, a function that makes each."""

from collections.abc import Callable
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
    """A mistake in words, and a function that makes it, in an empty `folder` if it takes one."""

    title: str
    make: Callable[..., Any]


_MODULES = {
    "Configurations": configurations,
    "Hyperparameters": hyperparameters,
    "Agents and hooks": agents,
    "Networks": networks,
    "Environments": environments,
    "Checkpoints and restoring": checkpoints,
    "Datasets and replay": datasets,
    "Gymnasium environments": on_host,
    "PettingZoo environments": parallel,
    "Meshes": meshes,
    "Habits from other libraries": habits,
}
THEMES = {
    theme: [Mistake(*row) for row in module.MISTAKES.items()] for theme, module in _MODULES.items()
}
MISTAKES = [mistake for mistakes in THEMES.values() for mistake in mistakes]
