"""The shared suite for the agents that act by the values of discrete actions."""

from registry import VALUE_BASED
from suite import *  # noqa: F403

CASES = VALUE_BASED
