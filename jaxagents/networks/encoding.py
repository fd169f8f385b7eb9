"""Networks on top of an observation encoder, or of a trunk that several of them share."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.core import FrozenDict
from jaxtyping import Array, Float, PyTree

from jaxagents.core.observed import extra_entries, network_input, with_entries
from jaxagents.networks.recurrent import NetworkWrapper
from jaxagents.networks.torsos import IMAGE_NDIM, Padding, PatchConv, scaled


class WithEncoder(nn.Module):
    """A network on top of an observation encoder, for example for images.

    ```python
    policy = WithEncoder(make_encoder("impala"), Policy(action_dim=2))
    encoder = DictEncoder({"image": make_encoder("impala")})
    critic = WithEncoder(encoder, ensemblize(Critic, 2)())
    ```

    Attributes:
        encoder: Maps observations to vectors.
        network: Takes these vectors instead of observations.
        stop_gradient: Whether to block gradients from the network to the encoder.
    """

    encoder: nn.Module
    network: nn.Module
    stop_gradient: bool = False

    @nn.compact
    def __call__(
        self, observations: PyTree, *args: Any, train: bool = False, **kwargs: Any
    ) -> PyTree:
        """Applies the network to encoded observations.

        Args:
            observations: Inputs of the encoder.
            *args: Additional arguments of the network.
            train: Passed to both modules if true.
            **kwargs: Additional keyword arguments of the network.

        Returns:
            The network's output.
        """
        training = {"train": True} if train else {}
        encoded = self.encoder(observations, **training)
        if self.stop_gradient:
            encoded = jax.lax.stop_gradient(encoded)
        return self.network(encoded, *args, **training, **kwargs)


class DictEncoder(nn.Module):
    """Encodes a dict of observations, such as images and a state, as one vector.

    Attributes:
        encoders: An encoder for each key that needs one. The values of all other keys must be vectors.
    """

    encoders: Mapping[str, nn.Module]

    def __post_init__(self) -> None:
        """Makes the module hashable."""
        self.encoders = FrozenDict(self.encoders)
        super().__post_init__()

    @nn.compact
    def __call__(
        self, observations: Mapping[str, PyTree], train: bool = False
    ) -> Float[Array, "*batch features"]:
        """Concatenates the encoded and the plain observations in key order.

        Raises:
            ValueError: An encoder has no observation, or an observation is not a vector.
        """
        missing = sorted(set(self.encoders) - set(observations))
        if missing:
            raise ValueError(
                f"There is an encoder for {missing}, but the observations have {sorted(observations)}."
            )
        training = {"train": True} if train else {}
        parts = [
            self.encoders[key](x, **training)
            if key in self.encoders
            else jnp.asarray(x, jnp.float32)
            for key, x in sorted(observations.items())
        ]
        return jnp.concatenate(parts, axis=-1)


class BehindTrunk(NetworkWrapper):
    """A network on top of a trunk, which may have a memory: the network sees the trunk's features.

    Attributes:
        network: Maps features to the final output. An observation's extra entries, such as an action
            mask, come with the features.
        trunk: Maps an observation to features.
    """

    trunk: nn.Module

    @property
    def inner(self) -> nn.Module:
        """The trunk."""
        return self.trunk

    def output_for(self, obs: PyTree, output: PyTree) -> PyTree:
        """Applies the network to the trunk's features."""
        return self.network(with_extra_entries_of(obs, output))

    def observe(self, observations: PyTree) -> None:
        """Updates the trunk's running statistics with observations, which have leading axes."""
        self.trunk.observe(observations)


def with_extra_entries_of(obs: PyTree, features: PyTree) -> PyTree:
    """The input of a network on top of a trunk: features, plus entries such as action masks.

    Args:
        obs: One observation, or a batch of them.
        features: The trunk's features for it.

    Returns:
        The features, or a dict of the features and the extra entries.
    """
    return with_entries(features, **extra_entries(obs))


class ObservationEncoder(nn.Module):
    """Encodes observations of any structure as vectors.

    [`observation_encoder`][jaxagents.networks.observation_encoder] creates one from an example.

    Images (three axes: height, width, channels) pass through 3 x 3 convolutions with ReLUs; integer
    pixels are scaled from 0..255 to 0..1. All parts are flattened and concatenated. They may have common
    leading axes.

    Attributes:
        ndims: Number of axes of each leaf of one observation.
        n_categories: Number of values of a single-integer observation, which is then one-hot encoded.
        channels: Number of channels of each convolution.
        padding: Padding of the convolutions; see [`PatchConv`][jaxagents.networks.PatchConv].
    """

    ndims: tuple[int, ...]
    n_categories: int | None = None
    channels: tuple[int, ...] = (16,)
    padding: Padding = "SAME"

    @nn.compact
    def __call__(
        self, observations: PyTree, train: bool = False
    ) -> Float[Array, "*batch features"]:
        """Encodes observations; `train` has no effect."""
        if self.n_categories is not None:
            return jax.nn.one_hot(observations, self.n_categories, dtype=jnp.float32)
        pairs = zip(jax.tree.leaves(observations), self.ndims, strict=True)
        parts = [self._flat(jnp.asarray(x), ndim) for x, ndim in pairs]
        return jnp.concatenate(parts, axis=-1)

    def _flat(self, x: Array, ndim: int) -> Float[Array, "*batch features"]:
        batch_shape = x.shape[: x.ndim - ndim]
        if ndim == IMAGE_NDIM:
            x = scaled(x)
            for n_channels in self.channels:
                x = nn.relu(PatchConv(n_channels, padding=self.padding)(x))
        return x.astype(jnp.float32).reshape(*batch_shape, -1)


def observation_encoder(obs: PyTree, n_categories: int | None = None) -> ObservationEncoder | None:
    """Creates the encoder that turns observations into vectors, if they need one.

    Args:
        obs: One observation, or its shapes and dtypes. Entries that networks do not see, such as
            `"action_mask"`, are left out.
        n_categories: Number of values of a single-integer observation.

    Returns:
        The encoder; `None` if observations are already vectors of real numbers.
    """
    obs = network_input(obs)
    leaves = jax.tree.leaves(jax.eval_shape(lambda x: x, obs))
    ndims = tuple(x.ndim for x in leaves)
    is_real = jnp.issubdtype(leaves[0].dtype, jnp.floating)
    if jax.tree_util.all_leaves([obs]) and ndims == (1,) and is_real and n_categories is None:
        return None
    return ObservationEncoder(ndims, n_categories)
