"""The residual network of IMPALA."""

import math

from flax import linen as nn
from jaxtyping import Array, Float

from jaxagents.networks.vision.convolution import Conv, max_pool
from jaxagents.networks.vision.encoder import Encoder


class ImpalaEncoder(Encoder):
    """The "deep" convolutional network of IMPALA; 2048 features of images of 64 x 64 pixels.

    Espeholt et al., 2018, "IMPALA: Scalable distributed deep-RL with importance weighted actor-learner
    architectures", figure 3. Every section has a convolution, a pooling that halves the image, and
    residual blocks of two convolutions. The layers that follow are left to the network behind.

    Attributes:
        sections: Numbers of channels of the sections.
        width: Factor of these numbers.
        n_blocks: Number of residual blocks in each section.
    """

    sections: tuple[int, ...] = (16, 32, 32)
    width: int = 1
    n_blocks: int = 2

    @property
    def smallest_side(self) -> int:
        """The side for which the last feature map has a single pixel."""
        return 2 ** len(self.sections)

    @nn.compact
    def encode(
        self, x: Float[Array, "batch height width channels"], train: bool
    ) -> Float[Array, "batch features"]:
        """Features of scaled images."""
        init = nn.initializers.glorot_uniform()
        for channels in self.sections:
            features = self.width * channels
            x = max_pool(Conv(features, kernel_init=init)(x))
            for _ in range(self.n_blocks):
                y = Conv(features, kernel_init=init)(nn.relu(x))
                x = x + Conv(features, kernel_init=init)(nn.relu(y))
        return nn.relu(x).reshape(x.shape[0], math.prod(x.shape[1:]))
