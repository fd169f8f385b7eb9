"""Messages about names that are unknown."""

import difflib
from collections.abc import Iterable


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Says that a name is unknown, and which known one is nearest.

    Args:
        kind: The kind of thing that it ought to name.
        name: The name that was given.
        known: The names that there are.

    Returns:
        A message of one line.
    """
    by_small_letters = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_small_letters, n=1, cutoff=0.5)
    if near:
        hint = f"Did you mean '{by_small_letters[near[0]]}'?"
    else:
        hint = f"There are: {', '.join(by_small_letters.values())}."
    return f"There is no {kind} '{name}'. {hint}"
