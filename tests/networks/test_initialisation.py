"""Initialisers, which are traced once for each shape, and parameters, which are initialised once."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jaxagents.networks import Ensemble, PerActor, default_init
from jaxagents.networks.initialisation import orthogonal_init, traced_once

KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("ours", "of_flax"),
    [
        (orthogonal_init(math.sqrt(2.0)), nn.initializers.orthogonal(math.sqrt(2.0))),
        (default_init(0.5), nn.initializers.variance_scaling(0.5, "fan_avg", "uniform")),
    ],
    ids=["orthogonal", "glorot"],
)
def test_numbers_are_those_of_flax(ours, of_flax):
    for shape, *dtype in [((6, 3),), ([3, 6], jnp.float32), ((2, 2, 4), jnp.float32)]:
        found, known = ours(KEY, shape, *dtype), of_flax(KEY, tuple(shape), *dtype)
        assert found.dtype == known.dtype
        np.testing.assert_allclose(found, known, rtol=1e-6)


def test_an_initialiser_is_traced_once_for_each_shape():
    traced = []

    def init(key, shape, dtype):
        traced.append(shape)
        return jnp.ones(shape, dtype)

    layer = nn.Dense(2, kernel_init=traced_once(init))
    params = layer.init(KEY, jnp.ones(3))
    for _ in range(3):
        jax.eval_shape(layer.apply, params, jnp.ones(3))
    layer.init(KEY, jnp.ones(5))
    assert traced == [(3, 2), (5, 2)]


@pytest.mark.parametrize("lift", [PerActor, Ensemble])
def test_networks_of_several_are_not_initialised_again(lift):
    initialised = []

    class Counted(nn.Module):
        @nn.compact
        def __call__(self, x):
            if self.is_initializing():
                initialised.append(x.shape)
            return nn.Dense(2)(x)

    network = lift(Counted(), 3)
    params = network.init(KEY, jnp.ones((3, 4)))
    assert initialised
    initialised.clear()
    assert network.apply(params, jnp.ones((3, 4))).shape[0] == 3
    assert not initialised
