"""The table of the options of agents, which is read where importing the agents would take seconds.

`make options` writes it, from the configurations and hyperparameters of the agents and their docstrings.
"""

import json
import typing
from pathlib import Path
from typing import Any, Literal

from jaxagents.cli.options import AgentOptions, Option
from jaxagents.presets.settings import PRESETS, Fields

FILE = Path(__file__).with_name("options.json")


def options_of(agent: str, preset: str | None = None) -> AgentOptions:
    """The options of an agent, with the defaults of the agent or those of a preset.

    Args:
        agent: The name of the agent in the catalogue.
        preset: The name of a preset of this agent.

    Returns:
        The options.
    """
    table = json.loads(FILE.read_text(encoding="utf-8"))
    of_agent = table["agents"][agent]
    config, hyperparams = {}, {}
    if preset is not None:
        settings = PRESETS[preset]
        config = settings.config
        hyperparams = {**settings.hyperparams, **settings.optimizers, **settings.schedules}
    return AgentOptions(
        _config(table, of_agent["config"], config),
        _hyperparams(table, of_agent["hyperparams"], hyperparams),
    )


def _config(table: dict[str, Any], defaults: Fields, chosen: Fields) -> list[Option]:
    names = {place: place.rsplit(".", 1)[1] for place in defaults}
    kinds = _types({place: table["kinds"][place] for place in defaults})
    values = {place: chosen.get(name, defaults[place]) for place, name in names.items()}
    return [
        Option(name, kinds[place], _with_tuples(values[place]), table["texts"][place])
        for place, name in names.items()
    ]


def _types(kinds: dict[str, str]) -> dict[str, Any]:
    """Types from their text, such as `int | None`, as annotations are text."""
    annotated = type("Annotated", (), {"__annotations__": kinds})
    return typing.get_type_hints(annotated, {"Literal": Literal})


def _with_tuples(value: Any) -> Any:
    """A value with tuples in place of the lists that JSON has."""
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _hyperparams(table: dict[str, Any], defaults: Fields, chosen: Fields) -> dict[str, Any]:
    options = {}
    for place, default in defaults.items():
        name = place.rsplit(".", 1)[1]
        value = chosen.get(name, default)
        if isinstance(default, dict):
            options[name] = _hyperparams(table, default, chosen.get(name, {}))
        elif isinstance(value, dict):
            options[name] = _hyperparams(table, table["schedule"], value)
        else:
            kind, number = (float | None, None) if value is None else (float, float(value))
            options[name] = Option(name, kind, number, table["texts"][place])
    return options
