"""Targets of action values against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxagents import ops

RNG = np.random.default_rng(0)
REWARD, NEXT_VALUE, LOG_PROB = jnp.asarray(RNG.normal(size=(3, 8)), jnp.float32)
MASK = jnp.array([0.0, 1.0] * 4)


def test_td_target_stops_at_terminations():
    expected = [r + 0.9 * v if m else r for r, m, v in zip(REWARD, MASK, NEXT_VALUE, strict=True)]
    np.testing.assert_allclose(ops.td_target(REWARD, 0.9, MASK, NEXT_VALUE), expected, rtol=1e-6)


def test_td_target_takes_a_discount_for_each_sample():
    discounts = jnp.float32(0.9) ** jnp.arange(8)
    expected = REWARD + discounts * MASK * NEXT_VALUE
    np.testing.assert_allclose(
        ops.td_target(REWARD, discounts, MASK, NEXT_VALUE), expected, rtol=1e-6
    )


def test_soft_value_adds_the_entropy():
    expected = NEXT_VALUE - 0.2 * LOG_PROB
    np.testing.assert_allclose(ops.soft_value(NEXT_VALUE, LOG_PROB, 0.2), expected, rtol=1e-6)


def test_actions_that_there_are_not_have_no_value_and_teach_nothing():
    values, actions = jnp.stack([REWARD, NEXT_VALUE], axis=-1), jnp.array([0, 1, 2, -1] * 2)
    expected = [
        [r, v, jnp.nan, jnp.nan][i % 4]
        for i, (r, v) in enumerate(zip(REWARD, NEXT_VALUE, strict=True))
    ]
    np.testing.assert_array_equal(ops.values_of(values, actions), expected)
    grads = jax.grad(lambda x: jnp.square(ops.values_of(x, actions)).sum())(values)
    np.testing.assert_array_equal(grads.any(axis=-1), [True, True, False, False] * 2)
    assert jnp.isfinite(grads).all()
