"""Configurations of the trainings on the host."""

import dataclasses
import functools
import os
from collections.abc import Collection
from typing import ClassVar

from jaxagents.core.config import StaticConfig, checked
from jaxagents.core.folders import folder
from jaxagents.core.numbers import not_negative, positive


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class HostConfig(StaticConfig):
    """The base of the configurations of trainings on the host.

    Attributes:
        batch_size: Number of transitions in a batch.
        updates_per_call: Number of updates, each from a batch of its own, in one compiled call.
        seed: Seed of everything that is random in the training, but for the learner's own key. Not
            negative.
        eval_frequency: Number of steps between points, at which the learner is evaluated and a
            checkpoint is written. A step is one of the environment (`train_online`) or an update
            (`train_offline`).
        n_evals: Number of episodes of an evaluation.
        eval_deterministic: Whether evaluations take the modes of the learner's distributions, rather
            than actions drawn from them, as exploration does.
        log_frequency: Number of steps between the logs of what training itself reports.
        checkpoint_dir: Folder for checkpoints, configuration and metrics, which is made absolute.
            `None` saves nothing.
        keep_checkpoints: Number of latest checkpoints to keep besides the best. `None` keeps all.
        stop_if_not_finite: Whether training ends with an error once the learner's numbers are not
            finite, which is looked at before every log and point. Otherwise it warns.
    """

    batch_size: int = checked(256, positive)
    updates_per_call: int = checked(1, positive)
    seed: int = checked(0, not_negative)
    eval_frequency: int = checked(10_000, positive)
    n_evals: int = checked(10, positive)
    eval_deterministic: bool = True
    log_frequency: int = checked(1_000, positive)
    checkpoint_dir: str | os.PathLike | None = checked(
        None, functools.partial(folder, instead=", or None to save nothing")
    )
    keep_checkpoints: int | None = checked(3, positive)
    stop_if_not_finite: bool = True

    outside: ClassVar[Collection[str]] = (
        "checkpoint_dir",
        "keep_checkpoints",
        "stop_if_not_finite",
    )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OnlineConfig(HostConfig):
    """Configuration of [`train_online`][jaxagents.host.train_online].

    The defaults are those of soft actor-critic on MuJoCo. `updates_per_call / update_frequency` is the
    number of updates to each step of the environment.

    With several environments, all numbers of steps count those of each: one step in all of `n_envs` is
    `n_envs` steps. `n_steps`, `eval_frequency` and `log_frequency` are rounded up to multiples of that.

    Attributes:
        n_steps: Number of steps of the environment.
        n_envs: Number of copies of the environment to play in at once. A vector of environments brings
            its own number.
        buffer_size: Number of most recent transitions to learn from, unless a buffer is given.
        start_steps: Number of steps at the beginning with uniformly random actions and no updates.
        update_frequency: Number of steps between calls of the learner's update.
        normalise_rewards: Whether it learns from rewards in units of the standard deviation of returns.
            The buffer, metrics and evaluations have the true ones.
    """

    n_steps: int = checked(1_000_000, positive)
    n_envs: int = checked(1, positive)
    buffer_size: int = checked(1_000_000, positive)
    start_steps: int = checked(5_000, not_negative)
    update_frequency: int = checked(1, positive)
    normalise_rewards: bool = False

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        if self.start_steps > self.n_steps:
            raise ValueError(
                f"OnlineConfig.start_steps must not exceed n_steps ({self.n_steps}), or nothing would "
                f"be learned, got {self.start_steps}."
            )

    def in_turns_of(self, n_envs: int) -> "OnlineConfig":
        """The configuration with the numbers of steps at which something happens rounded up.

        Args:
            n_envs: They become multiples of it.

        Returns:
            The configuration.
        """
        names = "n_steps", "eval_frequency", "log_frequency"
        return self.replace(**{name: -(-getattr(self, name) // n_envs) * n_envs for name in names})


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class OfflineConfig(HostConfig):
    """Configuration of [`train_offline`][jaxagents.host.train_offline].

    Attributes:
        n_updates: Number of updates.
        normalise_rewards: Whether rewards are multiplied by the length of the dataset's longest episode,
            and divided by the difference between the highest and the lowest return.
    """

    n_updates: int = checked(1_000_000, positive)
    updates_per_call: int = checked(20, positive)
    normalise_rewards: bool = False
