"""Episodes that a fixed policy plays on the host."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, PyTree, UInt8, UInt32

from jaxagents.envs.on_host.episodes import HostEpisodes
from jaxagents.envs.play import EpisodeOutcomes


class Player(NamedTuple):
    """A policy that acts in many environments at once.

    Attributes:
        act: Maps memories, observations and the number of the step to the memories afterwards and the
            actions.
        initial: The memory at the start of an episode; `()` for none.
    """

    act: Callable[[PyTree, PyTree, int], tuple[PyTree, PyTree]]
    initial: PyTree

    def carries(self, n_envs: int) -> PyTree:
        """The memories at the start of an episode in each environment."""
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (n_envs, *x.shape)), self.initial)


def play_one_each(
    episodes: HostEpisodes, seeds: UInt32[np.ndarray, "environments"], player: Player
) -> EpisodeOutcomes:
    """Plays one episode in each environment.

    Args:
        episodes: The environments.
        seeds: Their seeds.
        player: What acts.

    Returns:
        The outcomes.
    """
    n_envs = len(seeds)
    episodes.restart(seeds)
    carry = player.carries(n_envs)
    returns = final_rewards = np.zeros((), np.float32)
    terminated, truncated = np.zeros((2, n_envs), bool)
    lengths = np.zeros(n_envs, np.int32)
    info, time = None, 0
    while not (over := terminated | truncated).all():
        carry, action = player.act(carry, episodes.obs, time)
        step = episodes.step(jax.tree.map(np.asarray, action))
        time += 1
        goes_on = ~over.reshape(-1, *[1] * (step.reward.ndim - 1))
        returns = np.where(goes_on, returns + step.reward, returns)
        final_rewards = np.where(goes_on, step.reward, final_rewards)
        after = episodes.infos.of_episode(info, step.info)
        info = {name: np.where(goes_on, x, (info or after)[name]) for name, x in after.items()}
        lengths[~over] = time
        terminated[~over] = step.terminated[~over]
        truncated[~over] = step.truncated[~over]
    numbers = returns, final_rewards, terminated, truncated, lengths
    return EpisodeOutcomes(*map(jnp.asarray, numbers), info=jax.tree.map(jnp.asarray, info or {}))


def film_one(
    episodes: HostEpisodes, seeds: UInt32[np.ndarray, "1"], player: Player
) -> UInt8[np.ndarray, "time height width 3"]:
    """Draws one episode.

    Args:
        episodes: One environment, which draws.
        seeds: Its seed.
        player: What acts.

    Returns:
        A picture of the start, and one of each step.
    """
    episodes.restart(seeds)
    carry, is_over = player.carries(1), False
    while not is_over:
        time = len(episodes.pictures) - 1
        carry, action = player.act(carry, episodes.obs, time)
        step = episodes.step(jax.tree.map(np.asarray, action))
        is_over = bool((step.terminated | step.truncated)[0])
    return np.stack(episodes.pictures)


def begun_again(carry: PyTree, initial: PyTree, where: Bool[np.ndarray, "environments"]) -> PyTree:
    """Memories, with the initial one where an episode begins."""

    def choose(carry: PyTree, initial: PyTree) -> np.ndarray:
        return np.where(where.reshape(-1, *[1] * np.ndim(initial)), initial, carry)

    return jax.tree.map(choose, carry, initial) if where.any() else carry
