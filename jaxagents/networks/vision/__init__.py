"""Encoders of images, pretrained weights, and augmentations."""

from jaxagents.networks.vision import augmentations as augmentations
from jaxagents.networks.vision.augmentations import augment as augment
from jaxagents.networks.vision.convolution import Conv as Conv
from jaxagents.networks.vision.convolution import convolve as convolve
from jaxagents.networks.vision.convolution import max_pool as max_pool
from jaxagents.networks.vision.encoder import AtariEncoder as AtariEncoder
from jaxagents.networks.vision.encoder import Encoder as Encoder
from jaxagents.networks.vision.encoder import ImpalaEncoder as ImpalaEncoder
from jaxagents.networks.vision.pretrained import from_torch_resnet as from_torch_resnet
from jaxagents.networks.vision.pretrained import load_pretrained as load_pretrained
from jaxagents.networks.vision.pretrained import save_pretrained as save_pretrained
from jaxagents.networks.vision.registry import encoders as encoders
from jaxagents.networks.vision.registry import make_encoder as make_encoder
from jaxagents.networks.vision.resnet import GroupNorm as GroupNorm
from jaxagents.networks.vision.resnet import ResNetV1 as ResNetV1
from jaxagents.networks.vision.resnet import ResNetV2 as ResNetV2
from jaxagents.networks.vision.vit import ViT as ViT
