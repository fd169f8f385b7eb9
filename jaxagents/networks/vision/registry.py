"""Encoders by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

from flax import linen as nn

from jaxagents.core.names import check_known
from jaxagents.networks.vision.encoder import AtariEncoder, ImpalaEncoder
from jaxagents.networks.vision.resnet import ResNetV1, ResNetV2
from jaxagents.networks.vision.vit import ViT

_TRANSFORMERS = {
    "ti": {"features": 192, "n_layers": 12, "n_heads": 3},
    "s": {"features": 384, "n_layers": 12, "n_heads": 6},
    "b": {"features": 768, "n_layers": 12, "n_heads": 12},
    "l": {"features": 1024, "n_layers": 24, "n_heads": 16},
}

encoders: dict[str, Callable[..., nn.Module]] = {
    "atari": AtariEncoder,
    "impala": ImpalaEncoder,
    "impala-small": partial(ImpalaEncoder, n_blocks=1),
    "impala-large": partial(ImpalaEncoder, sections=(16, 32, 32, 32)),
    "impala-larger": partial(ImpalaEncoder, sections=(16, 32, 32, 32, 32)),
    "impala-largest": partial(ImpalaEncoder, sections=(16, 32, 32, 32, 32, 32)),
    "impala-wider": partial(ImpalaEncoder, width=2),
    "impala-widest": partial(ImpalaEncoder, width=4),
    "impala-deeper": partial(ImpalaEncoder, n_blocks=4),
    "impala-deepest": partial(ImpalaEncoder, n_blocks=8),
    "resnet-18": partial(ResNetV1, blocks=(2, 2, 2, 2)),
    "resnet-34": partial(ResNetV1, blocks=(3, 4, 6, 3)),
    "resnet-50": partial(ResNetV1, blocks=(3, 4, 6, 3), bottleneck=True),
    "resnet-101": partial(ResNetV1, blocks=(3, 4, 23, 3), bottleneck=True),
    "resnet-152": partial(ResNetV1, blocks=(3, 8, 36, 3), bottleneck=True),
    "resnetv2-26": partial(ResNetV2, blocks=(2, 2, 2, 2)),
    "resnetv2-50": partial(ResNetV2, blocks=(3, 4, 6, 3)),
    "resnetv2-101": partial(ResNetV2, blocks=(3, 4, 23, 3)),
}
encoders |= {
    f"vit-{size}/{patch_size}": partial(ViT, patch_size=patch_size, **options)
    for size, options in _TRANSFORMERS.items()
    for patch_size in (8, 16, 32)
}


def make_encoder(name: str, **options: Any) -> nn.Module:
    """Creates an image encoder by name.

    ```python
    encoder = make_encoder("resnet-18", norm="batch", scaling="imagenet")
    ```

    Args:
        name: One of the names in [`encoders`][jaxagents.networks.vision.encoders].
        **options: Attributes of the encoder to override.

    Returns:
        The encoder.

    Raises:
        ValueError: The name is unknown.
        TypeError: An option is not an attribute of the encoder.
    """
    check_known("encoder", name, encoders)
    return encoders[name](**options)
