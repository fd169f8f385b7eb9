"""The shared suite for the off-policy agents with a policy of their own."""

from registry import ACTOR_CRITIC
from suite import *  # noqa: F403

CASES = ACTOR_CRITIC
