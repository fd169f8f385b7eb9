"""Schedules of exploration."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Num

Scalar = float | Float[Array, ""]
Count = int | float | Num[Array, ""]
_LEAST = float(jnp.finfo(jnp.float32).tiny)  # keeps 0 / 0 out of decays over no steps


def linear_decay(step: Count, initial: Scalar, final: Scalar, n_steps: Count) -> Float[Array, ""]:
    r"""A straight line from one value to another, which is then kept.

    $$\epsilon_t = \epsilon_N + (\epsilon_0 - \epsilon_N) \max(1 - t / N, 0)$$

    Mnih et al., 2015, "Human-level control through deep reinforcement learning", methods.

    Args:
        step: Steps so far, $t$.
        initial: Value at the start, $\epsilon_0$.
        final: Value after all steps, $\epsilon_N$.
        n_steps: Steps of the decay, $N$; without any, the value is the final one.

    Returns:
        The value.
    """
    share_left = jnp.maximum((n_steps - step) / jnp.maximum(n_steps, _LEAST), 0.0)
    return final + (initial - final) * share_left


def exponential_decay(
    step: Count, initial: Scalar, final: Scalar, n_steps: Count
) -> Float[Array, ""]:
    r"""An exponential approach of one value to another.

    $$\epsilon_t = \epsilon_\infty + (\epsilon_0 - \epsilon_\infty) \exp(-t / N)$$

    Args:
        step: Steps so far, $t$.
        initial: Value at the start, $\epsilon_0$.
        final: Value that is approached, $\epsilon_\infty$.
        n_steps: Steps $N$ after which a share $1 / e$ of the difference is left; without any, the value
            is the final one after the start.

    Returns:
        The value.
    """
    return final + (initial - final) * jnp.exp(-step / jnp.maximum(n_steps, _LEAST))
