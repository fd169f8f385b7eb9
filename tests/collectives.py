"""Communication between devices in a compiled program."""

import re
from collections import Counter
from typing import Any

_NAMES = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"


def collectives_of(lowered: Any) -> Counter:
    """How many there are of each collective operation, by its name."""
    return collectives_in(lowered.compile().as_text())


def collectives_in(compiled: str) -> Counter:
    """The same, in the text of a compiled program."""
    return Counter(re.findall(rf"\s({_NAMES})(?:-start)?\(", compiled))
