"""Networks behind an encoder of observations, or behind a trunk that several of them share."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.core import FrozenDict
from jaxtyping import Array, Float, PyTree

from jaxagents.core.observed import entries_beside, observed_beside
from jaxagents.networks.recurrent import Wrapper


class WithEncoder(nn.Module):
    """A network behind an encoder of its observations, such as one of images.

    ```python
    policy = WithEncoder(make_encoder("impala"), Policy(action_dim=2))
    encoder = DictEncoder({"image": make_encoder("impala")})
    critic = WithEncoder(encoder, ensemblize(Critic, 2)())
    ```

    Attributes:
        encoder: Maps observations to vectors.
        network: Takes these vectors in place of observations.
        stop_gradient: Whether the encoder is kept from being trained through the network.
    """

    encoder: nn.Module
    network: nn.Module
    stop_gradient: bool = False

    @nn.compact
    def __call__(
        self, observations: PyTree, *args: Any, train: bool = False, **kwargs: Any
    ) -> PyTree:
        """Applies the network to encoded observations; further arguments are passed on to it.

        Args:
            observations: What the encoder takes.
            *args: Further arguments of the network.
            train: Passed on to both, if it is true.
            **kwargs: Further keyword arguments of the network.

        Returns:
            The network's output.
        """
        training = {"train": True} if train else {}
        encoded = self.encoder(observations, **training)
        if self.stop_gradient:
            encoded = jax.lax.stop_gradient(encoded)
        return self.network(encoded, *args, **training, **kwargs)


class DictEncoder(nn.Module):
    """Encodes a dict of observations, such as images beside a state, as one vector.

    Attributes:
        encoders: An encoder for each key that needs one. The values of the other keys must be vectors.
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
        """Concatenates the encoded and the plain observations, in the order of their keys.

        Raises:
            ValueError: There is no observation for an encoder, or an observation is no vector.
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
        if len({part.shape[:-1] for part in parts}) > 1 or not all(part.ndim for part in parts):
            shapes = {key: jnp.shape(x) for key, x in observations.items()}
            raise ValueError(
                f"Observations without an encoder must be vectors, but there are {shapes}, and encoders "
                f"for {sorted(self.encoders)}."
            )
        return jnp.concatenate(parts, axis=-1)


class BehindTrunk(Wrapper):
    """A network behind a trunk, which may have a memory: the network sees the trunk's features.

    Attributes:
        network: Maps features to the output of the whole. Where an observation has entries beside what
            is observed, such as a mask of actions, so have the features.
        trunk: Maps an observation to features.
    """

    trunk: nn.Module

    @property
    def inner(self) -> nn.Module:
        """The trunk."""
        return self.trunk

    def output_for(self, obs: PyTree, output: PyTree) -> PyTree:
        """The network's output, given the trunk's features."""
        return self.network(features_beside(obs, output))

    def observe(self, observations: PyTree) -> None:
        """Adds observations, with leading axes, to the running statistics of the trunk."""
        self.trunk.observe(observations)


def features_beside(obs: PyTree, features: PyTree) -> PyTree:
    """The input of a network behind a trunk: features, with all that an observation says beside.

    Args:
        obs: One observation, or a batch of them.
        features: The trunk's features for it.

    Returns:
        The features, or a dict of them and of such entries.
    """
    return observed_beside(features, **entries_beside(obs))
