"""Numbers from the infos of environments on the host."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from jaxagents.core.names import nearest
from jaxagents.envs.episodes import InfoNames

_OF_VECTORS = ("final_obs", "final_observation", "final_info")
Numbers = Float[np.ndarray, "environments *actors"]


class Infos:
    """Reads the info entries that an agent keeps.

    All are single-precision numbers. Where an info lacks an entry, sums get zero and other entries NaN.
    """

    def __init__(self, names: InfoNames) -> None:
        """Takes the names of the entries."""
        self._names = names
        self._others: set[str] = set()
        self._missing = {*names.final, *names.summed}

    def of_vector(
        self,
        info: Mapping[str, Any],
        over: Bool[np.ndarray, "environments"],
    ) -> dict[str, Numbers]:
        """Reads the entries from the info of a Gymnasium vector.

        Args:
            info: The info: arrays, and under the same names prefixed with `_`, which environments have
                them.
            over: Where episodes are over, whose last infos may be under `"final_info"`.
        """
        last = info.get("final_info", {})
        earlier = ~over if "final_info" in info else np.ones_like(over)
        read = self._nothing(over.shape, [*info, *last])
        for name, numbers in read.items():
            for source, where in ((info, earlier), (last, over)):
                if name not in source:
                    continue
                has, rows = np.asarray(source.get(f"_{name}", np.ones_like(over))), source[name]
                for i in np.flatnonzero(has & where):
                    numbers[i] = _number(name, rows if isinstance(rows, Mapping) else rows[i])
        return read

    def of_actors(
        self, infos: Mapping[str, Mapping[str, Any]], agents: Iterable[str]
    ) -> dict[str, Float[np.ndarray, "actors"]]:
        """Reads the entries from the infos of all possible PettingZoo agents."""
        each = [infos.get(agent, {}) for agent in agents]
        read = self._nothing((len(each),), [name for info in each for name in info])
        for name, numbers in read.items():
            for i, info in enumerate(each):
                if name in info:
                    numbers[i] = _number(name, info[name])
        return read

    def of_episode(
        self, earlier: dict[str, Numbers] | None, info: dict[str, Numbers]
    ) -> dict[str, Numbers]:
        """Updates the entries of episodes with one more step: sums, and the last values seen.

        Args:
            earlier: The entries so far; `None` before the first step.
            info: The entries of the step.
        """
        if earlier is None:
            return info
        last = {name: info[name] for name in self._names.final}
        last = {name: np.where(np.isnan(x), earlier[name], x) for name, x in last.items()}
        return last | {name: earlier[name] + info[name] for name in self._names.summed}

    def warn(self) -> None:
        """Warns once about names that no info has had so far."""
        for name in self._missing:
            near = nearest(name, self._others)
            hint = f"did you mean '{near}'?" if near else f"they have {sorted(self._others)}."
            warnings.warn(
                f"final_info and summed_info name '{name}', which no info of the environment has had so "
                f"far: {hint}",
                stacklevel=2,
            )
        self._missing = set()

    def _nothing(self, shape: tuple[int, ...], found: Iterable[str]) -> dict[str, np.ndarray]:
        """Initial values of the entries; also notes which names exist."""
        if self._missing:
            self._others |= {x for x in found if x not in _OF_VECTORS and x[:1] != "_"}
            self._missing -= self._others
        last = {name: np.full(shape, np.nan, np.float32) for name in self._names.final}
        return last | {name: np.zeros(shape, np.float32) for name in self._names.summed}


def _number(name: str, x: Any) -> float:
    number = np.asarray(x)
    if number.size != 1 or number.dtype.kind not in "biuf":
        raise ValueError(
            f"final_info and summed_info name '{name}', which must be a number, but the info of the "
            f"environment has {x!r}."
        )
    return float(number.reshape(()))
