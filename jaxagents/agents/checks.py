"""Checks of observations passed to agents, and of hooks that would never be called."""

import contextlib
import inspect
from collections.abc import Iterable, Iterator

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from jaxagents.core.hook_names import is_own
from jaxagents.learners.learner import Learner


def check_hooks_of_others(agent: type, learner: type[Learner]) -> None:
    """Raises if an agent with a learner defines a hook of the learner, or of agents such as PPO.

    Args:
        agent: The agent's class.
        learner: The class of its learner.

    Raises:
        TypeError: It defines a hook that would never be called.
    """
    from jaxagents.agents.on_policy import OnPolicyBase  # only for the names of its hooks

    place = "_discrete_learner" if learner.discrete_actions else "_continuous_learner"
    for hook in (*learner.hooks, "_initial", "_policy"):
        if getattr(agent, hook, None) is not None:
            arguments = ", ".join(inspect.signature(getattr(learner, hook)).parameters)
            raise TypeError(
                f"{agent.__name__}.{hook} would never be called: {hook} is a hook of the "
                "learner. Define it there, and use that learner:\n\n    class "
                f"MyLearner({learner.__name__}):\n        def {hook}({arguments}): ...\n\n    "
                f"class {agent.__name__}({agent.__mro__[1].__name__}):\n        {place} = "
                "MyLearner"
            )
    for hook in OnPolicyBase._hooks:
        if hook not in agent._hooks and is_own(agent, hook):
            raise TypeError(
                f"{agent.__name__}.{hook} would never be called: it is a hook of on-policy "
                "agents, the subclasses of OnPolicyBase. For other agents, losses and targets "
                "are hooks of the learner, and environments change by env_params of the "
                "hyperparameters, or by RandomParams. If it is your own method, give it "
                "another name."
            )


def check_plays_on_host(agent: type, base: type, names: Iterable[str]) -> None:
    """Raises if an agent in an environment on the host overrides methods for compiled environments.

    Args:
        agent: The agent's class.
        base: The base class, which can act on the host.
        names: Its methods for compiled environments.

    Raises:
        TypeError: The agent overrides one of them.
    """
    own = [name for name in names if getattr(agent, name) is not getattr(base, name)]
    if own:
        raise TypeError(
            f"{agent.__name__} overrides {' and '.join(own)}, which only works with compiled "
            "environments, but its environment runs on the host: override _learn, or a hook."
        )


def check_single(obs: PyTree, expected: PyTree) -> None:
    """Raises if `policy` receives a batch of observations: it might return a single action.

    Args:
        obs: Its argument.
        expected: One observation, as shapes.

    Raises:
        ValueError: All arrays have extra leading axes.
    """
    if jax.tree.structure(obs) != jax.tree.structure(expected):
        return
    leaves = zip(jax.tree.leaves(obs), jax.tree.leaves(expected), strict=True)
    shapes = [(jnp.shape(leaf), one.shape) for leaf, one in leaves]
    if shapes and all(_is_batch(*pair) for pair in shapes):
        given, expected_shape = shapes[0]
        raise ValueError(
            f"policy takes one observation, of shape {expected_shape}, got a batch of shape {given}: "
            "map it over them, jax.vmap(agent.policy)(obs), or with a state of training "
            "jax.vmap(agent.policy, (None, 0))(training, obs)."
        )


def _is_batch(shape: tuple[int, ...], of_one: tuple[int, ...]) -> bool:
    return len(shape) > len(of_one) and shape[len(shape) - len(of_one) :] == of_one


@contextlib.contextmanager
def check_observation_on_error(
    obs: PyTree, expected: PyTree, batches: bool = False, method: str = "policy"
) -> Iterator[None]:
    """Raises a clear error if a method fails because its argument is not an observation.

    Args:
        obs: The argument.
        expected: One observation, as shapes.
        batches: Whether the method also takes a batch of observations.
        method: Its name.

    Raises:
        ValueError: Structure or shape differ.
    """
    try:
        yield
    except Exception as error:
        or_batch = ", or a batch of them" if batches else ""
        of_one = f"{method} takes one observation"
        if isinstance(obs, list) and isinstance(expected, jax.ShapeDtypeStruct):
            raise ValueError(
                f"{of_one}{or_batch}, as an array of shape {expected.shape}, got a list: give "
                "np.array(...)."
            ) from error
        found, own = jax.tree.structure(obs), jax.tree.structure(expected)
        if found != own:
            raise ValueError(f"{of_one}{or_batch}, structured as {own}, got {found}.") from error
        for leaf, one in zip(jax.tree.leaves(obs), jax.tree.leaves(expected), strict=True):
            shape = jnp.shape(leaf)
            if shape != one.shape and not (batches and _is_batch(shape, one.shape)):
                raise ValueError(
                    f"{of_one}, of shape {one.shape}{or_batch}, got shape {shape}."
                ) from error
        raise
