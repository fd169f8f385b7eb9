"""Critics that learn returns of zero mean and unit variance."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from probes import BestAction
from registry import AGENTS

from jaxagents import IPPO, ops
from jaxagents.agents.actor_and_critic import fits_of
from jaxagents.agents.targets import observe_targets

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}


class Large(BestAction):
    """Rewards of 1000 and 3000, of episodes of one step."""

    def reward(self, state, action):
        return 1000.0 + 2000.0 * super().reward(state, action)


class Clipped(IPPO):
    """Reports how far values are from those of the rollout."""

    def _critic_loss_input(self, runner, traj):
        return traj.obs, (traj.target, traj.value)

    def _critic_loss(self, training, obs, targets, hyperparams):
        targets, before = targets
        values = self._values(training, obs)
        return (values - targets) ** 2, {"moved": jnp.abs(values - before)}


CASE = dataclasses.replace(CASES["IPPO"], agent=Clipped)


@functools.cache
def make():
    """A small agent of two actors, whose programs are kept."""
    return CASE.make(Large, False, normalise_values=True)


def test_values_and_targets_against_numpy():
    agent = make()
    runner, returns = agent.start(KEY, CASE.hyperparams()), []

    @jax.jit
    def collect(runner):
        collected, traj, _ = agent._collect(runner)
        collected, traj = agent._with_targets(collected, traj)
        raw = jax.vmap(jax.vmap(runner.critic_training))(traj.obs)
        return traj, fits_of(agent, collected, traj)[1].inputs[1][0], raw

    for _ in range(3):
        before = jax.tree.map(np.asarray, runner.targets)
        traj, learnt_values, raw = jax.tree.map(np.asarray, collect(runner))
        values = raw * np.sqrt(before.variance) + before.mean
        np.testing.assert_allclose(traj.value, values, rtol=1e-4, atol=1e-4)
        returns.append(np.asarray(traj.target, float))
        so_far = np.concatenate(returns).reshape(-1, 2)
        runner = agent.advance(runner, 1)
        targets = runner.targets
        np.testing.assert_allclose(targets.mean, so_far.mean(0), rtol=1e-5)
        np.testing.assert_allclose(targets.variance, so_far.var(0), rtol=1e-3)
        units = (returns[-1] - so_far.mean(0)) / so_far.std(0)
        np.testing.assert_allclose(learnt_values, units, rtol=1e-3, atol=1e-4)


def test_old_values_are_those_that_the_critic_gave():
    runner = make().start(KEY, CASE.hyperparams(learning_rate=0.0))
    for _ in range(2):
        runner = make().advance(runner, 1)
        np.testing.assert_allclose(runner.info["moved"], 0.0, atol=1e-4)


def test_a_critic_learns_large_returns_at_once():
    """In units in which they are small, or it would not have come so far."""
    runner = make().advance(make().start(KEY, CASE.hyperparams(learning_rate=1e-2)), 40)
    units = jax.jit(lambda obs: runner.critic_training(obs))(np.float32([1.0, 0.0]))
    np.testing.assert_array_less(np.abs(units), 5.0)
    values = np.asarray(ops.denormalise(units, runner.targets))
    np.testing.assert_allclose(values, 3000.0, atol=300.0)
    assert runner.info["explained_variance"] < 1.0
    assert runner.info["critic_loss"] < 2.0


def test_returns_of_long_ago_are_forgotten():
    moments = jax.tree.map(np.asarray, ops.no_moments())
    observe = jax.jit(lambda targets, moments: observe_targets(targets, None, moments))
    for i in range(400):
        targets = np.full((2, 5), 100.0 if i < 150 else 1.0, np.float32)
        moments = observe(targets, moments)
    assert moments.count == 99 * 10
    np.testing.assert_allclose(moments.mean, 1.0 + 99.0 * 0.99**250, rtol=1e-3)


def test_without_the_switch_a_runner_is_as_before():
    program = CASE.make(Large, False).program
    assert jax.eval_shape(program.start, KEY, CASE.hyperparams()).targets == ()
