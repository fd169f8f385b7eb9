"""Critics and policies for learners, for batches of observations."""

from collections.abc import Sequence
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents import ops
from jaxagents.core.config import one_of
from jaxagents.networks.dense import Dense, NoisyDense
from jaxagents.networks.initialisation import default_init
from jaxagents.networks.torsos import MLP, Activation

ActionValues = Float[Array, "*batch n_actions"] | Float[Array, "*batch n_actions outputs"]


class MLPHead(nn.Module):
    """Hidden layers and an output layer: the base class of the learners' networks.

    Attributes:
        features: Widths of the hidden layers.
        activation: Nonlinearity.
        layer_norm: Whether hidden layers use layer normalisation.
        dropout_rate: Dropout rate of the hidden layers during training.
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
        """The value of each action in its observation."""
        x = jnp.concatenate([observations, actions], axis=-1)
        return self._outputs(x, 1, train)[..., 0]


class ActionCritic(MLPHead, kw_only=True):
    """Base class of networks that output $Q(s, a)$ for all discrete actions.

    Attributes:
        n_actions: Number of actions.
        n_outputs: Number of outputs per action, such as the atoms or quantiles of a return
            distribution; `None` gives a single value without an axis.
        noisy: Whether all layers are [noisy][jaxagents.networks.NoisyDense].
    """

    n_actions: int
    n_outputs: int | None = None
    noisy: bool = False

    def _stream(
        self, x: Array, n_actions: int, train: bool, features: Sequence[int]
    ) -> ActionValues:
        """Hidden layers, and an output layer for `n_actions` actions."""
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
        """The values of all actions."""
        return self._stream(observations, self.n_actions, train, self.features)


class DuelingCritic(ActionCritic):
    r"""Values of all discrete actions, split into a state value and action advantages.

    $$Q(s, a) = V(s) + A(s, a) - \frac{1}{n} \sum_b A(s, b)$$

    All hidden layers but the last are shared; $V$ and $A$ each have their own last one.
    With several outputs per action, such as the logits of atoms, the equation holds for each output. See
    [`ActionCritic`][jaxagents.networks.ActionCritic].

    Wang et al., 2016, "Dueling network architectures for deep reinforcement learning", equation 9.
    """

    @nn.compact
    def __call__(
        self, observations: Float[Array, "*batch obs"], train: bool = False
    ) -> ActionValues:
        """The values of all actions."""
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
        """The value of each observation."""
        return self._outputs(observations, 1, train)[..., 0]


Temperature = Any
Squash = Literal["distribution", "mean", "none"]


class Policy(MLPHead, kw_only=True):
    r"""A Gaussian policy over actions in $[-1, 1]^n$.

    Haarnoja et al., 2018, "Soft actor-critic algorithms and applications", appendix C.

    Attributes:
        action_dim: Number of action components.
        squash: What tanh is applied to: the `"distribution"`, which keeps samples within the bounds;
            only its `"mean"`; or nothing (`"none"`).
        state_dependent_std: Whether the standard deviation depends on the observation; otherwise it is
            a free parameter.
        fixed_std: Standard deviation of each component, if it is not learned.
        log_std_min: Lower bound of the log standard deviation.
        log_std_max: Upper bound of the log standard deviation.
        output_scale: Variance scale of the output layer's initial weights.
    """

    action_dim: int
    squash: Squash = "distribution"
    state_dependent_std: bool = True
    fixed_std: float | tuple[float, ...] | None = None
    log_std_min: float = -20.0
    log_std_max: float = 2.0
    output_scale: float = 1.0

    def __post_init__(self) -> None:
        """Validates the attributes.

        Raises:
            ValueError: `squash` is not one of the above, or a fixed standard deviation is not positive.
        """
        one_of(Squash)("squash", self.squash)
        if self.fixed_std is not None and not np.all(np.asarray(self.fixed_std) > 0.0):
            raise ValueError(f"fixed_std must be positive, got {self.fixed_std}.")
        super().__post_init__()

    @nn.compact
    def __call__(
        self,
        observations: Float[Array, "*batch obs"],
        temperature: Temperature = 1.0,
        train: bool = False,
    ) -> ops.Distribution:
        """The distribution of actions.

        Args:
            observations: Observations.
            temperature: Factor that multiplies the standard deviation; at 0 only the mean is left.
            train: Whether dropout is active.

        Returns:
            A [`TanhGaussian`][jaxagents.ops.TanhGaussian] if the distribution is squashed, else a
            [`Gaussian`][jaxagents.ops.Gaussian].
        """
        x = self._hidden(observations, train)
        mean, log_std = self._moments(x)
        if self.squash == "mean":
            mean = jnp.tanh(mean)
        log_std = jnp.broadcast_to(log_std, mean.shape) + jnp.log(temperature)
        gaussian = ops.Gaussian(mean, log_std)
        return ops.TanhGaussian(gaussian, -1.0, 1.0) if self.squash == "distribution" else gaussian

    def _moments(self, x: Array) -> tuple[Array, Array]:
        std_by_layer = self.fixed_std is None and self.state_dependent_std
        n_outputs = self.action_dim * (2 if std_by_layer else 1)
        outputs = Dense(n_outputs, kernel_init=default_init(self.output_scale))(x)
        if self.fixed_std is not None:
            return outputs, jnp.log(jnp.asarray(self.fixed_std, jnp.float32))
        if std_by_layer:
            mean, log_std = jnp.split(outputs, 2, axis=-1)
        else:
            mean = outputs
            log_std = self.param("log_std", nn.initializers.zeros, (self.action_dim,), jnp.float32)
        return mean, jnp.clip(log_std, self.log_std_min, self.log_std_max)


class CategoricalPolicy(MLPHead, kw_only=True):
    """A policy over discrete actions; see [`MLPHead`][jaxagents.networks.MLPHead].

    Attributes:
        n_actions: Number of actions.
    """

    n_actions: int

    @nn.compact
    def __call__(
        self,
        observations: Float[Array, "*batch obs"],
        temperature: Temperature = 1.0,
        train: bool = False,
    ) -> ops.Categorical:
        """The distribution of actions.

        Args:
            observations: Observations.
            temperature: Divisor of the logits; at 0 only the most probable action is left.
            train: Whether dropout is active.

        Returns:
            The distribution.
        """
        return ops.Categorical(self._outputs(observations, self.n_actions, train)).tempered(
            temperature
        )
