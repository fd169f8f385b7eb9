"""Networks whose observations are normalised."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
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
from jaxagents.networks.wrappers import RunningNorm

KEY = jax.random.key(0)


class Seen(nn.Module):
    """Gives back what it is given."""

    def __call__(self, observations, scale=1.0):
        return jax.tree.map(lambda x: x * scale, observations)


def state_of(network, *inputs):
    return TrainState.from_variables(network, network.init(KEY, *inputs))


def test_parts_are_normalised_each_by_itself_and_images_left_alone():
    rng = np.random.default_rng(0)

    def observations(*batch):
        return {
            "vector": jnp.asarray(rng.normal(7.0, 3.0, (*batch, 2)), jnp.float32),
            "number": jnp.asarray(rng.normal(-2.0, 0.1, batch), jnp.float32),
            "table": jnp.asarray(rng.normal(1e3, 5.0, (*batch, 2, 3)), jnp.float32),
            "picture": jnp.asarray(rng.integers(0, 256, (*batch, 4, 4, 3)), jnp.uint8),
            "drawing": jnp.asarray(rng.normal(9.0, 1.0, (*batch, 4, 4, 1)), jnp.float32),
            "kind": jnp.asarray(rng.integers(0, 5, batch), jnp.int32),
            "flag": jnp.asarray(rng.random(batch) < 0.5),
        }

    state = state_of(Normalised(Seen()), observations())
    seen = observations(6, 50)
    out = state.observe(seen)(seen)
    for name in ("picture", "drawing", "kind", "flag"):
        np.testing.assert_array_equal(out[name], seen[name])
    for name in ("vector", "number", "table"):
        x = np.asarray(seen[name])
        expected = (x - x.mean((0, 1))) / x.std((0, 1))
        np.testing.assert_allclose(out[name], expected, atol=2e-3)


def test_further_arguments_are_passed_on_and_outliers_clipped():
    state = state_of(Normalised(Seen(), clip=2.0), jnp.zeros(1))
    np.testing.assert_array_equal(state(jnp.array([5.0]), scale=3.0), [6.0])


def test_only_observing_changes_the_statistics():
    state = state_of(Normalised(StateCritic(features=(4,))), jnp.zeros(2))
    obs = jnp.arange(8.0).reshape(4, 2)
    loss = lambda params: jax.vmap(lambda o: state(o, params=params))(obs).sum()  # noqa: E731
    trained = state.replace(opt_state=None).apply_fn(state.params, obs[0])
    assert trained.shape == ()
    assert jax.tree.structure(jax.grad(loss)(state.params)) == jax.tree.structure(state.params)
    after = state.observe(obs)
    (moments,) = after.extra_variables["observed"]["statistics"]["moments"]
    np.testing.assert_allclose(moments.mean, obs.mean(0))
    (before,) = state.extra_variables["observed"]["statistics"]["moments"]
    assert before.count == 0


def test_masks_may_leave_parts_out():
    norm = RunningNorm()
    obs = {"observation": jnp.ones(2), "action_mask": (jnp.ones(3, bool), None)}
    variables = norm.init(KEY, obs)
    batch = jax.tree.map(lambda x: jnp.stack([x, 3.0 * x]), obs)
    _, changed = norm.apply(variables, batch, method="observe", mutable=["observed"])
    _, moments = changed["observed"]["moments"]
    np.testing.assert_allclose(moments.mean, [2.0, 2.0])
    assert norm.apply(changed, obs)["action_mask"][1] is None


@pytest.mark.parametrize("dtype", [bool, np.int32, np.float16, np.float32])
def test_masks_have_no_statistics_whatever_their_type(dtype):
    rng = np.random.default_rng(0)
    batch = {
        "observation": jnp.asarray(rng.normal(7.0, 3.0, (40, 2, 3)), jnp.float32),
        "action_mask": jnp.asarray(rng.random((40, 2, 4)) < 0.5, dtype),
        "actor_mask": jnp.asarray(rng.random((40, 2)) < 0.5, dtype),
        "critic_state": jnp.asarray(rng.normal(-5.0, 2.0, (40, 2)), jnp.float32),
    }
    state = state_of(Normalised(Seen()), jax.tree.map(lambda x: x[0], batch)).observe(batch)
    kept = state.extra_variables["observed"]["statistics"]["moments"]
    in_order = ("action_mask", "actor_mask", "critic_state", "observation")
    assert [name for name, part in zip(in_order, kept, strict=True) if part is not None] == [
        "critic_state",
        "observation",
    ]
    for name in ("action_mask", "actor_mask"):
        np.testing.assert_array_equal(state(batch)[name], batch[name])


def test_a_network_without_statistics_observes_nothing():
    state = state_of(StateCritic(features=(4,)), jnp.zeros(2))
    assert state.observe(jnp.ones((3, 2))) is state


def test_statistics_inside_of_another_network_are_refused():
    class Outer(nn.Module):
        network: nn.Module

        def __call__(self, obs):
            return self.network(obs)

    state = state_of(Outer(Normalised(Seen())), jnp.zeros(2))
    with pytest.raises(TypeError, match=r"Outer holds .* around all of it"):
        state.observe(jnp.ones((3, 2)))


def test_each_actor_has_statistics_of_its_own():
    network = normalised(PerActor(CategoricalActor(2, features=(4,)), 3))
    state = state_of(network, jnp.zeros((3, 2)))
    obs = jax.random.normal(KEY, (10, 3, 2)) * jnp.array([1.0, 10.0, 100.0])[None, :, None]
    (moments,) = state.observe(obs).extra_variables["observed"]["statistics"]["moments"]
    np.testing.assert_allclose(moments.variance, obs.var(0), rtol=1e-4)


def test_a_network_with_a_memory_keeps_it():
    network = normalised(WithMemory(CategoricalActor(2, features=()), nn.GRUCell(features=8)))
    assert remembers(network)
    carry = network.initial()
    state = state_of(network, carry, jnp.zeros(2)).observe(100.0 + jnp.arange(8.0).reshape(4, 2))
    carry, logits = state(carry, jnp.array([103.0, 104.0]))
    assert carry.shape == (8,)
    assert logits.shape == (2,)


def test_what_is_normalised_is_not_normalised_again():
    network = Normalised(Seen(), clip=5.0)
    assert normalised(network) is network
