"""Episodes of an environment: actions into bounds, the time limit, and the reset."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Key

from jaxagents import sharding
from jaxagents.core.arrays import without_weak_types
from jaxagents.envs.spaces import box_bounds, is_box

_MANY_ENVIRONMENTS = 256
"""Few episodes of so many end in one step, and a CPU is faster if it starts few at a time."""
_TURNS_OF_ALL = 16
"""About so many turns start the episodes of all environments."""


class EpisodeState(struct.PyTreeNode):
    """State of an environment and of the episode played in it.

    Attributes:
        envstate: The environment's own state.
        step: Number of steps taken in the episode.
    """

    envstate: Any
    step: Any


class Timestep(NamedTuple):
    """Outcome of one step.

    Attributes:
        obs: Observation to act on next: of a new episode if this one ended.
        envstate: State that belongs to `obs`.
        reward: Reward, shaped `actors_shape`.
        terminated: Whether the environment ended the episode.
        truncated: Whether a time limit cut the episode.
        next_obs: True successor, before any reset.
        info: What the environment reports.
    """

    obs: Any
    envstate: EpisodeState
    reward: Float[Array, "..."]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    next_obs: Any
    info: dict[str, Any]


class Episodes:
    """One environment with its time limit and resets, for any that gives `reset_env` and `step_env`.

    A step's fourth value says that the environment terminated. Where the environment reports
    `info["truncated"]`, a done step that it calls truncated has not terminated, unless
    `info["terminated"]` says so. An episode is also truncated where `env.is_truncated` says so
    (gymnax), after `env_params.max_steps_in_episode` steps if there is such a parameter, and after
    `max_steps` steps.

    Attributes:
        action_space: The environment's space of actions, `None` if it declares none.
        observation_space: The environment's space of observations, `None` if it declares none.
    """

    action_space: Any
    observation_space: Any

    def __init__(
        self, env: Any, env_params: Any, max_steps: int, actors_shape: tuple[int, ...] = ()
    ) -> None:
        """Wraps an environment.

        Args:
            env: The environment.
            env_params: Its parameters.
            max_steps: Longest episode, in steps.
            actors_shape: `()` for one actor, `(n_actors,)` for several.
        """
        self.env = env
        self.env_params = env_params
        self.actors_shape = actors_shape
        self.max_steps = min(max_steps, _own_limit(env_params))
        self._asks_env = self._env_reports_truncation()
        self.action_space = _space(env, "action_space", env_params)
        self.observation_space = _space(env, "observation_space", env_params)
        self._bounds = box_bounds(self.action_space) if is_box(self.action_space) else None

    def reset(self, key: Key[Array, ""]) -> tuple[Any, EpisodeState]:
        """Starts an episode.

        Args:
            key: Random key.

        Returns:
            The first observation and the state.
        """
        obs, envstate = self.env.reset_env(key, self.env_params)
        obs, envstate = without_weak_types((obs, envstate))
        return obs, EpisodeState(envstate=envstate, step=jnp.zeros((), jnp.int32))

    def step(self, key: Key[Array, ""], state: EpisodeState, action: Any) -> Timestep:
        """Takes one step, and starts the next episode if this one ended.

        Args:
            key: Random key.
            state: State of the episode.
            action: Action; values outside of a box action space are clipped to it.

        Returns:
            The outcome.
        """
        step_key, reset_key = jax.random.split(key)
        played = self.play(step_key, state, action)
        over = played.terminated | played.truncated
        obs, envstate = _select(over, self.reset(reset_key), (played.obs, played.envstate))
        return played._replace(obs=obs, envstate=envstate)

    def step_all(
        self, keys: Key[Array, "environments 2"], states: EpisodeState, actions: Any
    ) -> Timestep:
        """Takes one step in many environments, and starts the next episode where one ended.

        Args:
            keys: Random keys of the step and of the reset.
            states: States of the episodes, environments first.
            actions: Actions, environments first.

        Returns:
            The outcomes, environments first.
        """
        played = jax.vmap(self.play)(keys[:, 0], states, actions)
        over = played.terminated | played.truncated
        obs, envstate = sharding.on_each_device(
            self._restart, over, keys[:, 1], (played.obs, played.envstate)
        )
        return played._replace(obs=obs, envstate=envstate)

    def play(self, key: Key[Array, ""], state: EpisodeState, action: Any) -> Timestep:
        """Takes one step without starting a new episode.

        Args:
            key: Random key.
            state: State of the episode.
            action: Action; values outside of a box action space are clipped to it.

        Returns:
            The outcome, whose `obs` is the true successor.
        """
        if self._bounds is not None:
            action = jnp.clip(action, *self._bounds)
        obs, envstate, reward, done, info = self.env.step_env(
            key, state.envstate, action, self.env_params
        )
        obs, envstate = without_weak_types((obs, envstate))
        done = jnp.asarray(done, bool).reshape(())
        step = state.step + 1

        reported = jnp.asarray(info.get("truncated", False), bool).reshape(())
        terminated = jnp.asarray(info.get("terminated", done & ~reported), bool).reshape(())
        truncated = reported | (step >= self.max_steps)
        if self._asks_env:
            truncated |= jnp.asarray(self.env.is_truncated(envstate, self.env_params), bool)
        return Timestep(
            obs=obs,
            envstate=EpisodeState(envstate=envstate, step=step),
            reward=jnp.asarray(reward, jnp.float32).reshape(self.actors_shape),
            terminated=terminated,
            truncated=truncated & ~terminated,
            next_obs=obs,
            info=info,
        )

    def _restart(
        self,
        over: Bool[Array, "environments"],
        keys: Key[Array, "environments"],
        played_on: tuple[Any, EpisodeState],
    ) -> tuple[Any, EpisodeState]:
        """Starts the next episode where one is over; nowhere, without any reset, if none is."""

        def with_restarts(played_on: tuple[Any, EpisodeState]) -> tuple[Any, EpisodeState]:
            return jax.vmap(_select)(over, jax.vmap(self.reset)(keys), played_on)

        if len(over) >= _MANY_ENVIRONMENTS and jax.default_backend() == "cpu":
            return self._restart_in_turn(over, keys, played_on)
        return jax.lax.cond(over.any(), with_restarts, lambda played_on: played_on, played_on)

    def _restart_in_turn(
        self,
        over: Bool[Array, "environments"],
        keys: Key[Array, "environments"],
        played_on: tuple[Any, EpisodeState],
    ) -> tuple[Any, EpisodeState]:
        """Starts the next episode where one is over, in a few environments at a time."""
        n_envs = len(over)

        def restart_some(state: tuple[Any, Any]) -> tuple[Any, Any]:
            over, _ = state
            (some,) = jnp.nonzero(over, size=n_envs // _TURNS_OF_ALL, fill_value=n_envs)
            fresh = jax.vmap(self.reset)(keys.at[some].get(mode="clip"))
            return jax.tree.map(
                lambda x, new: x.at[some].set(new, mode="drop"), state, (False, fresh)
            )

        _, played_on = jax.lax.while_loop(
            lambda state: state[0].any(), restart_some, (over, played_on)
        )
        return played_on

    def _env_reports_truncation(self) -> bool:
        if not hasattr(self.env, "is_truncated"):
            return False
        try:
            _, state = jax.eval_shape(
                lambda key: self.env.reset_env(key, self.env_params), jax.random.key(0)
            )
            jax.eval_shape(lambda state: self.env.is_truncated(state, self.env_params), state)
        except (AttributeError, NotImplementedError):
            return False
        return True


def _select(condition: Bool[Array, ""], if_true: Any, if_false: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), if_true, if_false)


def _space(env: Any, name: str, env_params: Any) -> Any:
    space = getattr(env, name, None)
    return None if space is None else space(env_params)


def _own_limit(env_params: Any) -> int | float:
    limit = getattr(env_params, "max_steps_in_episode", None)
    return float("inf") if limit is None else int(limit)
