"""Exploration: random actions, epsilon schedules and parameter noise."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Key, Num

from jaxagents.ops.discrete import Categorical

Scalar = float | Float[Array, ""]
Count = int | float | Num[Array, ""]
_LEAST = float(jnp.finfo(jnp.float32).tiny)  # keeps 0 / 0 out of decays over no steps


def linear_decay(step: Count, initial: Scalar, final: Scalar, n_steps: Count) -> Float[Array, ""]:
    r"""Linear decay from one value to another, constant afterwards.

    $$\epsilon_t = \epsilon_N + (\epsilon_0 - \epsilon_N) \max(1 - t / N, 0)$$

    Mnih et al., 2015, "Human-level control through deep reinforcement learning", methods.

    Args:
        step: Steps so far, $t$.
        initial: Value at the start, $\epsilon_0$.
        final: Value after all steps, $\epsilon_N$.
        n_steps: Length of the decay, $N$; 0 gives the final value at once.

    Returns:
        The value.
    """
    share_left = jnp.maximum((n_steps - step) / jnp.maximum(n_steps, _LEAST), 0.0)
    return final + (initial - final) * share_left


def exponential_decay(
    step: Count, initial: Scalar, final: Scalar, n_steps: Count
) -> Float[Array, ""]:
    r"""Exponential decay from one value towards another.

    $$\epsilon_t = \epsilon_\infty + (\epsilon_0 - \epsilon_\infty) \exp(-t / N)$$

    Args:
        step: Steps so far, $t$.
        initial: Value at the start, $\epsilon_0$.
        final: Limit, $\epsilon_\infty$.
        n_steps: Time constant $N$: steps until $1 / e$ of the difference is left; 0 gives the final
            value from step 1 on.

    Returns:
        The value.
    """
    return final + (initial - final) * jnp.exp(-step / jnp.maximum(n_steps, _LEAST))


def factorised_noise(
    inputs: Float[Array, "inputs"], outputs: Float[Array, "outputs"]
) -> tuple[Float[Array, "inputs outputs"], Float[Array, "outputs"]]:
    r"""Factorised noise for the weights and biases of a layer.

    $$\varepsilon^w_{ij} = f(\varepsilon_i) f(\varepsilon_j), \quad
    \varepsilon^b_j = f(\varepsilon_j), \quad f(x) = \operatorname{sgn}(x) \sqrt{|x|}$$

    Fortunato et al., 2018, "Noisy networks for exploration", equations 10 and 11.

    Args:
        inputs: Standard normal numbers $\varepsilon_i$, one for each input.
        outputs: Standard normal numbers $\varepsilon_j$, one for each output.

    Returns:
        The noise of the weights and the noise of the biases.
    """
    inputs, outputs = (jnp.sign(x) * jnp.sqrt(jnp.abs(x)) for x in (inputs, outputs))
    return jnp.outer(inputs, outputs), outputs


def random_actions(
    key: Key[Array, ""], n_actions: int, mask: ArrayLike | None, shape: tuple[int, ...] = ()
) -> Int[Array, "*batch"]:
    """Draws discrete actions uniformly among the allowed ones.

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
