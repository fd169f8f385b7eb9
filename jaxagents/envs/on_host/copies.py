"""Copies of an environment on the host that take their steps together."""

import abc
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, PyTree, UInt8

from jaxagents.envs.on_host.infos import Infos, Numbers
from jaxagents.envs.spaces import Space


class VectorStep(NamedTuple):
    """The outcome of one step of all environments.

    Attributes:
        obs: Observations to act on next.
        next_obs: The true successors, before any reset.
        reward: Rewards, with several actors one for each.
        terminated: Where the environment ended the episode.
        truncated: Where a limit cut it.
        counts: Where an action was taken; elsewhere the next episode was started instead.
        info: The entries that are kept of the infos, by name.
    """

    obs: PyTree
    next_obs: PyTree
    reward: Float[np.ndarray, "environments *actors"]
    terminated: Bool[np.ndarray, "environments"]
    truncated: Bool[np.ndarray, "environments"]
    counts: Bool[np.ndarray, "environments"]
    info: dict[str, Numbers]

    @property
    def starts(self) -> Bool[np.ndarray, "environments"]:
        """Where the next action is the first of an episode, or is not taken at all."""
        return self.terminated | self.truncated | ~self.counts


class Copies(abc.ABC):
    """Copies of an environment.

    Attributes:
        n_envs: Number of environments.
        given: What a user made of them, who also closes it, and may have others play in it; `None` if
            there is nothing.
        starts_episodes: Whether they start the next episode by themselves.
        action_space: Space of the actions of one environment; with several actors, of one of these.
        infos: Reads what is kept of the infos.
    """

    n_envs: int
    given: object | None
    starts_episodes: bool
    action_space: Space
    infos: Infos

    @property
    @abc.abstractmethod
    def environments(self) -> list[object]:
        """The environments themselves, without wrappers, as far as they are in this process."""

    @abc.abstractmethod
    def reset(self, seeds: Sequence[int | None], where: Bool[np.ndarray, "environments"]) -> PyTree:
        """Starts episodes.

        Args:
            seeds: A seed for each environment; `None` where no episode starts.
            where: In which of them; in all, if they start episodes by themselves.

        Returns:
            The current observations of all environments.
        """

    @abc.abstractmethod
    def step(self, actions: PyTree) -> VectorStep:
        """Takes one step in every environment.

        Args:
            actions: Actions, environments first.

        Returns:
            The outcome.
        """

    @abc.abstractmethod
    def picture(self) -> UInt8[np.ndarray, "height width 3"]:
        """A picture of the first environment."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the environments, unless a user made them."""


def check_distinct(envs: Collection[object], others: Collection[object] = ()) -> None:
    """Raises if an environment is to be played in twice at once.

    Args:
        envs: Environments that are to be played in together.
        others: Environments in which others play.

    Raises:
        ValueError: One is there twice.
    """
    seen = set(map(id, others))
    for env in envs:
        if id(env) in seen:
            raise ValueError(
                f"The same {type(env).__qualname__} is there twice, whose episodes would disturb each "
                "other: make a new one each time, as `lambda: MyEnv()` and "
                "`[MyEnv() for _ in range(n)]` do, and `lambda: env` and `[env] * n` do not."
            )
        seen.add(id(env))
