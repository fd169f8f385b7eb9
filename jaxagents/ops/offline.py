"""Losses and weights that keep offline learning near the actions of the dataset."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxagents.core.arrays import beside

Scalar = float | Float[Array, ""]


def expectile_loss(
    value: Float[Array, "*batch"], target: Float[Array, "*batch"], expectile: Scalar
) -> Float[Array, "*batch"]:
    r"""The asymmetric squared error, which an expectile of the targets minimises.

    $$L = |\tau - 1(u < 0)| \, u^2, \quad u = y - V(s)$$

    Newey and Powell, 1987, "Asymmetric least squares estimation and testing"; Kostrikov et al., 2021,
    "Offline reinforcement learning with implicit Q-learning", equation 5.

    Args:
        value: Estimates $V(s)$.
        target: Samples $y$ of what is estimated.
        expectile: $\tau$; 0.5 gives half of the squared error, whose minimum is the mean, and values
            towards 1 the largest target.

    Returns:
        The loss of each sample.
    """
    error = target - value
    return jnp.where(error < 0.0, 1.0 - expectile, expectile) * jnp.square(error)


def advantage_weights(
    advantage: Float[Array, "*batch"], beta: Scalar, max_weight: Scalar
) -> Float[Array, "*batch"]:
    r"""The weights of advantage-weighted regression, $w = \min(\exp(\beta A), w_\text{max})$.

    Peng et al., 2019, "Advantage-weighted regression"; Kostrikov et al., 2021, "Offline reinforcement
    learning with implicit Q-learning", equation 7.

    Args:
        advantage: Advantages $A$ of the actions of the data.
        beta: Inverse temperature $\beta$; at 0 all weights are 1.
        max_weight: Largest weight $w_\text{max}$.

    Returns:
        The weight of each sample.
    """
    return jnp.minimum(jnp.exp(beta * advantage), max_weight)


def conservative_penalty(
    value: Float[Array, "*batch samples"],
    log_prob: Scalar | Float[Array, "*#batch samples"],
    data_value: Float[Array, "*batch"],
) -> Float[Array, "*batch"]:
    r"""The excess of the values of all actions over that of the action in the data.

    $$C = \log \sum_i \frac{\exp Q(s, a_i)}{\mu(a_i | s)} - Q(s, a)$$

    Kumar et al., 2020, "Conservative Q-learning for offline reinforcement learning", equation 4 and
    appendix F. The $n$ samples are summed, as in the authors' code, for which their thresholds were
    chosen; the sum estimates the integral of $\exp Q$ over all actions up to the factor $n$.

    Args:
        value: Values $Q(s, a_i)$ of all actions, or of samples.
        log_prob: Log-density $\log \mu(a_i | s)$ with which samples were drawn; 0 for all actions.
        data_value: Value $Q(s, a)$ of the action in the data.

    Returns:
        The penalty of each sample of the data.
    """
    (log_prob,) = beside(value, log_prob)
    return jax.nn.logsumexp(value - log_prob, axis=-1) - data_value
