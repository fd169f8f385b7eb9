"""Actors and critics: a torso and an output layer."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, PyTree

from jaxagents.networks.dense import Dense
from jaxagents.networks.torsos import Activation, Torso

_SMALL = nn.initializers.orthogonal(0.01)
_UNIT = nn.initializers.orthogonal(1.0)


class CategoricalActor(nn.Module):
    """Logits of discrete actions.

    Attributes:
        n_actions: Number of actions.
        features: Widths of the hidden layers.
        activation: Nonlinearity.
        n_categories: See [`Torso`][jaxagents.networks.Torso].
    """

    n_actions: int
    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    n_categories: int | None = None

    @nn.compact
    def __call__(self, obs: PyTree) -> Float[Array, "n_actions"]:
        """Logits for one observation."""
        x = Torso(self.features, self.activation, self.n_categories)(obs)
        return Dense(self.n_actions, kernel_init=_SMALL)(x)


class GaussianActor(nn.Module):
    """Mean and logarithm of the standard deviation of continuous actions.

    Attributes:
        action_shape: Shape of one action.
        features: Widths of the hidden layers.
        activation: Nonlinearity.
        n_categories: See [`Torso`][jaxagents.networks.Torso].
        initial_log_std: Initial logarithm of the standard deviation, which does not depend on the
            observation.
    """

    action_shape: tuple[int, ...]
    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    n_categories: int | None = None
    initial_log_std: float = 0.0

    @nn.compact
    def __call__(self, obs: PyTree) -> tuple[Float[Array, "*action"], Float[Array, "*action"]]:
        """Mean and log standard deviation for one observation."""
        x = Torso(self.features, self.activation, self.n_categories)(obs)
        mean = Dense(math.prod(self.action_shape), kernel_init=_SMALL)(x)
        initial = nn.initializers.constant(self.initial_log_std)
        log_std = self.param("log_std", initial, self.action_shape, jnp.float32)
        return mean.reshape(self.action_shape), jnp.asarray(log_std)


class StateCritic(nn.Module):
    """Value of an observation.

    Attributes:
        features: Widths of the hidden layers.
        activation: Nonlinearity.
        n_categories: See [`Torso`][jaxagents.networks.Torso].
    """

    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    n_categories: int | None = None

    @nn.compact
    def __call__(self, obs: PyTree) -> Float[Array, ""]:
        """Value of one observation."""
        x = Torso(self.features, self.activation, self.n_categories)(obs)
        return Dense(1, kernel_init=_UNIT)(x)[0]
