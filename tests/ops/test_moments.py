"""Running moments and standardisation against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees

from jaxagents import ops

RNG = np.random.default_rng(0)
moments_of = jax.jit(ops.moments_of, static_argnames="n_axes")
merge = jax.jit(ops.merge_moments)
normalise = jax.jit(ops.normalise, static_argnums=2)
standardise = jax.jit(ops.standardise, static_argnums=1)
running_returns = jax.jit(ops.running_returns)


def normal(mean, deviation, shape):
    return RNG.normal(mean, deviation, shape).astype(np.float32)


@pytest.mark.parametrize("mean", [0.0, -300.0, 1e5])
def test_moments_of_batches_are_those_of_all_samples(mean):
    first, second = normal(mean, 2.0, (2, 40, 5, 3))
    moments = merge(moments_of(first, n_axes=2), moments_of(second, n_axes=2))
    samples = np.float64([first, second]).reshape(-1, 3)
    np.testing.assert_allclose(moments.mean, samples.mean(0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moments.variance, samples.var(0), rtol=1e-2 if mean == 1e5 else 1e-4)
    assert moments.count == len(samples)


def test_many_samples_far_from_zero_lose_no_digits():
    x = normal(1e5, 1.0, 200_000)
    moments = moments_of(x)
    np.testing.assert_allclose(moments.mean, np.float64(x).mean(), rtol=1e-7)
    np.testing.assert_allclose(moments.variance, np.float64(x).var(), rtol=1e-3)


def test_the_first_batch_counts_alone():
    first = moments_of(normal(5.0, 1e-4, (64, 1)))
    trees.assert_equal(merge(ops.no_moments((1,)), first), first)


def test_moments_stay_after_very_many_samples():
    many = jax.jit(
        jax.vmap(
            lambda m, batch: jax.lax.fori_loop(
                0, 10_000, lambda _, m: ops.merge_moments(m, batch), m
            ),
            (0, None),
        )
    )
    counts, added = np.int32([10**6, 10**9, 2**30 - 1]), 2048 * 10_000
    batch = ops.Moments(np.float32(100.5), np.float32(4.0), np.int32(2048))
    after = many(ops.Moments(np.full(3, 100.0, "f"), np.full(3, 4.0, "f"), counts), batch)
    share = added / (counts + np.float64(added))
    np.testing.assert_array_equal(after.count, np.minimum(counts + np.int64(added), 2**30 - 1))
    np.testing.assert_allclose(after.mean, 100.0 + 0.5 * share, atol=0.05)
    np.testing.assert_allclose(after.variance, 4.0 + share * (1 - share) * 0.25, rtol=1e-2)


def test_normalised_numbers_have_no_mean_and_unit_variance_and_are_clipped():
    x = normal([3.0, -1e4], [0.1, 50.0], (500, 2))
    moments = moments_of(x)
    expected = (np.float64(x) - np.float64(x).mean(0)) / np.float64(x).std(0)
    found = normalise(x, moments, 10.0)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    np.testing.assert_allclose(jax.jit(ops.denormalise)(found, moments), x, rtol=1e-3)
    np.testing.assert_array_equal(normalise(np.float32([1e3, -2e4]), moments, 5.0), [5.0, -5.0])
    numbers = np.float32([0.5, -3.0, 20.0])
    np.testing.assert_allclose(normalise(numbers, ops.no_moments(), 10.0), [0.5, -3.0, 10.0])


def test_constants_become_zeros():
    constants = np.float32([0.0, 0.1, -3.3, 1e6])
    x = np.broadcast_to(constants, (128, 4))
    moments = merge(merge(ops.no_moments((4,)), moments_of(x)), moments_of(x))
    np.testing.assert_allclose(normalise(x, moments, 10.0), 0.0, atol=1e-2)


def test_rewards_are_scaled_but_not_shifted():
    returns = ops.Moments(jnp.float32(50.0), jnp.float32(16.0), jnp.int32(9))
    rewards = jnp.array([-4.0, 0.0, 8.0, 1e3])
    np.testing.assert_allclose(ops.scale_rewards(rewards, returns, 10.0), [-1.0, 0.0, 2.0, 10.0])


def returns_by_a_loop(rewards, over, before, gamma):
    returns, carried = np.zeros_like(rewards), before.copy()
    for t, reward in enumerate(rewards):
        returns[t] = reward + carried
        ended = over[t].reshape(*over[t].shape, *[1] * (reward.ndim - 1))
        carried = gamma * np.where(ended, 0, returns[t])
    return returns, carried


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_running_returns_start_anew_with_each_episode(monkeypatch, backend):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    rewards, over, before = (
        normal(0, 1, (12, 3, 2)),
        RNG.random((12, 3)) < 0.3,
        normal(0, 1, (3, 2)),
    )
    found = jax.jit(lambda *x: ops.running_returns(*x, 0.9))(rewards, over, before)
    expected = returns_by_a_loop(rewards, over, before, 0.9)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("nonfinite", [np.nan, np.inf])
def test_running_returns_start_anew_after_nonfinite_rewards(nonfinite):
    rewards, over = normal(0, 1, (9, 2)), np.zeros((9, 2), bool)
    rewards[3, 0] = rewards[5, 1] = nonfinite
    over[5, 1] = True
    found, carried = running_returns(rewards, over, np.zeros(2, "f"), 0.9)
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(rewards))
    rewards[3, 0] = rewards[5, 1] = 0.0
    over[3, 0] = True
    expected, last = returns_by_a_loop(rewards, over, np.zeros(2), 0.9)
    np.testing.assert_allclose(found[6:], expected[6:], rtol=1e-5)
    np.testing.assert_allclose(carried, last, rtol=1e-5)


def test_each_actor_has_the_moments_of_the_samples_that_count():
    x, weights = normal(5.0, 2.0, (2, 30, 2, 3)), RNG.integers(0, 2, (2, 30, 2))
    weights[0, :, 1] = 0
    first, second = (moments_of(x[i], weights=np.float32(weights[i, ..., None])) for i in range(2))
    nothing = jax.tree.map(np.asarray, ops.no_moments((2, 3), (2, 1)))
    trees.assert_equal(*(jax.tree.map(lambda m: np.asarray(m)[1], m) for m in (first, nothing)))
    moments = merge(merge(nothing, first), second)
    for actor in range(2):
        counted = x[:, :, actor][weights[:, :, actor] > 0]
        np.testing.assert_allclose(moments.mean[actor], counted.mean(0), rtol=1e-5)
        np.testing.assert_allclose(moments.variance[actor], counted.var(0), rtol=1e-4)
        assert moments.count[actor] == len(counted)


@pytest.mark.parametrize("weighs", [False, True])
def test_nonfinite_samples_do_not_count(weighs):
    for nonfinite in (np.nan, np.inf, -np.inf):
        x, weights = normal(50.0, 2.0, (6, 5, 3)), np.ones((6, 5, 1), np.float32)
        x[2, 1, 0] = x[4, 3, 2] = nonfinite
        weights[:2] = not weighs
        counts = (weights[..., 0] > 0.0) & np.isfinite(x).all(-1)
        found = moments_of(x, n_axes=2, weights=weights if weighs else None)
        np.testing.assert_allclose(found.mean, x[counts].mean(0), rtol=1e-5)
        np.testing.assert_allclose(found.variance, x[counts].var(0), rtol=1e-4)
        assert found.count == counts.sum()
    nothing = moments_of(np.full((6, 5, 3), np.nan, "f"), n_axes=2)
    trees.assert_equal(nothing, ops.no_moments((3,)))
    trees.assert_equal(merge(found._replace(count=found.count.reshape(())), nothing)[:2], found[:2])


# Standardisation.


def test_standardise_against_numpy():
    x = normal(5.0, 3.0, (50, 2, 3))
    for eps in (1e-8, 1.0):
        expected = (np.float64(x) - x.mean(axis=0)) / (np.float64(x).std(axis=0) + eps)
        np.testing.assert_allclose(standardise(x, eps), expected, atol=1e-5)
    whole = np.round(x)  # a large offset costs no digits
    np.testing.assert_allclose(standardise(whole + 2.0**20), standardise(whole), atol=1e-6)


@pytest.mark.parametrize("n_samples", [1, 7, 128])
def test_constant_samples_give_zeros(n_samples):
    constants = np.float32([0.0, 0.1, -3.3, 1000.1, 1e-6])
    x = np.broadcast_to(constants, (n_samples, len(constants)))
    np.testing.assert_array_equal(standardise(x), 0.0)


def test_samples_without_weight_do_not_count():
    x, weights = normal(4.0, 3.0, (60, 2)), RNG.integers(0, 2, (60, 2)).astype(np.float32)
    weights[:, 1] *= np.arange(60) > 40
    found = np.asarray(standardise(x, weights=weights))
    for actor in range(2):
        counts = weights[:, actor] > 0
        expected = (x[counts, actor] - x[counts, actor].mean()) / x[counts, actor].std()
        np.testing.assert_allclose(found[counts, actor], expected, atol=1e-5)
        assert not found[~counts, actor].any()
    x, weights = np.float32([7.0, 0.1, 0.1, -5.0, 0.1]), np.float32([0.0, 1.0, 1.0, 0.0, 1.0])
    for each in (weights, np.zeros(5, "f")):
        np.testing.assert_array_equal(standardise(x, weights=each), 0.0)
    x, weights = np.float32([[7.0, 1.0], [2.0, 3.0], [4.0, 5.0]]), np.ones((3, 2), np.float32)
    weights[1:, 0] = 0.0
    alone, others = np.asarray(standardise(x, weights=weights)).T
    np.testing.assert_array_equal(alone, [7.0, 0.0, 0.0])
    np.testing.assert_allclose(others, np.sqrt(1.5) * np.float32([-1.0, 0.0, 1.0]), rtol=1e-6)


def test_a_mean_of_nothing_is_zero():
    x, mean = np.float32([np.inf, np.nan, 2.0]), jax.jit(ops.weighted_mean)
    assert mean(x, np.zeros(3, "f")) == 0.0
    assert mean(x, np.float32([0.0, 0.0, 1.0])) == 2.0
