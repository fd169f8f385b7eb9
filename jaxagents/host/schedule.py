"""The points and the logs of a training on the host."""

from jaxagents.engine.loop import updates_between_points
from jaxagents.host.config import HostConfig


class Schedule:
    """When a training is evaluated, and when it is logged.

    Attributes:
        config: Its configuration.
    """

    def __init__(self, n_steps: int, config: HostConfig) -> None:
        """Takes the number of steps in all, and the configuration, which has the frequencies."""
        self._n_steps = n_steps
        self.config = config

    def remaining(self, step: int) -> int:
        """Number of steps to make after some."""
        return max(0, self._n_steps - step)

    def lengths(self, step: int, begins: bool) -> list[int]:
        """Numbers of steps before each point, the first of which is where a training begins."""
        remaining = self.remaining(step)
        lengths = updates_between_points(remaining, self.config.eval_frequency, step)
        if begins:
            return lengths
        return lengths[1:] if remaining else []

    def is_point(self, step: int) -> bool:
        """Whether a step is a point."""
        return step == self._n_steps or step % self.config.eval_frequency == 0

    def is_due(self, step: int) -> bool:
        """Whether a step is a point, or logged."""
        return self.is_point(step) or self.is_log(step)

    def is_log(self, step: int) -> bool:
        """Whether what training reports is logged at a step."""
        return step > 0 and (step == self._n_steps or step % self.config.log_frequency == 0)
