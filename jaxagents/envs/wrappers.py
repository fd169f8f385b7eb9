"""Environments around others, which show actors more of the past."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PyTree, UInt8

from jaxagents.core.numbers import positive
from jaxagents.core.observed import (
    OBSERVATION,
    entries_beside,
    network_input,
    observed_beside,
)
from jaxagents.envs.adapters import as_environment
from jaxagents.envs.environment import Environment, Moment, Step, Wording
from jaxagents.envs.spaces import (
    Box,
    Composite,
    Space,
    box_bounds,
    check_observed,
    is_box,
    is_discrete,
    network_space,
    parts,
)

WrapperT = TypeVar("WrapperT", bound="Wrapper")


class Remembered(NamedTuple):
    """State of an environment, with what is remembered of its past.

    Attributes:
        envstate: State of the environment inside.
        past: What is remembered.
    """

    envstate: PyTree
    past: PyTree


class Wrapper(Environment):
    """Base of environments around another: actions, rewards, ends and drawings are those of that one.

    Attributes:
        env: The environment inside.
    """

    def __init__(self, env: Any, params: PyTree = None) -> None:
        """Takes an environment.

        Args:
            env: Whatever an agent takes as an environment, wrapped ones included.
            params: Its parameters, as for an agent.

        Raises:
            TypeError: It is stepped on the host.
            ValueError: Integers that it gives do not start at 0.
        """
        self.env = as_environment(env, params)
        if self.env.on_host:
            raise TypeError(
                f"{type(self).__name__} goes around compiled environments, but {self.env.name} runs on "
                "the host: put one of gymnasium.wrappers around it instead, such as "
                "FrameStackObservation, before an agent takes it."
            )
        name = self.env.wording.environment
        check_observed(self.env.observation_space, f"{name}.observation_space")
        self.n_actors = self.env.n_actors
        self.action_space = self.env.action_space
        self.max_steps = self.env.max_steps
        self.params = self.env.params
        self.render_fps = self.env.render_fps

    def at(self, moment: Moment) -> Environment:
        """The same around the environment inside as it is at a moment of a training."""
        inside = self.env.at(moment)
        return self if inside is self.env else self._around(inside)

    def _around(self: WrapperT, inside: Environment) -> WrapperT:
        """The same around another environment, whose states, observations and spaces are alike."""
        other = copy.copy(self)
        other.env, other.params = inside, inside.params
        return other

    @property
    def against(self) -> Callable[[Any], Environment]:
        """The same around a game with another opponent, who sees what the game inside shows.

        Only where the environment inside has such a method is there this one.
        """
        inside: Any = self.env
        replaced = inside.against
        return lambda opponent: self._around(replaced(opponent))

    def render(self, state: Remembered) -> UInt8[np.ndarray, "height width 3"]:
        """Draws a state, as the environment inside does."""
        return self.env.render(state.envstate)

    @property
    def can_draw(self) -> bool:
        """Whether the environment inside draws."""
        return self.env.can_draw

    @property
    def why_it_cannot_draw(self) -> str:
        """The message where it does not."""
        return self.env.why_it_cannot_draw

    @property
    def wording(self) -> Wording:
        """How messages name the environment inside."""
        return self.env.wording

    def action_mask(self, state: Remembered) -> PyTree:
        """Which actions a state allows, as the environment inside says."""
        return self.env.action_mask(state.envstate)

    def critic_state(self, state: Remembered) -> PyTree:
        """The view that a centralised critic has of a state, as the environment inside gives it."""
        return self.env.critic_state(state.envstate)

    def actor_mask(self, state: Remembered) -> Bool[Array, "actors"] | None:
        """Which actors still play, as the environment inside says."""
        return self.env.actor_mask(state.envstate)

    @property
    def _observation_space_inside(self) -> Space:
        return network_space(self.env.observation_space)

    def _network_input(self, obs: PyTree) -> PyTree:
        """An observation without a mask of actions, in which a single integer is one-hot."""
        space, obs = self._observation_space_inside, network_input(obs)
        return jax.nn.one_hot(obs, int(space.n)) if is_discrete(space) else obs


class FrameStack(Wrapper):
    """Shows the last observations together, the newest last.

    ```python
    agent = PPO(FrameStack(env, 4, env_params), None, config)
    ```

    They are joined along the last axis: vectors become longer, and images get more channels. An episode
    begins as if its first observation had been made before. Replay buffers hold all of them.
    """

    def __init__(self, env: Any, n_frames: int = 4, params: PyTree = None) -> None:
        """Takes an environment.

        Args:
            env: Whatever an agent takes as an environment.
            n_frames: Number of observations that are shown.
            params: The environment's parameters, as for an agent.
        """
        super().__init__(env, params)
        self.n_frames = positive("n_frames", n_frames)
        inside = _one_hot_space(self._observation_space_inside)
        self.observation_space = _stacked_space(inside, self.n_frames)

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, Remembered]:
        """Starts an episode; see `Environment`."""
        obs, envstate = self.env.reset(key)
        frames = jax.tree.map(self._repeated, self._network_input(obs))
        return observed_beside(frames, **entries_beside(obs)), Remembered(envstate, frames)

    def step(self, key: Key[Array, ""], state: Remembered, action: PyTree) -> Step:
        """Takes one step; see `Environment`."""
        step = self.env.step(key, state.envstate, action)
        frames = jax.tree.map(self._after, state.past, self._network_input(step.obs))
        return step._replace(
            obs=observed_beside(frames, **entries_beside(step.obs)),
            state=Remembered(step.state, frames),
        )

    @property
    def name(self) -> str:
        """The name of the environment inside, and the number of frames."""
        return f"{self.env.name}, {self.n_frames} frames"

    def _repeated(self, x: PyTree) -> Array:
        return jnp.concatenate([jnp.atleast_1d(x)] * self.n_frames, axis=-1)

    def _after(self, frames: Array, x: PyTree) -> Array:
        new = jnp.atleast_1d(x).astype(frames.dtype)
        return jnp.concatenate([frames[..., new.shape[-1] :], new], axis=-1)


class WithPrevious(Wrapper):
    """Shows the action before an observation, and its reward, as parts of the observation.

    ```python
    agent = PPO(WithPrevious(env, env_params), None, config)
    ```

    An observation is a dict of `observation`; `previous_action`, discrete ones one-hot; and
    `previous_reward`, an array of one number (of each actor). Both are zeros at the start of an episode.
    """

    def __init__(
        self, env: Any, params: PyTree = None, *, action: bool = True, reward: bool = True
    ) -> None:
        """Takes an environment.

        Args:
            env: Whatever an agent takes as an environment.
            params: Its parameters, as for an agent.
            action: Whether actions are shown.
            reward: Whether rewards are shown.

        Raises:
            ValueError: Neither is, or the actions are neither discrete nor of a box.
        """
        super().__init__(env, params)
        if not (action or reward):
            raise ValueError("WithPrevious shows nothing: let action or reward be True.")
        space = self.env.action_space
        if action and not (is_discrete(space) or is_box(space)):
            raise ValueError(
                f"WithPrevious shows discrete actions and those of boxes, but the action_space of "
                f"{self.env.wording.environment} is {space!r}: pass action=False."
            )
        self.shows_action, self.shows_reward = bool(action), bool(reward)
        self.observation_space = self._space()

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, Remembered]:
        """Starts an episode; see `Environment`."""
        obs, envstate = self.env.reset(key)
        shapes = {name: space.shape for name, space in self._spaces_of_past().items()}
        past = {name: jnp.zeros(shape, jnp.float32) for name, shape in shapes.items()}
        return self._with_past(past, obs), Remembered(envstate, ())

    def step(self, key: Key[Array, ""], state: Remembered, action: PyTree) -> Step:
        """Takes one step; see `Environment`."""
        step = self.env.step(key, state.envstate, action)
        past = {}
        if self.shows_action:
            past["previous_action"] = self._action_vector(action)
        if self.shows_reward:
            reward = jnp.asarray(step.reward, jnp.float32)
            past["previous_reward"] = reward.reshape(*self._actors, 1)
        return step._replace(obs=self._with_past(past, step.obs), state=Remembered(step.state, ()))

    @property
    def name(self) -> str:
        """The name of the environment inside, and what is shown."""
        shown = ["action"] * self.shows_action + ["reward"] * self.shows_reward
        return f"{self.env.name}, previous {' and '.join(shown)}"

    def _with_past(self, past: dict[str, Array], obs: PyTree) -> dict[str, PyTree]:
        return {OBSERVATION: self._network_input(obs), **past, **entries_beside(obs)}

    @property
    def _actors(self) -> tuple[int, ...]:
        return () if self.n_actors is None else (int(self.n_actors),)

    def _action_vector(self, action: PyTree) -> Float[Array, "..."]:
        if is_discrete(self.action_space):
            return jax.nn.one_hot(action, int(self.action_space.n))
        return jnp.asarray(action, jnp.float32)

    def _spaces_of_past(self) -> dict[str, Box]:
        spaces, space = {}, self.action_space
        if self.shows_action and is_discrete(space):
            spaces["previous_action"] = _box(0.0, 1.0, (*self._actors, int(space.n)))
        elif self.shows_action:
            spaces["previous_action"] = _box(*box_bounds(space), (*self._actors, *space.shape))
        if self.shows_reward:
            spaces["previous_reward"] = _box(-np.inf, np.inf, (*self._actors, 1))
        return spaces

    def _space(self) -> Space:
        inside = _one_hot_space(self._observation_space_inside)
        if inside is None:
            return None
        return Composite({"observation": inside, **self._spaces_of_past()})


def _box(low: Any, high: Any, shape: tuple[int, ...], dtype: Any = np.float32) -> Box:
    return Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), shape, np.dtype(dtype))


def _one_hot_space(space: Space) -> Space:
    """The space of what `_network_input` gives."""
    if is_discrete(space):
        return _box(0.0, 1.0, (int(space.n),))
    return space


def _stacked_space(space: Space, n_frames: int) -> Space:
    """The space of several observations together; `None` if that is not known."""
    inside = parts(space)
    if inside is not None:
        spaces = {name: _stacked_space(part, n_frames) for name, part in inside.items()}
        known = all(part is not None for part in spaces.values())
        is_named = hasattr(space.spaces, "items")
        return Composite(spaces if is_named else tuple(spaces.values())) if known else None
    if is_discrete(space):
        return _box(0, int(space.n) - 1, (n_frames,), getattr(space, "dtype", np.int32))
    if not is_box(space):
        return None
    shape = tuple(space.shape) or (1,)
    low, high = (
        np.concatenate([np.broadcast_to(bound, shape)] * n_frames, axis=-1)
        for bound in (space.low, space.high)
    )
    return _box(low, high, low.shape, getattr(space, "dtype", np.float32))
