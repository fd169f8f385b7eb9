"""The table of all mistakes."""

from mistakes import (
    agents,
    checkpoints,
    configurations,
    datasets,
    environments,
    habits,
    host_loops,
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
        host_loops,
        on_host,
        parallel,
        meshes,
        habits,
    )
]
MISTAKES = [mistake for theme in THEMES for mistake in theme.mistakes]
