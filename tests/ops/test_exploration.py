"""Schedules of exploration against NumPy, traced and at the ends, random actions and noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents import ops

STEPS = np.array([0, 1, 10, 50, 99, 100, 101, 1000])
every_schedule = pytest.mark.parametrize("schedule", [ops.linear_decay, ops.exponential_decay])


def values(schedule, *arguments, steps=STEPS):
    return jax.jit(jax.vmap(schedule, in_axes=(0, None, None, None)))(steps, *arguments)


@pytest.mark.parametrize(("initial", "final"), [(1.0, 0.05), (0.1, 0.9), (0.3, 0.3)])
def test_decays_against_numpy(initial, final):
    linear = values(ops.linear_decay, initial, final, 100)
    expected = np.interp(STEPS, [0, 100], [initial, final])
    np.testing.assert_allclose(linear, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(linear[-3:], np.float32(final))
    exponential = values(ops.exponential_decay, initial, final, 100)
    expected = final + (initial - final) * np.exp(-STEPS / 100)
    np.testing.assert_allclose(exponential, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_steps", [0, 0.0])
def test_without_steps_the_value_is_the_final_one(n_steps):
    np.testing.assert_array_equal(values(ops.linear_decay, 1.0, 0.25, n_steps), 0.25)
    exponential = values(ops.exponential_decay, 1.0, 0.25, n_steps)
    np.testing.assert_array_equal(exponential, np.where(STEPS == 0, 1.0, 0.25))


@every_schedule
@pytest.mark.parametrize("n_steps", [0, 100])
def test_python_numbers_and_traced_ones_agree(schedule, n_steps):
    for step in (0, 30, 300):
        plain = schedule(step, 1.0, 0.25, n_steps)
        assert plain.dtype == jnp.float32
        np.testing.assert_allclose(plain, jax.jit(schedule)(step, 1.0, 0.25, n_steps), rtol=1e-6)
        np.testing.assert_allclose(
            plain, schedule(jnp.array(step), jnp.array(1.0), jnp.array(0.25), jnp.array(n_steps))
        )


def test_random_actions_are_those_of_the_mask_equally_often():
    mask = np.array([[True, False, True], [False, False, True]])
    draw = jax.vmap(lambda key: ops.random_actions(key, 3, mask, (2,)))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 4000)))
    shares = [np.bincount(column, minlength=3) / 4000 for column in drawn.T]
    np.testing.assert_allclose(shares, mask / mask.sum(axis=1, keepdims=True), atol=0.03)


def test_random_actions_are_any_without_a_mask():
    drawn = ops.random_actions(jax.random.key(0), 3, None, (4000,))
    assert drawn.dtype == jnp.int32
    np.testing.assert_allclose(np.bincount(drawn) / 4000, 1 / 3, atol=0.03)


def test_factorised_noise():
    inputs, outputs = np.random.default_rng(0).normal(size=(2, 4))[:, :, None]
    kernel, bias = jax.jit(ops.factorised_noise)(inputs[:, 0], outputs[:3, 0])
    products = inputs * outputs[:3].T
    np.testing.assert_allclose(kernel, np.sign(products) * np.sqrt(np.abs(products)), rtol=1e-5)
    np.testing.assert_allclose(np.abs(bias) * bias, outputs[:3, 0], rtol=1e-5)
