"""The options of commands that are given the folders of runs."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro

_NAMED = tyro.conf.arg(metavar="FOLDER")
Folder = Annotated[tyro.conf.Positional[Path], _NAMED]
Checkpoint = Literal["best", "last"] | int


@dataclasses.dataclass(frozen=True)
class Resume:
    """Options of `resume`.

    Attributes:
        folder: Folder of the run.
        n_steps: Total number of updates, if it should change.
        n_updates: Another name of n_steps.
    """

    folder: Folder
    n_steps: int | None = None
    n_updates: int | None = None


@dataclasses.dataclass(frozen=True)
class Eval:
    """Options of `eval`.

    Attributes:
        folder: Folder of the run.
        n_evals: Number of episodes.
        deterministic: Whether to take greedy actions, rather than to draw them from the policy.
        checkpoint: The checkpoint: best, last, or the number of an update.
        seed: Seed of the episodes; by default that of the run and one.
        film: File of a film (.gif or .mp4) of an episode; none by default.
    """

    folder: Folder
    n_evals: int = 128
    deterministic: bool = True
    checkpoint: Checkpoint = "best"
    seed: int | None = None
    film: Path | None = None


@dataclasses.dataclass(frozen=True)
class Export:
    """Options of `export`.

    Attributes:
        folder: Folder of the run.
        output: File of the policy, by default policy.safetensors in the folder.
        checkpoint: The checkpoint: best, last, or the number of an update.
    """

    folder: Folder
    output: Path | None = None
    checkpoint: Checkpoint = "best"


@dataclasses.dataclass(frozen=True)
class Plot:
    """Options of `plot`.

    Attributes:
        folders: Folders of runs.
        metric: The metric, one of those in metrics.jsonl.
        output: File of the picture; by default METRIC.png in the folder, or here if there are several.
    """

    folders: Annotated[tyro.conf.Positional[tuple[Path, ...]], _NAMED] = ()
    metric: str = "returns"
    output: Path | None = None


@dataclasses.dataclass(frozen=True)
class Replay:
    """Options of `replay`.

    Attributes:
        folder: Folder of the run.
        first: Update after which to begin; by default that of the last checkpoint.
        updates: Number of updates to repeat.
        film: File of a film (.gif or .mp4) of an episode after its last update; none by default.
    """

    folder: Folder
    first: Annotated[int | None, tyro.conf.arg(name="from")] = None
    updates: int = 10
    film: Path | None = None


@dataclasses.dataclass(frozen=True)
class Verify:
    """Options of `verify`.

    Attributes:
        folder: Folder of a training, of an agent or on the host.
    """

    folder: Folder


@dataclasses.dataclass(frozen=True)
class List:
    """Options of `list`.

    Attributes:
        kind: The kind of names.
    """

    kind: tyro.conf.Positional[Literal["agents", "envs", "presets"]]
