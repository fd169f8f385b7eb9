"""Random keys."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, UInt32

from jaxagents.core import numbers
from jaxagents.core.arrays import is_key, is_traced
from jaxagents.core.trees import shape_and_dtype

RandomKey = Key[Array, "..."] | UInt32[Array, "... 2"]
"""Random keys, typed (`jax.random.key`) or raw (`jax.random.PRNGKey`)."""

Seed = RandomKey | int
"""A random key, or an integer, which stands for `jax.random.key` of it."""


def as_key(rng: Any, example: str = "jax.random.key(0)") -> Key[Array, "..."]:
    """A typed random key, from one, from a raw `jax.random.PRNGKey`, or from an integer.

    Args:
        rng: Typed keys of any shape, raw keys with a trailing axis of two words, or an integer of 32
            bits (of 64 with `jax_enable_x64`).
        example: What would be right, for the error.

    Returns:
        The typed keys.

    Raises:
        TypeError: `rng` is none of these.
        ValueError: It is an integer with more bits.
    """
    dtype = getattr(rng, "dtype", None)
    if dtype is not None and is_key(rng):
        return rng
    if dtype == jnp.uint32 and jnp.ndim(rng) > 0:
        return jax.random.wrap_key_data(jnp.asarray(rng))
    if jnp.issubdtype(dtype or type(rng), jnp.integer) and jnp.ndim(rng) == 0:
        keeps_64_bits = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
        return jax.random.key(rng if is_traced(rng) or keeps_64_bits else numbers.seed("seed", rng))
    given = f"a value of {shape_and_dtype(rng)}" if is_traced(rng) else repr(rng)
    raise TypeError(f"Expected a random key such as {example}, got {given}.")


def as_keys(rngs: Any) -> Key[Array, "..."]:
    """Typed random keys, one for each seed.

    Args:
        rngs: Keys as `as_key` takes them, or a sequence of integers.

    Returns:
        The typed keys.

    Raises:
        TypeError: `rngs` is neither.
        ValueError: An integer has more bits than a seed.
    """
    is_array = hasattr(rngs, "dtype")  # of unsigned integers, it is a raw key
    are_seeds = is_array and jnp.issubdtype(rngs.dtype, jnp.signedinteger) and rngs.ndim == 1
    if (are_seeds or isinstance(rngs, Sequence)) and len(rngs):
        return jnp.stack([as_key(rng) for rng in rngs])
    return as_key(rngs, "jax.random.split(jax.random.key(0), 4), one for each seed")


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
        rng: The key, typed or raw, or an integer.
        what: Name of the function that takes it.

    Returns:
        The typed key.

    Raises:
        TypeError: It is no random key.
        ValueError: There are several, or it is an integer with more bits than a seed.
    """
    key = as_key(rng)
    if key.ndim:
        raise ValueError(
            f"{what} takes one random key, got keys of shape {key.shape}: for one run with each, use "
            "agent.sweep or jax.vmap."
        )
    return key
