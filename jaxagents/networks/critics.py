"""Values of batches of observations, and of actions in them."""

from collections.abc import Sequence

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents.networks.dense import Dense
from jaxagents.networks.initialisation import default_init
from jaxagents.networks.torsos import MLP, Activation


class MLPHead(nn.Module):
    """Hidden layers and an output layer: the base of the networks of learners.

    Attributes:
        features: Widths of the hidden layers.
        activation: Nonlinearity.
        layer_norm: Whether hidden layers are normalised.
        dropout_rate: Share of hidden outputs that is dropped while training.
    """

    features: Sequence[int] = (256, 256)
    activation: Activation = nn.relu
    layer_norm: bool = False
    dropout_rate: float = 0.0

    def _hidden(self, x: Array, train: bool) -> Float[Array, "*batch hidden"]:
        return MLP(
            self.features,
            self.activation,
            layer_norm=self.layer_norm,
            dropout_rate=self.dropout_rate,
            kernel_init=default_init(),
        )(x, train)

    def _outputs(self, x: Array, n_outputs: int, train: bool) -> Float[Array, "*batch outputs"]:
        return Dense(n_outputs, kernel_init=default_init())(self._hidden(x, train))


class Critic(MLPHead):
    """Values of continuous actions, $Q(s, a)$; see [`MLPHead`][jaxagents.networks.MLPHead]."""

    @nn.compact
    def __call__(
        self,
        observations: Float[Array, "*batch obs"],
        actions: Float[Array, "*batch action"],
        train: bool = False,
    ) -> Float[Array, "*batch"]:
        """Values of actions in observations."""
        x = jnp.concatenate([observations, actions], axis=-1)
        return self._outputs(x, 1, train)[..., 0]


class DiscreteCritic(MLPHead, kw_only=True):
    """Values of all discrete actions, $Q(s, a)$; see [`MLPHead`][jaxagents.networks.MLPHead].

    Attributes:
        n_actions: Number of actions.
    """

    n_actions: int

    @nn.compact
    def __call__(
        self, observations: Float[Array, "*batch obs"], train: bool = False
    ) -> Float[Array, "*batch n_actions"]:
        """Values of every action."""
        return self._outputs(observations, self.n_actions, train)


class ValueCritic(MLPHead):
    """Values of observations, $V(s)$; see [`MLPHead`][jaxagents.networks.MLPHead]."""

    @nn.compact
    def __call__(
        self, observations: Float[Array, "*batch obs"], train: bool = False
    ) -> Float[Array, "*batch"]:
        """Values of observations."""
        return self._outputs(observations, 1, train)[..., 0]
