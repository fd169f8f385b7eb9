"""Encoders of images, pretrained weights, and augmentations."""

from jaxagents.networks.vision import augmentations
from jaxagents.networks.vision.augmentations import augment
from jaxagents.networks.vision.convolution import Conv, convolve, max_pool
from jaxagents.networks.vision.encoder import AtariEncoder, Encoder, ImpalaEncoder
from jaxagents.networks.vision.pretrained import from_torch_resnet, load_pretrained, save_pretrained
from jaxagents.networks.vision.registry import encoders, make_encoder
from jaxagents.networks.vision.resnet import GroupNorm, ResNetV1, ResNetV2
from jaxagents.networks.vision.vit import ViT

__all__ = [
    "AtariEncoder",
    "Conv",
    "Encoder",
    "GroupNorm",
    "ImpalaEncoder",
    "ResNetV1",
    "ResNetV2",
    "ViT",
    "augment",
    "augmentations",
    "convolve",
    "encoders",
    "from_torch_resnet",
    "load_pretrained",
    "make_encoder",
    "max_pool",
    "save_pretrained",
]
