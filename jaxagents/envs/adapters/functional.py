"""Environments with `reset_env(key, params)` and `step_env(key, state, action, params)`."""

import copy
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Key, PyTree

from jaxagents.core.numbers import positive
from jaxagents.envs.arguments import check_arguments
from jaxagents.envs.checks import check_flag, check_info
from jaxagents.envs.drawings import drawing_of, frames_a_second
from jaxagents.envs.environment import Environment, Moment, Step, Wording
from jaxagents.envs.parameters import with_numbers

_N_VALUES = 5
"""The number of values that a step returns: observation, state, reward, terminated, info."""


class Functional(Environment):
    """An object with `reset_env` and `step_env`, and its parameters.

    The fourth value of `step_env` says that the environment terminated. Where it reports
    `info["truncated"]`, a done step that it calls truncated has not terminated, unless
    `info["terminated"]` says so. `params.max_steps_in_episode`, if there is such a parameter, is
    its limit.

    Attributes:
        env: The object.
    """

    def __init__(self, env: Any, params: PyTree = None) -> None:
        """Reads what the object declares.

        Args:
            env: The object.
            params: Its parameters; `None` takes `env.default_params`.

        Raises:
            TypeError: A method is missing or takes other arguments, or a space is no method.
            ValueError: The limit is not positive.
        """
        _check_methods(env)
        self.env = env
        self.params = getattr(env, "default_params", None) if params is None else params
        self.n_actors = _number(env, "n_actors")
        limit = _number(self.params, "max_steps_in_episode")
        self.max_steps = None if limit is None else positive("max_steps_in_episode", limit)
        self.action_space = self._space("action_space")
        self.observation_space = self._space("observation_space")

    def with_params(self, params: PyTree) -> "Functional":
        """The same object with other parameters, but for spaces and limit.

        Args:
            params: The parameters, which may be traced.

        Returns:
            The environment.
        """
        other = copy.copy(self)
        other.params = params
        return other

    def at(self, moment: Moment) -> Environment:
        """The same object with the parameters that hyperparameters give; see `Environment`."""
        if self.params is None or not moment.params:
            return super().at(moment)
        return self.with_params(with_numbers(self.params, moment.params))

    @property
    def name(self) -> str:
        """The object's name, or that of its class."""
        return getattr(self.env, "name", type(self.env).__name__)

    @property
    def wording(self) -> Wording:
        """The object's class and methods."""
        return Wording(type(self.env).__name__, "reset_env", "step_env")

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts an episode.

        Args:
            key: Random key.

        Returns:
            The first observation and the state.
        """
        return self.env.reset_env(key, self.params)

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Takes one step.

        Args:
            key: Random key.
            state: State.
            action: Action.

        Returns:
            The outcome.

        Raises:
            ValueError: `step_env` returns anything but its five values.
        """
        what = f"{type(self.env).__name__}.step_env"
        outcome = self.env.step_env(key, state, action, self.params)
        if len(outcome) != _N_VALUES:
            raise ValueError(
                f"{what} must return five values (obs, state, reward, terminated, info), "
                f"got {len(outcome)}."
            )
        obs, state, reward, done, info = outcome
        check_info(info, what)
        done = _flag(done, f"{what}: terminated")
        truncated = _flag(info.get("truncated", False), f'{what}: info["truncated"]')
        terminated = info.get("terminated", done & ~truncated)
        terminated = _flag(terminated, f'{what}: info["terminated"]')
        return Step(obs, state, reward, terminated, truncated, info)

    def action_mask(self, state: PyTree) -> PyTree:
        """Which actions a state allows: the object's `action_mask(state, params)`, if it has one.

        Args:
            state: State.

        Returns:
            Whether each action is allowed; `None` if the object does not say.
        """
        mask = getattr(self.env, "action_mask", None)
        return mask(state, self.params) if callable(mask) else None

    def critic_state(self, state: PyTree) -> PyTree:
        """The view of a centralised critic: the object's `critic_state(state, params)`, if it has one.

        Args:
            state: State.

        Returns:
            A pytree of arrays; `None` if the object does not say.
        """
        seen = getattr(self.env, "critic_state", None)
        return seen(state, self.params) if callable(seen) else None

    def actor_mask(self, state: PyTree) -> PyTree:
        """Which actors still play: the object's `actor_mask(state, params)`, if it has one.

        Args:
            state: State.

        Returns:
            Whether each actor still plays; `None` if the object does not say.
        """
        mask = getattr(self.env, "actor_mask", None)
        return mask(state, self.params) if callable(mask) else None

    def render(self, state: PyTree) -> PyTree:
        """Draws a state, by the object's `render(state, params)` or by a drawing of our own.

        Args:
            state: State.

        Returns:
            The picture; that of the object as it is.

        Raises:
            NotImplementedError: There is neither.
        """
        drawing = drawing_of(self.env)
        if drawing is None:
            raise NotImplementedError(self.why_it_cannot_draw)
        return drawing(self.env, state, self.params)

    @property
    def can_draw(self) -> bool:
        """Whether `render` draws states."""
        return drawing_of(self.env) is not None

    @property
    def why_it_cannot_draw(self) -> str:
        """The message where it does not."""
        return (
            f"{self.name} does not draw its states: give {self.wording.environment} a method "
            "render(state, params) that returns a picture, a NumPy array shaped (height, width, 3) of "
            "dtype uint8, or a figure of matplotlib."
        )

    @property
    def render_fps(self) -> float | int:
        """Steps a second of a film: the object's own `render_fps`, or that of our drawing."""
        return frames_a_second(self.env)

    def _space(self, name: str) -> PyTree:
        space = getattr(self.env, name, None)
        if space is None:
            return None
        if isinstance(space, type) or not callable(space):
            raise TypeError(
                f"{type(self.env).__name__}.{name} must be a method {name}(params) that returns a "
                f"space, such as Discrete(4), got {space!r}."
            )
        return space(self.params)


def _check_methods(env: Any) -> None:
    """Raises if an object is not an environment.

    Raises:
        TypeError: A method is missing, or takes other arguments than it is given.
    """
    missing = [name for name in ("reset_env", "step_env") if not callable(getattr(env, name, None))]
    if not missing:
        check_arguments(env, "reset_env", "key", "params")
        check_arguments(env, "step_env", "key", "state", "action", "params")
        return
    if isinstance(env, tuple):
        raise TypeError(
            "An environment is needed, got a tuple: unpack it, such as by env, env_params = "
            "gymnax.make('CartPole-v1'), and pass both, as in PPO(env, env_params, config)."
        )
    name = f"{type(env).__name__} is not an environment:"
    if callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None)):
        name = (
            f"{type(env).__name__} is like an environment of Gymnasium, but no gymnasium.Env: make it "
            "one. For a compiled environment"
        )
    raise TypeError(
        f"{name} it lacks {' and '.join(missing)}. Needed are "
        "reset_env(key, params) -> (obs, state) and "
        "step_env(key, state, action, params) -> (obs, state, reward, terminated, info), or a "
        "subclass of jaxagents.Environment."
    )


def _number(x: PyTree, name: str) -> int | None:
    number = getattr(x, name, None)
    return None if number is None else int(number)


def _flag(x: PyTree, what: str) -> Bool[Array, ""]:
    try:
        flag = jnp.asarray(x)
    except (TypeError, ValueError) as error:  # None, a dict of actors, or a state in its place
        given = f"a {type(x).__name__}" if x is not None else "None"
        entry = ', such as done["__all__"]' if isinstance(x, dict) else ""
        raise ValueError(
            f"{what} must be one boolean{entry}, got {given}: step_env returns "
            "(obs, state, reward, terminated, info), in this order."
        ) from error
    check_flag(flag, what)
    return flag.astype(bool).reshape(())
