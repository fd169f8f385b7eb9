"""Numbers in the infos of environments on the host."""

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
    """Reads the entries that an agent keeps of the infos of environments.

    All are numbers of single precision. Where an info has no such entry, sums count zero, and other
    values are NaN.
    """

    def __init__(self, names: InfoNames) -> None:
        """Has read nothing yet; takes the names of the entries."""
        self._names = names
        self._others: set[str] = set()
        self._missing = {*names.final, *names.summed}

    def of_vector(
        self,
        info: Mapping[str, Any],
        over: Bool[np.ndarray, "environments"],
    ) -> dict[str, Numbers]:
        """The entries of the info of a vector of Gymnasium, by name.

        Args:
            info: The info: arrays, and whether environments have them under the same name behind `_`.
            over: Where episodes are over, whose last infos may be in `"final_info"`.
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
        """The entries of the infos of all possible agents of PettingZoo, by name."""
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
        """The entries of episodes after a further step: sums, and the last values that there were.

        Args:
            earlier: The entries before; `None` before the first step.
            info: The entries of the step.
        """
        if earlier is None:
            return info
        last = {name: info[name] for name in self._names.final}
        last = {name: np.where(np.isnan(x), earlier[name], x) for name, x in last.items()}
        return last | {name: earlier[name] + info[name] for name in self._names.summed}

    def warn(self) -> None:
        """Warns once of names that no info has had so far."""
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
        """The entries before any is read from infos with these names."""
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
