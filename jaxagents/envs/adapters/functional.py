"""Objects with gymnax's `reset_env(key, params)` and `step_env(key, state, action, params)`."""

import copy
import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Key, PyTree

from jaxagents.core.hyperparameters import check_known_fields
from jaxagents.core.numbers import positive
from jaxagents.envs.checks import traced_reset
from jaxagents.envs.drawings import drawing_of, frames_a_second
from jaxagents.envs.environment import Environment, Step, Wording, check_flag

_LIMIT = "max_steps_in_episode"
_N_VALUES = 5
"""Number of values that a step returns: observation, state, reward, terminated, info."""


class Functional(Environment):
    """An object with `reset_env` and `step_env`, such as a gymnax environment, and its parameters.

    The fourth value of `step_env` means that the episode terminated. If `info["truncated"]` is set, a
    done step was truncated instead, unless `info["terminated"]` is set too. A step also counts as
    truncated if the object has a method `is_truncated(state, params)` that returns true. The parameter
    `max_steps_in_episode`, if there is one, is the time limit.

    Attributes:
        env: The object.
    """

    def __init__(self, env: Any, params: PyTree = None) -> None:
        """Wraps an object.

        Args:
            env: The object.
            params: Its parameters; `None` uses `env.default_params`.

        Raises:
            TypeError: A method is missing or has a wrong signature, or a space is not a method.
            ValueError: The time limit is not positive.
        """
        _check_methods(env)
        self.env = env
        given = getattr(env, "default_params", None) if params is None else params
        # Only some programs would see later changes in place.
        self.params = jax.tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, given)
        self.n_actors = _number(env, "n_actors")
        limit = _number(self.params, _LIMIT)
        self.max_steps = None if limit is None else positive(_LIMIT, limit)
        self.action_space = self._space("action_space")
        self.observation_space = self._space("observation_space")
        self._tells_truncation = self._can_tell_truncation()

    def with_params(self, params: PyTree) -> "Functional":
        """Returns the object with other parameters, possibly traced, but the same spaces and limit."""
        other = copy.copy(self)
        other.params = params
        return other

    def at_update(self, update_step: ArrayLike, params: Mapping[str, ArrayLike]) -> Environment:
        """Returns the same object with parameters from the hyperparameters; see `Environment`."""
        if not params:
            return self
        if self.params is None:
            return super().at_update(update_step, params)
        return self.with_params(with_numbers(self.params, params))

    @property
    def name(self) -> str:
        """The object's `name`, or the name of its class."""
        return getattr(self.env, "name", type(self.env).__name__)

    @property
    def wording(self) -> Wording:
        """The object's class and methods."""
        return Wording(type(self.env).__name__, "reset_env", "step_env")

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts an episode; see `Environment`."""
        return self.env.reset_env(key, self.params)

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Takes one step; see `Environment`.

        Raises:
            ValueError: `step_env` does not return five values.
        """
        what = f"{type(self.env).__name__}.step_env"
        outcome = self.env.step_env(key, state, action, self.params)
        if len(outcome) != _N_VALUES:
            raise ValueError(
                f"{what} must return five values (obs, state, reward, terminated, info), "
                f"got {len(outcome)}."
            )
        obs, state, reward, done, info = outcome
        told = info if isinstance(info, dict) else {}  # agents and check_env reject others
        done = _flag(done, f"{what}: terminated")
        truncated = _flag(told.get("truncated", False), f'{what}: info["truncated"]')
        terminated = told.get("terminated", done & ~truncated)
        terminated = _flag(terminated, f'{what}: info["terminated"]')
        if self._tells_truncation:
            truncated |= jnp.asarray(self.env.is_truncated(state, self.params), bool)
        return Step(obs, state, reward, terminated, truncated, info)

    def action_mask(self, state: PyTree) -> PyTree:
        """The object's `action_mask(state, params)`, if it has one; see `Environment`."""
        has_it = callable(getattr(self.env, "action_mask", None))
        return self.env.action_mask(state, self.params) if has_it else None

    def critic_state(self, state: PyTree) -> PyTree:
        """The object's `critic_state(state, params)`, if it has one; see `Environment`."""
        has_it = callable(getattr(self.env, "critic_state", None))
        return self.env.critic_state(state, self.params) if has_it else None

    def actor_mask(self, state: PyTree) -> PyTree:
        """The object's `actor_mask(state, params)`, if it has one; see `Environment`."""
        has_it = callable(getattr(self.env, "actor_mask", None))
        return self.env.actor_mask(state, self.params) if has_it else None

    def render(self, state: PyTree) -> PyTree:
        """Draws a state with the object's `render(state, params)` or a built-in function."""
        drawing = drawing_of(self.env)
        return super().render(state) if drawing is None else drawing(self.env, state, self.params)

    @property
    def can_draw(self) -> bool:
        """Whether `render` draws states."""
        return drawing_of(self.env) is not None

    @property
    def render_fps(self) -> float | int:
        """Steps per second in videos: the object's `render_fps`, or a default."""
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

    def _can_tell_truncation(self) -> bool:
        """Whether `is_truncated` works with the states: gymnax's fails on states without a `time`."""
        if not hasattr(self.env, "is_truncated"):
            return False
        try:
            _, state = traced_reset(self)
            jax.eval_shape(lambda state: self.env.is_truncated(state, self.params), state)
        except (AttributeError, NotImplementedError):
            return False
        return True


def check_arguments(env: Any, method: str, *arguments: str) -> None:
    """Raises `TypeError` unless a method takes these arguments in this order."""
    signature = inspect.signature(getattr(env, method))
    needed = (
        f"{type(env).__name__}.{method} must be {method}(self, {', '.join(arguments)}), got "
        f"{method}{signature}: "
    )
    try:
        taken = signature.bind(*arguments).arguments
    except TypeError as error:
        raise TypeError(
            f"{needed}compiled environments keep nothing in self: the state is passed to them. "
            "A Gymnasium environment must be a gymnasium.Env."
        ) from error
    if any(name in arguments and name != given for name, given in taken.items()):
        raise TypeError(f"{needed}arguments are passed in this order, not by name.")


def with_numbers(params: PyTree, numbers: Mapping[str, ArrayLike]) -> PyTree:
    """Replaces some numbers in parameters.

    Args:
        params: A dataclass, a named tuple or a dict.
        numbers: The new numbers by name, possibly traced. They are cast to the dtypes of the old ones,
            and rounded to replace integers.

    Returns:
        The parameters.

    Raises:
        TypeError: A parameter does not exist, is not a number, or sets the time limit.
        ValueError: A new value is an array.
    """
    if _LIMIT in numbers:
        raise TypeError(
            f"{_LIMIT} is not a hyperparameter: the time limit is the same throughout a run. "
            "Pass it to the agent, with the other parameters of the environment."
        )
    given: Any = params
    if isinstance(params, Mapping):
        own = params
    elif hasattr(params, "_asdict"):
        own = given._asdict()
    else:
        fields = dataclasses.fields(given) if dataclasses.is_dataclass(params) else ()
        own = {field.name: getattr(params, field.name) for field in fields}
    known = [name for name, x in own.items() if name != _LIMIT and _is_number(x)]
    check_known_fields(type(params), numbers, known)
    cast = {name: _cast(name, number, own[name]) for name, number in numbers.items()}
    if isinstance(params, Mapping):
        return {**params, **cast}
    return (
        given._replace(**cast) if hasattr(params, "_asdict") else dataclasses.replace(given, **cast)
    )


def _is_number(x: object) -> bool:
    return isinstance(x, int | float | np.ndarray | np.generic | jax.Array) and (
        np.ndim(x) == 0 and jnp.result_type(x).kind in "iuf"
    )


def _cast(name: str, number: ArrayLike, own: ArrayLike) -> jax.Array:
    if jnp.ndim(number):
        raise ValueError(f"env_params[{name!r}] must be one number, got shape {jnp.shape(number)}.")
    number, dtype = jnp.asarray(number), jnp.result_type(own)
    is_rounded = jnp.issubdtype(dtype, jnp.integer) and jnp.issubdtype(number.dtype, jnp.floating)
    # A schedule may give 22.999998 instead of 23.
    return (jnp.rint(number) if is_rounded else number).astype(dtype)


def _check_methods(env: Any) -> None:
    """Raises `TypeError` if a method is missing or has a wrong signature."""
    missing = [name for name in ("reset_env", "step_env") if not callable(getattr(env, name, None))]
    if not missing:
        check_arguments(env, "reset_env", "key", "params")
        check_arguments(env, "step_env", "key", "state", "action", "params")
        return
    if isinstance(env, tuple):
        raise TypeError(
            "An environment is needed, got a tuple: unpack it, as in env, env_params = "
            "gymnax.make('CartPole-v1'), and pass both: Agent(env, env_params, config)."
        )
    if callable(env) and not hasattr(env, "step"):
        raise TypeError(
            "An environment is needed, got a function: pass what it returns, or if it makes a "
            "Gymnasium environment, jaxagents.envs.Gymnasium(function)."
        )
    name = f"{type(env).__name__} is not an environment:"
    if callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None)):
        name = (
            f"{type(env).__name__} looks like a Gymnasium environment, but is not a "
            "gymnasium.Env: make it one. For a compiled environment"
        )
    raise TypeError(
        f"{name} it lacks {' and '.join(missing)}. Define reset_env(key, params) -> (obs, "
        "state) and step_env(key, state, action, params) -> (obs, state, reward, terminated, "
        "info), or subclass jaxagents.Environment."
    )


def _number(x: PyTree, name: str) -> int | None:
    number = getattr(x, name, None)
    return None if number is None else int(number)


def _flag(x: PyTree, what: str) -> Bool[Array, ""]:
    try:
        flag = jnp.asarray(x)
    except (TypeError, ValueError) as error:  # None, a dict of actors, or a state
        given = f"a {type(x).__name__}" if x is not None else "None"
        entry = ', such as done["__all__"]' if isinstance(x, dict) else ""
        raise ValueError(
            f"{what} must be one boolean{entry}, got {given}: step_env returns "
            "(obs, state, reward, terminated, info), in this order."
        ) from error
    check_flag(flag, what)
    return flag.astype(bool).reshape(())
