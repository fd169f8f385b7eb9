"""Parsing options with tyro, with mistakes in one line."""

import contextlib
import dataclasses
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from jaxagents.cli.mistakes import MistakeError
from jaxagents.core.names import advice, nearest

T = TypeVar("T")

_TYPES = ConstructorRegistry()
"""Our own ways from words to values."""

_FRAME = str.maketrans("", "", "│╭╮╰╯")
_RULE = re.compile("[-─]{5,}")
_PLAIN = {
    r"invalid literal for int\(\) with base 10: (.*)": r"needs a whole number, got \1.",
    r"could not convert string to float: (.*)": r"needs a number, got \1.",
    r"Could not find valid parse for arguments: \[(.*)\]": r"needs values with spaces between, got \1.",
    r"Missing value for argument '(.*)'\. Expected .*": r"\1 needs a value.",
    r"Missing from (jaxagents \w+): (\S+) (.*) \(required\)": r"Missing: \1 \2. \3",
}
"""Messages of Python and of tyro, and the same in plain words."""
_OF_SEVERAL_TYPES = re.compile(r"(\S+): no type matching (\S+) could be .* from \['(.*?)'\]\..*")
_IN_WORDS = {"INT": "a whole number", "FLOAT": "a number", "PATH": "a path", "STR": "a text"}


def parse(
    kind: type[T], words: Sequence[str], command: str, description: str, names: str = ""
) -> T:
    """Reads the options of a command.

    Args:
        kind: The dataclass of the options.
        words: The words after the command.
        command: The command.
        description: The first words of its help.
        names: Further words that its help shows before the options.

    Returns:
        The options, with the home folder in place of `~` in paths.

    Raises:
        MistakeError: A word is unknown or does not fit.
        SystemExit: Help was asked for, and shown.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            options, left = tyro.cli(
                kind,
                prog=f"jaxagents {command} {names}".strip(),
                args=list(words),
                description=description,
                return_unknown_args=True,
                registry=_TYPES,
            )
    except SystemExit as end:
        if end.code:
            raise MistakeError(_in_plain_words(said.getvalue())) from None
        raise
    if left:
        raise MistakeError(f"{_about(left[0], kind)} 'jaxagents {command} --help' lists them.")
    given = {word.replace("_", "-") for word in words}
    for name, value in leaves(options):
        if value == () and _as_option(name) in given:
            raise MistakeError(f"{_as_option(name)} needs a value.")
    return options


def leaves(options: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The full names of a dataclass's options, as in `actor_optimizer_params.eps`, and their values.

    Given the class itself, the values are the defaults.
    """
    for field in dataclasses.fields(options):
        value = getattr(options, field.name, dataclasses.MISSING)
        if not dataclasses.is_dataclass(value):
            yield f"{prefix}{field.name}", value
        elif field.name in ("config", "hyperparams"):
            yield from leaves(value, prefix)
        else:
            yield from leaves(value, f"{prefix}{field.name}.")


@_TYPES.primitive_rule
def _path(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Path] | None:
    """Paths may begin with a tilde, which shells leave as it is in `--run-dir=~/run`."""
    if info.type is not Path:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH",
        instance_from_str=lambda words: _with_home(words[0]),
        is_instance=lambda x: isinstance(x, Path),
        str_from_instance=lambda path: [str(path)],
    )


def _with_home(word: str) -> Path:
    if not word:
        raise MistakeError(
            "A path is empty, such as that of an unset shell variable: give one, or . for this folder."
        )
    path = Path(word)
    try:
        return path.expanduser()
    except RuntimeError:
        raise MistakeError(
            f"There is no home folder {path.parts[0]}: write out the path in place of {path}."
        ) from None


def _in_plain_words(framed: str) -> str:
    """The message of tyro, which stands between a title and a rule, in plain words."""
    lines = [line.translate(_FRAME).strip() for line in framed.splitlines()]
    below_title = lines[2:] if _RULE.match(lines[1]) else lines[1:]
    message = " ".join(itertools.takewhile(lambda line: not _RULE.match(line), below_title))
    sentence = " ".join(message.removeprefix("Error parsing ").split())
    for pattern, plain in _PLAIN.items():
        sentence = re.sub(pattern, plain, sentence)
    return _OF_SEVERAL_TYPES.sub(_about_several_types, sentence)


def _about_several_types(found: re.Match[str]) -> str:
    """Says that a value has none of the types that an option takes."""
    name, kinds, given = found.groups()
    words = [_IN_WORDS.get(kind, kind.strip("{}").replace(",", ", ")) for kind in kinds.split("|")]
    return f"{name}: needs {' or '.join(sorted(words, key='None'.__eq__))}, got '{given}'."


def _about(word: str, kind: type) -> str:
    """Says that a word is no option, and which option it may stand for."""
    if not word.startswith("-"):
        return f"'{word}' is no option."
    given, known = word.split("=")[0], [name for name, _ in leaves(kind)]
    name = given.strip("-").replace("-", "_")
    near = nearest(name, known)
    guess = advice(name, known) or (f"Did you mean '{near}'?" if near else "")
    guess = re.sub(r"'([\w.]+)'", lambda found: f"'{_as_option(found[1])}'", guess)
    return f"There is no option '{given}'. {guess}".rstrip()


def _as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
