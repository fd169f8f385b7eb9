"""Datasets of transitions, and replay buffers on the host and on the device."""

from jaxagents.data.dataset import Dataset as Dataset
from jaxagents.data.dataset import Normalisation as Normalisation
from jaxagents.data.device_buffer import DeviceBuffer as DeviceBuffer
from jaxagents.data.minari import from_minari as from_minari
from jaxagents.data.minari import to_minari as to_minari
from jaxagents.data.priorities import importance_weights as importance_weights
from jaxagents.data.replay_buffer import ReplayBuffer as ReplayBuffer
