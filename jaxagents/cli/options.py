"""Options as dataclasses, from which tyro makes a parser."""

import dataclasses
from typing import Annotated, Any, NamedTuple

import tyro

from jaxagents.cli.values import SHARED, shared_names


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


class AgentOptions(NamedTuple):
    """The options of an agent.

    Attributes:
        config: Those of its configuration.
        hyperparams: Those of its hyperparameters by name, with dicts of nested ones.
    """

    config: list[Option]
    hyperparams: dict[str, Any]


def options_class(own: list[Option], agent: AgentOptions, several: bool = False) -> type:
    """A dataclass of the options of a command and of an agent.

    Args:
        own: The options of the command.
        agent: Those of the agent.
        several: Whether a hyperparameter takes several values.

    Returns:
        The class, whose fields `config` and `hyperparams` hold the options of the agent.
    """
    kind, nothing = (tuple[float, ...], ()) if several else (float | None, None)
    shared = [Option(name, kind, nothing, SHARED[name]) for name in shared_names(agent.hyperparams)]
    own_class = _dataclass("Options", [*own, *shared])
    groups = {
        "config": _dataclass("Config", agent.config),
        "hyperparams": _hyperparameter_options(agent.hyperparams, several),
    }
    return dataclasses.make_dataclass(
        "Options",
        [
            (name, Annotated[cls, tyro.conf.arg(name="", help="")], cls())
            for name, cls in groups.items()
        ],
        bases=(own_class,),
        frozen=True,
        kw_only=True,
    )


def _hyperparameter_options(hyperparams: dict[str, Any], several: bool) -> type:
    options = []
    for name, option in hyperparams.items():
        if isinstance(option, dict):
            kind = _hyperparameter_options(option, several)
            options.append(Option(name, kind, kind()))
        elif several:
            default = () if option.default is None else (option.default,)
            options.append(Option(name, tuple[float, ...], default, option.text))
        else:
            options.append(option)
    return _dataclass("Hyperparameters", options)


def _dataclass(name: str, options: list[Option]) -> type:
    """A dataclass of options, all with a text, for which tyro else reads sources."""
    fields = [
        (option.name, Annotated[option.kind, tyro.conf.arg(help=option.text)], option.default)
        for option in options
    ]
    return dataclasses.make_dataclass(name, fields, frozen=True, kw_only=True)
