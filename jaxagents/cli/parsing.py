"""Parsing of options with tyro, with errors in one line."""

import contextlib
import dataclasses
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import tyro

from jaxagents.cli.mistakes import MistakeError
from jaxagents.core.names import advice, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

_FRAME = str.maketrans("", "", "│╭╮╰╯")
_RULE = re.compile("[-─]{5,}")


def parse(
    kind: type[T], words: Sequence[str], command: str, description: str, names: str = ""
) -> T:
    """Parses the options of a command.

    Paths may start with a tilde, which shells do not expand in `--run-dir=~/run`.

    Args:
        kind: The dataclass of the options.
        words: The arguments after the command.
        command: The command.
        description: The description in its help.
        names: Positional arguments that its help shows before the options.

    Returns:
        The options, with `~` expanded in paths.

    Raises:
        MistakeError: An argument is unknown or invalid.
        SystemExit: After showing the help.
    """
    if any(not word or (word.startswith("-") and word.endswith("=")) for word in words):
        raise MistakeError(
            "A value is empty, perhaps from an unset shell variable: pass one, or . for this folder."
        )
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options, left = tyro.cli(
                kind,
                prog=f"jaxagents {command} {names}".strip(),
                args=list(words),
                description=description,
                return_unknown_args=True,
            )
    except SystemExit as end:
        if end.code:
            raise MistakeError(_in_one_line(said.getvalue())) from None
        raise
    if left:
        raise MistakeError(f"{_about(left[0], kind)} 'jaxagents {command} --help' lists them.")
    given = {word.replace("_", "-") for word in words}
    for name, value in leaves(options):
        if value == () and _as_option(name) in given:
            raise MistakeError(f"{_as_option(name)} needs a value.")
    return dataclasses.replace(
        options,
        **{
            field.name: _with_home(getattr(options, field.name))
            for field in dataclasses.fields(options)
        },
    )


def leaves(options: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The full names of a dataclass's options, such as `actor_optimizer_params.eps`, and their values.

    For a class, the values are the defaults.
    """
    for field in dataclasses.fields(options):
        value = getattr(options, field.name, dataclasses.MISSING)
        if not dataclasses.is_dataclass(value):
            yield f"{prefix}{field.name}", value
        elif field.name in ("config", "hyperparams"):
            yield from leaves(value, prefix)
        else:
            yield from leaves(value, f"{prefix}{field.name}.")


def _with_home(value: Any) -> Any:
    """Expands `~` in a path or a tuple of paths; returns other values as they are."""
    if isinstance(value, tuple):
        return tuple(map(_with_home, value))
    if not isinstance(value, Path):
        return value
    try:
        return value.expanduser()
    except RuntimeError:
        raise MistakeError(
            f"There is no home folder {value.parts[0]}: write the full path instead of {value}."
        ) from None


def _in_one_line(framed: str) -> str:
    """The error in a message of tyro, without its frame or rules."""
    lines = [line.translate(_FRAME).strip() for line in framed.splitlines()]
    below_title = lines[2:] if _RULE.match(lines[1]) else lines[1:]
    message = " ".join(itertools.takewhile(lambda line: not _RULE.match(line), below_title))
    return " ".join(message.split())


def _about(word: str, kind: type) -> str:
    """The message for an unknown option, which suggests a similar one."""
    if not word.startswith("-"):
        return f"'{word}' is not an option."
    given, known = word.split("=")[0], [name for name, _ in leaves(kind)]
    name = given.strip("-").replace("-", "_")
    guess = advice(name, known) or did_you_mean(name, known)
    guess = re.sub(r"'([\w.]+)'", lambda found: f"'{_as_option(found[1])}'", guess)
    return f"There is no option '{given}'. {guess}".rstrip()


def _as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
