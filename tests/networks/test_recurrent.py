"""Networks with a memory, step by step and in sequences."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn

from jaxagents.learners.train_state import TrainState
from jaxagents.networks import CategoricalActor, MinGRUCell, PerActor, WithMemory, normalised

KEY = jax.random.key(0)
IS_FIRST = [False, False, True, False, True]
FIRST = np.array(IS_FIRST)
OBS = np.random.default_rng(0).normal(size=(5, 3, 2)).astype(np.float32)


def at(tree, i):
    return jax.tree.map(lambda x: np.asarray(x)[i], tree)


def changed(carry):
    return jax.tree.map(lambda x: np.asarray(x) + np.float32(0.3), carry)


def assert_unrolls_as_it_steps(network, obs):
    carry = network.initial()
    state = TrainState.from_variables(network, trees.variables(network, carry, at(obs, 0)))
    carry, step = changed(carry), jax.jit(lambda *inputs: state(*inputs))
    unrolled = jax.jit(lambda *inputs: state(*inputs, method="unroll"))(carry, obs, FIRST)
    for t in range(len(IS_FIRST)):
        carry = network.initial() if IS_FIRST[t] else carry
        carry, output = step(carry, at(obs, t))
        trees.assert_close(at(unrolled, t), (carry, output))


@pytest.mark.parametrize("cell", [nn.GRUCell(4, activation_fn=nn.softplus), MinGRUCell(4)])
def test_unrolls_as_it_steps_and_forgets_where_an_episode_begins(cell):
    network = WithMemory(CategoricalActor(2, features=(5,)), cell)
    assert_unrolls_as_it_steps(normalised(network), OBS[:, 0])


@pytest.mark.parametrize(("shared", "own"), [(True, True), (False, False)])
def test_each_actor_has_a_memory_of_its_own(shared, own):
    network = WithMemory(CategoricalActor(2, features=()), MinGRUCell(4))
    lifted = PerActor(network, 3, shared_params=shared, own_observations=own)
    if own:
        assert_unrolls_as_it_steps(lifted, OBS)
    obs = OBS[0]
    variables = trees.variables(lifted, lifted.initial(), obs)
    carry = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    outputs = jax.jit(lifted.apply)(variables, carry, obs)
    params, apply = variables["params"]["actors"], jax.jit(network.apply)
    for i in range(3):
        own_params = params if shared else at(params, i)
        alone = apply({"params": own_params}, carry[i], obs[i] if own else obs)
        trees.assert_close(at(outputs, i), alone)


def test_a_minimal_gru_is_that_of_its_equations():
    cell, x = MinGRUCell(4), OBS[:, 0]
    variables = trees.variables(cell, np.zeros(4, np.float32), x[0])
    layer = variables["params"]["layer"]
    gate, candidate = np.split(x @ layer["kernel"] + layer["bias"], 2, axis=1)
    z, h, expected = 1.0 / (1.0 + np.exp(-gate)), np.ones(4), []
    for t in range(len(x)):
        h = np.zeros(4) if IS_FIRST[t] else h
        h = (1.0 - z[t]) * h + z[t] * candidate[t]
        expected.append(h)
    unroll = jax.jit(lambda *inputs: cell.apply(*inputs, method="unroll"))
    _, outputs = unroll(variables, np.ones(4, np.float32), x, FIRST)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


def test_a_sequence_and_its_gradients_are_those_of_its_steps():
    network = WithMemory(nn.Dense(2), nn.OptimizedLSTMCell(4), nn.Dense(3))
    carry, first = changed(network.initial()), jnp.asarray(FIRST)
    params = trees.variables(network, carry, OBS[0, 0])

    def unrolled(params, carry, obs):
        return network.apply(params, carry, obs, first, method="unroll")

    def stepped(params, carry, obs):
        after = []
        for t in range(len(IS_FIRST)):
            carry = network.initial() if IS_FIRST[t] else carry
            carry, output = network.apply(params, carry, obs[t])
            after.append((carry, output))
        return jax.tree.map(lambda *x: jnp.stack(x), *after)

    def gradients(outputs):
        def loss(params, carry, obs):
            carries, each = jax.vmap(outputs, (None, None, 1))(params, carry, obs)
            return (each**2).sum(), (carries, each)

        return jax.grad(loss, (0, 1, 2), has_aux=True)

    trees.assert_close(*(jax.jit(gradients(f))(params, carry, OBS) for f in (unrolled, stepped)))
    program = str(jax.make_jaxpr(gradients(unrolled))(params, carry, OBS))
    assert program.count(" scan[") == 2  # one loop forth, and one back


@pytest.mark.parametrize(
    ("cell", "found"),
    [(nn.GRUCell, "the class GRUCell"), ("gru", "a str"), (nn.Dense(3), "a Dense")],
)
def test_refuses_what_is_no_cell(cell, found):
    given = types.SimpleNamespace(cell=cell)  # the constructor checks types in tests already
    with pytest.raises(TypeError, match=rf"such as nn\.GRUCell\(64\), got {found}\."):
        WithMemory.__post_init__(given)
