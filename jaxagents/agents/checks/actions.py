"""Checks of actions, and of the distributions that they are drawn from."""

import inspect
from collections.abc import Iterable

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from jaxagents.core.arrays import is_numeric
from jaxagents.envs.spaces import Space, is_discrete


def check_discrete_action(action: PyTree, space: Space, agent: str, env: str) -> None:
    """Raises if an action of a discrete space is no whole number.

    Args:
        action: The action, as shapes.
        space: The space of actions.
        agent: Name of the agent.
        env: Name of the environment.

    Raises:
        TypeError: It is not.
    """
    for leaf in jax.tree.leaves(action) if is_discrete(space) else []:
        if jnp.issubdtype(leaf.dtype, jnp.inexact):
            raise TypeError(
                f"{agent}: actions of {env} are discrete, and must be whole numbers, such as those of "
                f"jnp.argmax or jax.random.categorical, got {leaf.dtype}."
            )


def check_distribution(distribution: PyTree, methods: Iterable[str], hook: str) -> None:
    """Raises unless a hook gives a distribution of actions.

    Args:
        distribution: What it gives.
        methods: The methods that are needed.
        hook: Name of the hook, for the message.

    Raises:
        TypeError: A method is missing or takes no random key, or it is no pytree.
    """
    kind = type(distribution).__name__
    wanted = (
        f"{hook} must return a distribution, such as jaxagents.ops.Categorical(logits), with "
        "sample(key), log_prob(action), entropy() and mode()"
    )
    missing = [name for name in methods if not callable(getattr(distribution, name, None))]
    if missing:
        is_array = hasattr(distribution, "dtype")
        given = f"an array of shape {distribution.shape}" if is_array else f"a {kind}"
        raise TypeError(f"{wanted}, got {given}, which lacks {', '.join(missing)}.")
    try:
        inspect.signature(distribution.sample).bind(None)
    except TypeError as error:
        raise TypeError(
            f"{wanted}, but {kind}.sample takes no key by position: write a class whose sample(key) "
            "calls it, such as self.inner.sample(seed=key)."
        ) from error
    if not all(map(is_numeric, jax.tree.leaves(distribution))):
        raise TypeError(
            f"{wanted}, and {kind} is no pytree, of which a policy can be compiled: make it a "
            "flax.struct.dataclass."
        )
