"""The shared suite for the agents that learn from a dataset."""

from registry import OFFLINE
from suite import *  # noqa: F403

CASES = OFFLINE
