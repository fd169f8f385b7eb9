"""Writes the table of agent options: `make options`."""

import dataclasses
import json
import re
import types
import typing
from typing import Any, Literal

import docstring_parser

from jaxagents.catalogue import CATALOGUE
from jaxagents.cli.options import FILE
from jaxagents.core.hyperparameters import LinearSchedule
from jaxagents.core.numbers import OTHER_NAMES

_SCALARS = {int: "int", float: "float", bool: "bool", str: "str"}
_SCALARS |= {types.NoneType: "None", Ellipsis: "..."}
_OF_THE_FOLDER = "checkpoint_dir", "restore_agent"
_OF_ENVIRONMENT = "env_params"
"""Hyperparameters whose names depend on the environment, which have no options."""


def text_of_table() -> str:
    """The table as configurations and hyperparameters are now.

    Returns:
        JSON of `texts`, what is said of each option, by the class and field that says it; `kinds`,
        the types of those that are no hyperparameters; `agents`, the defaults of each; `schedule`, the
        numbers of a linear schedule.
    """
    texts, kinds, agents = {}, {}, {}
    for name, entry in CATALOGUE.items():
        _, config_type, hyperparams_type = entry.types()
        config, hyperparams = config_type(), hyperparams_type()
        agents[name] = {
            "config": _config(config, texts, kinds),
            "hyperparams": _hyperparams(hyperparams, texts),
        }
    table = {
        "texts": texts,
        "kinds": kinds,
        "schedule": _hyperparams(LinearSchedule(None, None, None), texts),
        "agents": agents,
    }
    return json.dumps(table, indent=1) + "\n"


def _config(config: Any, texts: dict[str, str], kinds: dict[str, str]) -> dict[str, Any]:
    hints, said = typing.get_type_hints(type(config)), _texts(type(config))
    defaults = {}
    for field in dataclasses.fields(config):
        kind = _kind_in_words(hints[field.name])
        if kind is not None and field.name not in _OF_THE_FOLDER:
            place, text = said[field.name]
            texts[place] = text
            assert kinds.setdefault(place, kind) == kind, f"{place} has several types"
            defaults[place] = getattr(config, field.name)
        for name in config.other_names():
            if OTHER_NAMES[name] == field.name:
                place, texts[said[name][0]] = said[name]
                kinds[place], defaults[place] = "int | None", None
    return defaults


def _kind_in_words(kind: Any) -> str | None:
    """A type as it is written, or `None` if its values cannot be written on a command line."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return f"Literal{list(arguments)}"
    if origin not in (tuple, typing.Union, types.UnionType):
        return _SCALARS.get(kind)
    words = [_kind_in_words(argument) for argument in arguments]
    if None in words:
        return None
    return f"tuple[{', '.join(words)}]" if origin is tuple else " | ".join(words)


def _hyperparams(hyperparams: Any, texts: dict[str, str]) -> dict[str, Any]:
    said, defaults = _texts(type(hyperparams)), {}
    for field in dataclasses.fields(hyperparams):
        if field.name == _OF_ENVIRONMENT or not field.repr:
            continue
        value, (place, text) = getattr(hyperparams, field.name), said[field.name]
        if dataclasses.is_dataclass(value):
            defaults[place] = _hyperparams(value, texts)
        else:
            texts[place] = text
            defaults[place] = value
    return defaults


def _texts(kind: type) -> dict[str, tuple[str, str]]:
    """Descriptions of the fields of a class and its bases, without markup, and their places."""
    texts = {}
    for base in reversed(kind.__mro__):
        place = f"{base.__module__}.{base.__qualname__}".removeprefix("jaxagents.")
        for field in docstring_parser.parse(base.__doc__ or "").params:
            name = field.arg_name
            texts[name] = f"{place}.{name}", _plain(field.description or "")
    return texts


def _plain(text: str) -> str:
    without_links = re.sub(r"\[([^\]]*)\]\[[^\]]*\]", r"\1", text)
    return " ".join(without_links.replace("`", "").split())


if __name__ == "__main__":
    FILE.write_text(text_of_table(), encoding="utf-8")
    print(f"{FILE} is renewed.")
