"""Schedules of exploration against NumPy, random actions, and noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents import ops

STEPS = np.array([0, 1, 10, 50, 99, 100, 101, 1000])


@pytest.mark.parametrize(("initial", "final"), [(1.0, 0.05), (0.1, 0.9)])
@pytest.mark.parametrize("n_steps", [100, 0])
def test_decays_against_numpy(initial, final, n_steps):
    decays = ops.linear_decay, ops.exponential_decay
    each = jax.vmap(lambda *given: [decay(*given) for decay in decays], (0, None, None, None))
    linear, exponential = jax.jit(each)(STEPS, initial, final, n_steps)
    expected = np.interp(STEPS, [0, n_steps], [initial, final]) if n_steps else np.full(8, final)
    np.testing.assert_allclose(linear, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(linear[-3:], np.float32(final))
    share = np.exp(-STEPS / n_steps) if n_steps else STEPS == 0
    expected = final + (initial - final) * share
    np.testing.assert_allclose(exponential, expected, rtol=1e-5, atol=1e-6)
    for decay, traced in zip(decays, (linear, exponential), strict=True):
        plain = decay(50, initial, final, n_steps)
        assert plain.dtype == jnp.float32
        np.testing.assert_allclose(plain, traced[3], rtol=1e-6)


def test_random_actions_are_those_of_the_mask_equally_often():
    mask = np.array([[True, False, True], [False, False, True]])
    draw = jax.jit(jax.vmap(lambda key: ops.random_actions(key, 3, mask, (2,))))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 4000)))
    shares = [np.bincount(column, minlength=3) / 4000 for column in drawn.T]
    np.testing.assert_allclose(shares, mask / mask.sum(axis=1, keepdims=True), atol=0.03)
    drawn = ops.random_actions(jax.random.key(0), 3, None, (4000,))
    assert drawn.dtype == jnp.int32
    np.testing.assert_allclose(np.bincount(drawn) / 4000, 1 / 3, atol=0.03)


def test_factorised_noise():
    inputs, outputs = np.random.default_rng(0).normal(size=(2, 4))[:, :, None]
    kernel, bias = jax.jit(ops.factorised_noise)(inputs[:, 0], outputs[:3, 0])
    products = inputs * outputs[:3].T
    np.testing.assert_allclose(kernel, np.sign(products) * np.sqrt(np.abs(products)), rtol=1e-5)
    np.testing.assert_allclose(np.abs(bias) * bias, outputs[:3, 0], rtol=1e-5)
