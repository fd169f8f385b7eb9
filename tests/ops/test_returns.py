"""Advantages and returns against sums written out from their definitions, in double precision."""

import jax
import numpy as np
import pytest

from jaxagents import ops

GAMMA = 0.9


def make_rollout(seed, shape):
    """A rollout of several episodes whose next values are the values that follow, if uncut."""
    rng = np.random.default_rng(seed)
    rewards, values, next_values = rng.normal(size=(3, *shape)).astype(np.float32)
    terminated, truncated = rng.random((2, *shape)) < 0.15
    uncut = ~(terminated | truncated)[:-1]
    next_values[:-1] = np.where(uncut, values[1:], next_values[:-1])
    return rewards, values, next_values, terminated, truncated


def episode_end(t, terminated, truncated):
    """The last time of the episode that is played at time t, within the rollout."""
    end = t
    while end < len(terminated) - 1 and not (terminated[end] or truncated[end]):
        end += 1
    return end


def reference_advantages(rewards, values, next_values, terminated, truncated, gamma, gae_lambda):
    advantages = np.zeros(len(rewards))
    for t in range(len(rewards)):
        for k in range(t, episode_end(t, terminated, truncated) + 1):
            successor = 0.0 if terminated[k] else float(next_values[k])
            td_error = float(rewards[k]) + gamma * successor - float(values[k])
            advantages[t] += (gamma * gae_lambda) ** (k - t) * td_error
    return advantages


def reference_returns(rewards, _, next_values, terminated, truncated, gamma, gae_lambda):
    """The weighted mean of all n-step returns."""
    returns = np.zeros(len(rewards))
    for t in range(len(rewards)):
        end = episode_end(t, terminated, truncated)
        discounted_rewards = 0.0
        for k in range(t, end + 1):
            n = k - t + 1
            discounted_rewards += gamma ** (n - 1) * float(rewards[k])
            successor = 0.0 if terminated[k] else float(next_values[k])
            n_step_return = discounted_rewards + gamma**n * successor
            weight = gae_lambda ** (n - 1) * (1.0 if k == end else 1.0 - gae_lambda)
            returns[t] += weight * n_step_return
    return returns


def for_each_actor(reference, arrays, gamma, gae_lambda):
    n_steps, *batch = arrays[0].shape
    columns = [array.reshape(n_steps, -1).T for array in arrays]
    rows = [reference(*column, gamma, gae_lambda) for column in zip(*columns, strict=True)]
    return np.stack(rows, axis=-1).reshape(n_steps, *batch)


@pytest.mark.parametrize(
    ("shape", "backend"), [((1,), "cpu"), ((25, 2, 3), "cpu"), ((9, 2), "gpu")]
)
def test_rollouts_against_the_definitions(monkeypatch, shape, backend):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)

    @jax.jit
    def found(rewards, values, *rest):
        return (
            ops.generalised_advantages(rewards, values, *rest),
            ops.lambda_returns(rewards, *rest),
        )

    for seed, (gamma, gae_lambda) in enumerate([(0.9, 0.8), (1.0, 1.0), (0.95, 0.0), (0.0, 0.9)]):
        rollout = make_rollout(seed, shape)
        outputs = found(*rollout, gamma, gae_lambda)
        for x, reference in zip(outputs, (reference_advantages, reference_returns), strict=True):
            expected = for_each_actor(reference, rollout, gamma, gae_lambda)
            np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [1, 5])
def test_n_step_rewards_are_those_of_a_loop(n):
    rng = np.random.default_rng(n)
    rewards = rng.normal(size=(40, n)).astype(np.float32)
    goes_on = rng.random((40, n - 1)) < 0.7
    summed, n_steps, discounts = jax.jit(ops.n_step_rewards)(rewards, goes_on, GAMMA)
    for i in range(40):
        m = next((k + 1 for k in range(n - 1) if not goes_on[i, k]), n)
        assert n_steps[i] == m
        expected = sum(GAMMA**k * float(rewards[i, k]) for k in range(m))
        np.testing.assert_allclose(summed[i], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(discounts[i], GAMMA**m, rtol=1e-6)
