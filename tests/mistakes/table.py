"""The table of all mistakes."""

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

THEMES = [
    module.mistake
    for module in (
        configurations,
        hyperparameters,
        agents,
        networks,
        environments,
        checkpoints,
        datasets,
        on_host,
        parallel,
        meshes,
        habits,
    )
]
MISTAKES = [mistake for theme in THEMES for mistake in theme.mistakes]
