"""Messages about names that are unknown."""

import difflib
from collections.abc import Iterable


def alike(name: str, known: Iterable[str], share: float = 0.5) -> str | None:
    """The known name that is most like another one, in small or large letters, if any is.

    Args:
        name: The name that was given.
        known: The names that there are.
        share: How much of both names must be alike; 1 is all.

    Returns:
        The known name, or `None`.
    """
    by_small_letters = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower(), by_small_letters, n=1, cutoff=share)
    return by_small_letters[found[0]] if found else None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like another one or begins with it, if any does."""
    known = list(known)
    longer = (candidate for candidate in known if candidate.lower().startswith(name.lower()))
    return alike(name, known) or next(longer, None)


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
