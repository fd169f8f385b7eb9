"""Actors and critics: a torso and an output layer."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.core import FrozenDict
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


class MultiCategoricalActor(nn.Module):
    """Logits of several discrete actions that are taken at once.

    Attributes:
        n_choices: Numbers of actions, one for each of them.
        features: Widths of the hidden layers.
        activation: Nonlinearity.
        n_categories: See [`Torso`][jaxagents.networks.Torso].
    """

    n_choices: tuple[int, ...]
    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    n_categories: int | None = None

    @nn.compact
    def __call__(self, obs: PyTree) -> tuple[Float[Array, "n_choices"], ...]:
        """Logits for one observation, one array for each of the actions."""
        x = Torso(self.features, self.activation, self.n_categories)(obs)
        logits = Dense(sum(self.n_choices), kernel_init=_SMALL)(x)
        return tuple(jnp.split(logits, np.cumsum(self.n_choices)[:-1]))


class JointActor(nn.Module):
    """Actors for the parts of an action, behind hidden layers that they share.

    ```python
    actor = JointActor(
        {
            "turn": CategoricalActor(3, features=()),
            "speed": GaussianActor((1,), features=()),
        }
    )
    ```

    Attributes:
        actors: The actors, in a dict or a tuple. They take the output of the hidden layers as their
            observation.
        features: Widths of the hidden layers.
        activation: Nonlinearity.
        n_categories: See [`Torso`][jaxagents.networks.Torso].
    """

    actors: Mapping[str, nn.Module] | tuple[nn.Module, ...]
    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    n_categories: int | None = None

    def __post_init__(self) -> None:
        """Makes the module hashable."""
        if isinstance(self.actors, Mapping):
            self.actors = FrozenDict(self.actors)
        super().__post_init__()

    @nn.compact
    def __call__(self, obs: PyTree) -> dict[str, Any] | tuple[Any, ...]:
        """The outputs of the actors for one observation, in a dict or a tuple."""
        x = Torso(self.features, self.activation, self.n_categories)(obs)
        if isinstance(self.actors, Mapping):
            return {name: actor(x) for name, actor in self.actors.items()}
        return tuple(actor(x) for actor in self.actors)


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
    """Value of an observation, or several of them.

    Attributes:
        features: Widths of the hidden layers.
        activation: Nonlinearity.
        n_categories: See [`Torso`][jaxagents.networks.Torso].
        n_values: Number of values, such as one for each actor; `None` for a single one without an axis.
    """

    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    n_categories: int | None = None
    n_values: int | None = None

    @nn.compact
    def __call__(self, obs: PyTree) -> Float[Array, "*values"]:
        """The value, or values, of one observation."""
        x = Torso(self.features, self.activation, self.n_categories)(obs)
        values = Dense(self.n_values or 1, kernel_init=_UNIT)(x)
        return values[0] if self.n_values is None else values
