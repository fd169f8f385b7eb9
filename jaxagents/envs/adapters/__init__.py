"""Adapters of the environments of other suites, one file for each suite."""

from typing import Any

from jaxtyping import PyTree

from jaxagents.envs.adapters.functional import Functional
from jaxagents.envs.adapters.gymnax import Gymnax, tells_truncation
from jaxagents.envs.environment import Environment

__all__ = ["Functional", "Gymnax", "as_environment"]


def as_environment(env: Any, params: PyTree = None) -> Environment:
    """Makes an `Environment` of whatever is passed to an agent.

    Args:
        env: An environment of gymnax, any object with `reset_env` and `step_env`, or an `Environment`,
            which is returned as it is.
        params: Its parameters; `None` takes `env.default_params`, if there are any.

    Returns:
        The environment.

    Raises:
        TypeError: It is none of these, or an `Environment` is given parameters.
    """
    if isinstance(env, type):
        raise TypeError(
            f"{env.__name__} is a class: pass an environment, such as {env.__name__}()."
        )
    if isinstance(env, Environment):
        if params is not None:
            raise TypeError(
                f"{env.wording.environment} is an Environment, which holds its own parameters: pass "
                f"None as its parameters, got {params!r}."
            )
        return env
    functional = Functional(env, params)
    return Gymnax(env, functional.params) if tells_truncation(functional) else functional
