"""Adapters of the environments of other suites, one file for each suite."""

from typing import Any

from jaxtyping import PyTree

from jaxagents.envs.adapters.functional import Functional
from jaxagents.envs.adapters.gymnax import Gymnax, of_functional
from jaxagents.envs.adapters.making import make
from jaxagents.envs.adapters.native import Native, adapter_of
from jaxagents.envs.arguments import check_arguments
from jaxagents.envs.environment import Environment

__all__ = ["Functional", "Gymnax", "Native", "as_environment", "make"]


def as_environment(env: Any, params: PyTree = None) -> Environment:
    """Makes an `Environment` of whatever is passed to an agent.

    Args:
        env: An environment of gymnax or of another suite that there is an adapter of, its name, any
            object with `reset_env` and `step_env`, or an `Environment`, which is returned as it is.
        params: Its parameters; `None` takes `env.default_params`, if there are any.

    Returns:
        The environment.

    Raises:
        TypeError: It is none of these, its methods take other arguments than they are given, or it has
            no parameters but is given some.
        ValueError: There is no environment of that name.
    """
    if isinstance(env, type):
        raise TypeError(
            f"{env.__name__} is a class: pass an environment, such as {env.__name__}()."
        )
    if isinstance(env, str):
        env = make(env)
        if params is not None and isinstance(env, Functional):
            return of_functional(env.env, params)
    if isinstance(env, Environment):
        if params is not None:
            raise TypeError(
                f"{env.wording.environment} is an Environment, which holds its own parameters: pass "
                f"None as its parameters, got {params!r}."
            )
        check_arguments(env, "reset", "key")
        check_arguments(env, "step", "key", "state", "action")
        return env
    adapter = adapter_of(env)
    if adapter is None:
        return of_functional(env, params)
    return adapter.adapt(env, params)
