"""Creates environments from names, and from anything else that an agent accepts."""

import contextlib
import importlib
import sys
from types import ModuleType
from typing import Any

from jaxtyping import PyTree

from jaxagents.core.extras import GYMNASIUM, SUITES, likely_environment
from jaxagents.core.names import check_known
from jaxagents.envs.adapters.functional import Functional, check_arguments
from jaxagents.envs.adapters.native import adapter_named, adapter_of
from jaxagents.envs.environment import Environment

_SUITES = (
    "Names of gymnax stand alone, such as 'CartPole-v1'; all others begin with their suite, as in "
    f"'brax:ant': {', '.join(SUITES)}."
)
_DRAWS_WITH = "matplotlib", "matplotlib.colors", "matplotlib.pyplot", "seaborn"
_OF_OTHER_PACKAGES = (
    " Environments that another package registers begin with it, as in "
    "'gymnasium:ale_py:ALE/Pong-v5'."
)


def as_environment(env: Any, params: PyTree = None) -> Environment:
    """Creates an `Environment` from anything that an agent accepts.

    Args:
        env: An environment of gymnax or another supported suite, its name, any object with `reset_env`
            and `step_env`, or an `Environment`, which is returned unchanged.
        params: The environment's parameters; `None` uses `env.default_params`, if there are any.

    Returns:
        The environment.

    Raises:
        TypeError: `env` is none of these, its methods have a wrong signature, or `params` is given for
            an environment without separate parameters.
        ValueError: No environment has that name.
    """
    if _is_environment(params):
        raise TypeError(
            f"env_params is an environment, {type(params).__name__}: an agent takes one environment, "
            "and then its parameters, or None."
        )
    if isinstance(env, type):
        raise TypeError(
            f"{env.__name__} is a class: pass an environment, such as {env.__name__}()."
        )
    if isinstance(env, str):
        env = make(env)
        if params is not None and isinstance(env, Functional):
            return Functional(env.env, params)
    if isinstance(env, Environment):
        if params is not None:
            raise TypeError(
                f"{env.wording.environment} is an Environment, which holds its own parameters: "
                f"pass None for env_params, got {params!r}."
            )
        check_arguments(env, "reset", "key")
        check_arguments(env, "step", "key", "state", "action")
        return env
    adapter = adapter_of(env)
    if adapter is None:
        return Functional(env, params)
    if adapter.takes_params:
        return adapter(env, params)  # pyright: ignore[reportCallIssue]
    if params is not None:
        raise TypeError(
            f"{type(env).__name__} holds its own parameters: pass None for env_params, got "
            f"{params!r}."
        )
    return adapter(env)


def _is_environment(x: Any) -> bool:
    """Whether an object is an environment rather than the parameters of one."""
    return isinstance(x, Environment) or hasattr(x, "reset_env") or adapter_of(x) is not None


def make(name: str, **options: Any) -> Environment:
    """Creates an environment by name.

    ```python
    agent = PPO(jaxagents.make("brax:ant"), None, config)
    ```

    Args:
        name: Name of a gymnax environment, such as `"CartPole-v1"`, or a suite and the name of one of
            its environments, such as `"brax:ant"`. If a package registers the environment with
            Gymnasium, put the package's name in between, as in `"gymnasium:ale_py:ALE/Pong-v5"`.
        **options: Options of the suite's adapter; others are passed to the suite.

    Returns:
        The environment, including its parameters.

    Raises:
        TypeError: `name` is not a string.
        ValueError: The environment does not exist; the message suggests the closest name.
        ImportError: The suite, or a package that the environment needs, is not installed; the message
            says how to install it.
    """
    if not isinstance(name, str):
        raise TypeError(f"make takes the name of an environment, such as 'brax:ant', got {name!r}.")
    suite, _, own_name = name.partition(":") if ":" in name else ("gymnax", "", name)
    if suite not in {"gymnax", *SUITES}:
        raise ValueError(f"There is no suite '{suite}' ('{name}'). {_SUITES}")
    if suite == "gymnax":
        gymnax = _import_gymnax()
        if own_name not in gymnax.registered_envs:
            hint = likely_environment(own_name, list(gymnax.registered_envs))
            raise ValueError(f"There is no gymnax environment '{own_name}'. {hint} {_SUITES}")
        return Functional(*gymnax.make(own_name, **options))
    adapter = adapter_named(suite)
    if not (suite == GYMNASIUM and ":" in own_name):
        advice = _OF_OTHER_PACKAGES if suite == GYMNASIUM else ""
        check_known(f"{suite} environment", own_name, adapter.names(), advice)
    return adapter.named(own_name, **options)


class _LazyModule(ModuleType):
    """A module that is imported on first use."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


def _import_gymnax() -> ModuleType:
    """Imports gymnax, but its drawing libraries, which take most of the time, only on use."""
    lazy = {name: _LazyModule(name) for name in _DRAWS_WITH if name not in sys.modules}
    sys.modules.update(lazy)
    try:
        with contextlib.suppress(Exception):  # a release that uses them on import
            importlib.import_module("gymnax")
    finally:
        for name in lazy:
            del sys.modules[name]
    return importlib.import_module("gymnax")


def names_of(suite: str) -> list[str]:
    """Lists the names of a suite's environments for `make`.

    Raises:
        ImportError: The suite is not installed; the message says how to install it.
    """
    return [f"{suite}:{name}" for name in adapter_named(suite).names()]
