"""Exploration: random actions, schedules of how rare they become, and noise of parameters."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Key, Num

from jaxagents.ops.discrete import Categorical

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


def factorised_noise(
    inputs: Float[Array, "inputs"], outputs: Float[Array, "outputs"]
) -> tuple[Float[Array, "inputs outputs"], Float[Array, "outputs"]]:
    r"""Noise for the weights and the biases of a layer, made of a number for each input and output.

    $$\varepsilon^w_{ij} = f(\varepsilon_i) f(\varepsilon_j), \quad
    \varepsilon^b_j = f(\varepsilon_j), \quad f(x) = \operatorname{sgn}(x) \sqrt{|x|}$$

    Fortunato et al., 2018, "Noisy networks for exploration", equations 10 and 11.

    Args:
        inputs: Standard normal numbers $\varepsilon_i$, one for each input.
        outputs: Standard normal numbers $\varepsilon_j$, one for each output.

    Returns:
        The noise of the weights, and of the biases.
    """
    inputs, outputs = (jnp.sign(x) * jnp.sqrt(jnp.abs(x)) for x in (inputs, outputs))
    return jnp.outer(inputs, outputs), outputs


def random_actions(
    key: Key[Array, ""], n_actions: int, mask: ArrayLike | None, shape: tuple[int, ...] = ()
) -> Int[Array, "*batch"]:
    """Discrete actions, drawn uniformly from those that are allowed.

    Args:
        key: Random key.
        n_actions: Number of actions.
        mask: Whether each action is allowed, shaped `(*batch, n_actions)`; `None` if all are.
        shape: The shape of the batch.

    Returns:
        The actions.
    """
    if mask is None:
        return jax.random.randint(key, shape, 0, n_actions, jnp.int32)
    drawn = Categorical(jnp.zeros((*shape, n_actions))).masked(mask).sample(key)
    return drawn.astype(jnp.int32)
