"""Action distributions: pytrees with `sample`, `log_prob`, `entropy` and `mode`."""

import functools
from abc import abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Key, PyTree

from jaxagents.core.arrays import beside


class Distribution(struct.PyTreeNode):
    """A distribution over actions, possibly batched over leading axes (actors)."""

    @abstractmethod
    def sample(self, key: Key[Array, ""]) -> PyTree:
        """Draws one action."""

    @abstractmethod
    def log_prob(self, action: PyTree) -> Float[Array, "*batch"]:
        """Log-probability (or log-density) of an action, in nats."""

    def sample_and_log_prob(self, key: Key[Array, ""]) -> tuple[PyTree, Float[Array, "*batch"]]:
        """Draws one action; also returns its log-probability (or log-density), in nats."""
        action = self.sample(key)
        return action, self.log_prob(action)

    @abstractmethod
    def entropy(self) -> Float[Array, "*batch"]:
        """Entropy, in nats."""

    @abstractmethod
    def mode(self) -> PyTree:
        """The greedy action."""


class Reparametrised(Distribution):
    """A distribution that samples by transforming noise that is independent of its parameters.

    Rollouts draw the noise of many steps at once. A subclass defines `noise` and `sample_from` instead
    of `sample`; if it overrides `sample`, that is used.

    Attributes:
        draws_noise: Whether actions are drawn with `noise` and `sample_from`.
    """

    draws_noise: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Records whether a subclass draws noise or defines `sample` itself."""
        super().__init_subclass__(**kwargs)
        if "sample_from" in vars(cls):
            cls.draws_noise = True
        elif "sample" in vars(cls):
            cls.draws_noise = False

    @abstractmethod
    def noise(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> PyTree:
        """Draws the noise that actions are computed from.

        It may depend on the parameters' shapes and dtypes but not on their values, which a rollout does
        not know yet.

        Args:
            key: Random key.
            shape: Shape of an array of independent draws; `()` for a single one.

        Returns:
            An array, or a pytree of arrays, with the axes of `shape` first.
        """

    @abstractmethod
    def sample_from(self, noise: PyTree) -> PyTree:
        """Turns the noise of one draw into an action."""

    def sample(self, key: Key[Array, ""]) -> PyTree:
        """Draws one action."""
        return self.sample_from(self.noise(key))


class Joint(Reparametrised):
    r"""An action with independent parts, $\log \pi(a) = \sum_i \log \pi_i(a_i)$.

    ```python
    moves = ops.Joint(
        {"turn": ops.Categorical(logits), "speed": ops.Gaussian(mean, log_std)}
    )
    action = moves.sample(key)  # {"turn": ..., "speed": ...}
    ```

    Attributes:
        parts: Distributions in a possibly nested dict or tuple; actions have the same structure.
        stacked: Whether the parts of an action are stacked along the last axis of one array (static),
            as in a `MultiDiscrete` space.
    """

    parts: PyTree
    stacked: bool = struct.field(pytree_node=False, default=False)

    def noise(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> PyTree:
        """Draws the noise of each part, or random keys for a part without noise."""
        parts, treedef = jax.tree.flatten(self.parts, is_leaf=_is_distribution)
        pairs = zip(parts, jax.random.split(key, len(parts)), strict=True)
        return treedef.unflatten(
            part.noise(key, shape) if _draws_noise(part) else jax.random.split(key, shape)
            for part, key in pairs
        )

    def sample_from(self, noise: PyTree) -> PyTree:
        """Turns the noise of one draw into an action."""

        def sample(part: Any, noise: PyTree) -> PyTree:
            return part.sample_from(noise) if _draws_noise(part) else part.sample(noise)

        return self._stack(_map(sample, self.parts, noise))

    def log_prob(self, action: PyTree) -> Float[Array, "*batch"]:
        """Log-probability (or log-density) of an action, in nats."""
        if self.stacked:
            treedef = jax.tree.structure(self.parts, is_leaf=_is_distribution)
            action = treedef.unflatten([action[..., i] for i in range(treedef.num_leaves)])
        return _sum(_map(lambda part, a: part.log_prob(a), self.parts, action))

    def entropy(self) -> Float[Array, "*batch"]:
        """Entropy, in nats."""
        return _sum(_map(lambda part: part.entropy(), self.parts))

    def mode(self) -> PyTree:
        """The greedy action of every part."""
        return self._stack(_map(lambda part: part.mode(), self.parts))

    def _stack(self, actions: PyTree) -> PyTree:
        return jnp.stack(jax.tree.leaves(actions), axis=-1) if self.stacked else actions


def _draws_noise(part: Distribution) -> bool:
    return isinstance(part, Reparametrised) and part.draws_noise


def _map(function: Any, parts: PyTree, *trees: PyTree) -> PyTree:
    return jax.tree.map(function, parts, *trees, is_leaf=_is_distribution)


def _is_distribution(x: object) -> bool:
    return isinstance(x, Distribution)


def _sum(terms: PyTree) -> Float[Array, "*batch"]:
    return functools.reduce(jnp.add, jax.tree.leaves(terms))


_LOG_SQRT_2_PI = 0.5 * float(np.log(2.0 * np.pi))
_LOG_2 = float(np.log(2.0))
_SQUASH_LIMIT = 1.0 - 1e-6
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(16)


class Gaussian(Reparametrised):
    r"""Independent normal components, $a_i \sim \mathcal{N}(\mu_i, \sigma_i^2)$.

    Attributes:
        mean: Means, shaped `(*batch, *action_shape)`.
        log_std: Log standard deviations, broadcastable to `mean`.
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
        mean, log_std = beside(noise, self.mean, self.log_std)
        return mean + jnp.exp(log_std) * noise

    def log_prob(self, action: Float[Array, "*action"]) -> Float[Array, "*batch"]:
        """Log-density of an action, in nats."""
        mean, log_std = beside(action, self.mean, self.log_std)
        z = (action - mean) * jnp.exp(-log_std)
        return _sum_trailing(-0.5 * jnp.square(z) - log_std - _LOG_SQRT_2_PI, self.event_ndim)

    def entropy(self) -> Float[Array, "*batch"]:
        """Differential entropy, in nats."""
        per_component = self.log_std + 0.5 + _LOG_SQRT_2_PI
        return _sum_trailing(jnp.broadcast_to(per_component, self.mean.shape), self.event_ndim)

    def mode(self) -> Float[Array, "*action"]:
        """The mean."""
        return self.mean


class TanhGaussian(Reparametrised):
    r"""A normal variable squashed between bounds, $a = l + \frac{h - l}{2} (\tanh u + 1)$.

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
        """The base's action, squashed."""
        return self._squash(self.base.sample_from(noise))

    def log_prob(self, action: Float[Array, "*action"]) -> Float[Array, "*batch"]:
        """Log-density of an action, in nats.

        Actions within a relative 1e-6 of a bound are moved to that distance, which keeps the density
        finite. Computed in single precision or better.
        """
        action = jnp.asarray(action)
        action = action.astype(jnp.promote_types(action.dtype, jnp.float32))
        low, high = beside(action, self.low, self.high)
        unit = 2.0 * (action - low) / (high - low) - 1.0
        u = jnp.arctanh(jnp.clip(unit, -_SQUASH_LIMIT, _SQUASH_LIMIT))
        return self._log_density(u)

    def sample_and_log_prob(
        self, key: Key[Array, ""]
    ) -> tuple[Float[Array, "*action"], Float[Array, "*batch"]]:
        """Draws one action; also returns its log-density, in nats, exact even at the bounds."""
        u = self.base.sample(key)
        return self._squash(u), self._log_density(u)

    def entropy(self) -> Float[Array, "*batch"]:
        r"""Differential entropy, in nats: $H(u) + \mathbb{E}[\log |da / du|]$.

        The expectation is computed by Gauss-Hermite quadrature with 16 nodes per component.
        """
        nodes = jnp.asarray(_NODES.reshape(-1, *[1] * self.base.mean.ndim))
        mean, log_std = beside(nodes, self.base.mean, self.base.log_std)
        u = mean + jnp.exp(log_std) * nodes
        weights = (_WEIGHTS / _WEIGHTS.sum()).astype(np.float32)
        expected_log_slope = jnp.tensordot(weights, self._log_slope(u), axes=1)
        return self.base.entropy() + _sum_trailing(expected_log_slope, self.base.event_ndim)

    def mode(self) -> Float[Array, "*action"]:
        """The squashed mean of the base (the median of the action)."""
        return self._squash(self.base.mode())

    def _log_density(self, u: Float[Array, "*action"]) -> Float[Array, "*batch"]:
        return self.base.log_prob(u) - _sum_trailing(self._log_slope(u), self.base.event_ndim)

    def _squash(self, u: Float[Array, "*action"]) -> Float[Array, "*action"]:
        low, high = beside(u, self.low, self.high)
        action = low + 0.5 * (high - low) * (jnp.tanh(u) + 1.0)
        return jnp.clip(action, low, high)  # rounding can take it just outside

    def _log_slope(self, u: Float[Array, "*action"]) -> Float[Array, "*action"]:
        log_tanh_slope = 2.0 * (_LOG_2 - u - jax.nn.softplus(-2.0 * u))
        low, high = beside(u, self.low, self.high)
        return log_tanh_slope + jnp.log(0.5 * (high - low))


def _sum_trailing(x: Float[Array, "*action"], ndim: int) -> Float[Array, "*batch"]:
    return x.sum(axis=tuple(range(x.ndim - ndim, x.ndim)))
