"""Running moments and standardisation against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees

from jaxagents import ops

RNG = np.random.default_rng(0)


def merged(batches):
    moments = ops.no_moments(batches[0].shape[1:])
    for batch in batches:
        moments = ops.merge_moments(moments, ops.moments_of(jnp.asarray(batch)))
    return moments


@pytest.mark.parametrize("mean", [0.0, 1e-4, -300.0, 1e5])
def test_moments_of_batches_are_those_of_all_samples(mean):
    batches = [RNG.normal(mean, 2.0, (n, 3)).astype(np.float32) for n in (7, 1, 40, 13)]
    samples = np.concatenate(batches).astype(np.float64)
    moments = merged(batches)
    np.testing.assert_allclose(moments.mean, samples.mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moments.variance, samples.var(0), rtol=1e-2 if mean == 1e5 else 1e-4)
    assert moments.count == len(samples)


def test_leading_axes_are_all_of_samples():
    x = jnp.asarray(RNG.normal(3.0, 2.0, (4, 5, 3)), jnp.float32)
    over_both = ops.moments_of(x, n_axes=2)
    for one, other in zip(over_both, ops.moments_of(x.reshape(20, 3)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_many_samples_far_from_zero_lose_no_digits():
    x = jnp.asarray(RNG.normal(1e5, 1.0, 200_000), jnp.float32)
    moments = ops.moments_of(x)
    np.testing.assert_allclose(moments.mean, np.float64(x).mean(), rtol=1e-7)
    np.testing.assert_allclose(moments.variance, np.float64(x).var(), rtol=1e-3)


def test_the_first_batch_counts_alone():
    tiny = jnp.asarray(RNG.normal(5.0, 1e-4, (64, 1)), jnp.float32)
    np.testing.assert_array_equal(merged([tiny]).variance, ops.moments_of(tiny).variance)


@pytest.mark.parametrize("count", [10**6, 10**9, 2**30 - 1])
def test_moments_stay_after_very_many_samples(count):
    many = ops.Moments(jnp.float32(100.0), jnp.float32(4.0), jnp.int32(count))
    batch = ops.Moments(jnp.float32(100.5), jnp.float32(4.0), jnp.int32(2048))
    after, _ = jax.lax.scan(lambda m, _: (ops.merge_moments(m, batch), None), many, length=10_000)
    added = 2048 * 10_000
    share = added / (count + added)
    assert after.count == min(count + added, 2**30 - 1)
    np.testing.assert_allclose(after.mean, 100.0 + 0.5 * share, atol=0.05)
    np.testing.assert_allclose(after.variance, 4.0 + share * (1 - share) * 0.25, rtol=1e-2)


def test_normalised_numbers_have_no_mean_and_unit_variance_and_are_clipped():
    x = RNG.normal([3.0, -1e4], [0.1, 50.0], (500, 2)).astype(np.float32)
    moments = ops.moments_of(jnp.asarray(x))
    normalised = ops.normalise(jnp.asarray(x), moments, clip=10.0)
    expected = (np.float64(x) - np.float64(x).mean(0)) / np.float64(x).std(0)
    np.testing.assert_allclose(normalised, expected, atol=1e-3)
    np.testing.assert_array_equal(ops.normalise(jnp.array([1e3, -2e4]), moments, 5.0), [5.0, -5.0])


@pytest.mark.parametrize("constant", [0.0, 0.1, -3.3, 1e6])
def test_constants_become_zeros(constant):
    x = jnp.full((128,), constant)
    np.testing.assert_allclose(ops.normalise(x, merged([x, x, x[:5]]), 10.0), 0.0, atol=1e-2)


def test_before_any_samples_numbers_stay_as_they_are_but_for_the_clip():
    x = jnp.array([0.5, -3.0, 20.0])
    np.testing.assert_allclose(ops.normalise(x, ops.no_moments(), 10.0), [0.5, -3.0, 10.0])


def returns_by_a_loop(rewards, over, before, gamma):
    returns, carried = np.zeros_like(rewards), before.copy()
    for t, reward in enumerate(rewards):
        returns[t] = reward + carried
        ended = over[t].reshape(*over[t].shape, *[1] * (reward.ndim - 1))
        carried = gamma * np.where(ended, 0, returns[t])
    return returns, carried


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
@pytest.mark.parametrize("actors", [(), (2,)], ids=str)
def test_running_returns_start_anew_with_each_episode(monkeypatch, actors, backend):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    rewards = RNG.normal(size=(12, 3, *actors)).astype(np.float32)
    over = RNG.random((12, 3)) < 0.3
    before = RNG.normal(size=(3, *actors)).astype(np.float32)
    found = ops.running_returns(*map(jnp.asarray, (rewards, over, before)), 0.9)
    expected = returns_by_a_loop(rewards, over, before, 0.9)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_rewards_are_scaled_but_not_shifted():
    returns = ops.Moments(jnp.float32(50.0), jnp.float32(16.0), jnp.int32(9))
    rewards = jnp.array([-4.0, 0.0, 8.0, 1e3])
    np.testing.assert_allclose(ops.scale_rewards(rewards, returns, 10.0), [-1.0, 0.0, 2.0, 10.0])


def test_moments_of_samples_that_count_for_each_actor():
    x, weights = RNG.normal(5.0, 2.0, (2, 30, 2, 3)), RNG.integers(0, 2, (2, 30, 2))
    weights[0, :, 1] = 0
    moments = ops.no_moments((2, 3), (2, 1))
    for part, weight in zip(x, weights, strict=True):
        arrays = jnp.asarray(part, jnp.float32), 1, jnp.asarray(weight[..., None], jnp.float32)
        moments = ops.merge_moments(moments, ops.moments_of(*arrays))
        if not weight[:, 1].any():
            trees.assert_equal(
                jax.tree.map(lambda m: m[1], moments),
                ops.Moments(np.zeros(3, "f"), np.ones(3, "f"), np.zeros(1, int)),
            )
    for actor in range(2):
        counted = x[:, :, actor][weights[:, :, actor] > 0]
        np.testing.assert_allclose(moments.mean[actor], counted.mean(0), rtol=1e-5)
        np.testing.assert_allclose(moments.variance[actor], counted.var(0), rtol=1e-4)
        assert moments.count[actor] == len(counted)


@pytest.mark.parametrize("spoilt", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("weighs", [False, True])
def test_samples_that_are_not_finite_do_not_count(spoilt, weighs):
    x = RNG.normal(50.0, 2.0, (6, 5, 3)).astype(np.float32)
    x[2, 1, 0] = x[4, 3, 2] = spoilt
    weights = np.ones((6, 5, 1), np.float32)
    weights[:2] = not weighs
    counts = (weights[..., 0] > 0.0) & np.isfinite(x).all(-1)
    found = ops.moments_of(jnp.asarray(x), 2, jnp.asarray(weights) if weighs else None)
    np.testing.assert_allclose(found.mean, x[counts].mean(0), rtol=1e-5)
    np.testing.assert_allclose(found.variance, x[counts].var(0), rtol=1e-4)
    assert found.count == counts.sum()


def test_moments_of_nothing_finite_are_those_before_there_are_samples():
    before = merged([RNG.normal(size=(7, 3)).astype(np.float32)])
    nothing = ops.moments_of(jnp.full((4, 3), jnp.nan))
    trees.assert_equal(nothing, ops.no_moments((3,)))
    trees.assert_equal(ops.merge_moments(before, nothing), before)


@pytest.mark.parametrize("spoilt", [np.nan, np.inf])
def test_running_returns_start_anew_after_what_is_not_finite(spoilt):
    rewards, over = RNG.normal(size=(9, 2)).astype(np.float32), np.zeros((9, 2), bool)
    rewards[3, 0] = rewards[5, 1] = spoilt
    over[5, 1] = True
    found, carried = ops.running_returns(*map(jnp.asarray, (rewards, over)), jnp.zeros(2), 0.9)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(rewards))
    rewards[3, 0] = rewards[5, 1] = 0.0
    over[3, 0] = True
    expected, last = returns_by_a_loop(rewards, over, np.zeros(2), 0.9)
    np.testing.assert_allclose(found[6:], expected[6:], rtol=1e-5)
    np.testing.assert_allclose(carried, last, rtol=1e-5)


# Standardisation.


@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 2, 3)], ids=str)
def test_standardise_against_numpy(shape):
    x = np.random.default_rng(0).normal(5.0, 3.0, shape).astype(np.float32)
    expected = (np.float64(x) - x.mean(axis=0)) / np.float64(x).std(axis=0)
    np.testing.assert_allclose(ops.standardise(jnp.asarray(x)), expected, atol=1e-5)


@pytest.mark.parametrize("n_samples", [1, 7, 100, 128])
def test_constant_samples_give_zeros(n_samples):
    constants = jnp.array([0.0, 0.1, -3.3, 1000.1, 1e-6])
    x = jnp.broadcast_to(constants, (n_samples, len(constants)))
    for function in (ops.standardise, jax.jit(ops.standardise)):
        np.testing.assert_array_equal(function(x), 0.0)


def test_eps_is_added_to_the_deviation():
    x = jnp.array([-1.0, 1.0])
    np.testing.assert_allclose(ops.standardise(x, eps=1.0), [-0.5, 0.5])


def test_a_large_offset_costs_no_precision():
    x = jnp.array([0.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(ops.standardise(x + 2.0**20), ops.standardise(x), atol=1e-6)


def test_samples_without_weight_do_not_count():
    rng = np.random.default_rng(2)
    x, weights = rng.normal(4.0, 3.0, (60, 2)), rng.integers(0, 2, (60, 2))
    weights[:, 1] *= np.arange(60) > 40
    found = ops.standardise(jnp.asarray(x, jnp.float32), weights=jnp.asarray(weights, jnp.float32))
    for actor in range(2):
        counts = weights[:, actor] > 0
        expected = (x[counts, actor] - x[counts, actor].mean()) / x[counts, actor].std()
        np.testing.assert_allclose(found[counts, actor], expected, atol=1e-5)
        assert not np.asarray(found)[~counts, actor].any()


def test_constant_samples_give_zeros_whatever_those_without_weight_are():
    x = jnp.array([7.0, 0.1, 0.1, -5.0, 0.1])
    weights = jnp.array([0.0, 1.0, 1.0, 0.0, 1.0])
    np.testing.assert_array_equal(ops.standardise(x, weights=weights), 0.0)
    np.testing.assert_array_equal(ops.standardise(x, weights=jnp.zeros(5)), 0.0)


def test_a_mean_of_nothing_is_zero():
    x = jnp.array([jnp.inf, jnp.nan, 2.0])
    assert ops.weighted_mean(x, jnp.zeros(3)) == 0.0
    assert ops.weighted_mean(x, jnp.array([0.0, 0.0, 1.0])) == 2.0
