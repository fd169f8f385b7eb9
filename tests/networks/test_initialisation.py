"""Parameters that are initialised once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx
from flax.errors import ScopeParamShapeError
from flax.nnx.bridge import to_linen

from jaxagents.networks import Dense, Ensemble, NoisyDense, PerActor, default_init
from jaxagents.networks.initialisation import initialise

KEY = jax.random.key(0)
ROWS = np.ones((7, 3), np.float32)


def test_weights_start_as_glorot_and_bengio_have_them():
    kernel = default_init()(KEY, (300, 100))
    limit = np.sqrt(6.0 / 400)
    assert 0.99 * limit < np.abs(kernel).max() <= limit
    np.testing.assert_allclose(kernel.std(), limit / np.sqrt(3.0), rtol=0.02)


@pytest.mark.parametrize("layer", [Dense, NoisyDense])
def test_layers_are_not_initialised_again_and_other_shapes_are_refused(layer):
    calls = []

    def init(key, shape, dtype):
        calls.append(shape)
        return jnp.ones(shape, dtype)

    network = layer(4, kernel_init=init)
    params = jax.eval_shape(network.init, KEY, ROWS)
    assert calls == [(3, 4)]
    jax.eval_shape(network.apply, params, ROWS)
    assert calls == [(3, 4)]
    with pytest.raises(ScopeParamShapeError, match=r'"kernel".*\(4, 4\).*\(3, 4\)'):
        jax.eval_shape(network.apply, params, np.ones((7, 4), np.float32))


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

    network, x = lift(Counted(), 3), np.ones((3, 4), np.float32)
    params = jax.eval_shape(network.init, KEY, x)
    assert initialised
    initialised.clear()
    assert jax.eval_shape(network.apply, params, x).shape[0] == 3
    assert not initialised


def test_networks_without_gradients_for_all_of_their_variables_are_refused():
    network = Ensemble(nn.BatchNorm(use_running_average=True), 2)
    with pytest.raises(ValueError, match=r"BatchNorm has the variables \['batch_stats'\].*group"):
        network.init(KEY, ROWS)


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


def test_modules_of_nnx_that_draw_the_same_numbers_at_every_call_are_refused():
    for kind in ("dropout", "noise"):
        network = nn.Sequential([to_linen(WithNoise, kind), nn.Dense(2)])
        with pytest.raises(
            ValueError, match=r"nnx module that draws .* from its own keys.*nnx\.Var"
        ):
            jax.eval_shape(lambda: initialise(network, KEY, ROWS))  # noqa: B023
    kept = nn.Sequential([to_linen(WithNoise, "kept noise"), nn.Dense(2)])
    assert set(jax.eval_shape(lambda: initialise(kept, KEY, ROWS))) == {"params"}
