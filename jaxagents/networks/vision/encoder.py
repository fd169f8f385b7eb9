"""The base class of image encoders, and the convolutional encoders of DQN and IMPALA."""

import math
from dataclasses import field
from typing import Literal

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Float, Shaped

from jaxagents.core.config import one_of
from jaxagents.networks.vision.convolution import Conv, Images, max_pool

Features = Float[Array, "batch features"]
Scaling = Literal["unit", "signed", "imagenet"]
_MEAN_AND_STD: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "unit": ((0.0,), (1.0,)),
    "signed": ((0.5,), (0.5,)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}


class Encoder(nn.Module):
    """Base class of networks that map images to feature vectors.

    A subclass defines `encode`, which maps scaled images with one batch axis to features. Integer images
    are expected in 0..255, floats in 0..1. If the observation space declares a different range, agents
    with this `encoder` first divide images by its upper bound.

    Attributes:
        scaling: Range of the scaled pixels: `"unit"` for 0..1, `"signed"` for -1..1, or `"imagenet"` for
            zero mean and unit variance of red, green and blue over ImageNet.
    """

    scaling: Scaling = field(default="unit", kw_only=True)

    @property
    def smallest_side(self) -> int:
        """Smallest height and width of an image."""
        raise NotImplementedError

    def encode(self, x: Images, train: bool) -> Features:
        """Maps scaled images to features.

        Args:
            x: Scaled images.
            train: Whether the network is being trained.

        Returns:
            The features of each image.
        """
        raise NotImplementedError

    def __call__(
        self, images: Shaped[Array | np.ndarray, "..."], train: bool = False
    ) -> Float[Array, "*batch features"]:
        """Encodes images.

        Args:
            images: Images shaped `(*batch, height, width, channels)`, with any number of batch axes.
            train: Whether the network is being trained. Batch normalisation then uses the batch's
                statistics and updates the collection `batch_stats`, which must be mutable.

        Returns:
            The features of each image.

        Raises:
            ValueError: The images have too few axes or pixels, or the wrong number of channels for the
                scaling.
        """
        name, smallest = type(self).__name__, self.smallest_side
        one_of(Scaling)("scaling", self.scaling)
        if images.ndim < 3:
            raise ValueError(
                f"{name} takes images of shape (*batch, height, width, channels), got {images.shape}."
            )
        if min(images.shape[-3:-1]) < smallest:
            raise ValueError(
                f"{name} takes images of at least {smallest} x {smallest} pixels, got the shape "
                f"{images.shape}, whose last three axes are height, width and channels."
            )
        if self.scaling == "imagenet" and images.shape[-1] != 3:
            raise ValueError(
                f'scaling="imagenet" is for 3 channels, got images of shape {images.shape}.'
            )
        *batch, height, width, channels = images.shape
        x = jnp.asarray(images).reshape(math.prod(batch), height, width, channels)
        features = self.encode(self._scale(x), train)
        return features.reshape(*batch, features.shape[-1])

    def _scale(self, x: Array) -> Array:
        mean, std = np.array(_MEAN_AND_STD[self.scaling], np.float32)[:, *[None] * (x.ndim - 1)]
        full_range = 255.0 if jnp.issubdtype(x.dtype, jnp.integer) else 1.0
        return x.astype(jnp.float32) * (1.0 / (full_range * std)) - mean / std


class AtariEncoder(Encoder):
    """The three convolutions of DQN; 3136 features for images of 84 x 84 pixels.

    Mnih et al., 2015, "Human-level control through deep reinforcement learning". The paper's fully
    connected layer is left to the network on top of the encoder.

    Attributes:
        width: Factor that multiplies the channel counts, 32, 64 and 64.
    """

    width: int = 1

    @property
    def smallest_side(self) -> int:
        """The image side that leaves a single pixel in the last feature map."""
        return 36

    @nn.compact
    def encode(self, x: Images, train: bool) -> Features:
        """Maps scaled images to features."""
        for features, kernel_size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            x = nn.relu(Conv(self.width * features, kernel_size, stride, padding=0)(x))
        return x.reshape(x.shape[0], math.prod(x.shape[1:]))


class ImpalaEncoder(Encoder):
    """The "deep" convolutional network of IMPALA; 2048 features for images of 64 x 64 pixels.

    Espeholt et al., 2018, "IMPALA: Scalable distributed deep-RL with importance weighted actor-learner
    architectures", figure 3. Each section has a convolution, a max pooling that halves the image, and
    residual blocks of two convolutions. The paper's later layers are left to the network on top.

    Attributes:
        sections: Number of channels in each section.
        width: Factor that multiplies these channel counts.
        n_blocks: Number of residual blocks per section.
    """

    sections: tuple[int, ...] = (16, 32, 32)
    width: int = 1
    n_blocks: int = 2

    @property
    def smallest_side(self) -> int:
        """The image side that leaves a single pixel in the last feature map."""
        return 2 ** len(self.sections)

    @nn.compact
    def encode(self, x: Images, train: bool) -> Features:
        """Maps scaled images to features."""
        init = nn.initializers.glorot_uniform()
        for channels in self.sections:
            features = self.width * channels
            x = max_pool(Conv(features, kernel_init=init)(x))
            for _ in range(self.n_blocks):
                y = Conv(features, kernel_init=init)(nn.relu(x))
                x = x + Conv(features, kernel_init=init)(nn.relu(y))
        return nn.relu(x).reshape(x.shape[0], math.prod(x.shape[1:]))
