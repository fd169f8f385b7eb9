"""Messages about names that are unknown."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like another one, in small or large letters, if any is."""
    by_small_letters = {candidate.lower(): candidate for candidate in known}
    small = name.lower()
    found = difflib.get_close_matches(small, by_small_letters, n=1, cutoff=0.5)
    found += [candidate for candidate in by_small_letters if candidate.startswith(small)]
    return by_small_letters[found[0]] if found else None


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Says that a name is unknown, and which known one is nearest.

    Args:
        kind: The kind of thing that it ought to name.
        name: The name that was given.
        known: The names that there are.

    Returns:
        A message of one line.
    """
    known = list(known)
    near = nearest(name, known)
    hint = f"Did you mean '{near}'?" if near else f"There are: {', '.join(known)}."
    return f"There is no {kind} '{name}'. {hint}"
