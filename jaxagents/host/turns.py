"""Turns of a training on the host: a step in each of its environments."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from jaxagents.core.finite import OBSERVATIONS
from jaxagents.core.report import REWARDS
from jaxagents.host.outcome import is_finite

_OBSERVED = ("observations", "next_observations")


class Turn(NamedTuple):
    """The outcome of a turn.

    Attributes:
        given: The transition, or several with a leading axis.
        returns: The returns of the episodes that are over.
    """

    given: Mapping[str, PyTree]
    returns: list[float]

    def spoilt(self) -> list[str]:
        """The kinds of numbers from the environments that are not finite."""
        rewards_are_finite = np.isfinite(self.given["rewards"]).all()
        are_finite = rewards_are_finite, all(is_finite(self.given[name]) for name in _OBSERVED)
        return [
            name
            for name, finite in zip((REWARDS, OBSERVATIONS), are_finite, strict=True)
            if not finite
        ]
