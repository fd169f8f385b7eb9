"""Playing episodes in environments on the host, outside of training."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree, UInt8, UInt32

from jaxagents.core.compilation import Jitted, quick_jit
from jaxagents.core.metrics import Metrics
from jaxagents.engine.behaviour import Behaviour
from jaxagents.engine.program import Program
from jaxagents.envs.environment import Moment
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.on_host.environment import HostEnvironment, Terms
from jaxagents.envs.on_host.episodes import HostEpisodes
from jaxagents.envs.play import EpisodeOutcomes

_MOST_ENVS = 16
"""Maximum number of environments for evaluating an agent that does not play during training."""


class Player(NamedTuple):
    """A policy that acts in many environments at once.

    Attributes:
        act: Maps memories, observations and the number of the step to new memories and actions.
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
        player: The policy.

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


def record_one(
    episodes: HostEpisodes, seeds: UInt32[np.ndarray, "1"], player: Player
) -> UInt8[np.ndarray, "time height width 3"]:
    """Records the frames of one episode.

    Args:
        episodes: One environment, which renders.
        seeds: Its seed.
        player: The policy.

    Returns:
        RGB frames: the initial state, then one frame per step.
    """
    episodes.restart(seeds)
    carry, is_over = player.carries(1), False
    while not is_over:
        time = len(episodes.pictures) - 1
        carry, action = player.act(carry, episodes.obs, time)
        step = episodes.step(jax.tree.map(np.asarray, action))
        is_over = bool((step.terminated | step.truncated)[0])
    return np.stack(episodes.pictures)


def reset_memories(
    carry: PyTree, initial: PyTree, where: Bool[np.ndarray, "environments"]
) -> PyTree:
    """Resets memories where an episode begins."""

    def choose(carry: PyTree, initial: PyTree) -> np.ndarray:
        return np.where(where.reshape(-1, *[1] * np.ndim(initial)), initial, carry)

    return jax.tree.map(choose, carry, initial) if where.any() else carry


class HostPlayer:
    """Plays episodes with a runner's policy in environments on the host, outside of training."""

    def __init__(self, agent: Behaviour) -> None:
        """Compiles nothing yet."""
        self._behaviour, self._program = agent.behaviour, agent.program
        self._jitted = agent.programs.get(HostPlayer, lambda it: _host_player(it.program))
        self._env = cast(HostEnvironment, agent.episodes.env)
        plays = agent.behaviour.host_collection is not None
        self._most_envs = agent.config.batch_size if plays else _MOST_ENVS
        self._terms = terms_of(agent.episodes)

    def play_point(self, runner: Any) -> Metrics:
        """Plays the episodes of one evaluation point."""
        program, deterministic = self._program, self._behaviour.config.eval_deterministic
        acting = self._behaviour._acting(runner)
        return self.play(program.eval_rng, acting, program.n_evals, deterministic)

    def play(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        n_evals: int,
        deterministic: bool,
        moment: Moment | None = None,
    ) -> Metrics:
        """Plays episodes with greedy or sampled actions; `moment` is ignored on the host."""
        n_envs = max(n for n in range(1, self._most_envs + 1) if n_evals % n == 0)
        rounds = np.arange(n_evals, dtype=np.int32).reshape(-1, n_envs)
        with self._env.playing("evaluation", n_envs, self._terms) as environments:
            outcomes = [
                play_one_each(environments, *self._round(rng, episodes, acting, deterministic))
                for episodes in rounds
            ]
            environments.infos.warn()
        joined = jax.tree.map(lambda *parts: jnp.concatenate(parts), *outcomes)
        return self._program.metrics_of(joined)

    def record(
        self,
        rng: Key[Array, ""],
        acting: PyTree,
        max_steps: int,
        deterministic: bool,
        moment: Moment | None = None,
    ) -> tuple[UInt8[np.ndarray, "time height width 3"], int]:
        """Records the first episode that `play` plays; returns its frames and number of steps."""
        seeds, player = self._round(rng, np.zeros(1, np.int32), acting, deterministic)
        terms = self._terms._replace(max_steps=max_steps)
        with self._env.playing("film", 1, terms) as environment:
            pictures = record_one(environment, seeds, player)
        return pictures, len(pictures) - 1

    def _round(
        self,
        rng: Key[Array, ""],
        episodes: Int[np.ndarray, "environments"],
        acting: PyTree,
        deterministic: bool,
    ) -> tuple[UInt32[np.ndarray, "environments"], Player]:
        """The seeds of some episodes of an evaluation, and the policy that plays them."""
        jitted = self._jitted

        def act(carry: PyTree, obs: PyTree, time: int) -> tuple[PyTree, PyTree]:
            if deterministic:
                return jitted.act_greedily(acting, carry, obs)
            return jitted.act_at_random(acting, carry, obs, rng, episodes, np.int32(time))

        (root,) = jax.device_get(jax.random.bits(rng, (1,), jnp.uint32))
        seeds = [np.random.SeedSequence((int(root), int(n))).generate_state(1) for n in episodes]
        return np.concatenate(seeds), Player(act, jitted.initial_carry(acting))


class _HostPlayer(NamedTuple):
    initial_carry: Jitted
    act_greedily: Jitted
    act_at_random: Jitted


def _host_player(program: Program) -> _HostPlayer:
    return _HostPlayer(
        initial_carry=quick_jit(program.behaviour.initial_carry),
        act_greedily=jax.jit(program.act_greedily),
        act_at_random=jax.jit(program.act_at_random),
    )


def terms_of(episodes: Episodes) -> Terms:
    """Settings of an agent's episodes on the host."""
    return Terms(
        episodes.max_steps,
        episodes.shows_critic_state,
        episodes.info_names,
        episodes.terminate_at_limits,
    )
