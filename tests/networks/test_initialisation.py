"""Parameters that are initialised once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx
from flax.errors import ScopeParamShapeError
from flax.nnx.bridge import to_linen

from jaxagents.networks import Dense, Ensemble, NoisyDense, PerActor
from jaxagents.networks.initialisation import initialise

KEY = jax.random.key(0)
ROWS = jnp.ones((7, 3))


@pytest.mark.parametrize("layer", [Dense, NoisyDense])
def test_layers_are_not_initialised_again(layer):
    calls = []

    def init(key, shape, dtype):
        calls.append(shape)
        return jnp.ones(shape, dtype)

    network = layer(4, kernel_init=init)
    params = network.init(KEY, ROWS)
    assert calls == [(3, 4)]
    jax.jit(network.apply)(params, ROWS)
    assert calls == [(3, 4)]


@pytest.mark.parametrize("layer", [Dense, NoisyDense])
def test_parameters_of_another_shape_are_refused(layer):
    params = layer(64).init(KEY, ROWS)
    with pytest.raises(ScopeParamShapeError, match=r'"kernel".*\(4, 64\).*\(3, 64\)'):
        layer(64).apply(params, jnp.ones((7, 4)))


def test_metadata_of_parameters_are_left_out():
    init = nn.with_partitioning(nn.initializers.lecun_normal(), (None, "model"))
    params = Dense(4, kernel_init=init).init(KEY, ROWS)
    assert isinstance(params["params"]["kernel"], nn.Partitioned)
    plain = nn.Dense(4).apply(nn.meta.unbox(params), ROWS)
    np.testing.assert_allclose(Dense(4, kernel_init=init).apply(params, ROWS), plain, rtol=1e-6)


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


class WithNoise(nnx.Module):
    """Changes its inputs by random numbers from keys of its own, drawn at every call or kept."""

    def __init__(self, kind: str, *, rngs: nnx.Rngs):
        self.layer = nnx.Linear(3, 4, rngs=rngs)
        own = nnx.Rngs(7)
        self.change = {
            "dropout": lambda: nnx.Dropout(0.5, rngs=own),
            "noise": lambda: lambda x: x + own.noise.normal(x.shape),
            "kept noise": lambda: nnx.Linear(3, 3, rngs=own),
        }[kind]()

    def __call__(self, x):
        return self.layer(self.change(x))


class Within(nn.Module):
    """Has a module of flax.nnx in it."""

    part: nn.Module

    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(self.part(x))


@pytest.mark.parametrize("whole", [lambda network: network, Within])
@pytest.mark.parametrize("kind", ["dropout", "noise"])
def test_modules_of_nnx_that_draw_the_same_numbers_at_every_call_are_refused(kind, whole):
    network = whole(to_linen(WithNoise, kind))
    with pytest.raises(ValueError, match=r"nnx that draws .* from keys of its own.*nnx\.Variable"):
        jax.eval_shape(lambda: initialise(network, KEY, ROWS))
    variables = initialise(whole(to_linen(WithNoise, "kept noise")), KEY, ROWS)
    assert set(variables) == {"params"}
