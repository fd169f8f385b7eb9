"""Checks for hooks that would never be called."""

import inspect
from collections.abc import Iterable

from jaxagents.core.hook_names import is_own
from jaxagents.learners.learner import Learner


def check_no_hooks(agent: type, learner: type[Learner]) -> None:
    """Raises if an agent has a hook of its learner, which would never be called.

    Args:
        agent: Its class.
        learner: The class of its learner.

    Raises:
        TypeError: It has one.
    """
    for hook in (*learner.hooks, "_initial", "_policy"):
        if getattr(agent, hook, None) is not None:
            raise TypeError(
                f"{agent.__name__}.{hook} would never be called: {hook} is a hook of the learner. Put "
                f"it there, and name that learner:\n\n"
                f"    class MyLearner({learner.__name__}):\n"
                f"        def {_signature(learner, hook)}: ...\n\n"
                f"    class {agent.__name__}({agent.__mro__[1].__name__}):\n"
                f"        {_place(learner)} = MyLearner"
            )


def check_no_hooks_of_rollouts(agent: type, hooks: Iterable[str]) -> None:
    """Raises if an agent around a learner has a hook of agents that learn by losses of rollouts.

    Args:
        agent: Its class.
        hooks: Names of the hooks of those.

    Raises:
        TypeError: It has one.
    """
    for hook in hooks:
        if is_own(agent, hook):
            raise TypeError(
                f"{agent.__name__}.{hook} would never be called: it is a hook of PPO and its like, "
                "subclasses of OnPolicyBase. Of other agents, the learner says what is learned, and an "
                "environment changes by env_params of their hyperparameters, or in RandomParams. If it "
                "is a method of your own, give it another name."
            )


def check_plays_on_host(agent: type, base: type, names: Iterable[str]) -> None:
    """Raises if an agent plays by itself, but its environment is stepped on the host.

    Args:
        agent: Its class.
        base: The base, which plays there.
        names: Its methods that play in compiled environments.

    Raises:
        TypeError: The agent overrides one.
    """
    own = [name for name in names if getattr(agent, name) is not getattr(base, name)]
    if own:
        raise TypeError(
            f"{agent.__name__} overrides {' and '.join(own)}, which play in compiled environments "
            "alone, but its environment runs on the host: override _learn, or a hook."
        )


def _signature(learner: type[Learner], hook: str) -> str:
    return f"{hook}({', '.join(inspect.signature(getattr(learner, hook)).parameters)})"


def _place(learner: type[Learner]) -> str:
    return "_discrete_learner" if learner.discrete_actions else "_continuous_learner"
