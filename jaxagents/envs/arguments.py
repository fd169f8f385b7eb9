"""The arguments that methods of environments are called with."""

import inspect
from typing import Any


def check_arguments(env: Any, method: str, *arguments: str) -> None:
    """Raises unless a method takes the arguments that it is given, in their order.

    Args:
        env: The environment.
        method: Name of the method.
        *arguments: Names of the arguments, which are given by position.

    Raises:
        TypeError: It takes more or fewer, or those of these names in another order.
    """
    signature = inspect.signature(getattr(env, method))
    needed = (
        f"{type(env).__name__}.{method} must be {method}(self, {', '.join(arguments)}), got "
        f"{method}{signature}: "
    )
    try:
        taken = signature.bind(*arguments).arguments
    except TypeError as error:
        raise TypeError(
            f"{needed}compiled environments keep nothing in self, and are given the state. An "
            "environment of Gymnasium has to be a gymnasium.Env."
        ) from error
    if any(name in arguments and name != given for name, given in taken.items()):
        raise TypeError(f"{needed}arguments are given in this order, not by name.")
