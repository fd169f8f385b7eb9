"""The configuration that all agents share."""

import abc
import dataclasses
import functools
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from jaxagents.core.arrays import Seed, as_key
from jaxagents.core.config import StaticConfig, checked, names
from jaxagents.core.files import folder
from jaxagents.core.hyperparameters import check_known_fields, field_names
from jaxagents.core.numbers import (
    OTHER_NAMES,
    by_own_names,
    check_divides,
    check_multiple,
    counted,
    positive,
)
from jaxagents.envs.play import NAMES_OF_METRICS

_OUTSIDE = {
    "checkpoint_dir": None,
    "restore_agent": False,
    "keep_checkpoints": None,
    "stop_if_not_finite": True,
}
"""Fields that affect no compiled program, with their values for an agent without files."""
_EVALUATED_ONCE = {
    "n_steps": 1,
    "eval_frequency": 1,
    "eval_rng": None,
    "n_evals": None,
    "eval_deterministic": True,
}


class _TakesOtherNames(abc.ABCMeta):
    """Metaclass of configurations, whose constructor also accepts other names of fields."""

    if not TYPE_CHECKING:  # a type checker reads the names in the class

        def __call__(cls, *args: Any, **fields: Any) -> Any:
            """Makes a configuration."""
            return super().__call__(*args, **cls._by_own_names(fields))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Config(StaticConfig, metaclass=_TakesOtherNames):
    """Base class of the configurations of all agents. Compares and hashes by value.

    The constructor and `replace` also accept `n_updates` or `total_timesteps` for `n_steps`, and
    `n_envs` for `batch_size`. Contradicting values raise an error. You can read all of these names as
    attributes. Agents that learn from a dataset have no environments: they only accept `n_updates`, and
    the other two names read as 0.

    ```python
    config = ppo.AgentConfig(
        n_envs=16, rollout_length=128, total_timesteps=1_000_000
    )
    config.n_updates  # 489, of 2048 steps each
    ```

    Attributes:
        n_steps: Number of updates per call of `train`, including calls that continue from a runner.
        n_updates: Another name for `n_steps`.
        n_envs: Another name for `batch_size`, the number of parallel environments.
        total_timesteps: An alternative to `n_steps`: the number of environment steps over all
            environments, rounded up to whole updates. Steps before the first update do not count.
        eval_frequency: Number of updates between evaluations.
        eval_rng: Random key or seed of the evaluations during training; every evaluation plays
            episodes with the same seeds. `None` means key 0.
        n_evals: Number of episodes per evaluation during training. `None` means 32, or 10 if
            environments are stepped on the host.
        eval_deterministic: Whether evaluations during training take greedy actions instead of sampling
            them.
        max_episode_steps: Steps after which an episode is truncated, unless the environment truncates
            it earlier. `None` means the environment's own limit, or 9999 if it has none.
        terminate_at_limits: Whether to treat truncation as termination, without bootstrapping from the
            last state. Use it for episodes of a fixed length, if the agent can tell how much time is
            left, as agents with a memory can.
        final_info: Names of entries in the environment's `info` whose values at the last step of each
            episode become metrics, such as whether it was won.
        summed_info: Names of entries whose sums over each episode become metrics, such as costs.
            Rollouts of on-policy agents contain both, as `traj.info`. On the host, both are float32.
        checkpoint_dir: Folder for checkpoints, configuration and metrics; becomes an absolute path.
            `None` saves nothing.
        restore_agent: Whether `checkpoint_dir` may already contain checkpoints.
        keep_checkpoints: Number of recent checkpoints to keep, besides the best. `None` keeps all.
        n_groups: Number of groups of environments (or dataset rows); samples are mixed within groups.
            The devices of a mesh split the groups, so that no sample has to leave its device. Results
            depend on this number, but not on the number of devices.
        replicated_updates: Whether every device of a mesh learns from all samples, instead of averaging
            the gradients that each device computes from its own. Results are then bit-for-bit identical
            on any number of devices, but more devices only speed up collection.
        stop_if_not_finite: Whether to end the run with an error when parameters, losses, gradient
            norms, observations or rewards become non-finite. `False` only warns.
    """

    n_steps: int = checked(200, positive)
    eval_frequency: int = checked(1, positive)
    eval_rng: Seed | None = checked(None, lambda _, rng: as_key(rng))
    n_evals: int | None = checked(None, positive)
    eval_deterministic: bool = True
    max_episode_steps: int | None = checked(None, positive)
    terminate_at_limits: bool = False
    final_info: tuple[str, ...] = checked((), names)
    summed_info: tuple[str, ...] = checked((), names)
    checkpoint_dir: str | os.PathLike | None = checked(
        None, functools.partial(folder, instead=", or None to save nothing")
    )
    restore_agent: bool = False
    keep_checkpoints: int | None = checked(5, positive)
    n_groups: int = checked(1, positive)
    replicated_updates: bool = False
    stop_if_not_finite: bool = True

    if TYPE_CHECKING:  # properties that read other fields
        n_updates: int = 0
        n_envs: int = 0
        total_timesteps: int = 0
    else:
        n_updates = property(lambda self: self.n_steps)
        n_envs = property(lambda self: self.batch_size)
        total_timesteps = property(lambda self: self.n_steps * self.steps_per_update)

    batch_size: ClassVar[int] = 0
    rollout_length: ClassVar[int] = 0
    """Zero for agents that learn from a dataset. Other agents declare them as fields."""

    outside: ClassVar[Collection[str]] = tuple(_OUTSIDE)

    shared_out: ClassVar[tuple[str, ...]] = ("n_groups",)
    """Fields that groups and devices must divide."""

    def __post_init__(self) -> None:
        """Validates the fields.

        Raises:
            TypeError: A field holds a traced value, or a number of the wrong type.
            ValueError: A number is out of range, or fields contradict each other.
        """
        super().__post_init__()
        if self.restore_agent and self.checkpoint_dir is None:
            raise ValueError(
                f"{type(self).__name__}: restore_agent=True needs a checkpoint_dir to continue "
                "from, such as checkpoint_dir='runs/1'."
            )
        for name in self.shared_out:
            check_divides(
                f"{type(self).__name__}.n_groups", self.n_groups, getattr(self, name), name
            )
        named = [*self.final_info, *self.summed_info]
        taken = [name for name in named if name in NAMES_OF_METRICS or named.count(name) > 1]
        if taken:
            raise ValueError(
                f"final_info and summed_info name {taken}, which are names of other metrics, or "
                "named twice: rename them in the environment's info."
            )

    @property
    def steps_per_update(self) -> int:
        """Environment steps per update, over all environments; 0 when learning from a dataset."""
        return self.batch_size * self.rollout_length

    def amount(self, n_updates: int) -> str:
        """Describes the steps that updates take: `2 updates x 8 steps = 16 environment steps`."""
        steps = self.steps_per_update
        each, total = counted(steps, "step"), counted(n_updates * steps, "environment step")
        return f"{counted(n_updates, 'update')} x {each} = {total}"

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields changed; other names of fields work too."""
        return dataclasses.replace(self, **self._by_own_names(changes, self))

    @classmethod
    def other_names(cls) -> list[str]:
        """Names that the constructor and `replace` accept besides the field names."""
        own = field_names(cls)
        others = OTHER_NAMES if "batch_size" in own else ("n_updates",)
        return [name for name in others if name not in own]

    @classmethod
    def _by_own_names(cls, given: Mapping[str, Any], current: Self | None = None) -> dict[str, Any]:
        """Checks fields and translates their other names.

        Args:
            given: Values by field name or other name.
            current: The configuration that they change.

        Raises:
            TypeError: A name is unknown, or a number is not an integer.
            ValueError: Numbers contradict each other, or are not positive.
        """
        own, others = field_names(cls), cls.other_names()
        check_known_fields(cls, given, [*own, *others])
        fields = dict(given)
        if fields.keys() >= set(own):  # dataclasses.replace also passes the unchanged fields
            for field in {OTHER_NAMES[x] for x in others if x in given}:
                del fields[field]
        sizes = cls if current is None else current
        of_update = {name: getattr(sizes, name) for name in ("batch_size", "rollout_length")}
        return by_own_names(cls.__name__, fields, others, of_update)

    def check_devices(self, n_devices: int) -> None:
        """Raises if the devices cannot share the work equally.

        Args:
            n_devices: Number of devices along the mesh axis that splits it.

        Raises:
            ValueError: They cannot; the error suggests numbers that work.
        """
        what = f"the {n_devices} devices that share a run"
        for name in self.shared_out:
            check_multiple(f"{type(self).__name__}.{name}", getattr(self, name), n_devices, what)

    def without_files(self) -> Self:
        """A copy without the settings for files."""
        return dataclasses.replace(self, **_OUTSIDE)

    def updates(self) -> "Config":
        """The same updates, without settings for checkpoints, evaluations and the number of updates."""
        return dataclasses.replace(self.without_files(), **_EVALUATED_ONCE)
