"""Transitions: datasets that are read, and replay buffers that are written, on host and device."""

from jaxagents.data.dataset import Dataset, Normalisation
from jaxagents.data.device_buffer import DeviceBuffer
from jaxagents.data.minari import from_minari, to_minari
from jaxagents.data.priorities import importance_weights
from jaxagents.data.replay_buffer import ReplayBuffer

__all__ = [
    "Dataset",
    "DeviceBuffer",
    "Normalisation",
    "ReplayBuffer",
    "from_minari",
    "importance_weights",
    "to_minari",
]
