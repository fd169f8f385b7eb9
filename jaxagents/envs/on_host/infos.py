"""Numbers in the infos of environments on the host."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from jaxagents.core.names import nearest
from jaxagents.envs.episodes import InfoNames

_OF_VECTORS = ("final_obs", "final_info")
Numbers = Float[np.ndarray, "environments *actors"]


class Infos:
    """Reads the entries that an agent keeps of the infos of environments.

    All are numbers of single precision. Where an info has no such entry, sums count zero, and other
    values are NaN.
    """

    def __init__(self, names: InfoNames) -> None:
        """Has read nothing yet.

        Args:
            names: Names of the entries.
        """
        self._names = names
        self._others: set[str] = set()
        self._missing = {*names.final, *names.summed}

    def of_vector(
        self,
        info: Mapping[str, Any],
        over: Bool[np.ndarray, "environments"],
    ) -> dict[str, Numbers]:
        """The entries of the info of a vector of Gymnasium.

        Args:
            info: The info: arrays, and whether environments have them under the same name behind `_`.
            over: Where episodes are over, of which the last infos may be in `"final_info"`.

        Returns:
            The entries by name.
        """
        last = info.get("final_info", {})
        if self._missing:
            self._note([*info, *last])
        read = self._nothing(over.shape)
        for name, numbers in read.items():
            _read(info, name, numbers, ~over if "final_info" in info else np.ones_like(over))
            _read(last, name, numbers, over)
        return read

    def of_actors(
        self, infos: Mapping[str, Mapping[str, Any]], agents: Iterable[str]
    ) -> dict[str, Float[np.ndarray, "actors"]]:
        """The entries of the infos of a parallel environment of PettingZoo.

        Args:
            infos: The infos of agents.
            agents: All possible agents.

        Returns:
            The entries by name.
        """
        each = [infos.get(agent, {}) for agent in agents]
        if self._missing:
            self._note([name for info in each for name in info])
        read = self._nothing((len(each),))
        for name, numbers in read.items():
            for i, info in enumerate(each):
                if name in info:
                    numbers[i] = _number(name, info[name])
        return read

    def of_episode(
        self, earlier: dict[str, Numbers] | None, info: dict[str, Numbers]
    ) -> dict[str, Numbers]:
        """The entries of episodes after a further step.

        Args:
            earlier: Those of before; `None` before the first step.
            info: Those of the step.

        Returns:
            Sums, and the last values that there were.
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

    def _note(self, found: Iterable[str]) -> None:
        self._others |= {name for name in found if name not in _OF_VECTORS and name[:1] != "_"}
        self._missing -= self._others

    def _nothing(self, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
        last = {name: np.full(shape, np.nan, np.float32) for name in self._names.final}
        return last | {name: np.zeros(shape, np.float32) for name in self._names.summed}


def _read(
    info: Mapping[str, Any],
    name: str,
    numbers: Numbers,
    where: Bool[np.ndarray, "environments"],
) -> None:
    """Writes an entry of an info, where environments have it."""
    if name in info:
        has, rows = np.asarray(info.get(f"_{name}", np.ones_like(where))), info[name]
        for i in np.flatnonzero(has & where):
            numbers[i] = _number(name, rows if isinstance(rows, Mapping) else rows[i])


def _number(name: str, x: Any) -> float:
    number = np.asarray(x)
    if number.size != 1 or number.dtype.kind not in "biuf":
        raise ValueError(
            f"final_info and summed_info name '{name}', which must be a number, but the info of the "
            f"environment has {x!r}."
        )
    return float(number.reshape(()))
