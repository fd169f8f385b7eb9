"""The errors that mistakes raise."""

import functools
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from compilations import compilations

from mistakes.entries import Mistake

PROGRAMS = {"start", "advance", "evaluate", "play", "restart", "train", "create", "update", "act"}
"""Names of compiled functions that are worth waiting for."""


class Outcome(NamedTuple):
    """The outcome of a mistake."""

    error: Exception | None
    message: str
    compiled: set[str]


@functools.cache
def outcome_of(mistake: Mistake) -> Outcome:
    """Makes a mistake, once, in an empty folder."""
    with tempfile.TemporaryDirectory() as folder, compilations() as events:
        error = _error_of(mistake, Path(folder))
    text = error.args[0] if isinstance(error, KeyError) else error
    message = str(text).replace(str(Path(folder).absolute()), "runs/1")
    compiled = {name for event in events for name in _compiled(event)}
    return Outcome(error, message, compiled)


def _error_of(mistake: Mistake, folder: Path) -> Exception | None:
    try:
        mistake(folder)
    except Exception as error:
        return error
    return None


def _compiled(event: str) -> list[str]:
    """The name of the function that an event says is compiled, not merely traced."""
    return re.findall(r"'fun_name': '(?:jit\()?(\w+)", event) if "backend_compile" in event else []
