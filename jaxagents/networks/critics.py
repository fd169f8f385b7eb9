"""Values of batches of observations, and of actions in them."""

from collections.abc import Sequence

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents.networks.dense import Dense
from jaxagents.networks.initialisation import default_init
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
        self, x: Array, train: bool, features: Sequence[int] | None = None
    ) -> Float[Array, "*batch hidden"]:
        return MLP(
            self.features if features is None else features,
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
        n_outputs: Numbers for each action, such as the atoms or quantiles of a distribution of returns;
            `None` gives one value each, without an axis.
    """

    n_actions: int
    n_outputs: int | None = None

    @nn.compact
    def __call__(
        self, observations: Float[Array, "*batch obs"], train: bool = False
    ) -> ActionValues:
        """Values of every action."""
        x = self._hidden(observations, train)
        return _values(x, self.n_actions, self.n_outputs)


class DuelingCritic(MLPHead, kw_only=True):
    r"""Values of all discrete actions, as the value of the observation and the actions' advantages.

    $$Q(s, a) = V(s) + A(s, a) - \frac{1}{n} \sum_b A(s, b)$$

    All hidden layers but the last are shared; $V$ and $A$ have one of that width each. See
    [`MLPHead`][jaxagents.networks.MLPHead].

    Wang et al., 2016, "Dueling network architectures for deep reinforcement learning", equation 9.

    Attributes:
        n_actions: Number of actions, $n$.
        n_outputs: As in [`DiscreteCritic`][jaxagents.networks.DiscreteCritic].
    """

    n_actions: int
    n_outputs: int | None = None

    @nn.compact
    def __call__(
        self, observations: Float[Array, "*batch obs"], train: bool = False
    ) -> ActionValues:
        """Values of every action."""
        shared, own = self.features[:-1], self.features[-1:]
        x = self._hidden(observations, train, shared)
        value = _values(self._hidden(x, train, own), 1, self.n_outputs)
        advantages = _values(self._hidden(x, train, own), self.n_actions, self.n_outputs)
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


def _values(x: Array, n_actions: int, n_outputs: int | None) -> ActionValues:
    """Applies the output layer of all actions."""
    values = Dense(n_actions * (n_outputs or 1), kernel_init=default_init())(x)
    return values if n_outputs is None else values.reshape(*x.shape[:-1], n_actions, n_outputs)
