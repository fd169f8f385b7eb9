"""Networks in training."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from jaxagents.core.train_state import TrainState, nonpytree_field, target_update

PARAMS = {"w": jnp.array([1.0, -2.0])}
GRADS = {"w": jnp.array([0.5, 0.25])}


def test_without_an_optimizer_there_is_no_training():
    state = TrainState.create(nn.Dense(1), PARAMS)
    with pytest.raises(ValueError, match="no optimizer"):
        state.apply_gradients(grads=GRADS)


def test_a_state_is_callable():
    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            return self.encode(x) + 1.0

        def encode(self, x):
            return 2.0 * x

    state = TrainState.create(Network(), {})
    assert state(3.0) == 7.0
    assert state(3.0, method="encode") == 6.0
    assert state(3.0, method=Network.encode) == 6.0
    dense = TrainState.create(
        nn.Dense(1), nn.Dense(1).init(jax.random.key(0), jnp.ones(2))["params"]
    )
    zeros = jax.tree.map(jnp.zeros_like, dense.params)
    assert dense(jnp.ones(2), params=zeros) == 0.0
    assert dense.apply_fn(zeros, jnp.ones(2)) == 0.0
    with pytest.raises(AttributeError):
        _ = dense.no_such_attribute


class Normalised(nn.Module):
    @nn.compact
    def __call__(self, x, train=False):
        return nn.BatchNorm(use_running_average=not train, momentum=0.0)(x)


def test_extra_variables_are_passed_in_updated_and_stored():
    x = jnp.array([[1.0], [3.0]])
    variables = Normalised().init(jax.random.key(0), x)
    state = TrainState.create(
        Normalised(), variables["params"], extra_variables={"batch_stats": variables["batch_stats"]}
    )
    np.testing.assert_allclose(state(x), x, rtol=1e-4)
    normalised, updates = state(x, train=True, mutable=["batch_stats"])
    np.testing.assert_allclose(normalised, [[-1.0], [1.0]], rtol=1e-4)
    np.testing.assert_allclose(state(x, extra_variables=updates), [[-1.0], [1.0]], rtol=1e-4)
    np.testing.assert_allclose(state(x), x, rtol=1e-4)
    stored = state.replace(extra_variables=updates)
    np.testing.assert_allclose(stored(x), [[-1.0], [1.0]], rtol=1e-4)


def test_gradients_are_averaged_over_a_mapped_axis():
    state = TrainState.create(nn.Dense(1), PARAMS, optax.sgd(1.0))

    def step(target):
        loss = lambda params: (jnp.sum(params["w"] * target), 2.0 * target)  # noqa: E731
        return state.apply_loss_fn(loss_fn=loss, has_aux=True, axis_name="batch")

    targets = jnp.array([1.0, 3.0])
    states, (losses, aux) = jax.vmap(step, axis_name="batch")(targets)
    for params in states.params["w"]:
        np.testing.assert_allclose(params, PARAMS["w"] - 2.0)
    np.testing.assert_allclose(losses, PARAMS["w"].sum() * targets)
    np.testing.assert_allclose(aux, 2.0 * targets)
    np.testing.assert_array_equal(states.step, 1)


@pytest.mark.parametrize("tau", [0.0, 0.25, 1.0])
def test_a_target_follows(tau):
    state, target = (TrainState.create(nn.Dense(1), params) for params in (PARAMS, GRADS))
    moved = jax.jit(target_update)(state, target, tau)
    np.testing.assert_allclose(moved.params["w"], tau * PARAMS["w"] + (1.0 - tau) * GRADS["w"])
    np.testing.assert_array_equal(moved.step, 0)


def test_a_state_can_be_donated():
    state = TrainState.create(nn.Dense(1), PARAMS, optax.adam(1.0))
    state = jax.tree.map(jnp.copy, state)
    step = jax.jit(lambda state: state.apply_gradients(grads=GRADS), donate_argnums=0)
    moved = step(state)
    assert state.params["w"].is_deleted()
    np.testing.assert_allclose(moved.params["w"], PARAMS["w"] - 1.0, atol=1e-4)


def test_fields_can_be_kept_out_of_the_pytree():
    class Named(TrainState):
        name: str = nonpytree_field(default="")

    state = Named.create(nn.Dense(1), PARAMS).replace(name="actor")
    assert "actor" not in jax.tree.leaves(state)
    assert jax.jit(lambda s: s)(state).name == "actor"
