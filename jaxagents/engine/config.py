"""The configuration that all agents share."""

import dataclasses
import os
from collections.abc import Collection
from typing import ClassVar, Self

from jaxagents.core.config import StaticConfig
from jaxagents.core.keys import RandomKey
from jaxagents.core.numbers import multiples_near

_OUTSIDE = {
    "checkpoint_dir": None,
    "restore_agent": False,
    "keep_checkpoints": None,
    "stop_if_not_finite": True,
}
"""Fields that concern no compiled program, with the values that they have without files."""
_EVALUATED_ONCE = {
    "n_steps": 1,
    "eval_frequency": 1,
    "eval_rng": None,
    "n_evals": None,
    "eval_deterministic": True,
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Config(StaticConfig):
    """Base of the configurations of all agents. Compares and hashes by value.

    Attributes:
        n_steps: Number of update steps that `train` makes (additional ones when it goes on from a
            runner).
        eval_frequency: Number of update steps between evaluations.
        eval_rng: Random key of the evaluations during training; every evaluation plays
            episodes of the same seeds. `None` is key 0.
        n_evals: Number of episodes of an evaluation during training. `None` is 32, and 10 where
            environments are stepped on the host.
        eval_deterministic: Whether evaluations during training play the greedy actions, rather than
            actions drawn from the policy.
        max_episode_steps: Steps after which an episode is truncated, if the environment does not
            truncate it earlier.
        terminate_at_limits: Whether a truncated episode counts as terminated, so that its last successor
            is worth nothing. Right for agents that can tell the time, as those with a memory can, in
            episodes of a fixed length.
        final_info: Names of entries of the environment's `info` whose values at the last step of each
            episode are among the metrics, such as whether it was won.
        summed_info: Names of entries whose sums over each episode are, such as costs. Rollouts of
            on-policy agents hold both (`traj.info`). On the host they are numbers of single precision.
        checkpoint_dir: Folder for checkpoints, configuration and metrics, which is made absolute.
            `None` saves nothing.
        restore_agent: Whether `checkpoint_dir` may already hold checkpoints.
        keep_checkpoints: Number of latest checkpoints to keep besides the best. `None` keeps all.
        n_groups: Number of groups of environments (or of a dataset's rows), within which samples are
            mixed. The devices of a mesh share out the groups, so that no sample has to leave its device.
            Results depend on it, but not on the number of devices.
        replicated_updates: Whether every device of a mesh learns from the samples of all of them,
            instead of taking the mean of the gradients that each computes from its own. Training is then
            bit for bit the same on any number of devices, but more of them speed up collecting only.
        stop_if_not_finite: Whether training ends with an error once parameters, losses, gradient norms,
            observations or rewards are not finite numbers. Otherwise it warns.
    """

    n_steps: int = 200
    eval_frequency: int = 1
    eval_rng: RandomKey | None = None
    n_evals: int | None = None
    eval_deterministic: bool = True
    max_episode_steps: int = 9999
    terminate_at_limits: bool = False
    final_info: tuple[str, ...] = ()
    summed_info: tuple[str, ...] = ()
    checkpoint_dir: str | os.PathLike | None = None
    restore_agent: bool = False
    keep_checkpoints: int | None = 5
    n_groups: int = 1
    replicated_updates: bool = False
    stop_if_not_finite: bool = True

    outside: ClassVar[Collection[str]] = tuple(_OUTSIDE)

    shared_out: ClassVar[tuple[str, ...]] = ("n_groups",)
    """Fields whose numbers the devices of a mesh share out."""

    def __post_init__(self) -> None:
        """Validates the fields.

        Raises:
            TypeError: A field holds a traced value, or a number of the wrong type.
            ValueError: A number is out of range, or fields do not fit together.
        """
        super().__post_init__()
        self._check_positive(
            "n_steps",
            "eval_frequency",
            "n_evals",
            "max_episode_steps",
            "keep_checkpoints",
            "n_groups",
        )
        self._check_names("final_info")
        self._check_names("summed_info")
        self._check_folder("checkpoint_dir")
        if self.restore_agent and self.checkpoint_dir is None:
            raise ValueError(
                f"{type(self).__name__}: restore_agent=True needs a checkpoint_dir that it may go on "
                "from, such as checkpoint_dir='runs/1'."
            )

    def check_devices(self, n_devices: int) -> None:
        """Raises if that many devices cannot share the work equally.

        Args:
            n_devices: Number of devices along the axis of a mesh over which it is split.

        Raises:
            ValueError: They cannot; the error names numbers that would do.
        """
        for name in self.shared_out:
            number = getattr(self, name)
            if number % n_devices:
                raise ValueError(
                    f"{type(self).__name__}.{name} must be a multiple of the {n_devices} devices that "
                    f"share a training, got {number}; {multiples_near(number, n_devices)}."
                )

    def without_files(self) -> Self:
        """The same computation without anything that concerns files."""
        return dataclasses.replace(self, **_OUTSIDE)

    def updates(self) -> "Config":
        """The same updates, without anything that concerns files, evaluations and how many they are."""
        return dataclasses.replace(self.without_files(), **_EVALUATED_ONCE)

    def _check_divides(self, divisor: str, dividend: str) -> None:
        small, large = getattr(self, divisor), getattr(self, dividend)
        if large % small:
            divisors = [n for n in range(1, large + 1) if large % n == 0]
            raise ValueError(
                f"{type(self).__name__}.{divisor} must divide {dividend}: {large} is not a multiple "
                f"of {small}. Values of {divisor} that would: {', '.join(map(str, divisors))}."
            )
