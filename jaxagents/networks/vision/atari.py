"""The convolutional network of DQN."""

import math

from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents.networks.vision.convolution import Conv
from jaxagents.networks.vision.encoder import Encoder


class AtariEncoder(Encoder):
    """The three convolutions of DQN; 3136 features of images of 84 x 84 pixels.

    Mnih et al., 2015, "Human-level control through deep reinforcement learning". The fully connected
    layer that follows there is left to the network behind the encoder.

    Attributes:
        width: Factor of the numbers of channels, which are 32, 64 and 64.
    """

    width: int = 1

    @property
    def smallest_side(self) -> int:
        """The side for which the last feature map has a single pixel."""
        return 36

    @nn.compact
    def encode(
        self, x: Float[Array, "batch height width channels"], train: bool
    ) -> Float[Array, "batch features"]:
        """Features of scaled images."""
        for features, kernel_size, stride in ((32, 8, 4), (64, 4, 2), (64, 3, 1)):
            x = nn.relu(Conv(self.width * features, kernel_size, stride, padding=0)(x))
        return x.reshape(x.shape[0], math.prod(x.shape[1:]))
