"""Actions in a learner's units, and in those of an environment."""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from jaxagents.core.arrays import atleast_nd
from jaxagents.envs.checks import check_action_mask
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.spaces import (
    Space,
    box_bounds,
    check_components,
    is_bounded,
    is_box,
    is_discrete,
)


class Units(NamedTuple):
    r"""The units of actions, which for a learner are discrete, or in $[-1, 1]^n$ in place of a box.

    Attributes:
        space: The environment's space of actions.
    """

    space: Space

    @property
    def is_discrete(self) -> bool:
        """Whether actions are discrete."""
        return is_discrete(self.space)

    @property
    def n_actions(self) -> int | None:
        """Number of discrete actions."""
        return int(self.space.n) if self.is_discrete else None

    @property
    def zero(self) -> Array:
        """An action of the learner."""
        if self.is_discrete:
            return jnp.zeros((), jnp.int32)
        return jnp.zeros(math.prod(self.space.shape), jnp.float32)

    def to_environment(self, actions: Array) -> Array:
        """Actions of the environment, from those of the learner."""
        if self.is_discrete:
            return actions
        low, high = box_bounds(self.space)
        actions = actions.reshape(*actions.shape[:-1], *self.space.shape)
        low, high = (atleast_nd(bound, actions.ndim) for bound in (low, high))
        return actions * (0.5 * (high - low)) + 0.5 * (low + high)

    def to_learner(self, actions: Array) -> Array:
        """Actions of the learner, from those of the environment."""
        if self.is_discrete:
            return actions
        low, high = box_bounds(self.space)
        batch = actions.shape[: actions.ndim - low.ndim]
        low, high = (atleast_nd(bound, actions.ndim) for bound in (low, high))
        units = ((actions * 2.0 - (high + low)) / (high - low)).clip(-1.0, 1.0)
        return units.reshape(*batch, -1)

    def within_bounds(self, actions: Array) -> Array:
        """Actions of the learner, clipped to [-1, 1] in a box."""
        return actions if self.is_discrete else jnp.clip(actions, -1.0, 1.0)


def check_action_space(agent: str, episodes: Episodes, takes: dict[str, bool]) -> None:
    """Raises unless an agent can act in the space of actions of an environment.

    Args:
        agent: Name of the agent.
        episodes: Episodes in the environment.
        takes: Whether the agent takes actions that are `"discrete"`, and those of a `"box"`.

    Raises:
        ValueError: It cannot.
    """
    space, environment = episodes.action_space, episodes.env.wording.environment
    if space is None:
        raise ValueError(f"{agent} needs {environment}.action_space, which it lacks.")
    check_action_mask(episodes)
    kind = "discrete" if is_discrete(space) else "box" if is_box(space) else "other"
    if not takes.get(kind):
        acts_in = " and ".join(kind for kind, is_taken in takes.items() if is_taken)
        raise ValueError(
            f"{agent} acts in {acts_in} spaces, but {environment}.action_space is {space!r}."
        )
    check_components(space, f"{environment}.action_space")
    if kind == "box" and not (is_bounded(space) and math.prod(space.shape)):
        raise ValueError(
            f"{agent} needs a box of actions with finite bounds, but {environment}.action_space is "
            f"{space!r}."
        )
