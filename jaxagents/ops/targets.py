"""Targets of action values."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

Scalar = float | Float[Array, ""]


def td_target(
    reward: Float[Array, "*batch"],
    discount: Scalar | Float[Array, "*batch"],
    mask: Float[Array, "*batch"],
    next_value: Float[Array, "*batch"],
) -> Float[Array, "*batch"]:
    r"""The one-step target $y = r + \gamma \, m \, V(s')$.

    Sutton, 1988, "Learning to predict by the methods of temporal differences".

    Args:
        reward: Reward $r$.
        discount: Discount $\gamma$; after $n$ steps their product.
        mask: 0 where the episode terminated, so that nothing follows, else 1.
        next_value: Value $V(s')$ of the true successor.

    Returns:
        The target of each sample.
    """
    return reward + discount * mask * next_value


def soft_value(
    value: Float[Array, "*batch"], log_prob: Float[Array, "*batch"], temperature: Scalar
) -> Float[Array, "*batch"]:
    r"""A sample of the entropy-regularised value, $V(s) = Q(s, a) - \alpha \log \pi(a | s)$.

    Haarnoja et al., 2018, "Soft actor-critic", equation 3.

    Args:
        value: Action value $Q(s, a)$ of an action drawn from the policy.
        log_prob: Its log-probability.
        temperature: Weight of the entropy, $\alpha$.

    Returns:
        The value of each sample.
    """
    return value - temperature * log_prob


def values_of(
    values: Float[Array, "*batch n_actions"], actions: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """The values of the actions that were taken.

    Args:
        values: Values of all actions.
        actions: One action of each sample.

    Returns:
        The value of each; NaN, without a gradient, for one that is not among all actions.
    """
    # A one-hot choice: the gradient of an indexed read is a scatter, which is slow on CPU.
    one_hot = jax.nn.one_hot(actions, values.shape[-1], dtype=bool)
    chosen = jnp.where(one_hot, values, 0.0).sum(axis=-1)
    return jnp.where((actions >= 0) & (actions < values.shape[-1]), chosen, jnp.nan)
