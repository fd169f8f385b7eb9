"""Networks that map observations to features, and actors and critics built on them."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.core import FrozenDict
from jaxtyping import Array, Float, PyTree

from jaxagents.core.config import one_of
from jaxagents.networks.dense import Dense, NoisyDense

Activation = Callable[[Array], Array]
Initialiser = Callable[..., Array]
Padding = Literal["SAME", "VALID"]
IMAGE_NDIM = 3
_ORTHOGONAL = nn.initializers.orthogonal(np.sqrt(2.0))
_SMALL = nn.initializers.orthogonal(0.01)
_UNIT = nn.initializers.orthogonal(1.0)


class MLP(nn.Module):
    r"""Fully connected layers.

    Attributes:
        features: Widths of the layers.
        activation: Nonlinearity after every layer.
        activate_final: Whether the nonlinearity also follows the last layer.
        layer_norm: Whether layer normalisation (Ba et al., 2016) precedes the nonlinearity.
        dropout_rate: Dropout rate after every nonlinearity during training.
        kernel_init: Weight initialiser; the default is orthogonal with gain $\sqrt 2$.
        noisy: Whether layers are [noisy][jaxagents.networks.NoisyDense].
    """

    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    activate_final: bool = True
    layer_norm: bool = False
    dropout_rate: float = 0.0
    kernel_init: Initialiser = _ORTHOGONAL
    noisy: bool = False

    @nn.compact
    def __call__(
        self, x: Float[Array, "*batch inputs"], train: bool = False
    ) -> Float[Array, "*batch features"]:
        """Applies the layers; with `train=True`, dropout is active and needs the rng `"dropout"`."""
        layer = NoisyDense if self.noisy else Dense
        for i, width in enumerate(self.features):
            x = layer(width, kernel_init=self.kernel_init)(x)
            if i == len(self.features) - 1 and not self.activate_final:
                break
            if self.layer_norm:
                x = nn.LayerNorm()(x)
            x = self.activation(x)
            x = nn.Dropout(self.dropout_rate, deterministic=not train)(x)
        return x


class Torso(nn.Module):
    """Encodes one observation of any structure as features.

    Images (three axes: height, width, channels) pass through two convolutions; everything else is
    flattened. The parts are concatenated and passed through an [`MLP`][jaxagents.networks.MLP]. Integer
    pixels are scaled from 0..255 to 0..1.

    Attributes:
        features: Widths of the fully connected layers.
        activation: Nonlinearity.
        n_categories: Number of values of a single-integer observation, which is then one-hot encoded.
        layer_norm: Whether layer normalisation (Ba et al., 2016) precedes the nonlinearity of the fully
            connected layers.
    """

    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    n_categories: int | None = None
    layer_norm: bool = False

    @nn.compact
    def __call__(self, obs: PyTree) -> Float[Array, "features"]:
        """Encodes one observation."""
        if self.n_categories is not None:
            obs = jax.nn.one_hot(obs, self.n_categories)
        parts = []
        for x in jax.tree.leaves(obs):
            if x.ndim == IMAGE_NDIM:
                x = nn.relu(PatchConv(16)(scaled(x)))
                x = nn.relu(PatchConv(32, stride=2)(x))
            parts.append(x.astype(jnp.float32).reshape(-1))
        mlp = MLP(self.features, self.activation, layer_norm=self.layer_norm)
        return mlp(jnp.concatenate(parts))


def scaled(image: Array) -> Float[Array, "*batch height width channels"]:
    """Converts pixels to single precision; integers are scaled from 0..255 to 0..1."""
    full_range = 255.0 if jnp.issubdtype(image.dtype, jnp.integer) else 1.0
    return image.astype(jnp.float32) / full_range


class PatchConv(nn.Module):
    """A two-dimensional convolution, computed as patches times a matrix.

    Equivalent to `flax.linen.Conv`. On CPU, XLA's convolutions are many times slower inside a loop than
    outside, and a run is one loop; matrix products are as fast inside as outside.

    Attributes:
        features: Number of output channels.
        kernel_size: Height and width of a patch.
        stride: Distance between neighbouring patches.
        padding: `"SAME"` pads with zeros, so that with a stride of 1 the output is as large as the
            input; `"VALID"` only takes whole patches.
    """

    features: int
    kernel_size: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: Padding = "SAME"

    def __post_init__(self) -> None:
        """Validates the attributes.

        Raises:
            ValueError: `padding` is neither of the two.
        """
        one_of(Padding)("padding", self.padding)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, x: Float[Array, "*batch height width channels"]
    ) -> Float[Array, "*batch out_height out_width features"]:
        """Convolves images."""
        return Dense(self.features)(patches(x, self.kernel_size, self.stride, self.padding))


def patches(
    x: Float[Array, "*batch height width channels"],
    size: tuple[int, int],
    stride: int,
    padding: Padding,
) -> Float[Array, "*batch out_height out_width patch"]:
    """Extracts flattened patches around every `stride`-th pixel.

    Args:
        x: Images.
        size: Height and width of a patch.
        stride: Distance between neighbouring patches.
        padding: Whether to pad with zeros (`"SAME"`) or not (`"VALID"`).

    Returns:
        Patches, flattened in the order rows, columns, channels.

    Raises:
        ValueError: The images are smaller than one patch.
    """
    if padding == "SAME":
        margins = jax.lax.padtype_to_pads(x.shape[-3:-1], size, (stride, stride), padding)
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 3) + [*margins, (0, 0)])
    n_rows, n_columns = ((n - k) // stride + 1 for n, k in zip(x.shape[-3:-1], size, strict=True))
    if min(n_rows, n_columns) < 1:
        raise ValueError(
            f"Images of {x.shape[-3]} x {x.shape[-2]} pixels hold no whole patch of {size[0]} x "
            f'{size[1]}; use a smaller kernel_size, or the padding "SAME".'
        )

    def shifted(i: int, j: int) -> Array:
        rows = slice(i, i + (n_rows - 1) * stride + 1, stride)
        columns = slice(j, j + (n_columns - 1) * stride + 1, stride)
        return x[..., rows, columns, :]

    offsets = [(i, j) for i in range(size[0]) for j in range(size[1])]
    return jnp.concatenate([shifted(i, j) for i, j in offsets], axis=-1)


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
    """Logits of several discrete actions taken at once.

    Attributes:
        n_choices: Number of choices for each action.
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
        """Logits for one observation, one array per action."""
        x = Torso(self.features, self.activation, self.n_categories)(obs)
        logits = Dense(sum(self.n_choices), kernel_init=_SMALL)(x)
        return tuple(jnp.split(logits, np.cumsum(self.n_choices)[:-1]))


class JointActor(nn.Module):
    """Actors for the parts of an action, on top of shared hidden layers.

    ```python
    actor = JointActor(
        {
            "turn": CategoricalActor(3, features=()),
            "speed": GaussianActor((1,), features=()),
        }
    )
    ```

    Attributes:
        actors: The actors, in a dict or a tuple. Each takes the output of the hidden layers as its
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
    """Mean and log standard deviation of continuous actions.

    Attributes:
        action_shape: Shape of one action.
        features: Widths of the hidden layers.
        activation: Nonlinearity.
        n_categories: See [`Torso`][jaxagents.networks.Torso].
        initial_log_std: Initial log standard deviation, which does not depend on the observation.
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
    """One or several values of an observation.

    Attributes:
        features: Widths of the hidden layers.
        activation: Nonlinearity.
        n_categories: See [`Torso`][jaxagents.networks.Torso].
        n_values: Number of values, such as one per actor; `None` for a single one without an axis.
    """

    features: Sequence[int] = (64, 64)
    activation: Activation = nn.tanh
    n_categories: int | None = None
    n_values: int | None = None

    @nn.compact
    def __call__(self, obs: PyTree) -> Float[Array, "*values"]:
        """The value or values of one observation."""
        x = Torso(self.features, self.activation, self.n_categories)(obs)
        values = Dense(self.n_values or 1, kernel_init=_UNIT)(x)
        return values[0] if self.n_values is None else values
