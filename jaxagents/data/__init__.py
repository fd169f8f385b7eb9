"""Transitions on the host: datasets that are read, and replay buffers that are written."""

from jaxagents.data.dataset import Dataset, Normalisation
from jaxagents.data.minari_reading import from_minari
from jaxagents.data.minari_writing import to_minari
from jaxagents.data.replay_buffer import ReplayBuffer

__all__ = ["Dataset", "Normalisation", "ReplayBuffer", "from_minari", "to_minari"]
