"""Checks of what an agent is made of."""

from collections.abc import Iterable, Mapping

import jax
from jaxtyping import PyTree

from jaxagents.core.arrays import is_traced
from jaxagents.core.describe import name_of


def check_are_classes(agent: str, kinds: Iterable[object]) -> None:
    """Raises unless what an agent says of its configuration and hyperparameters are classes.

    Args:
        agent: Its name.
        kinds: What should be classes.

    Raises:
        TypeError: One of them is an object.
    """
    for kind in kinds:
        if not isinstance(kind, type):
            raise TypeError(
                f"{agent}._config_type and _hyperparams_type must be classes, got an object of "
                f"{name_of(type(kind))}: leave out the parentheses."
            )


def check_kind(owner: str, expected: type, given: object) -> None:
    """Raises unless something is of a class.

    Args:
        owner: Name of what is given it.
        expected: The class.
        given: What is given.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(given, expected):
        return
    name, found, hint = expected.__name__, f"a {name_of(type(given))}", ""
    if isinstance(given, type):
        found, hint = f"the class {name_of(given)}", f": pass {name}()"
    elif isinstance(given, Mapping):
        found, hint = f"a {type(given).__name__}", f": pass {name}(**fields)"
    elif type(given).__module__ == "builtins":
        found = repr(given)
    raise TypeError(f"{owner} takes a {name_of(expected)}, got {found}{hint}.")


def check_not_traced(env_params: PyTree) -> None:
    """Raises if the parameters of an agent's environment are traced, as within `jax.vmap`.

    Raises:
        TypeError: They are.
    """
    if any(map(is_traced, jax.tree.leaves(env_params))):
        raise TypeError(
            "The env_params that an agent is made with are static, but these are traced. Make the agent "
            "outside of jax.vmap and jax.jit, and give what varies among the hyperparameters, such as "
            "agent.train(rng, HyperParameters(env_params={'gravity': gravity}))."
        )
