"""Environments made by their names."""

from typing import Any

from jaxagents.core.nearest import nearest
from jaxagents.core.suites import GYMNASIUM, SUITES
from jaxagents.envs.adapters.gymnax import of_functional
from jaxagents.envs.adapters.native import adapter_named
from jaxagents.envs.environment import Environment


def make(name: str, **options: Any) -> Environment:
    """Makes an environment by its name.

    ```python
    agent = PPO(jaxagents.make("brax:ant"), None, config)
    ```

    Args:
        name: Name of an environment of gymnax, such as `"CartPole-v1"`, or that of a suite and of one of
            its environments, such as `"brax:ant"`. A package that registers environments with Gymnasium
            comes between, as in `"gymnasium:ale_py:ALE/Pong-v5"`.
        **options: Passed on to the suite, but for those that its adapter takes.

    Returns:
        The environment, which holds its parameters.

    Raises:
        TypeError: It is no name.
        ValueError: There is no such environment; the error says which name is nearest.
        ImportError: The suite, or what the environment needs, is not installed; the message says how to
            install it.
    """
    if not isinstance(name, str):
        raise TypeError(f"make takes the name of an environment, such as 'brax:ant', got {name!r}.")
    suite, _, own_name = name.partition(":") if ":" in name else ("gymnax", "", name)
    if suite == "gymnax":
        return _of_gymnax(own_name, options)
    if suite not in SUITES:
        raise ValueError(f"There is no suite '{suite}' ('{name}'). {_SUITES}")
    adapter = adapter_named(suite)
    if not (suite == GYMNASIUM and ":" in own_name):
        _check_name(own_name, adapter.names(), suite)
    return adapter.named(own_name, **options)


def names_of(suite: str) -> list[str]:
    """The names of a suite's environments, as `make` takes them.

    Args:
        suite: The suite's name.

    Returns:
        The names.

    Raises:
        ImportError: The suite is not installed; the message says how to install it.
    """
    return [f"{suite}:{name}" for name in adapter_named(suite).names()]


def _of_gymnax(name: str, options: dict[str, Any]) -> Environment:
    import gymnax

    _check_name(name, list(gymnax.registered_envs), "gymnax")
    return of_functional(*gymnax.make(name, **options))


_SUITES = (
    "Names without a suite are of gymnax, such as 'CartPole-v1'; those of "
    f"{', '.join(SUITES)} begin with the suite, as in 'brax:ant'."
)
_ADVICE = {
    "gymnax": _SUITES,
    GYMNASIUM: "Those that another package registers begin with it, as in "
    "'gymnasium:ale_py:ALE/Pong-v5'.",
}


def _check_name(name: str, known: list[str], suite: str) -> None:
    """Raises if a suite has no environment of a name.

    Raises:
        ValueError: It has none.
    """
    if name in known:
        return
    near = nearest(name, known)
    hint = f"Did you mean '{near}'?" if near else f"There are: {', '.join(known)}."
    advice = f" {_ADVICE[suite]}" if suite in _ADVICE else ""
    raise ValueError(f"{suite} has no environment '{name}'. {hint}{advice}")
