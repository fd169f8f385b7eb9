"""Environments of gymnax (1.0 or newer), which report truncations separately from steps."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from jaxagents.envs.adapters.functional import Functional
from jaxagents.envs.environment import Step
from jaxagents.envs.tracing import check_keeps_nothing, traced_reset


class Gymnax(Functional):
    """An environment of gymnax, or any other with `is_truncated(state, params)`, and its parameters."""

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Takes one step.

        Args:
            key: Random key.
            state: State.
            action: Action.

        Returns:
            The outcome, truncated also where `is_truncated` says so.

        Raises:
            ValueError: `step_env` returns anything but its five values.
        """
        step = super().step(key, state, action)
        is_truncated = jnp.asarray(self.env.is_truncated(step.state, self.params), bool)
        return step._replace(truncated=step.truncated | is_truncated)


def of_functional(env: Any, params: PyTree = None) -> Functional:
    """Makes an `Environment` of an object with `reset_env` and `step_env`.

    Args:
        env: The object.
        params: Its parameters; `None` takes `env.default_params`, if there are any.

    Returns:
        The environment, which asks the object for truncations if that works.

    Raises:
        TypeError: A method is missing.
    """
    functional = Functional(env, params)
    return Gymnax(env, functional.params) if _tells_truncation(functional) else functional


def _tells_truncation(functional: Functional) -> bool:
    """Whether an object has an `is_truncated` that works with its states.

    That of gymnax's base class does not if the states have no field `time`.

    Args:
        functional: The object and its parameters.

    Returns:
        Whether it has.
    """
    env, params = functional.env, functional.params
    if not hasattr(env, "is_truncated"):
        return False
    try:
        _, state = traced_reset(functional)
        check_keeps_nothing(functional)
        jax.eval_shape(lambda state: env.is_truncated(state, params), state)
    except (AttributeError, NotImplementedError):
        return False
    return True
