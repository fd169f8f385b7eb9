"""The page of the documentation that lists all mistakes, made of the table.

Run `PYTHONPATH=tests python -m mistakes.page` to write it, and read what changed.
"""

import functools
import inspect
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import jax
from compilations import compilations

from mistakes.table import THEMES, Mistake

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "mistakes.md"
_LONGEST = 300

_INTRODUCTION = """\
# Mistakes

Mistakes raise an error before anything is compiled. It says what was given, what is needed and, where
possible, what would work. Search this page for the message that you got. Each row is tested.
"""


class Outcome(NamedTuple):
    """The outcome of a mistake: the error, its row on the page, and the functions that were compiled."""

    error: Exception | None
    row: str
    compiled: set[str]


@functools.cache
def outcome_of(mistake: Mistake) -> Outcome:
    """Makes a mistake once, in an empty folder."""
    error = None
    with tempfile.TemporaryDirectory() as name, compilations() as events:
        folder = Path(name).absolute()
        takes_it = "folder" in inspect.signature(mistake.make).parameters
        try:
            mistake.make(*[folder] * takes_it)
        except Exception as raised:
            error = raised
    text = str(error.args[0] if isinstance(error, KeyError) else error)
    message = " ".join(text.replace(str(folder), "runs/1").split())
    message = re.sub(r" Its fields are: .*| at 0x[0-9a-f]+", "", message)
    if len(message) > _LONGEST:
        message = f"{message[:_LONGEST].rsplit(' ', 1)[0]} …"
    code = message.replace("`", "'").replace("|", "\\|")
    row = f"| {mistake.title} | `{type(error).__name__}`: `{code}` |"
    compiled = [event for event in events if "backend_compile" in event]  # not merely traced
    names = re.findall(r"'fun_name': '(?:jit\()?(\w+)", "\n".join(compiled))
    return Outcome(error, row, set(names))


def page() -> str:
    """The page."""
    lines = [_INTRODUCTION]
    for theme, mistakes in THEMES.items():
        lines += [f"## {theme}\n", "| Mistake | Error |", "|---|---|"]
        lines += [*(outcome_of(mistake).row for mistake in mistakes), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)  # as in tests
    PAGE.write_text(page(), encoding="utf-8")
