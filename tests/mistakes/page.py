"""The page of the documentation that lists all mistakes, made of the table.

Run `PYTHONPATH=tests python -m mistakes.page` to write it.
"""

import re
from pathlib import Path

import jax

from mistakes.entries import Mistake
from mistakes.outcomes import outcome_of
from mistakes.table import THEMES

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "mistakes.md"
_LONGEST = 300

_INTRODUCTION = """\
# Mistakes

Mistakes are refused before anything is compiled, with an error that says what was given, what is needed,
and where possible what would work. This page lists them: look for the message that you got. Each of them
is tested.
"""


def page() -> str:
    """The page."""
    parts = [_INTRODUCTION]
    for theme in THEMES:
        parts.append(f"\n## {theme.title}\n\n| Mistake | Error |\n|---|---|\n")
        parts.extend(_row(mistake) for mistake in theme.mistakes)
    return "".join(parts)


def _row(mistake: Mistake) -> str:
    message = " ".join(outcome_of(mistake).message.split())
    message = re.sub(r" Its fields are: .*| at 0x[0-9a-f]+", "", message)
    if len(message) > _LONGEST:
        message = f"{message[:_LONGEST].rsplit(' ', 1)[0]} …"
    code = message.replace("`", "'").replace("|", "\\|")
    return f"| {mistake.title} | `{mistake.error.__name__}`: `{code}` |\n"


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)  # as in tests
    PAGE.write_text(page(), encoding="utf-8")
