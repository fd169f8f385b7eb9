"""Critics that learn returns of zero mean and unit variance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from probes import BestAction
from registry import AGENTS

from jaxagents import PPO, ops
from jaxagents.agents.fits import fits_of
from jaxagents.agents.targets import observe_targets
from jaxagents.networks import PerActor, StateCritic

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}


class Large(BestAction):
    """Rewards of 1000 and 3000, of episodes of one step."""

    def reward(self, state, action):
        return 1000.0 + 2000.0 * super().reward(state, action)


def make(**fields):
    """A small agent of two actors."""
    fields = {"n_steps": 4, "normalise_values": True, **fields}
    return CASES["IPPO"].make(Large, False, **fields)


def test_values_and_targets_against_numpy():
    agent, hyperparams = make(), CASES["IPPO"].hyperparams()
    runner, returns = agent.start(KEY, hyperparams), []

    @jax.jit
    def collect(runner):
        collected, traj, _ = agent._collect(runner)
        collected, traj = agent._with_targets(collected, traj)
        raw = jax.vmap(jax.vmap(runner.critic_training))(traj.obs)
        return traj, fits_of(agent, collected, traj)[1].inputs[1], raw

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


class Clipped(PPO):
    """Reports how far values are from those of the rollout."""

    def _critic_loss_input(self, runner, traj):
        return traj.obs, (traj.target, traj.value)

    def _critic_loss(self, training, obs, targets, hyperparams):
        targets, before = targets
        values = self._values(training, obs)
        return (values - targets) ** 2, {"moved": jnp.abs(values - before)}


def started(name, learning_rate):
    """A small agent of one actor or two, and a runner."""
    hyperparams = CASES[name].hyperparams(learning_rate=learning_rate)
    config = CASES["PPO"].config(normalise_values=True)
    agent = make() if name == "IPPO" else Clipped(Large(), None, config, False)
    return agent, agent.start(KEY, hyperparams)


def test_old_values_are_those_that_the_critic_gave():
    agent, runner = started("PPO", learning_rate=0.0)
    for _ in range(2):
        runner = agent.advance(runner, 1)
        np.testing.assert_allclose(runner.info["moved"], 0.0, atol=1e-4)


@pytest.mark.parametrize("name", ["PPO", "IPPO"])
def test_a_critic_learns_large_returns_at_once(name):
    """In units in which they are small, or it would not have come so far."""
    agent, runner = started(name, learning_rate=1e-2)
    runner = agent.advance(runner, 40)
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


def test_actors_that_share_a_critic_share_the_moments():
    critic = PerActor(StateCritic(features=(4,)), 2, shared_params=True, own_observations=False)
    shared, of_each = (
        jax.eval_shape(agent.program.start, KEY, CASES["IPPO"].hyperparams())
        for agent in (make(critic_network=critic), make())
    )
    assert shared.targets.mean.shape == ()
    assert of_each.targets.mean.shape == (2,)


def test_goes_on_from_checkpoints_bit_for_bit(tmp_path):
    hyperparams = CASES["IPPO"].hyperparams()
    expected, _ = make().train(KEY, hyperparams, progress=False)
    make(checkpoint_dir=tmp_path).train(KEY, hyperparams, n_steps=2, progress=False)
    again = make(checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = again.resume(KEY, hyperparams, progress=False)
    assert runner.update_step == 4
    trees.assert_equal(runner, expected)


def test_without_the_switch_a_runner_is_as_before():
    program = make(normalise_values=False).program
    runner = jax.eval_shape(program.start, KEY, CASES["IPPO"].hyperparams())
    assert runner.targets == ()
