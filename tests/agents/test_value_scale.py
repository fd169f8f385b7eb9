"""Critics that learn returns of zero mean and unit variance."""

import jax
import jax.numpy as jnp
import numpy as np
import trees
from probes import BestAction
from registry import AGENTS

from jaxagents import PPO, ops
from jaxagents.agents.value_scale import observe_targets
from jaxagents.networks import PerActor, StateCritic
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}


class Large(BestAction):
    """Rewards of 1000 and 3000, of episodes of one step."""

    def reward(self, state, action):
        return 1000.0 + 2000.0 * super().reward(state, action)


SHARED = {"n_groups": 4, "replicated_updates": True}
"""Fields of agents that four devices may share."""


def make(name="IPPO", **fields):
    fields = {"n_steps": 4, "normalise_values": True, **fields}
    return CASES[name].make(Large, False, **(SHARED if name == "IPPO" else {}), **fields)


def test_values_and_targets_against_numpy():
    agent, hyperparams = make(), CASES["IPPO"].hyperparams()
    runner, returns = agent.start(KEY, hyperparams), []

    @jax.jit
    def collect(runner):
        collected, traj, _ = agent._rollout(runner)
        learnt_from, traj = agent._with_learning_targets(collected, traj)
        targets = agent._targets_after(learnt_from, traj)
        raw = jax.vmap(jax.vmap(runner.critic_training))(traj.obs)
        return targets, traj, agent._fits(learnt_from, traj)[1].inputs[1], raw

    for _ in range(3):
        before = jax.tree.map(np.asarray, runner.targets)
        targets, traj, learnt_values, raw = jax.tree.map(np.asarray, collect(runner))
        values = raw * np.sqrt(before.variance) + before.mean
        np.testing.assert_allclose(traj.value, values, rtol=1e-4, atol=1e-4)
        returns.append(np.asarray(traj.target, float))
        so_far = np.concatenate(returns).reshape(-1, 2)
        np.testing.assert_allclose(targets.mean, so_far.mean(0), rtol=1e-5)
        np.testing.assert_allclose(targets.variance, so_far.var(0), rtol=1e-3)
        units = (returns[-1] - so_far.mean(0)) / so_far.std(0)
        np.testing.assert_allclose(learnt_values, units, rtol=1e-3, atol=1e-4)
        runner = agent.advance(runner, 1)
        trees.assert_close(runner.targets, targets)


def test_old_values_are_those_that_the_critic_gave():
    class Clipped(PPO):
        """Reports how far values are from those of the rollout."""

        def _critic_loss_input(self, runner, traj):
            return traj.obs, (traj.target, traj.value)

        def _critic_loss(self, training, obs, targets, hyperparams):
            targets, before = targets
            values = self._values(training, obs)
            return (values - targets) ** 2, {"moved": jnp.abs(values - before)}

    config = CASES["PPO"].config(n_steps=2, normalise_values=True, critic_epochs=1)
    agent = Clipped(Large(), None, config, eval_during_training=False)
    runner = agent.start(KEY, CASES["PPO"].hyperparams(learning_rate=0.0))
    for _ in range(2):
        runner = agent.advance(runner, 1)
        np.testing.assert_allclose(runner.info["moved"], 0.0, atol=1e-4)


def test_a_critic_learns_large_returns_at_once():
    errors = {}
    for switch in (False, True):
        case = CASES["PPO"]
        agent = make("PPO", n_steps=40, normalise_values=switch)
        runner, _ = agent.train(KEY, case.hyperparams(), progress=False)
        value = runner.critic_training(jnp.array([1.0, 0.0]))
        value = ops.denormalise(value, runner.targets) if switch else value
        errors[switch] = abs(float(value) - 3000.0)
        if switch:
            assert runner.info["explained_variance"] < 1.0
            assert runner.info["critic_loss"] < 2.0
    assert errors[True] < 300.0 < 1000.0 < errors[False]


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
    agent = make(critic_network=critic, normalise_observations=True)
    runner = agent.advance(agent.start(KEY, CASES["IPPO"].hyperparams()), 1)
    assert runner.targets.mean.shape == ()
    assert runner.targets.count == 2 * 64
    of_each = jax.eval_shape(make().program.start, KEY, CASES["IPPO"].hyperparams())
    assert of_each.targets.mean.shape == (2,)


def test_goes_on_from_checkpoints_bit_for_bit(tmp_path):
    hyperparams = CASES["IPPO"].hyperparams()
    expected, _ = make().train(KEY, hyperparams, progress=False)
    make(checkpoint_dir=tmp_path).train(KEY, hyperparams, n_steps=2, progress=False)
    again = make(checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = again.resume(KEY, hyperparams, progress=False)
    assert runner.update_step == 4
    trees.assert_equal(runner, expected)


def test_devices_share_the_moments():
    agent = make()
    alone, shared = (
        agent.train(KEY, CASES["IPPO"].hyperparams(), progress=False, mesh=mesh)[0]
        for mesh in (None, make_mesh(4))
    )
    trees.assert_equal(shared, alone)


def test_seeds_that_are_trained_together_have_moments_of_their_own():
    agent, hyperparams = make(), CASES["IPPO"].hyperparams()
    keys = jax.random.split(KEY, 2)
    together, _ = jax.vmap(agent.train, (0, None))(keys, hyperparams)
    alone, _ = agent.train(keys[1], hyperparams, progress=False)
    trees.assert_close(jax.tree.map(lambda x: np.asarray(x)[1], together.targets), alone.targets)


def test_without_the_switch_a_runner_is_as_before():
    program = make(normalise_values=False).program
    runner = jax.eval_shape(program.start, KEY, CASES["IPPO"].hyperparams())
    assert runner.targets == ()
