"""Train states."""

import copy
import functools
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import trees
from flax import linen as nn
from flax import struct
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from jaxagents.learners.train_state import TrainState, nonpytree_field, target_update

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


class OfPosition(nn.Module):
    """Sees one entry of its input."""

    @nn.compact
    def __call__(self, obs):
        return nn.Dense(1)(obs["position"])


def test_errors_of_networks_have_a_note_of_what_they_were_given():
    network, obs = OfPosition(), {"position": jnp.ones(2)}
    state = TrainState.from_variables(network, network.init(jax.random.key(0), obs))
    with pytest.raises(KeyError) as found:
        state({"velocity": jnp.ones(2)})
    note = "This happened in OfPosition, given inputs of shape {'velocity': (2,)}."
    assert note in found.value.__notes__


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


def quadratic(params):
    return jnp.sum(params["w"] ** 2)


def test_a_step_down_a_loss_gives_the_loss_or_the_auxiliary_outputs():
    state = TrainState.create(nn.Dense(1), PARAMS, optax.sgd(0.25))
    moved, loss = state.apply_loss_fn(loss_fn=quadratic)
    assert loss == 5.0
    np.testing.assert_allclose(moved.params["w"], 0.5 * PARAMS["w"])
    with_aux = lambda params: (quadratic(params), {"size": params["w"].size})  # noqa: E731
    also_moved, info = state.apply_loss_fn(loss_fn=with_aux, has_aux=True)
    assert info == {"size": 2}
    trees.assert_equal(also_moved, moved)


def test_gradients_and_outputs_are_averaged_over_a_mapped_axis():
    state = TrainState.create(nn.Dense(1), PARAMS, optax.sgd(1.0))

    def step(target, has_aux):
        def loss_fn(params):
            loss = jnp.sum(params["w"] * target)
            return (loss, {"target": target, "fixed": 3}) if has_aux else loss

        return state.apply_loss_fn(loss_fn=loss_fn, has_aux=has_aux, axis_name="batch")

    targets = jnp.array([1.0, 3.0])
    for has_aux, expected in ((True, {"target": 2.0, "fixed": 3.0}), (False, -2.0)):
        stepped = jax.vmap(step, in_axes=(0, None), axis_name="batch")(targets, has_aux)
        for i in range(2):
            state_here, info = jax.tree.map(lambda x, i=i: x[i], stepped)
            np.testing.assert_allclose(state_here.params["w"], PARAMS["w"] - 2.0)
            trees.assert_equal(info, jax.tree.map(np.float32, expected))
            assert state_here.step == 1


def test_devices_together_take_the_step_of_one():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(8, n)).astype(np.float32) for n in (3, 1))
    network = nn.Dense(1)
    state = TrainState.create(network, network.init(jax.random.key(0), x)["params"], optax.sgd(0.1))

    def step(state, x, y, axis_name=None, varying=False):
        if varying:
            state = state.replace(params=jax.lax.pcast(state.params, "data", to="varying"))

        def loss_fn(params):
            error = state(x, params=params) - y
            return jnp.mean(error**2), {"error": jnp.abs(error).mean(), "fixed": 2.0}

        return state.apply_loss_fn(loss_fn=loss_fn, has_aux=True, axis_name=axis_name)

    def two_steps(state, x, y):
        state, _ = step(state, x, y, "data")
        return step(state, x, y, "data")

    def own(state, x, y):
        state, _ = step(state, x, y, "data", varying=True)
        return jax.lax.pmean(state.params, "data")

    mesh = Mesh(np.array(jax.devices()[:4]), ("data",))
    alone = jax.jit(step)
    first, _ = alone(state, x, y)
    expected = alone(first, x, y)
    replicated, split = P(), P("data")
    places = {"mesh": mesh, "in_specs": (replicated, split, split), "out_specs": replicated}
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5)
    for check_vma in (True, False):
        sharded = jax.jit(jax.shard_map(two_steps, check_vma=check_vma, **places))(state, x, y)
        jax.tree.map(close, sharded, expected)
    params = jax.jit(jax.shard_map(own, **places))(state, x, y)
    jax.tree.map(close, params, first.params)


def test_a_target_follows_in_its_types_with_the_further_variables():
    update = jax.jit(target_update)
    state, target = (TrainState.create(nn.Dense(1), params) for params in (PARAMS, GRADS))
    for tau in (0.25, 1.0):
        moved = update(state, target, tau)
        np.testing.assert_allclose(moved.params["w"], tau * PARAMS["w"] + (1.0 - tau) * GRADS["w"])
        np.testing.assert_array_equal(moved.step, 0)
    variables = {"params": jax.tree.map(lambda x: x.astype(jnp.bfloat16), PARAMS)}
    target = TrainState.from_variables(nn.Dense(1), {**variables, "stats": jnp.zeros(2)})
    state = TrainState.from_variables(nn.Dense(1), {**variables, "stats": jnp.ones(2)})
    moved = update(state, target, jnp.float32(0.5))
    assert moved.params["w"].dtype == jnp.bfloat16
    np.testing.assert_array_equal(moved.extra_variables["stats"], 1.0)


def test_optimizers_are_told_the_loss():
    tx = optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau(factor=0.5, patience=1))
    state = TrainState.create(nn.Dense(1), PARAMS, tx)

    for _ in range(3):
        loss_fn = lambda params: (3.0 + 0.0 * params["w"].sum(), {})  # noqa: E731
        state, _ = state.apply_loss_fn(loss_fn=loss_fn, has_aux=True)
    assert state.opt_state[1].best_value == 3.0
    assert state.opt_state[1].scale == 0.25
    assert state.apply_gradients(grads=GRADS, value=2.0).opt_state[1].best_value == 2.0


def test_parameters_are_no_further_variables():
    with pytest.raises(ValueError, match="a collection 'params'"):
        TrainState.create(nn.Dense(1), PARAMS, extra_variables={"params": PARAMS})


def test_states_of_the_same_parameters_can_be_donated_together():
    keeps_params = optax.GradientTransformation(lambda params: params, lambda g, s, _: (g, s))

    def create(params):
        tx = optax.chain(keeps_params, optax.sgd(1.0))
        return [TrainState.create(nn.Dense(1), params, tx, {"stats": params}) for _ in range(2)]

    def take_steps(states):
        return [state.apply_gradients(grads=GRADS) for state in states]

    params = jax.tree.map(jnp.copy, PARAMS)
    states = jax.jit(create)(params)
    moved = jax.jit(take_steps, donate_argnums=0)(states)
    assert all(state.params["w"].is_deleted() for state in states)
    np.testing.assert_array_equal(params["w"], PARAMS["w"])
    for state in moved:
        np.testing.assert_allclose(state.params["w"], PARAMS["w"] - GRADS["w"])
        np.testing.assert_array_equal(state.extra_variables["stats"]["w"], PARAMS["w"])


def test_numpy_parameters_are_copied():
    given = {"w": np.ones(2, np.float32)}
    state = TrainState.create(nn.Dense(1), given)
    given["w"][:] = 7.0
    assert isinstance(state.params["w"], jax.Array)
    np.testing.assert_array_equal(state.params["w"], 1.0)


class Scaled(TrainState):
    scale: Any = None
    activation: Any = nonpytree_field(default=None)


class Pair(struct.PyTreeNode):
    actor: TrainState
    critic: TrainState


def trained(seed=0):
    """A network of closures with an optimizer of closures, after one step."""
    network = nn.Sequential([nn.Dense(4, kernel_init=nn.initializers.orthogonal(2.0)), nn.Dense(1)])
    params = network.init(jax.random.key(seed), jnp.ones(2))["params"]
    schedule = optax.cosine_decay_schedule(0.1, 10)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    return step(TrainState.create(network, params, tx))


@jax.jit
def step(state):
    return state.apply_loss_fn(loss_fn=lambda params: state(jnp.ones(2), params=params).sum())[0]


def pickled(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("duplicate", [pickled, copy.copy, copy.deepcopy])
def test_duplicates_train_as_the_original_by_the_same_programs(duplicate):
    state = trained()
    other = duplicate(state)
    trees.assert_equal(other, state)
    assert other.tx is state.tx
    assert other.model_def is state.model_def
    expected, n_programs = step(state), step._cache_size()
    trees.assert_equal(step(other), expected)
    assert step._cache_size() == n_programs


@pytest.mark.parametrize("duplicate", [pickled, copy.deepcopy])
def test_states_in_other_pytrees_and_of_subclasses_can_be_duplicated(duplicate):
    actor, critic = trained(0), trained(1)
    assert actor.tx is not critic.tx
    pair = duplicate(Pair(actor, critic))
    trees.assert_equal(pair, Pair(actor, critic))
    assert pair.actor.tx is actor.tx
    assert pair.critic.tx is critic.tx
    scaled = Scaled.create(nn.Dense(1), PARAMS).replace(
        scale=jax.random.key(3), activation=lambda x: 2 * x
    )
    other = duplicate(scaled)
    trees.assert_equal(other, scaled)
    assert other.activation is scaled.activation
