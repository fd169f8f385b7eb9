"""Targets and losses for action values, including distributional and offline ones."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxagents.core.arrays import atleast_nd, beside

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
        discount: Discount $\gamma$, or $\gamma^n$ for $n$-step rewards.
        mask: 0 where the episode terminated, else 1.
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
        value: Value $Q(s, a)$ of an action drawn from the policy.
        log_prob: Log-probability of that action.
        temperature: Weight of the entropy, $\alpha$.

    Returns:
        The value of each sample.
    """
    return value - temperature * log_prob


def values_of(
    values: Float[Array, "*batch n_actions"], actions: Int[Array, "*batch"]
) -> Float[Array, "*batch"]:
    """The values of the actions taken.

    Args:
        values: Values of all actions.
        actions: One action per sample.

    Returns:
        One value per sample; NaN, without a gradient, for an action out of range.
    """
    # One-hot selection: the gradient of indexing is a scatter, which is slow on CPU.
    one_hot = jax.nn.one_hot(actions, values.shape[-1], dtype=bool)
    chosen = jnp.where(one_hot, values, 0.0).sum(axis=-1)
    return jnp.where((actions >= 0) & (actions < values.shape[-1]), chosen, jnp.nan)


def categorical_projection(
    support: Float[Array, "n"],
    atoms: Float[Array, "*batch atoms"],
    probs: Float[Array, "*batch atoms"],
) -> Float[Array, "*batch n"]:
    r"""Projects a distribution over arbitrary atoms onto a fixed support.

    Each atom's probability is split between its two neighbours in the support, in proportion to their
    proximity; atoms beyond the support move to its ends.

    $$(\Phi Z)_i = \sum_j \left[1 - \frac{|[z_j]_{x_1}^{x_n} - x_i|}{\Delta x}\right]_0^1 p_j$$

    Bellemare et al., 2017, "A distributional perspective on reinforcement learning", equation 7 and
    algorithm 1.

    Args:
        support: Two or more equally spaced returns $x$, in increasing order.
        atoms: Returns $z$, such as the support shifted by a reward.
        probs: Probabilities $p$ of the atoms.

    Returns:
        The probabilities on the support.
    """
    last = support.shape[0] - 1
    positions = jnp.clip((atoms - support[0]) * last / (support[-1] - support[0]), 0.0, last)
    distances = jnp.abs(positions[..., None] - atleast_nd(jnp.arange(last + 1), atoms.ndim + 1))
    nearness = jnp.maximum(1.0 - distances, 0.0)
    return jnp.einsum("...j,...ji->...i", probs, nearness, precision="highest")


def quantile_midpoints(n: int) -> Float[Array, "n"]:
    r"""The quantile levels that best represent a distribution, $\hat\tau_i = (2 i - 1) / 2 n$.

    Dabney et al., 2018, "Distributional reinforcement learning with quantile regression", lemma 2.

    Args:
        n: Number of quantiles.

    Returns:
        The probability below each quantile.
    """
    return (jnp.arange(n, dtype=jnp.float32) + 0.5) / n


def quantile_huber_loss(
    quantiles: Float[Array, "*batch n"], targets: Float[Array, "*batch m"], kappa: Scalar
) -> Float[Array, "*batch"]:
    r"""The asymmetric Huber loss; for small $\kappa$, quantiles of the targets minimise it.

    $$L = \sum_i \frac{1}{m} \sum_j |\hat\tau_i - 1(u_{ij} < 0)| \, H_\kappa(u_{ij}),
    \quad u_{ij} = y_j - \theta_i$$

    $$H_\kappa(u) = \begin{cases}
    \frac{1}{2} u^2 & |u| \le \kappa \\ \kappa \, (|u| - \frac{1}{2} \kappa) & |u| > \kappa
    \end{cases}$$

    Dabney et al., 2018, "Distributional reinforcement learning with quantile regression", equations 9
    and 10 and algorithm 1.

    Args:
        quantiles: Estimates $\theta$ at the [midpoints][jaxagents.ops.quantile_midpoints] $\hat\tau$.
        targets: Samples $y$ of the return.
        kappa: Error $\kappa$ above which the loss is linear; 0 gives the quantile regression loss,
            $H_0(u) = |u|$.

    Returns:
        The loss of each sample.
    """
    error = targets[..., None, :] - quantiles[..., :, None]
    size = jnp.abs(error)
    quadratic = jnp.minimum(size, kappa)
    huber = jnp.where(kappa > 0.0, quadratic * (size - 0.5 * quadratic), size)
    midpoints = quantile_midpoints(quantiles.shape[-1])[:, None]
    weights = jnp.where(error < 0.0, 1.0 - midpoints, midpoints)
    return (weights * huber).mean(axis=-1).sum(axis=-1)


def expectile_loss(
    value: Float[Array, "*batch"], target: Float[Array, "*batch"], expectile: Scalar
) -> Float[Array, "*batch"]:
    r"""The asymmetric squared error, minimised by an expectile of the targets.

    $$L = |\tau - 1(u < 0)| \, u^2, \quad u = y - V(s)$$

    Newey and Powell, 1987, "Asymmetric least squares estimation and testing"; Kostrikov et al., 2021,
    "Offline reinforcement learning with implicit Q-learning", equation 5.

    Args:
        value: Estimates $V(s)$.
        target: Samples $y$ of the target.
        expectile: $\tau$; 0.5 gives half the squared error, minimised by the mean; near 1 the minimum
            approaches the largest target.

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
        advantage: Advantages $A$ of the dataset's actions.
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
    r"""How far the values of all actions exceed the value of the dataset's action.

    $$C = \log \sum_i \frac{\exp Q(s, a_i)}{\mu(a_i | s)} - Q(s, a)$$

    Kumar et al., 2020, "Conservative Q-learning for offline reinforcement learning", equation 4 and
    appendix F. The $n$ samples are summed, as in the authors' code, so that their thresholds apply; the
    sum estimates $n$ times the integral of $\exp Q$ over all actions.

    Args:
        value: Values $Q(s, a_i)$ of all actions, or of sampled ones.
        log_prob: Log-density $\log \mu(a_i | s)$ of the sampled actions; 0 for all actions.
        data_value: Value $Q(s, a)$ of the dataset's action.

    Returns:
        The penalty of each sample of the dataset.
    """
    (log_prob,) = beside(value, log_prob)
    return jax.nn.logsumexp(value - log_prob, axis=-1) - data_value
