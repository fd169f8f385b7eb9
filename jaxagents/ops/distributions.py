"""Action distributions: pytrees with `sample`, `log_prob`, `entropy` and `mode`."""

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxagents.ops.masks import allowed_actions, among_allowed

_LOG_SQRT_2_PI = 0.5 * float(np.log(2.0 * np.pi))
_LOG_2 = float(np.log(2.0))
_SQUASH_LIMIT = 1.0 - 1e-6
_FEW_ACTIONS = 6
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(16)

ByAction = list[Array] | Array


class Distribution(struct.PyTreeNode):
    """A distribution over actions, possibly batched over leading axes (actors)."""

    @abstractmethod
    def sample(self, key: Key[Array, ""]) -> PyTree:
        """Draws one action."""

    @abstractmethod
    def log_prob(self, action: Any) -> Float[Array, "*batch"]:
        """Log-probability (or log-density) of an action, in nats."""

    def sample_and_log_prob(self, key: Key[Array, ""]) -> tuple[Any, Float[Array, "*batch"]]:
        """Draws one action, and gives its log-probability (or log-density) in nats."""
        action = self.sample(key)
        return action, self.log_prob(action)

    @abstractmethod
    def entropy(self) -> Float[Array, "*batch"]:
        """Entropy, in nats."""

    @abstractmethod
    def mode(self) -> PyTree:
        """The greedy action."""


class Reparametrised(Distribution):
    """A distribution whose action is a function of its parameters and of noise independent of them.

    Rollouts draw the noise of many steps at once. A subclass gives `noise` and `sample_from` in place of
    `sample`. If it gives `sample` itself, that is used.

    Attributes:
        draws_noise: Whether actions are drawn by `noise` and `sample_from`.
    """

    draws_noise: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Notes which of the two a subclass gives."""
        super().__init_subclass__(**kwargs)
        if "sample_from" in vars(cls):
            cls.draws_noise = True
        elif "sample" in vars(cls):
            cls.draws_noise = False

    @abstractmethod
    def noise(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> PyTree:
        """Draws the random numbers of actions.

        It may use only the shapes and types of the parameters: a rollout does not have their values
        yet.

        Args:
            key: Random key.
            shape: Shape of an array of independent draws; `()` for a single one.

        Returns:
            An array of the numbers, or a pytree of arrays, with the axes of `shape` first.
        """

    @abstractmethod
    def sample_from(self, noise: PyTree) -> PyTree:
        """The action made from the noise of one draw."""

    def sample(self, key: Key[Array, ""]) -> PyTree:
        """Draws one action."""
        return self.sample_from(self.noise(key))


class Categorical(Reparametrised):
    r"""Discrete actions, $\pi(a) \propto \exp(z_a)$.

    Attributes:
        logits: Unnormalised log-probabilities $z$, shaped `(*batch, n_actions)`; an action that is
            not allowed has $-\infty$.
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
        """Log-probability of an action, in nats; minus infinity if there is no such action."""
        # A one-hot choice: the gradient of an indexed read is a scatter, which is slow on CPU.
        n_actions = self.logits.shape[-1]
        one_hot = _by_action(jax.nn.one_hot(action, n_actions, dtype=bool))
        terms = jax.tree.map(lambda hot, x: jnp.where(hot, x, 0.0), one_hot, self._log_probs())
        exists = (action >= 0) & (action < n_actions)
        return jnp.where(exists, _over_actions(jnp.add, terms), -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        """Entropy, in nats."""

        def term(log_prob: Array) -> Array:
            prob = jnp.exp(log_prob)
            return prob * jnp.where(prob > 0.0, log_prob, 0.0)

        return -_over_actions(jnp.add, jax.tree.map(term, self._log_probs()))

    def mode(self) -> Int[Array, "*batch"]:
        """The most probable action."""
        return jnp.argmax(self.logits, axis=-1)

    def tempered(self, temperature: ArrayLike) -> "Categorical":
        """The distribution of $z / T$; at $T = 0$ only the most probable action is left.

        Args:
            temperature: $T$.

        Returns:
            The distribution.
        """
        greedy = jax.nn.one_hot(self.mode(), self.logits.shape[-1], dtype=bool)
        temperature = jnp.asarray(temperature)
        positive = jnp.where(temperature > 0.0, temperature, 1.0)
        cold = jnp.where(greedy, 0.0, -jnp.inf)
        return Categorical(jnp.where(temperature > 0.0, self.logits / positive, cold))

    def masked(self, mask: ArrayLike) -> "Categorical":
        """The distribution of the actions that are allowed.

        Args:
            mask: Whether each action is allowed, broadcastable to the logits. Where none is, all are.

        Returns:
            The distribution.
        """
        return Categorical(among_allowed(self.logits, mask))

    def _log_probs(self) -> ByAction:
        """Log-softmax of the logits, in the form that `_by_action` gives."""
        logits = _by_action(self.logits)
        largest = jax.lax.stop_gradient(_over_actions(jnp.maximum, logits, keepdims=True))
        shifted = jax.tree.map(lambda x: x - largest, logits)
        total = _over_actions(jnp.add, jax.tree.map(jnp.exp, shifted), keepdims=True)
        log_total = jnp.log(total)
        return jax.tree.map(lambda x: x - log_total, shifted)


class EpsilonGreedy(Distribution):
    r"""The action of the largest value, or with probability $\epsilon$ a uniformly random one.

    $$\pi(a) = \frac{\epsilon}{n} + (1 - \epsilon) \, 1(a = \arg\max_b Q_b)$$

    With a mask, $n$ is the number of allowed actions, and there are no others.

    Sutton and Barto, 2018, "Reinforcement learning: an introduction", section 2.2.

    Attributes:
        values: Values $Q$ of the actions, shaped `(*batch, n_actions)`.
        epsilon: Probability $\epsilon$, broadcastable to the batch.
        mask: Whether each action is allowed, shaped as the values; `None` if all are. Where none is, all
            are.
    """

    values: PyTree
    epsilon: Any
    mask: Any = None

    def sample(self, key: Key[Array, ""]) -> Int[Array, "*batch"]:
        """Draws one action by one random number, which also chooses the action if below epsilon."""
        greedy, n_allowed = self.mode(), self._n_allowed()
        u = jax.random.uniform(key, greedy.shape, jnp.float32)
        positive = jnp.where(self.epsilon > 0.0, self.epsilon, 1.0)
        random_action = jnp.floor(u / positive * n_allowed).astype(greedy.dtype)
        random_action = self._action_of(jnp.minimum(random_action, n_allowed - 1))
        return jnp.where(u < self.epsilon, random_action, greedy)

    def log_prob(self, action: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        """Log-probability of an action, in nats; minus infinity if there is no such action."""
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
        """The probabilities of any other allowed action, and of the greedy one."""
        any_other = self.epsilon / self._n_allowed()
        return any_other, 1.0 - self.epsilon + any_other

    def _n_allowed(self) -> Any:
        if self.mask is None:
            return self.values.shape[-1]
        return allowed_actions(self.mask).sum(axis=-1)

    def _action_of(self, rank: Int[Array, "*batch"]) -> Int[Array, "*batch"]:
        """The allowed action that so many allowed ones precede."""
        if self.mask is None:
            return rank
        n_up_to = allowed_actions(self.mask).cumsum(axis=-1)
        return jnp.argmax(n_up_to > rank[..., None], axis=-1).astype(rank.dtype)


class Gaussian(Reparametrised):
    r"""Independent normal components, $a_i \sim \mathcal{N}(\mu_i, \sigma_i^2)$.

    Attributes:
        mean: Means, shaped `(*batch, *action_shape)`.
        log_std: Logarithms of the standard deviations, broadcastable to `mean`.
        event_ndim: Number of trailing axes that make up one action (static).
    """

    mean: Any
    log_std: Any
    event_ndim: int = struct.field(pytree_node=False, default=1)

    def noise(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*action"]:
        """Draws a standard normal variable for each component."""
        return jax.random.normal(key, (*shape, *self.mean.shape), self.mean.dtype)

    def sample_from(self, noise: Float[Array, "*action"]) -> Float[Array, "*action"]:
        """The mean plus the noise times the standard deviation."""
        return self.mean + jnp.exp(self.log_std) * noise

    def log_prob(self, action: Float[Array, "*action"]) -> Float[Array, "*batch"]:
        """Log-density of an action, in nats."""
        z = (action - self.mean) * jnp.exp(-self.log_std)
        return _sum_trailing(-0.5 * jnp.square(z) - self.log_std - _LOG_SQRT_2_PI, self.event_ndim)

    def entropy(self) -> Float[Array, "*batch"]:
        """Differential entropy, in nats."""
        per_component = self.log_std + 0.5 + _LOG_SQRT_2_PI
        return _sum_trailing(jnp.broadcast_to(per_component, self.mean.shape), self.event_ndim)

    def mode(self) -> Float[Array, "*action"]:
        """The mean."""
        return self.mean


class TanhGaussian(Reparametrised):
    r"""A normal variable squashed into a box, $a = l + \frac{h - l}{2} (\tanh u + 1)$.

    Haarnoja et al., 2018, "Soft actor-critic", appendix C.

    Attributes:
        base: The distribution of $u$.
        low: Lower bounds $l$, broadcastable to an action.
        high: Upper bounds $h$, broadcastable to an action.
    """

    base: Gaussian
    low: Any
    high: Any

    def noise(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> Float[Array, "*action"]:
        """Draws a standard normal variable for each component."""
        return self.base.noise(key, shape)

    def sample_from(self, noise: Float[Array, "*action"]) -> Float[Array, "*action"]:
        """The squashed action that the base makes from the noise."""
        return self._squash(self.base.sample_from(noise))

    def log_prob(self, action: Float[Array, "*action"]) -> Float[Array, "*batch"]:
        """Log-density of an action, in nats.

        Actions within a relative 1e-6 of a bound are treated as lying at that distance from it,
        which keeps the density finite there.
        """
        unit = 2.0 * (action - self.low) / (self.high - self.low) - 1.0
        u = jnp.arctanh(jnp.clip(unit, -_SQUASH_LIMIT, _SQUASH_LIMIT))
        return self._log_density(u)

    def sample_and_log_prob(
        self, key: Key[Array, ""]
    ) -> tuple[Float[Array, "*action"], Float[Array, "*batch"]]:
        """Draws one action, and gives its log-density in nats, exact at the bounds too."""
        u = self.base.sample(key)
        return self._squash(u), self._log_density(u)

    def entropy(self) -> Float[Array, "*batch"]:
        r"""Differential entropy, in nats: $H(u) + \mathbb{E}[\log |da / du|]$.

        The expectation is taken by Gauss-Hermite quadrature with 16 nodes for each component.
        """
        std = jnp.exp(self.base.log_std)
        u = self.base.mean + std * _NODES.reshape(-1, *[1] * self.base.mean.ndim)
        weights = (_WEIGHTS / _WEIGHTS.sum()).astype(np.float32)
        expected_log_slope = jnp.tensordot(weights, self._log_slope(u), axes=1)
        return self.base.entropy() + _sum_trailing(expected_log_slope, self.base.event_ndim)

    def mode(self) -> Float[Array, "*action"]:
        """The squashed mean of the base (the median of the action)."""
        return self._squash(self.base.mode())

    def _log_density(self, u: Float[Array, "*action"]) -> Float[Array, "*batch"]:
        return self.base.log_prob(u) - _sum_trailing(self._log_slope(u), self.base.event_ndim)

    def _squash(self, u: Float[Array, "*action"]) -> Float[Array, "*action"]:
        action = self.low + 0.5 * (self.high - self.low) * (jnp.tanh(u) + 1.0)
        return jnp.clip(action, self.low, self.high)  # it can round to just outside

    def _log_slope(self, u: Float[Array, "*action"]) -> Float[Array, "*action"]:
        log_tanh_slope = 2.0 * (_LOG_2 - u - jax.nn.softplus(-2.0 * u))
        return log_tanh_slope + jnp.log(0.5 * (self.high - self.low))


def _sum_trailing(x: Float[Array, "*action"], ndim: int) -> Float[Array, "*batch"]:
    return x.sum(axis=tuple(range(x.ndim - ndim, x.ndim)))


def _by_action(x: Array) -> ByAction:
    """Few actions as a list of arrays, which XLA fuses with the code around them; many unchanged."""
    n_actions = x.shape[-1]
    return [x[..., i] for i in range(n_actions)] if n_actions <= _FEW_ACTIONS else x


def _over_actions(
    operation: Callable[..., Array], by_action: ByAction, *, keepdims: bool = False
) -> Array:
    """Reduces the output of `_by_action` by a `jnp.ufunc`; `keepdims` lets the result broadcast."""
    if isinstance(by_action, list):
        return functools.reduce(operation, by_action)
    return operation.reduce(by_action, axis=-1, keepdims=keepdims)
