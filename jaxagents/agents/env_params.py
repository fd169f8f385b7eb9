"""Hyperparameters that are parameters of the environment that an agent learns in."""

from collections.abc import Mapping
from typing import Any, cast

from flax import struct

from jaxagents.core.hyperparameters import Hyperparameters, Traced
from jaxagents.core.numbers import Interval
from jaxagents.core.schedules import FunctionSchedule, Schedule, check_one_number, check_value

_REAL = Interval(float("-inf"), float("inf"))


class PlayingHyperparameters(Hyperparameters):
    """Base of the hyperparameters of agents that learn by playing.

    Attributes:
        env_params: Parameters of the environment by name, in place of those that the agent was made
            with: numbers, arrays of them for `sweep` and `jax.vmap`, schedules, or functions of the
            update step.
    """

    env_params: Mapping[str, Traced] = struct.field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        """Makes schedules of functions."""
        super().__post_init__()
        if isinstance(self.env_params, Mapping):
            scheduled = {name: _as_schedule(value) for name, value in self.env_params.items()}
            object.__setattr__(self, "env_params", scheduled)

    @property
    def of_environment(self) -> Mapping[str, Traced]:
        """The parameters of the environment, by name."""
        return self.env_params

    def check_ranges(self, path: str = "") -> None:
        """Raises if a value is not a number, or out of its interval; see `Hyperparameters`."""
        if not isinstance(self.env_params, Mapping):
            raise TypeError(
                "env_params must be a dict of parameters of the environment, such as "
                f"{{'gravity': 9.8}}, got {self.env_params!r}: give all of them to the agent."
            )
        super().check_ranges(path)
        for name, value in self.of_environment.items():
            check_value(f"env_params[{name!r}]", value, _REAL)

    def check_single(self, path: str = "") -> None:
        """Raises if a value is an array, where one training takes one number."""
        super().check_single(path)
        for name, value in self.of_environment.items():
            check_one_number(f"env_params[{name!r}]", value)


def _as_schedule(value: Any) -> Traced:
    is_function = callable(value) and not isinstance(value, Schedule)
    return FunctionSchedule(cast(Any, value)) if is_function else value
