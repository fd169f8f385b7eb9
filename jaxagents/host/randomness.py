"""Random numbers that depend on the seed and on when they are drawn, and on nothing drawn before.

A training that goes on from a checkpoint thus draws what it would have drawn uninterrupted.
"""

import enum

import numpy as np


class Stream(enum.IntEnum):
    """The purposes of random numbers."""

    EPISODES = 0
    EVALUATION = 1
    ACTIONS = 2
    RANDOM_ACTIONS = 3
    BATCHES = 4


def seed_of(seed: int, stream: Stream, number: int = 0) -> int:
    """A seed of 32 bits.

    Args:
        seed: Seed of the training.
        stream: The purpose of the random numbers.
        number: Number of the episode or step.

    Returns:
        The seed.
    """
    return int(np.random.SeedSequence((seed, stream, number)).generate_state(1)[0])


def generator(seed: int, stream: Stream, number: int) -> np.random.Generator:
    """A generator.

    Args:
        seed: Seed of the training.
        stream: The purpose of the random numbers.
        number: Number of the episode or step.

    Returns:
        The generator.
    """
    return np.random.default_rng((seed, stream, number))
