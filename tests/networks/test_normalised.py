"""Networks whose observations are normalised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn

from jaxagents.learners.train_state import TrainState
from jaxagents.networks import (
    CategoricalActor,
    Normalised,
    PerActor,
    StateCritic,
    WithMemory,
    normalised,
    remembers,
)

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


class Seen(nn.Module):
    """Returns its inputs."""

    def __call__(self, observations, scale=1.0):
        return jax.tree.map(lambda x: x * scale, observations)


def state_of(network, *inputs):
    """Fresh statistics, and parameters that are drawn by NumPy."""

    def fresh(*inputs):
        return {name: x for name, x in network.init(KEY, *inputs).items() if name != "params"}

    inputs = jax.tree.map(jnp.asarray, inputs)
    variables = trees.variables(network, *inputs) | jax.jit(fresh)(*inputs)
    return TrainState.from_variables(network, variables)


observe = jax.jit(TrainState.observe)
apply = jax.jit(TrainState.__call__)


def moments_of(state):
    return state.extra_variables["observed"]["statistics"]["moments"]


def normal(mean, deviation, *shape):
    return RNG.normal(mean, deviation, shape).astype(np.float32)


@pytest.mark.parametrize("mask_dtype", [bool, np.float16])
def test_real_numbers_are_normalised_and_images_integers_and_masks_left_alone(mask_dtype):
    shape = (6, 50)
    seen = {
        "vector": normal(7.0, 3.0, *shape, 2),
        "number": normal(-2.0, 0.1, *shape),
        "table": normal(1e3, 5.0, *shape, 2, 3),
        "critic_state": normal(-5.0, 2.0, *shape, 2),
        "picture": RNG.integers(0, 256, (*shape, 4, 4, 3)).astype(np.uint8),
        "drawing": normal(9.0, 1.0, *shape, 4, 4, 1),
        "kind": RNG.integers(0, 5, shape).astype(np.int32),
        "flag": RNG.random(shape) < 0.5,
        "action_mask": (RNG.random((*shape, 4)) < 0.5).astype(mask_dtype),
    }
    state = state_of(Normalised(Seen()), jax.tree.map(lambda x: x[0, 0], seen))
    state = observe(state, seen)
    out = apply(state, seen)
    kept = dict(zip(sorted(seen), moments_of(state), strict=True))
    for name, x in seen.items():
        is_normalised = name in ("vector", "number", "table", "critic_state")
        expected = (x - x.mean((0, 1))) / x.std((0, 1)) if is_normalised else x
        np.testing.assert_allclose(out[name], expected, atol=2e-3 if is_normalised else 0.0)
        assert bool(kept[name]) == is_normalised


def test_actors_that_have_left_do_not_count_and_masks_may_leave_parts_out():
    batch = {
        "observation": normal(7.0, 3.0, 40, 2, 3),
        "actor_mask": RNG.random((40, 2)) < 0.5,
        "action_mask": (np.ones((40, 2, 3), bool), None),
    }
    state = observe(state_of(Normalised(Seen()), jax.tree.map(lambda x: x[0], batch)), batch)
    *_, moments = moments_of(state)
    for actor in range(2):
        counted = batch["observation"][batch["actor_mask"][:, actor], actor]
        np.testing.assert_allclose(moments.mean[actor], counted.mean(0), rtol=1e-5)
    assert apply(state, batch)["action_mask"][1] is None


def test_further_arguments_are_passed_on_and_outliers_clipped():
    network = Normalised(Seen(), clip=2.0)
    assert normalised(network) is network
    state = state_of(network, np.zeros(1, np.float32))
    np.testing.assert_array_equal(apply(state, jnp.array([5.0]), scale=3.0), [6.0])


def test_only_observing_changes_the_statistics():
    state = state_of(Normalised(StateCritic(features=(4,))), np.zeros(2, np.float32))
    obs = np.arange(8.0, dtype=np.float32).reshape(4, 2)

    def loss(params):
        return jax.vmap(lambda o: state(o, params=params))(obs).sum()

    gradients = jax.eval_shape(jax.grad(loss), state.params)
    assert jax.tree.structure(gradients) == jax.tree.structure(state.params)
    (before,), (after,) = moments_of(state), moments_of(observe(state, obs))
    assert before.count == 0
    np.testing.assert_allclose(after.mean, obs.mean(0))
    without = state_of(StateCritic(features=(4,)), np.zeros(2, np.float32))
    assert without.observe(jnp.ones((3, 2))) is without


def test_statistics_inside_of_another_network_are_refused():
    class Outer(nn.Module):
        network: nn.Module

        def __call__(self, obs):
            return self.network(obs)

    state = state_of(Outer(Normalised(Seen())), np.zeros(2, np.float32))
    with pytest.raises(TypeError, match=r"Outer holds .* around all of it"):
        state.observe(jnp.ones((3, 2)))


def test_each_actor_has_statistics_of_its_own():
    network = normalised(PerActor(CategoricalActor(2, features=(4,)), 3))
    obs = normal(0.0, 1.0, 10, 3, 2) * np.float32([1.0, 10.0, 100.0])[None, :, None]
    state = observe(state_of(network, np.zeros((3, 2), np.float32)), obs)
    (moments,) = moments_of(state)
    np.testing.assert_allclose(moments.variance, obs.var(0), rtol=1e-4)


def test_a_network_with_a_memory_keeps_it():
    network = normalised(WithMemory(CategoricalActor(2, features=()), nn.GRUCell(features=8)))
    assert remembers(network)
    carry, obs = network.initial(), np.float32([103.0, 104.0])
    state = state_of(network, carry, obs)
    carry, logits = jax.eval_shape(apply, observe(state, np.stack([obs, obs])), carry, obs)
    assert carry.shape == (8,)
    assert logits.shape == (2,)
