"""Values of batches of observations, and of actions in them."""

from collections.abc import Sequence

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents.networks.dense import Dense
from jaxagents.networks.initialisation import default_init
from jaxagents.networks.noisy import NoisyDense
from jaxagents.networks.torsos import MLP, Activation

ActionValues = Float[Array, "*batch n_actions"] | Float[Array, "*batch n_actions outputs"]


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

    def _hidden(
        self,
        x: Array,
        train: bool,
        features: Sequence[int] | None = None,
        noisy: bool = False,
    ) -> Float[Array, "*batch hidden"]:
        return MLP(
            self.features if features is None else features,
            self.activation,
            layer_norm=self.layer_norm,
            dropout_rate=self.dropout_rate,
            kernel_init=default_init(),
            noisy=noisy,
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


class ActionCritic(MLPHead, kw_only=True):
    """The base of networks of the values $Q(s, a)$ of all discrete actions.

    Attributes:
        n_actions: Number of actions.
        n_outputs: Numbers for each action, such as the atoms or quantiles of a distribution of returns;
            `None` gives one value each, without an axis.
        noisy: Whether all layers are [noisy][jaxagents.networks.NoisyDense].
    """

    n_actions: int
    n_outputs: int | None = None
    noisy: bool = False

    def _stream(
        self, x: Array, n_actions: int, train: bool, features: Sequence[int]
    ) -> ActionValues:
        """Hidden layers, and the output layer of a number of actions."""
        x = self._hidden(x, train, features, self.noisy)
        layer = NoisyDense if self.noisy else Dense
        values = layer(n_actions * (self.n_outputs or 1), kernel_init=default_init())(x)
        if self.n_outputs is None:
            return values
        return values.reshape(*x.shape[:-1], n_actions, self.n_outputs)


class DiscreteCritic(ActionCritic):
    """Values of all discrete actions; see [`ActionCritic`][jaxagents.networks.ActionCritic]."""

    @nn.compact
    def __call__(
        self, observations: Float[Array, "*batch obs"], train: bool = False
    ) -> ActionValues:
        """Values of every action."""
        return self._stream(observations, self.n_actions, train, self.features)


class DuelingCritic(ActionCritic):
    r"""Values of all discrete actions, as the value of the observation and the actions' advantages.

    $$Q(s, a) = V(s) + A(s, a) - \frac{1}{n} \sum_b A(s, b)$$

    All hidden layers but the last are shared; $V$ and $A$ have one of that width each. Of several
    numbers for each action, such as the logits of atoms, each is such a sum. See
    [`ActionCritic`][jaxagents.networks.ActionCritic].

    Wang et al., 2016, "Dueling network architectures for deep reinforcement learning", equation 9.
    """

    @nn.compact
    def __call__(
        self, observations: Float[Array, "*batch obs"], train: bool = False
    ) -> ActionValues:
        """Values of every action."""
        shared, own = self.features[:-1], self.features[-1:]
        x = self._hidden(observations, train, shared, self.noisy)
        value = self._stream(x, 1, train, own)
        advantages = self._stream(x, self.n_actions, train, own)
        actions_axis = -1 if self.n_outputs is None else -2
        return value + advantages - advantages.mean(actions_axis, keepdims=True)


class ValueCritic(MLPHead):
    """Values of observations, $V(s)$; see [`MLPHead`][jaxagents.networks.MLPHead]."""

    @nn.compact
    def __call__(
        self, observations: Float[Array, "*batch obs"], train: bool = False
    ) -> Float[Array, "*batch"]:
        """Values of observations."""
        return self._outputs(observations, 1, train)[..., 0]
