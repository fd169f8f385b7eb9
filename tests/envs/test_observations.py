"""Observations as their spaces declare them: categories, ranges of pixels, and axes of images."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import trees
from gymnasium import spaces as gymnasium_spaces
from gymnax.environments import spaces as gymnax_spaces

from jaxagents.envs.observations import preprocessing
from jaxagents.envs.spaces import Box, Composite, Discrete, MultiDiscrete
from jaxagents.networks import preprocess

SPEED = Box(-1.0, 1.0, (2,))
MIXED = Composite({"a": SPEED, "b": Discrete(4)})
FAST = np.float32([0.5, -0.5])


class Seen(NamedTuple):
    """A dict observation whose keys are not in alphabetical order."""

    room: object
    gear: object


def as_read(space, obs, **options):
    obs = jax.tree.map(jnp.asarray, obs)
    return preprocess(obs, preprocessing(space, obs, **options))


def one_hot(i, n):
    return np.eye(n, dtype=np.float32)[i]


def test_integers_of_a_space_become_one_hot_wherever_they_are_in_it():
    two = np.concatenate([one_hot(1, 2), one_hot(2, 3)])
    table, of_table = np.array([[0, 2], [1, 0]]), [[1, 0, 0, 0, 1], [0, 1, 1, 0, 0]]
    for space, obs, expected in (
        (Discrete(4), 3, one_hot(3, 4)),
        (MIXED, {"a": FAST, "b": 3}, {"a": FAST, "b": one_hot(3, 4)}),
        (Composite((Discrete(4), Composite((SPEED,)))), (0, (FAST,)), (one_hot(0, 4), (FAST,))),
        (MultiDiscrete((2, 3)), [1, 2], two),
        (MultiDiscrete(((2, 3), (2, 3))), table, np.float32(of_table)),
        (MultiDiscrete([[2, 3], [1, 3]]), table, np.float32(of_table)),
        (Composite({"room": Discrete(2), "gear": Discrete(3)}), Seen(1, 2), Seen(two[:2], two[2:])),
        (Composite((Discrete(2), Discrete(3))), Seen(1, 2), Seen(two[:2], two[2:])),
        (gymnax_spaces.Dict({"b": gymnax_spaces.Discrete(4)}), {"b": 3}, {"b": one_hot(3, 4)}),
        (gymnasium_spaces.MultiDiscrete([2, 3]), [1, 2], two),
        (None, {"a": 3}, {"a": 3}),
        (Composite({"other": Discrete(4)}), {"a": 3}, {"a": 3}),
    ):
        obs = jax.tree.map(np.asarray, obs, is_leaf=lambda x: isinstance(x, list))
        trees.assert_equal(as_read(space, obs), jax.tree.map(np.asarray, expected))
        several = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * 2), obs)
        read = preprocess(several, preprocessing(space, obs))
        trees.assert_equal(jax.tree.map(lambda x: x[1], read), jax.tree.map(np.asarray, expected))


def test_images_are_divided_by_the_bound_of_their_space_unless_networks_assume_it():
    image, shape = np.arange(24).reshape(2, 4, 3) % 11, (2, 4, 3)
    for low, high, dtype, kind, divisor in (
        (0, 10, np.int32, np.int32, 10),
        (0, 1, np.uint8, np.uint8, 1),
        (0, np.full(shape, 255.0), np.float32, np.float32, 255),
        (0, 65535, np.uint16, np.uint16, 65535),
        (np.zeros(shape), np.array([10, 5, 2]), np.uint8, np.uint8, 10),
        (0, 255, np.float32, np.float32, 255),
        (0, 10, np.float32, np.int32, 10),  # the default type of spaces
        # The scale is left to networks.
        (0, 255, np.uint8, np.uint8, None),
        (0.0, 1.0, np.float32, np.float32, None),
        (0, 1, np.float32, bool, None),
        (
            0,
            255,
            np.uint8,
            np.float32,
            None,
        ),  # of another type than declared, which is told otherwise
        (-1, 10, np.int32, np.int32, None),
        (0, np.inf, np.float32, np.float32, None),
        (0, np.iinfo(np.int32).max, np.int32, np.int32, None),
    ):
        obs, space = image.astype(kind), Box(low, high, shape, dtype)
        found = as_read(space, obs)
        expected = obs if divisor is None else obs.astype(np.float32) / np.float32(divisor)
        assert found.dtype == expected.dtype, (low, high)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert preprocessing(None, image) == (None,)
    assert preprocessing(Box(0, 10, (6, 3), np.int32), image[0]) == (None,)


def test_channels_come_last_and_axes_of_actors_are_not_theirs():
    images, space = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5), Box(0, 100, (3, 4, 5), np.int32)
    found = as_read(space, images, n_leading=1, channels_first=True)
    np.testing.assert_allclose(found, np.moveaxis(images, 1, -1) / 100.0, rtol=1e-6)
    alone = as_read(None, images[0], channels_first=True)
    np.testing.assert_array_equal(alone, np.moveaxis(images[0], 0, -1))
    assert preprocessing(None, images[0], channels_first=False) == (None,)
