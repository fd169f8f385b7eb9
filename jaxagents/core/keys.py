"""Random keys."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, UInt32

from jaxagents.core.arrays import is_key, is_traced
from jaxagents.core.trees import shape_and_dtype

RandomKey = Key[Array, "..."] | UInt32[Array, "... 2"]
"""Random keys, typed (`jax.random.key`) or raw (`jax.random.PRNGKey`)."""


def as_key(rng: Any, example: str = "jax.random.key(0)") -> Key[Array, "..."]:
    """A typed random key, from one or from a raw `jax.random.PRNGKey`.

    Args:
        rng: Typed keys of any shape, or raw keys with a trailing axis of two words.
        example: What would be right, for the error.

    Returns:
        The typed keys.

    Raises:
        TypeError: `rng` is neither.
    """
    dtype = getattr(rng, "dtype", None)
    if dtype is not None and is_key(rng):
        return rng
    if dtype == jnp.uint32 and jnp.ndim(rng) > 0:
        return jax.random.wrap_key_data(jnp.asarray(rng))
    given = f"a value of {shape_and_dtype(rng)}" if is_traced(rng) else repr(rng)
    raise TypeError(f"Expected a random key such as {example}, got {given}.")


def implementation_of(key: Any) -> Any:
    """The implementation of typed random keys, as `jax.random.key` takes it.

    Args:
        key: The keys; their type is enough.

    Returns:
        Its name, such as `"rbg"`; of one that JAX knows no name of, what stands for it.
    """
    return jax.random.key_impl(jnp.empty((), key.dtype))


def single_key(rng: Any, what: str) -> Key[Array, ""]:
    """One typed random key.

    Args:
        rng: The key, typed or raw.
        what: Name of the function that takes it.

    Returns:
        The typed key.

    Raises:
        TypeError: It is no random key.
        ValueError: There are several.
    """
    key = as_key(rng)
    if key.ndim:
        raise ValueError(
            f"{what} takes one random key, got keys of shape {key.shape}: for one run with each, use "
            "agent.sweep or jax.vmap."
        )
    return key
