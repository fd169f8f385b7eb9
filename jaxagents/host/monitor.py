"""Statistics of the episodes of a Gymnasium environment."""

from typing import Any, SupportsFloat

import gymnasium
from gymnasium.wrappers import RecordEpisodeStatistics
from jaxtyping import PyTree


class EpisodeMonitor(RecordEpisodeStatistics):
    """Reports return, length and duration of each episode in `info`, and counts steps.

    Every step's `info["total"]["timesteps"]` is the number of steps since the monitor was made. That of
    an episode's last step also has `info["episode"]` with `return` (the undiscounted sum of rewards),
    `length` (in steps) and `duration` (in seconds of the clock).

    ```python
    env = EpisodeMonitor(gymnasium.make("Pendulum-v1"))
    env = rescale_actions(env)
    ```

    It sees what the environment inside of it does: put wrappers that end episodes (`TimeLimit`) inside,
    and those that change rewards inside or outside, according to which rewards are to be reported.

    Attributes:
        total_timesteps: Number of steps since the monitor was made.
        return_queue: Returns of the last 100 episodes.
        length_queue: Their lengths.
        time_queue: Their durations.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        """Wraps an environment.

        Args:
            env: A single environment.
        """
        super().__init__(env)
        self.total_timesteps = 0

    def step(self, action: PyTree) -> tuple[PyTree, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment, and reports."""
        observation, reward, terminated, truncated, info = super().step(action)
        self.total_timesteps += 1
        info["total"] = {"timesteps": self.total_timesteps}
        if terminated or truncated:
            episode = info["episode"]
            info["episode"] = {
                "return": float(episode["r"]),
                "length": episode["l"],
                "duration": episode["t"],
            }
        return observation, reward, terminated, truncated, info
