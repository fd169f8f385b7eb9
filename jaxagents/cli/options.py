"""The options of all commands, as dataclasses for tyro.

The options of agents come from a table, since importing the agents would take seconds. `make options`
writes it from the docstrings and defaults of their configurations and hyperparameters.
"""

import dataclasses
import itertools
import json
import typing
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from jaxagents.catalogue import CATALOGUE, PRESETS, Fields, Settings
from jaxagents.cli.parsing import leaves
from jaxagents.core.numbers import OTHER_NAMES, by_own_names

FILE = Path(__file__).with_name("options.json")
SHARED = {
    "learning_rate": "Step size of all networks, in place of each of theirs.",
    "grad_clip": "Largest global norm of the gradients, in place of each optimizer's own.",
}
"""Options that set all hyperparameters with such endings of their names, and their help."""

_NAMED = tyro.conf.arg(metavar="FOLDER")
Folder = Annotated[tyro.conf.Positional[Path], _NAMED]
Checkpoint = Literal["best", "last"] | int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Train:
    """Options of `train`, in addition to the agent's.

    Attributes:
        seed: Seed of everything random.
        run_dir: Folder for all results; by default a new one under runs/, named after the agent, the
            environment and the time.
        preset: Name of tuned settings, which other options override; see 'jaxagents list presets'. By
            default the preset of this agent and environment, if there is one; 'none' for no preset.
        anneal_learning_rate: Whether Adam's learning rate decays linearly to zero over the run.
    """

    seed: int = 0
    run_dir: Path | None = None
    preset: str | None = None
    anneal_learning_rate: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep(Train):
    """Options of `sweep`, in addition to the agent's.

    Attributes:
        seeds: Number of seeds.
    """

    seeds: int = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class FromData:
    """Options of agents that learn from data.

    Attributes:
        dataset: File of the dataset, .npz or .hdf5, as written by jaxagents.data.Dataset.save.
        dataset_actions: Units of continuous actions, if the file does not say: those of the
            environment, or rescaled to [-1, 1].
    """

    dataset: Path | None = None
    dataset_actions: Literal["environment", "rescaled"] | None = None


@dataclasses.dataclass(frozen=True)
class Resume:
    """Options of `resume`.

    Attributes:
        folder: Folder of the run.
        n_steps: Total number of updates, if it should change.
        n_updates: Another name for n_steps.
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
        deterministic: Whether to take greedy actions instead of sampling them.
        checkpoint: The checkpoint: best, last, or the number of an update.
        seed: Seed of the episodes; by default the run's seed plus one.
        film: File for a video (.gif or .mp4) of an episode; none by default.
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
        metric: Name of a metric in metrics.jsonl.
        output: File of the plot; by default METRIC.png in the folder, or here for several folders.
    """

    folders: Annotated[tyro.conf.Positional[tuple[Path, ...]], _NAMED] = ()
    metric: str = "returns"
    output: Path | None = None


@dataclasses.dataclass(frozen=True)
class Repeat:
    """Options of `replay`.

    Attributes:
        folder: Folder of the run.
        first: Update after which to start; by default the last checkpoint's.
        updates: Number of updates to repeat.
        film: File for a video (.gif or .mp4) of an episode after the last update; none by default.
    """

    folder: Folder
    first: Annotated[int | None, tyro.conf.arg(name="from")] = None
    updates: int = 10
    film: Path | None = None


@dataclasses.dataclass(frozen=True)
class Verify:
    """Options of `verify`.

    Attributes:
        folder: Folder of a run.
    """

    folder: Folder


@dataclasses.dataclass(frozen=True)
class List:
    """Options of `list`.

    Attributes:
        kind: The kind of names.
    """

    kind: tyro.conf.Positional[Literal["agents", "envs", "presets"]]


def options_of(agent: str, preset: str | None = None, is_sweep: bool = False) -> type:
    """A dataclass of the options of `train` or `sweep`, with the defaults of an agent or preset.

    Args:
        agent: Name of the agent in the catalogue.
        preset: Name of a preset for this agent.
        is_sweep: Whether hyperparameters take several values.

    Returns:
        The class. Its fields `config` and `hyperparams` hold the options of the agent.
    """
    table = json.loads(FILE.read_text(encoding="utf-8"))
    places = table["agents"][agent]
    settings = PRESETS[preset] if preset else Settings(agent, "", {}, {})
    config = _config(table, places["config"], settings.config)
    hyperparams = _hyperparams(table, places["hyperparams"], settings.hyperparams, is_sweep)
    names = [name for name, _ in leaves(hyperparams)]
    kind, nothing = (tuple[float, ...], ()) if is_sweep else (float | None, None)
    shared = [
        _option(name, kind, nothing, text)
        for name, text in SHARED.items()
        if any(full_name.endswith(name) for full_name in names)
    ]
    groups = [
        (name, Annotated[group, tyro.conf.arg(name="", help="")], group())
        for name, group in (("config", config), ("hyperparams", hyperparams))
    ]
    own = Sweep if is_sweep else Train
    bases = (FromData, own) if CATALOGUE[agent].learns_from_data else (own,)
    of_preset = [
        ("preset", str | None, preset),
        ("anneal_learning_rate", bool, settings.anneals),
    ]
    return _dataclass("Options", [*of_preset, *shared, *groups], bases)


def _config(table: Fields, defaults: Fields, chosen: Fields) -> type:
    kinds = type(
        "Kinds", (), {"__annotations__": {place: table["kinds"][place] for place in defaults}}
    )
    hints = typing.get_type_hints(kinds, {"Literal": Literal})
    options = []
    for place, default in defaults.items():
        name = place.rsplit(".", 1)[1]
        value = _with_tuples(chosen.get(name, default))
        options.append(_option(name, hints[place], value, table["texts"][place]))
    return _dataclass("Config", options)


def _with_tuples(value: Any) -> Any:
    """Converts lists from JSON to tuples."""
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _hyperparams(table: Fields, defaults: Fields, chosen: Fields, several: bool) -> type:
    options = []
    for place, default in defaults.items():
        name = place.rsplit(".", 1)[1]
        value = chosen.get(name, {} if isinstance(default, dict) else default)
        if isinstance(value, dict):
            of_value = default if isinstance(default, dict) else table["schedule"]
            nested = _hyperparams(table, of_value, value, several)
            options.append((name, nested, nested()))
            continue
        value = None if value is None else float(value)
        kind = float if value is not None else float | None
        if several:
            kind, value = tuple[float, ...], () if value is None else (value,)
        options.append(_option(name, kind, value, table["texts"][place]))
    return _dataclass("Hyperparameters", options)


def _option(name: str, kind: Any, default: Any, text: str) -> tuple[str, Any, Any]:
    """An option with its help, as a field for `make_dataclass`."""
    return name, Annotated[kind, tyro.conf.arg(help=text)], default


def _dataclass(
    name: str, options: list[tuple[str, Any, Any]], bases: tuple[type, ...] = ()
) -> type:
    return dataclasses.make_dataclass(name, options, bases=bases, frozen=True, kw_only=True)


def chosen_config(options: Any) -> Fields:
    """Translates options to fields of a configuration.

    Args:
        options: Options. Those with their default value count as not given.

    Returns:
        The fields by name.

    Raises:
        ValueError: A number is not positive, or two contradict each other.
    """
    values, defaults = dataclasses.asdict(options), dataclasses.asdict(type(options)())
    fields = {name: value for name, value in values.items() if name not in OTHER_NAMES}
    others = [name for name in OTHER_NAMES if values.get(name) is not None]
    given = {name: value for name, value in values.items() if value != defaults[name]}
    sizes = {name: fields[name] for name in ("batch_size", "rollout_length") if name in fields}
    return {**fields, **by_own_names("AgentConfig", given, others, sizes)}


def chosen_sets(options: Any) -> list[Fields]:
    """All combinations of the given hyperparameters, without repeated values.

    Args:
        options: Options. Their `hyperparams` hold one value per name, or a tuple of several.

    Returns:
        Values by full name, such as `actor_optimizer_params.eps`; the last option varies fastest.
    """
    own = dict(leaves(options.hyperparams))
    shared = {name: getattr(options, name, None) for name in SHARED}
    shared = {name: value for name, value in shared.items() if value not in (None, ())}
    sources = {name: next(filter(name.endswith, shared), name) for name in own}
    axes = {
        name: dict.fromkeys(value or (None,)) if isinstance(value, tuple) else (value,)
        for name, value in {**own, **shared}.items()
        if name in sources.values()
    }
    return [
        {name: chosen[source] for name, source in sources.items()}
        for chosen in (
            dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
        )
    ]
