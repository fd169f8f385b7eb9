"""Environment wrappers that show agents more of the past."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Key, PyTree, UInt8

from jaxagents.core.numbers import positive
from jaxagents.core.observed import (
    OBSERVATION,
    extra_entries,
    network_input,
    with_entries,
)
from jaxagents.envs.adapters import as_environment
from jaxagents.envs.environment import Environment, Step, Wording
from jaxagents.envs.spaces import (
    Box,
    Composite,
    MultiDiscrete,
    Space,
    box_bounds,
    check_declared,
    is_box,
    is_discrete,
    is_multi_discrete,
    network_space,
    parts,
)

WrapperT = TypeVar("WrapperT", bound="Wrapper")


class WrapperState(NamedTuple):
    """State of a wrapped environment.

    Attributes:
        envstate: State of the wrapped environment.
        past: The wrapper's own memory of the episode.
    """

    envstate: PyTree
    past: PyTree


class Wrapper(Environment):
    """Base class of wrappers; by default, they keep actions, rewards, masks and rendering.

    Attributes:
        env: The wrapped environment.
    """

    def __init__(self, env: Any, params: PyTree = None) -> None:
        """Wraps an environment.

        Args:
            env: Anything that an agent accepts as an environment, including wrapped ones.
            params: The environment's parameters, as for an agent.

        Raises:
            TypeError: The environment is stepped on the host.
            ValueError: Observed integers do not start at 0.
        """
        self.env = as_environment(env, params)
        if self.env.on_host:
            raise TypeError(
                f"{type(self).__name__} wraps compiled environments, but {self.env.name} runs "
                "on the host: wrap it in one of gymnasium.wrappers instead, such as "
                "FrameStackObservation, before passing it to an agent."
            )
        declared = self.env.action_space, self.env.observation_space
        check_declared(*declared, self.env.wording.environment)
        self.n_actors = self.env.n_actors
        self.action_space = self.env.action_space
        self.max_steps = self.env.max_steps
        self.params = self.env.params
        self.render_fps = self.env.render_fps

    def at_update(self, update_step: ArrayLike, params: Mapping[str, ArrayLike]) -> Environment:
        """Returns the wrapped environment at a given update; see `Environment`."""
        inside = self.env.at_update(update_step, params)
        return self if inside is self.env else self._around(inside)

    def _around(self: WrapperT, inside: Environment) -> WrapperT:
        """The same wrapper around another environment of the same kind."""
        other = copy.copy(self)
        other.env, other.params = inside, inside.params
        return other

    @property
    def against(self) -> Callable[[Any], Environment]:
        """Returns the same game against another opponent, who sees the wrapped game's observations.

        Only available if the wrapped environment has this method.
        """
        inside: Any = self.env
        replaced = inside.against
        return lambda opponent: self._around(replaced(opponent))

    def _env_of(self, state: WrapperState) -> Environment:
        """The wrapped environment in a given state."""
        return self.env

    def render(self, state: WrapperState) -> UInt8[np.ndarray, "height width 3"]:
        """Draws a state with the wrapped environment."""
        return self._env_of(state).render(state.envstate)

    @property
    def can_draw(self) -> bool:
        """Whether the wrapped environment draws."""
        return self.env.can_draw

    @property
    def wording(self) -> Wording:
        """How messages name the wrapped environment."""
        return self.env.wording

    def action_mask(self, state: WrapperState) -> PyTree:
        """The actions allowed in a state, from the wrapped environment."""
        return self._env_of(state).action_mask(state.envstate)

    def critic_state(self, state: WrapperState) -> PyTree:
        """The input of a centralised critic, from the wrapped environment."""
        return self._env_of(state).critic_state(state.envstate)

    def actor_mask(self, state: WrapperState) -> Bool[Array, "actors"] | None:
        """The actors still playing, from the wrapped environment."""
        return self._env_of(state).actor_mask(state.envstate)

    def _network_input(self, obs: PyTree) -> PyTree:
        """An observation without masks; a single integer becomes one-hot."""
        space, obs = network_space(self.env.observation_space), network_input(obs)
        return jax.nn.one_hot(obs, int(space.n)) if is_discrete(space) else obs

    @property
    def _input_space(self) -> Space:
        """The space of `_network_input`."""
        space = network_space(self.env.observation_space)
        return _box(0.0, 1.0, (int(space.n),)) if is_discrete(space) else space


class FrameStack(Wrapper):
    """Stacks the most recent observations, newest last.

    ```python
    agent = PPO(FrameStack(env, 4, env_params), None, config)
    ```

    They are concatenated along the last axis: vectors get longer, and images get more channels, which
    must come last. An episode begins with copies of its first observation. Replay buffers store the
    whole stack for every step.
    """

    def __init__(self, env: Any, n_frames: int = 4, params: PyTree = None) -> None:
        """Wraps an environment.

        Args:
            env: Anything that an agent accepts as an environment.
            n_frames: Number of observations to stack.
            params: The environment's parameters, as for an agent.
        """
        super().__init__(env, params)
        self.n_frames = positive("n_frames", n_frames)
        self.observation_space = _stacked_space(self._input_space, self.n_frames)

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, WrapperState]:
        """Starts an episode; see `Environment`."""
        obs, envstate = self.env.reset(key)
        frames = jax.tree.map(
            lambda x: jnp.concatenate([jnp.atleast_1d(x)] * self.n_frames, axis=-1),
            self._network_input(obs),
        )
        return with_entries(frames, **extra_entries(obs)), WrapperState(envstate, frames)

    def step(self, key: Key[Array, ""], state: WrapperState, action: PyTree) -> Step:
        """Takes one step; see `Environment`."""
        step = self.env.step(key, state.envstate, action)

        def shifted(frames: Array, x: PyTree) -> Array:
            new = jnp.atleast_1d(x).astype(frames.dtype)
            return jnp.concatenate([frames[..., new.shape[-1] :], new], axis=-1)

        frames = jax.tree.map(shifted, state.past, self._network_input(step.obs))
        return step._replace(
            obs=with_entries(frames, **extra_entries(step.obs)),
            state=WrapperState(step.state, frames),
        )

    @property
    def name(self) -> str:
        """The name of the wrapped environment and the number of frames."""
        return f"{self.env.name}, {self.n_frames} frames"


class WithPrevious(Wrapper):
    """Adds the previous action and its reward to observations.

    ```python
    agent = PPO(WithPrevious(env, env_params), None, config)
    ```

    An observation is a dict with `observation`, `previous_action` (one-hot if discrete) and
    `previous_reward` (an array of one number, per actor). The last two are zero at the start of an
    episode.
    """

    def __init__(
        self, env: Any, params: PyTree = None, *, action: bool = True, reward: bool = True
    ) -> None:
        """Wraps an environment.

        Args:
            env: Anything that an agent accepts as an environment.
            params: The environment's parameters, as for an agent.
            action: Whether to add the action.
            reward: Whether to add the reward.

        Raises:
            ValueError: Both are false, or actions are neither discrete nor continuous.
        """
        super().__init__(env, params)
        if not (action or reward):
            raise ValueError("WithPrevious shows nothing: set action or reward to True.")
        space = self.env.action_space
        if action and not (is_discrete(space) or is_box(space)):
            raise ValueError(
                "WithPrevious shows discrete and continuous actions, but the action_space of "
                f"{self.env.wording.environment} is {space!r}: pass action=False."
            )
        self.shows_action, self.shows_reward = bool(action), bool(reward)
        if self._input_space is not None:
            spaces = {OBSERVATION: self._input_space, **self._spaces_of_past()}
            self.observation_space = Composite(spaces)

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, WrapperState]:
        """Starts an episode; see `Environment`."""
        obs, envstate = self.env.reset(key)
        shapes = {name: space.shape for name, space in self._spaces_of_past().items()}
        past = {name: jnp.zeros(shape, jnp.float32) for name, shape in shapes.items()}
        return self._with_past(past, obs), WrapperState(envstate, ())

    def step(self, key: Key[Array, ""], state: WrapperState, action: PyTree) -> Step:
        """Takes one step; see `Environment`."""
        step = self.env.step(key, state.envstate, action)
        past = {}
        if self.shows_action:
            space = self.action_space
            past["previous_action"] = (
                jax.nn.one_hot(action, int(space.n))
                if is_discrete(space)
                else jnp.asarray(action, jnp.float32)
            )
        if self.shows_reward:
            reward = jnp.asarray(step.reward, jnp.float32)
            past["previous_reward"] = reward.reshape(*self._actors_shape, 1)
        return step._replace(
            obs=self._with_past(past, step.obs), state=WrapperState(step.state, ())
        )

    @property
    def name(self) -> str:
        """The name of the wrapped environment and the added entries."""
        shown = ["action"] * self.shows_action + ["reward"] * self.shows_reward
        return f"{self.env.name}, previous {' and '.join(shown)}"

    def _with_past(self, past: dict[str, Array], obs: PyTree) -> dict[str, PyTree]:
        return {OBSERVATION: self._network_input(obs), **past, **extra_entries(obs)}

    @property
    def _actors_shape(self) -> tuple[int, ...]:
        return () if self.n_actors is None else (int(self.n_actors),)

    def _spaces_of_past(self) -> dict[str, Box]:
        spaces, space = {}, self.action_space
        if self.shows_action:
            is_vector = is_discrete(space)
            bounds = (0.0, 1.0) if is_vector else box_bounds(space)
            shape = (int(space.n),) if is_vector else space.shape
            spaces["previous_action"] = _box(*bounds, (*self._actors_shape, *shape))
        if self.shows_reward:
            spaces["previous_reward"] = _box(-np.inf, np.inf, (*self._actors_shape, 1))
        return spaces


def _box(low: Any, high: Any, shape: tuple[int, ...], dtype: Any = np.float32) -> Box:
    return Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), shape, np.dtype(dtype))


def _stacked_space(space: Space, n_frames: int) -> Space:
    """The space of stacked observations; `None` if unknown."""
    inside = parts(space)
    if inside is not None:
        spaces = {name: _stacked_space(part, n_frames) for name, part in inside.items()}
        known = all(part is not None for part in spaces.values())
        is_named = hasattr(space.spaces, "items")
        return Composite(spaces if is_named else tuple(spaces.values())) if known else None
    if is_discrete(space):
        return MultiDiscrete((int(space.n),) * n_frames, getattr(space, "dtype", np.int32))
    if is_multi_discrete(space):
        nvec: Any = np.concatenate([np.asarray(space.nvec)] * n_frames, axis=-1)
        return MultiDiscrete(nvec, getattr(space, "dtype", np.int32))
    if not is_box(space):
        return None
    shape = tuple(space.shape) or (1,)
    low, high = (
        np.concatenate([np.broadcast_to(bound, shape)] * n_frames, axis=-1)
        for bound in (space.low, space.high)
    )
    return _box(low, high, low.shape, getattr(space, "dtype", np.float32))
