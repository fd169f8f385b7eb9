"""Transitions: datasets that are read, and replay buffers that are written, on host and device."""

from jaxagents.data.dataset import Dataset
from jaxagents.data.device_buffer import DeviceBuffer
from jaxagents.data.grouped_buffer import GroupedBuffer
from jaxagents.data.minari_reading import from_minari
from jaxagents.data.minari_writing import to_minari
from jaxagents.data.normalisation import Normalisation
from jaxagents.data.priorities import importance_weights
from jaxagents.data.replay_buffer import ReplayBuffer

__all__ = [
    "Dataset",
    "DeviceBuffer",
    "GroupedBuffer",
    "Normalisation",
    "ReplayBuffer",
    "from_minari",
    "importance_weights",
    "to_minari",
]
