"""Errors of the command line, each one line long, and the names of environments."""

import ast
import importlib.util
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jaxagents.core.extras import GYMNASIUM, SUITES, check_installed, likely_environment


class CommandError(Exception):
    """A command that cannot continue, with the exit status of the process."""

    status: int


class FailureError(CommandError):
    """A run that failed."""

    status = 1


class MistakeError(CommandError):
    """A mistake in the user's command."""

    status = 2


class StoppedError(CommandError):
    """A run that the user stopped, with how to continue it."""

    status = 130


_OF_CHOICES = (
    ValueError,
    TypeError,
    KeyError,
    OSError,
    ImportError,
    AttributeError,
    NotImplementedError,
)


@contextmanager
def one_line_errors(*kinds: type[Exception], fields: Collection[str] = ()) -> Iterator[None]:
    """Turns errors into a `MistakeError` with a message of one line.

    Args:
        *kinds: Classes of errors; by default those that checks of the user's choices raise.
        fields: Names of fields that the message shows as options.
    """
    kinds = kinds or _OF_CHOICES
    try:
        yield
    except kinds as error:
        line = " ".join(_text_of(error).split())
        raise MistakeError(_with_options(line, fields)) from error


def _text_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}."
    return str(error.args[0] if error.args else error)


def _with_options(line: str, fields: Collection[str]) -> str:
    """Replaces fields in a line by options, such as `AgentConfig.batch_size` by `--batch-size`.

    Names of one word, such as `memory`, are only replaced at the start of the line.
    """

    def option(found: re.Match[str]) -> str:
        name = found["name"]
        is_meant = found["config"] or "_" in name or found.start() == 0
        if not (is_meant and name in fields):
            return found[0]
        prefix = "--no-" if found["flag"] == "=False" else "--"
        return prefix + name.replace("_", "-")

    name = r"\b(?P<config>\w*Config\.)?(?P<name>[a-z]\w*(\.[a-z]\w*)*)"
    return re.sub(rf"{name}(?P<flag>=True|=False)?", option, line)


def check_environment(name: str) -> None:
    """Rejects unknown names of environments, and suites that are not installed.

    The names in a suite are checked by `jaxagents.make`, which imports it, and `module:Class` when the
    module is imported.
    """
    suite, colon, _ = name.partition(":")
    if suite == "gym" and colon:
        raise MistakeError(
            f"There is no suite 'gym': write '{GYMNASIUM}{name.removeprefix('gym')}'."
        )
    if suite in SUITES and colon:
        with one_line_errors():
            check_installed(suite)
        return
    own_name = name.removeprefix("gymnax:")
    if ":" not in own_name and own_name not in (known := environment_names()):
        hint = likely_environment(own_name, known)
        raise MistakeError(f"There is no environment '{own_name}'. {hint}")


def environment_names() -> Sequence[str]:
    """The names of gymnax environments, read from its source: importing it would take seconds."""
    spec = importlib.util.find_spec("gymnax")
    for folder in (spec and spec.submodule_search_locations) or ():
        source = Path(folder, "registration.py")
        for node in ast.parse(source.read_text(encoding="utf-8")).body if source.exists() else ():
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_BUILTIN_ENV_IDS":
                return list(ast.literal_eval(node.value))
    import gymnax

    return list(gymnax.registered_envs)
