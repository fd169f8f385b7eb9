"""Distributions of actions that are real numbers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Key

from jaxagents.core.arrays import beside
from jaxagents.ops.distributions import Reparametrised

_LOG_SQRT_2_PI = 0.5 * float(np.log(2.0 * np.pi))
_LOG_2 = float(np.log(2.0))
_SQUASH_LIMIT = 1.0 - 1e-6
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(16)


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
        which keeps the density finite there. It is computed in single precision or better.
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
        """Draws one action, and gives its log-density in nats, exact at the bounds too."""
        u = self.base.sample(key)
        return self._squash(u), self._log_density(u)

    def entropy(self) -> Float[Array, "*batch"]:
        r"""Differential entropy, in nats: $H(u) + \mathbb{E}[\log |da / du|]$.

        The expectation is taken by Gauss-Hermite quadrature with 16 nodes for each component.
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
        return jnp.clip(action, low, high)  # it can round to just outside

    def _log_slope(self, u: Float[Array, "*action"]) -> Float[Array, "*action"]:
        log_tanh_slope = 2.0 * (_LOG_2 - u - jax.nn.softplus(-2.0 * u))
        low, high = beside(u, self.low, self.high)
        return log_tanh_slope + jnp.log(0.5 * (high - low))


def _sum_trailing(x: Float[Array, "*action"], ndim: int) -> Float[Array, "*batch"]:
    return x.sum(axis=tuple(range(x.ndim - ndim, x.ndim)))
