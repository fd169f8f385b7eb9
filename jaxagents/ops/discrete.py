"""Distributions over discrete actions, and action masks."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxagents.ops.distributions import Distribution, Reparametrised

_FEW_ACTIONS = 6


def allowed_actions(mask: ArrayLike) -> Bool[Array, "*batch n_actions"]:
    """The mask, or all actions where it allows none.

    Environments often allow no action at the last observation of an episode. All actions then count as
    allowed, so that terms multiplied by zero stay finite.

    Args:
        mask: Whether each action is allowed, actions last.

    Returns:
        Whether each action is allowed, at least one everywhere.
    """
    allowed = jnp.asarray(mask, bool)
    return allowed | ~allowed.any(axis=-1, keepdims=True)


def among_allowed(
    values: Float[Array, "*batch n_actions"], mask: ArrayLike | None
) -> Float[Array, "*batch n_actions"]:
    """Masks out forbidden actions, so that none has the largest value.

    Args:
        values: Values or logits of all actions.
        mask: Whether each action is allowed; `None` if all are.

    Returns:
        The values, with minus infinity for forbidden actions.
    """
    return values if mask is None else jnp.where(allowed_actions(mask), values, -jnp.inf)


class Categorical(Reparametrised):
    r"""Discrete actions, $\pi(a) \propto \exp(z_a)$.

    Attributes:
        logits: Unnormalised log-probabilities $z$, shaped `(*batch, n_actions)`; $-\infty$ for
            forbidden actions.
    """

    logits: Any

    def noise(
        self, key: Key[Array, ""], shape: tuple[int, ...] = ()
    ) -> Float[Array, "*batch n_actions"]:
        """Draws a standard Gumbel variable for each action."""
        return jax.random.gumbel(key, (*shape, *self.logits.shape), self.logits.dtype)

    def sample_from(self, noise: Float[Array, "*batch n_actions"]) -> Int[Array, "*batch"]:
        """The action whose logit plus noise is largest.

        Maddison et al., 2014, "A* sampling", section 2 (the Gumbel-max trick).
        """
        return jnp.argmax(self.logits + noise, axis=-1)

    def log_prob(self, action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Log-probability of an action, in nats; minus infinity for an action out of range."""
        # One-hot selection: the gradient of indexing is a scatter, which is slow on CPU.
        n_actions = self.logits.shape[-1]
        one_hot = _by_action(jax.nn.one_hot(action, n_actions, dtype=bool))
        pairs = zip(one_hot, self._log_probs(), strict=True)
        terms = [jnp.where(hot, log_prob, 0.0) for hot, log_prob in pairs]
        exists = (action >= 0) & (action < n_actions)
        return jnp.where(exists, _over_actions(jnp.add, terms), -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        """Entropy, in nats."""
        terms = []
        for log_prob in self._log_probs():
            prob = jnp.exp(log_prob)
            terms.append(prob * jnp.where(prob > 0.0, log_prob, 0.0))
        return -_over_actions(jnp.add, terms)

    def mode(self) -> Int[Array, "*batch"]:
        """The most probable action."""
        return jnp.argmax(self.logits, axis=-1)

    def tempered(self, temperature: ArrayLike) -> "Categorical":
        """The distribution with logits $z / T$; at $T = 0$ only the most probable action is left.

        Args:
            temperature: Temperature $T$.

        Returns:
            The distribution.
        """
        greedy = jax.nn.one_hot(self.mode(), self.logits.shape[-1], dtype=bool)
        temperature = jnp.asarray(temperature)
        positive = jnp.where(temperature > 0.0, temperature, 1.0)
        cold = jnp.where(greedy, 0.0, -jnp.inf)
        return Categorical(jnp.where(temperature > 0.0, self.logits / positive, cold))

    def masked(self, mask: ArrayLike) -> "Categorical":
        """The distribution restricted to the allowed actions.

        Args:
            mask: Whether each action is allowed, broadcastable to the logits. Where the mask allows
                none, all are allowed.

        Returns:
            The distribution.
        """
        return Categorical(among_allowed(self.logits, mask))

    def _log_probs(self) -> list[Array]:
        """Log-softmax of the logits, as `_by_action` splits them."""
        logits = _by_action(self.logits)
        largest = jax.lax.stop_gradient(_over_actions(jnp.maximum, logits, keepdims=True))
        shifted = [x - largest for x in logits]
        log_total = jnp.log(_over_actions(jnp.add, [*map(jnp.exp, shifted)], keepdims=True))
        return [x - log_total for x in shifted]


class EpsilonGreedy(Distribution):
    r"""The action with the largest value or, with probability $\epsilon$, a uniformly random one.

    $$\pi(a) = \frac{\epsilon}{n} + (1 - \epsilon) \, 1(a = \arg\max_b Q_b)$$

    With a mask, $n$ counts the allowed actions, and the others have probability zero.

    Sutton and Barto, 2018, "Reinforcement learning: an introduction", section 2.2.

    Attributes:
        values: Values $Q$ of the actions, shaped `(*batch, n_actions)`.
        epsilon: Probability $\epsilon$, broadcastable to the batch.
        mask: Whether each action is allowed, shaped like the values; `None` if all are. Where the mask
            allows none, all are allowed.
    """

    values: PyTree
    epsilon: Any
    mask: Any = None

    def sample(self, key: Key[Array, ""]) -> Int[Array, "*batch"]:
        """Draws one action from a single random number; below epsilon, it also picks the action."""
        greedy, n_allowed = self.mode(), self._n_allowed()
        u = jax.random.uniform(key, greedy.shape, jnp.float32)
        positive = jnp.where(self.epsilon > 0.0, self.epsilon, 1.0)
        rank = jnp.floor(u / positive * n_allowed).astype(greedy.dtype)
        random_action = rank = jnp.minimum(rank, n_allowed - 1)
        if self.mask is not None:  # the allowed action of this rank
            n_up_to = allowed_actions(self.mask).cumsum(axis=-1)
            random_action = jnp.argmax(n_up_to > rank[..., None], axis=-1).astype(rank.dtype)
        return jnp.where(u < self.epsilon, random_action, greedy)

    def log_prob(self, action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Log-probability of an action, in nats; minus infinity for a forbidden action."""
        any_other, greedy = self._probs()
        log_prob = jnp.log(jnp.where(action == self.mode(), greedy, any_other))
        is_it = jax.nn.one_hot(action, self.values.shape[-1], dtype=bool)
        allowed = True if self.mask is None else allowed_actions(self.mask)
        return jnp.where((is_it & allowed).any(axis=-1), log_prob, -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        """Entropy, in nats."""
        any_other, greedy = self._probs()
        n_others = self._n_allowed() - 1
        entropy = n_others * jax.scipy.special.entr(any_other) + jax.scipy.special.entr(greedy)
        return jnp.broadcast_to(entropy, self.values.shape[:-1])

    def mode(self) -> Int[Array, "*batch"]:
        """The greedy action."""
        return jnp.argmax(among_allowed(self.values, self.mask), axis=-1)

    def _probs(self) -> tuple[Any, Any]:
        """Probability of each other allowed action, and of the greedy one."""
        any_other = self.epsilon / self._n_allowed()
        return any_other, 1.0 - self.epsilon + any_other

    def _n_allowed(self) -> Any:
        if self.mask is None:
            return self.values.shape[-1]
        return allowed_actions(self.mask).sum(axis=-1)


def _by_action(x: Array) -> list[Array]:
    """One array per action if there are few, which XLA fuses with nearby code; else one for all."""
    n_actions = x.shape[-1]
    return [x[..., i] for i in range(n_actions)] if 1 < n_actions <= _FEW_ACTIONS else [x]


def _over_actions(operation: Any, parts: list[Array], *, keepdims: bool = False) -> Array:
    """Reduces the output of `_by_action` with a `jnp.ufunc`; `keepdims` lets it broadcast."""
    if len(parts) == 1:
        return operation.reduce(parts[0], axis=-1, keepdims=keepdims)
    return functools.reduce(operation, parts)
