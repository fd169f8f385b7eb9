"""Optimizers: which parameters they are given, schedules, and traced data."""

import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from jaxagents.core.hyperparameters import hyperparameter
from jaxagents.learners.optimizer import (
    OptimizerParams,
    SkipNotFinite,
    make_optimizer,
    optimized,
    set_optimizer_params,
)
from jaxagents.learners.train_state import TrainState

PARAMS = {"w": jnp.array([1.0, -2.0, 3.0])}
GRADS = {"w": jnp.array([3.0, 0.0, -4.0])}


def step(optimizer, params, n=1):
    tx = make_optimizer(optimizer, params)
    state = set_optimizer_params(TrainState.create(nn.Dense(1), PARAMS, tx), params)
    for _ in range(n):
        state = state.apply_gradients(grads=GRADS)
    return state


def reference(tx, n=1):
    params, opt_state = PARAMS, tx.init(PARAMS)
    for _ in range(n):
        updates, opt_state = tx.update(GRADS, opt_state, params)
        params = optax.apply_updates(params, updates)
    return params["w"]


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_clips_gradients_in_half_precision(dtype):
    params = jax.tree.map(lambda x: x.astype(dtype), PARAMS)
    tx = make_optimizer(optax.sgd, OptimizerParams())
    state = TrainState.create(nn.Dense(1), params, tx)
    state = set_optimizer_params(state, OptimizerParams(1.0, grad_clip=1.0))
    state = state.apply_gradients(grads=jax.tree.map(lambda x: (1e3 * x).astype(dtype), GRADS))
    assert state.params["w"].dtype == dtype
    np.testing.assert_allclose(
        np.float32(state.params["w"]), PARAMS["w"] - GRADS["w"] / 5.0, rtol=1e-2
    )


ADAM = functools.partial(optax.adam, learning_rate=0.5, b1=0.0)


SKIPPING_ADAM = SkipNotFinite(functools.partial(optax.adam, b1=0.0))
SCHEDULE = optax.piecewise_constant_schedule(1.0, {1: 0.0})
CLIP = optax.clip_by_global_norm(1.0)
WIDE = OptimizerParams(0.1, 1e-8, grad_clip=100.0)


class WithMomentum(OptimizerParams):
    b1: float = hyperparameter(0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("optimizer", "params", "same"),
    [
        (
            optax.adam,
            OptimizerParams(0.1, 1e-5, grad_clip=1.0),
            optax.chain(CLIP, optax.adam(0.1, eps=1e-5)),
        ),
        (optax.sgd, OptimizerParams(1.0, grad_clip=1.0), optax.chain(CLIP, optax.sgd(1.0))),
        (functools.partial(optax.sgd, learning_rate=SCHEDULE), WIDE, optax.sgd(SCHEDULE)),
        (optax.adam, WithMomentum(0.1, 1e-8, 100.0, b1=0.5), optax.adam(0.1, b1=0.5)),
        (ADAM, WIDE, optax.adam(0.5, b1=0.0)),
        (functools.partial(optax.sgd, 0.5), WIDE, optax.sgd(0.5)),
        (functools.partial(SKIPPING_ADAM, learning_rate=0.5), WIDE, optax.adam(0.5, b1=0.0)),
    ],
)
def test_an_optimizer_is_given_what_it_takes_and_a_partial_does_not_fix(optimizer, params, same):
    state = step(optimizer, params, n=3)
    np.testing.assert_allclose(state.params["w"], reference(same, n=3), rtol=1e-5)


@pytest.mark.parametrize("skips", [False, True])
def test_optimizers_within_several_steps_are_told_the_loss(skips):
    def halved_every_second_step(learning_rate):
        plateau = optax.chain(optax.sgd(learning_rate), optax.contrib.reduce_on_plateau())
        return optax.MultiSteps(plateau, 2).gradient_transformation()

    params = {"w": jnp.ones(2)}
    optimizer = halved_every_second_step
    tx = make_optimizer(SkipNotFinite(optimizer) if skips else optimizer, OptimizerParams())
    state = tx.init(params)
    for _ in range(2):
        _, state = tx.update(params, state, params, value=3.0)
    of_steps = state.inner_state[1].inner_state if skips else state.inner_state[1]
    assert of_steps.inner_opt_state[1].best_value == 3.0


def test_equal_optimizers_are_equal():
    class Own(OptimizerParams):
        pass

    def made(b1, params=OptimizerParams):
        return make_optimizer(functools.partial(optax.adam, b1=b1), params())

    assert made(0.5) == made(0.5)
    assert hash(made(0.5)) == hash(made(0.5))
    assert made(0.5) != made(0.6)
    assert made(0.5) != made(0.5, Own)
    assert made(0.5).init != made(0.5).update


def test_an_optimizer_that_nobody_holds_is_released():
    def optimizer(learning_rate):
        return optax.sgd(learning_rate)

    held = weakref.ref(optimizer)
    made = make_optimizer(optimizer, OptimizerParams())
    del optimizer
    assert held() is not None
    del made
    gc.collect()
    assert held() is None


def test_a_traced_learning_rate_stays_in_the_state():
    states = jax.jit(
        jax.vmap(lambda rate: step(optax.sgd, OptimizerParams(rate, grad_clip=100.0)))
    )(jnp.array([0.0, 1.0]))
    second = jax.tree.map(lambda x: x[1], states)
    moved = second.apply_gradients(grads=GRADS).params["w"]
    np.testing.assert_allclose(moved, PARAMS["w"] - 2 * GRADS["w"], rtol=1e-6)


def decaying(learning_rate):
    return optax.sgd(optax.linear_schedule(learning_rate, 0.0, 2))


@pytest.mark.parametrize(
    ("optimizer", "same"),
    [
        (optax.adam, optax.adam(0.1)),
        (functools.partial(optax.adamw, weight_decay=0.5), optax.adamw(0.1, weight_decay=0.5)),
        (decaying, optax.sgd(optax.linear_schedule(0.1, 0.0, 2))),
    ],
)
def test_optimizers_of_a_traced_learning_rate(optimizer, same):
    def trained(learning_rate):
        state = optimized(nn.Dense(1), {"params": PARAMS}, optimizer, learning_rate)
        for _ in range(2):
            state = state.apply_gradients(grads=GRADS)
        return state

    expected, opt_state = PARAMS, same.init(PARAMS)
    for _ in range(2):
        updates, opt_state = same.update(GRADS, opt_state, expected)
        expected = optax.apply_updates(expected, updates)
    by_rate = jax.jit(jax.vmap(trained))(jnp.array([0.0, 0.1]))
    np.testing.assert_allclose(by_rate.params["w"][0], PARAMS["w"])
    np.testing.assert_allclose(by_rate.params["w"][1], expected["w"], rtol=1e-5)
    assert trained(0.1).tx == trained(0.2).tx
