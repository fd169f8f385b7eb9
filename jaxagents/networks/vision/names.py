"""Help with misspelt names."""

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """A sentence with the known names that are like a given one, or else with all of them."""
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6)
    return (
        f"Did you mean {', '.join(map(repr, near))}?" if near else f"There are {', '.join(known)}."
    )
