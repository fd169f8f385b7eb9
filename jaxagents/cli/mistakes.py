"""Mistakes on the command line, and the names that there are."""

import ast
import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jaxagents.catalogue import CATALOGUE
from jaxagents.core.nearest import unknown
from jaxagents.core.suites import GYMNASIUM, SUITES, check_installed, is_installed
from jaxagents.presets.settings import PRESETS


class MistakeError(Exception):
    """Something that the user should have written otherwise, told in one line."""


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
def told_in_a_line(*kinds: type[Exception]) -> Iterator[None]:
    """Turns errors into mistakes.

    Args:
        *kinds: Kinds of errors; by default those of what checks the user's choices.
    """
    kinds = kinds or _OF_CHOICES
    try:
        yield
    except kinds as error:
        raise MistakeError(" ".join(_text_of(error).split())) from error


def _text_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}."
    return str(error.args[0] if error.args else error)


def check_agent(name: str) -> None:
    """Refuses the name of an agent that there is not."""
    if name not in CATALOGUE:
        raise MistakeError(unknown("agent", name, CATALOGUE))


def check_preset(name: str) -> None:
    """Refuses the name of a preset that there is not."""
    if name not in PRESETS:
        raise MistakeError(unknown("preset", name, PRESETS))


def check_environment(name: str) -> None:
    """Refuses the name of an environment that there is not, and a suite that is not installed.

    The names of a suite's own environments are left to `jaxagents.make`, which imports the suite, and
    `module:Class` to what imports the module.
    """
    suite, colon, _ = name.partition(":")
    if suite == "gym" and colon:
        raise MistakeError(
            f"There is no suite 'gym': write '{GYMNASIUM}{name.removeprefix('gym')}'."
        )
    if suite in SUITES and colon:
        with told_in_a_line():
            check_installed(suite)
        return
    known = environment_names()
    own_name = name.removeprefix("gymnax:")
    if ":" not in own_name and own_name not in known:
        raise MistakeError(unknown("environment", name, known))


def environment_names() -> Sequence[str]:
    """The names of gymnax's environments, read from its source: importing it would take seconds."""
    spec = importlib.util.find_spec("gymnax")
    for folder in (spec and spec.submodule_search_locations) or ():
        source = Path(folder, "registration.py")
        for node in ast.parse(source.read_text(encoding="utf-8")).body if source.exists() else ():
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_BUILTIN_ENV_IDS":
                return list(ast.literal_eval(node.value))
    import gymnax

    return list(gymnax.registered_envs)


def names_of_suites() -> Sequence[str]:
    """The names of the environments of the suites that are installed, which are imported.

    Those of Gymnasium, which is always installed, are not listed one by one.
    """
    names = []
    others = [suite for suite in SUITES if suite != GYMNASIUM]
    for suite in filter(is_installed, others):
        from jaxagents.envs.adapters.making import names_of

        names += names_of(suite)
    return names


class FailureError(Exception):
    """A run that failed, told in one line."""


class StoppedError(Exception):
    """A run that the user stopped, with how to go on."""
