"""Networks for actors and critics (flax.linen)."""

from jaxagents.networks.convolution import PatchConv
from jaxagents.networks.heads import CategoricalActor, GaussianActor, ValueCritic
from jaxagents.networks.per_actor import PerActor
from jaxagents.networks.torsos import MLP, Torso

__all__ = [
    "MLP",
    "CategoricalActor",
    "GaussianActor",
    "PatchConv",
    "PerActor",
    "Torso",
    "ValueCritic",
]
