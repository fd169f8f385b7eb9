"""The options of an agent: the fields of its configuration and hyperparameters that can be text."""

import dataclasses
import re
import types
import typing
from typing import Annotated, Any, Literal, NamedTuple

import docstring_parser
import tyro

from jaxagents.cli.values import SHARED, hyperparameter_values, shared_names

_SCALARS = int, float, bool, str, types.NoneType
_OF_THE_FOLDER = "checkpoint_dir", "restore_agent"


class Option(NamedTuple):
    """An option to be.

    Attributes:
        name: Its name.
        kind: Its type.
        default: Its default.
        text: Its help.
    """

    name: str
    kind: Any
    default: Any
    text: str = ""


def options_class(own: list[Option], config: Any, hyperparams: Any, several: bool = False) -> type:
    """A dataclass of the options of a command and of an agent.

    Args:
        own: The options of the command.
        config: A configuration, whose values are the defaults.
        hyperparams: Hyperparameters, likewise.
        several: Whether a hyperparameter takes several values.

    Returns:
        The class, whose fields `config` and `hyperparams` hold the options of the agent.
    """
    kind, nothing = (tuple[float, ...], ()) if several else (float | None, None)
    shared = [
        Option(name, kind, nothing, SHARED[name])
        for name in shared_names(hyperparameter_values(hyperparams))
    ]
    own_class = _dataclass("Options", [*own, *shared])
    groups = {
        "config": _dataclass("Config", _config_options(config)),
        "hyperparams": _hyperparameter_options(hyperparams, several),
    }
    return dataclasses.make_dataclass(
        "Options",
        [(name, Annotated[cls, tyro.conf.arg(name="")], cls()) for name, cls in groups.items()],
        bases=(own_class,),
        frozen=True,
        kw_only=True,
    )


def _config_options(config: Any) -> list[Option]:
    hints, texts = typing.get_type_hints(type(config)), _texts(type(config))
    return [
        Option(
            field.name, hints[field.name], getattr(config, field.name), texts.get(field.name, "")
        )
        for field in dataclasses.fields(config)
        if field.name not in _OF_THE_FOLDER and _is_text(hints[field.name])
    ]


def _is_text(kind: Any) -> bool:
    """Whether values of a type can be written on a command line."""
    if typing.get_origin(kind) is Literal or kind in (*_SCALARS, Ellipsis):
        return True
    is_compound = typing.get_origin(kind) in (tuple, typing.Union, types.UnionType)
    return is_compound and all(map(_is_text, typing.get_args(kind)))


def _hyperparameter_options(hyperparams: Any, several: bool) -> type:
    texts = _texts(type(hyperparams))
    options = []
    for name, value in hyperparameter_values(hyperparams).items():
        if isinstance(value, dict):
            kind = _hyperparameter_options(getattr(hyperparams, name), several)
            options.append(Option(name, kind, kind()))
        elif several:
            default = () if value is None else (float(value),)
            options.append(Option(name, tuple[float, ...], default, texts.get(name, "")))
        elif value is None:
            options.append(Option(name, float | None, None, texts.get(name, "")))
        else:
            options.append(Option(name, float, float(value), texts.get(name, "")))
    return _dataclass("Hyperparameters", options)


def _dataclass(name: str, options: list[Option]) -> type:
    fields = [
        (
            option.name,
            Annotated[option.kind, tyro.conf.arg(help=option.text)] if option.text else option.kind,
            option.default,
        )
        for option in options
    ]
    return dataclasses.make_dataclass(name, fields, frozen=True, kw_only=True)


def _texts(kind: type) -> dict[str, str]:
    """What docstrings say of the fields of a class and its bases, without markup."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for field in docstring_parser.parse(base.__doc__ or "").params:
            texts[field.arg_name] = _plain(field.description or "")
    return texts


def _plain(text: str) -> str:
    without_links = re.sub(r"\[([^\]]*)\]\[[^\]]*\]", r"\1", text)
    return " ".join(without_links.replace("`", "").split())
