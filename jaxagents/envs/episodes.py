"""Episodes of an environment: action bounds, time limit and resets."""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, ArrayLike, Bool, Float, Int, Key, PyTree

from jaxagents import sharding
from jaxagents.core.arrays import (
    atleast_nd,
    in_32_bits,
    replace_rows,
    select,
    with_widths_of,
    without_weak_types,
)
from jaxagents.core.numbers import positive
from jaxagents.core.observed import ACTION_MASK, ACTOR_MASK, CRITIC_STATE, with_entries
from jaxagents.envs.environment import Environment
from jaxagents.envs.spaces import (
    Space,
    box_bounds,
    check_declared,
    is_box,
    is_discrete,
    map_spaces,
    network_space,
    parts,
)

LONGEST = 9999
"""Time limit, in steps, if neither the environment nor the agent has one."""
_MANY_ENVIRONMENTS = 256
"""With at least this many, some episode ends at nearly every step, but few end at once."""
_N_TURNS = 16
"""Roughly how many batches a CPU would need to reset all of many environments."""


class EpisodeState(struct.PyTreeNode):
    """State of an environment and of its current episode.

    Attributes:
        envstate: The environment's own state.
        step: Number of steps taken in the episode.
    """

    envstate: PyTree
    step: Any


class Timestep(NamedTuple):
    """Outcome of one step.

    Attributes:
        obs: Observation to act on next: a new episode's first one if this episode ended.
        envstate: State at `obs`.
        reward: Reward, shaped `actors_shape`.
        terminated: Whether the environment ended the episode.
        truncated: Whether a time limit ended the episode.
        next_obs: True successor, before any reset.
        info: Additional values from the environment, by name.
    """

    obs: PyTree
    envstate: EpisodeState
    reward: Float[Array, "..."]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    next_obs: PyTree
    info: dict[str, PyTree]


class InfoNames(NamedTuple):
    """Names of the info entries to keep.

    Attributes:
        final: Entries whose value at the last step of an episode is kept.
        summed: Entries that are summed over an episode.
    """

    final: tuple[str, ...] = ()
    summed: tuple[str, ...] = ()

    def of_step(self, info: dict[str, PyTree]) -> dict[str, PyTree]:
        """The kept entries of one step's info."""
        return {name: info[name] for name in (*self.final, *self.summed)}

    def on_host(self, shape: tuple[int, ...]) -> dict[str, Float[Array, "*actors"]]:
        """Zeros for the entries of a step on the host, one per actor."""
        return {name: jnp.zeros(shape, jnp.float32) for name in (*self.final, *self.summed)}

    def before_an_episode(self, info: dict[str, jax.ShapeDtypeStruct]) -> dict[str, Array]:
        """The entries before the first step of an episode, given the shapes of a step's info."""
        last = {name: jnp.zeros(info[name].shape, info[name].dtype) for name in self.final}
        sums = {name: jnp.zeros(info[name].shape, jnp.float32) for name in self.summed}
        return last | sums

    def of_episode(self, earlier: dict[str, PyTree], info: dict[str, PyTree]) -> dict[str, PyTree]:
        """Updates the entries of an episode with the info of one more step."""
        last = {name: info[name] for name in self.final}
        sums = {name: earlier[name] + info[name] for name in self.summed}
        return last | {name: x.astype(earlier[name].dtype) for name, x in sums.items()}


class Episodes:
    """One environment with its time limit and resets.

    An episode is over when the environment terminates or truncates it, or after `max_steps` steps.

    Attributes:
        env: The environment.
        max_steps: Time limit, in steps: the shorter of the environment's and the agent's.
        actors_shape: `()` for one actor, `(n_actors,)` for several.
        info_names: Names of the info entries that are kept.
        shows_critic_state: Whether observations include the input of a centralised critic.
        terminate_at_limits: Whether truncated episodes count as terminated.
        action_space: The environment's action space; `None` if undeclared.
        observation_space: The environment's observation space, without action masks; `None` if
            undeclared.
        n_categories: Number of values of a single-integer observation; `None` for any other.
        critic_space: The declared space of the entry `"critic_state"` of observations, if any.
    """

    def __init__(
        self,
        env: Environment,
        max_steps: int | None = None,
        actors_shape: tuple[int, ...] = (),
        info_names: InfoNames | None = None,
        shows_critic_state: bool = False,
        terminate_at_limits: bool = False,
    ) -> None:
        """Wraps an environment.

        Args:
            env: The environment; create one with [`as_environment`][jaxagents.envs.as_environment].
            max_steps: Time limit, in steps; `None` uses the environment's own, or 9999 if it has none.
            actors_shape: `()` for one actor, `(n_actors,)` for several.
            info_names: Names of the info entries to keep; `None` keeps none.
            shows_critic_state: Whether observations include the input of a centralised critic.
            terminate_at_limits: Whether truncated episodes count as terminated.

        Raises:
            TypeError: A declared space is not a space, or the time limit is not an integer.
            ValueError: The time limit is not positive, or observed integers do not start at 0.
        """
        name = env.wording.environment
        check_declared(env.action_space, env.observation_space, name)
        self.env = env
        self.shows_critic_state = shows_critic_state
        self.terminate_at_limits = terminate_at_limits
        self.info_names = info_names or InfoNames()
        own = None if env.max_steps is None else positive(f"{name}.max_steps", env.max_steps)
        self.max_steps = min((x for x in (max_steps, own) if x is not None), default=LONGEST)
        self.actors_shape = actors_shape
        self.action_space = env.action_space
        self._action_structure = jax.tree.structure(map_spaces(lambda space: 0, env.action_space))
        self.observation_space = space = network_space(env.observation_space)
        self.n_categories = int(space.n) if is_discrete(space) else None
        self.critic_space = (parts(env.observation_space) or {}).get(CRITIC_STATE)

    def at_update(self, update_step: ArrayLike, params: Mapping[str, ArrayLike]) -> "Episodes":
        """Returns the episodes at a given update; see `Environment.at_update`."""
        return self.within(self.env.at_update(update_step, params))

    def within(self, env: Any) -> "Episodes":
        """Returns the episodes with a different environment that has the same kind of spaces and states.

        Raises:
            TypeError: `env` is not an `Environment`.
        """
        if not isinstance(env, Environment):
            raise TypeError(
                "The environment of a rollout must be a jaxagents.envs.Environment, such as "
                f"one made from agent.episodes.env, got {env!r}."
            )
        if env is self.env:
            return self
        twin = copy.copy(self)
        twin.env = env
        return twin

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, EpisodeState]:
        """Starts an episode.

        Args:
            key: Random key.

        Returns:
            The first observation and the state.
        """
        obs, envstate = without_weak_types(self.env.reset(key))
        state = EpisodeState(envstate=envstate, step=jnp.zeros((), jnp.int32))
        return self._with_entries(in_32_bits(obs), envstate), state

    def step(self, key: Key[Array, ""], state: EpisodeState, action: PyTree) -> Timestep:
        """Takes one step, and starts the next episode if this one ended.

        Args:
            key: Random key.
            state: State of the episode.
            action: Action, which is clipped to the bounds of its space.

        Returns:
            The outcome.
        """
        step_key, reset_key = jax.random.split(key)
        timestep = self.play(step_key, state, action)
        over = timestep.terminated | timestep.truncated
        obs, envstate = select(over, self.reset(reset_key), (timestep.obs, timestep.envstate))
        return timestep._replace(obs=obs, envstate=envstate)

    def step_all(
        self, keys: Key[Array, "environments 2"], states: EpisodeState, actions: PyTree
    ) -> Timestep:
        """Takes one step in many environments, and starts the next episode where one ended.

        Args:
            keys: Random keys for the step and for the reset.
            states: States of the episodes, environments first.
            actions: Actions, environments first.

        Returns:
            The outcomes, environments first.
        """
        timestep = jax.vmap(self.play)(keys[:, 0], states, actions)
        over = timestep.terminated | timestep.truncated
        obs, envstate = sharding.on_each_device(
            self._restart, over, keys[:, 1], (timestep.obs, timestep.envstate)
        )
        return timestep._replace(obs=obs, envstate=envstate)

    def play(self, key: Key[Array, ""], state: EpisodeState, action: PyTree) -> Timestep:
        """Takes one step without starting a new episode.

        Args:
            key: Random key.
            state: State of the episode.
            action: Action, which is clipped to the bounds of its space.

        Returns:
            The outcome, with the true successor as `obs`.
        """
        if jax.tree.structure(action) == self._action_structure:
            action = map_spaces(_within_bounds, self.action_space, action)
        outcome = self.env.step(key, state.envstate, action)
        obs, envstate = without_weak_types((outcome.obs, outcome.state))
        obs, envstate = in_32_bits(obs), with_widths_of(state.envstate, envstate)
        obs = self._with_entries(obs, envstate)
        step = state.step + 1
        terminated = jnp.asarray(outcome.terminated, bool).reshape(())
        truncated = jnp.asarray(outcome.truncated, bool).reshape(()) | (step >= self.max_steps)
        if self.terminate_at_limits:
            terminated = terminated | truncated
        return Timestep(
            obs=obs,
            envstate=EpisodeState(envstate=envstate, step=step),
            reward=jnp.asarray(outcome.reward, jnp.float32).reshape(self.actors_shape),
            terminated=terminated,
            truncated=truncated & ~terminated,
            next_obs=obs,
            info=outcome.info,
        )

    def _with_entries(self, obs: PyTree, envstate: PyTree) -> PyTree:
        """Adds the state's masks and the critic's input to an observation."""
        state = in_32_bits(self.env.critic_state(envstate)) if self.shows_critic_state else None
        entries = {
            ACTION_MASK: self.env.action_mask(envstate),
            CRITIC_STATE: state,
            ACTOR_MASK: self.env.actor_mask(envstate),
        }
        return with_entries(obs, **entries)

    def _restart(
        self,
        over: Bool[Array, "environments"],
        keys: Key[Array, "environments"],
        current: tuple[PyTree, EpisodeState],
    ) -> tuple[PyTree, EpisodeState]:
        """Starts the next episode where one is over.

        With few environments, a CPU skips the resets if no episode is over; with many, it resets a few
        at a time. On an accelerator, that check would stall, so it resets all of them at every step.
        """
        n_envs = len(over)

        def reset_all(current: tuple[PyTree, EpisodeState]) -> tuple[PyTree, EpisodeState]:
            return jax.vmap(select)(over, jax.vmap(self.reset)(keys), current)

        if jax.default_backend() != "cpu":
            return reset_all(current)
        if n_envs < _MANY_ENVIRONMENTS:
            return jax.lax.cond(over.any(), reset_all, lambda current: current, current)

        def fresh(some: Int[Array, "some"]) -> tuple[PyTree, EpisodeState]:
            return jax.vmap(self.reset)(keys.at[some].get(mode="clip"))

        return replace_rows(over, current, fresh, n_envs // _N_TURNS)


def _within_bounds(space: Space, action: PyTree) -> PyTree:
    if not is_box(space):
        return action
    low, high = (atleast_nd(bound, action.ndim) for bound in box_bounds(space))
    return jnp.clip(action, low, high)
