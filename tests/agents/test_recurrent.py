"""Policies with a memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import Probe

from jaxagents import PPO, PPOBase, ops
from jaxagents.agents.recurrent_policy import RecurrentPolicy
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import CategoricalActor, StateCritic, WithMemory
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
MEMORY = WithMemory(CategoricalActor(2, features=()), nn.GRUCell(features=8))


class Recall(Probe):
    """Shows a sign at first, and rewards action 1 after a positive one two steps later."""

    n_steps = 3

    def observe(self, state):
        shown = jnp.where(state.time == 0, state.sign, 0.0)
        return jnp.stack([shown, state.time.astype(float)])

    def reward(self, state, action):
        right = action == (state.sign > 0)
        return jnp.where(state.time == self.n_steps - 1, right.astype(float), 0.0)


def make(**fields):
    fields = {"n_steps": 2, "n_evals": 16, "critic_network": StateCritic(features=(8,)), **fields}
    sizes = {"batch_size": 16, "rollout_length": 6, "minibatch_size": 8, "actor_network": MEMORY}
    return PPO(Recall(), None, AgentConfig(**{**sizes, **fields}))


def hyperparams(learning_rate=1e-2):
    optimizer = OptimizerParams(learning_rate=learning_rate)
    return HyperParameters(actor_optimizer_params=optimizer, critic_optimizer_params=optimizer)


@pytest.fixture(scope="module")
def learnt():
    """An agent that has learnt to remember, and the metrics of its training."""
    agent = make(n_steps=60, eval_frequency=60, n_evals=64)
    _, metrics = agent.train(KEY, hyperparams(), progress=False)
    return agent, metrics


def test_learns_what_only_a_memory_can(learnt):
    _, metrics = learnt
    assert metrics["returns"][-1].mean() == 1.0
    forgetful = make(
        n_steps=60, eval_frequency=60, n_evals=64, actor_network=CategoricalActor(2, (8,))
    )
    _, metrics = forgetful.train(KEY, hyperparams(), progress=False)
    assert metrics["returns"][-1].mean() < 0.8


def test_unrolls_as_it_steps_and_forgets_where_an_episode_begins():
    obs = jax.random.normal(KEY, (7, 2))
    first = jnp.array([False, False, True, False, False, True, False])
    carry = jax.random.normal(KEY, (8,))
    network = TrainState.from_variables(MEMORY, MEMORY.init(KEY, MEMORY.initial(), obs[0]))
    policy = RecurrentPolicy(ops.Categorical)
    logits = policy.unroll(network, carry, obs, first).logits
    for t in range(7):
        carry = policy.initial(network) if first[t] else carry
        carry, distribution = policy.step(network, carry, obs[t])
        np.testing.assert_allclose(logits[t], distribution.logits, rtol=1e-5, atol=1e-6)


def test_the_first_ratio_of_an_update_is_one():
    """What acted and what learns see the same memories, over ends of episodes too."""
    agent = make(actor_epochs=1, minibatch_size=16)
    runner, metrics = agent.train(KEY, hyperparams(), progress=False)
    np.testing.assert_allclose(metrics["kl"][1:], 0.0, atol=1e-6)
    assert runner.carry.shape == (16, 8)


def test_the_memory_of_a_runner_is_fresh_where_an_episode_has_just_ended():
    agent = make(rollout_length=3)
    runner, _ = agent.train(KEY, hyperparams(), progress=False)
    np.testing.assert_array_equal(runner.carry, 0.0)
    agent = make(rollout_length=4)
    runner, _ = agent.train(KEY, hyperparams(), n_steps=1, progress=False)
    assert np.all(np.any(np.asarray(runner.carry) != 0.0, axis=1))


def test_interrupted_and_restored_is_uninterrupted(tmp_path):
    whole, _ = make().train(KEY, hyperparams(), n_steps=4, progress=False)
    make(checkpoint_dir=tmp_path).train(KEY, hyperparams(), n_steps=2, progress=False)
    agent = make(checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = agent.restore("last")
    resumed, _ = agent.train(None, None, runner, n_steps=2, progress=False)
    trees.assert_equal(whole, resumed)


def test_two_devices_make_the_training_of_one():
    agent = make(n_groups=2, replicated_updates=True)
    alone, shared = (
        agent.train(KEY, hyperparams(), progress=False, mesh=mesh) for mesh in (None, make_mesh(2))
    )
    trees.assert_equal(alone, shared)


def test_acts_with_its_memory_outside_of_training(learnt):
    agent = learnt[0]
    rng, obs, envstate = agent.env_reset(jax.random.key(5))
    carry = agent.initial_carry(agent.actor_training)
    rewards = []
    for _ in range(3):
        carry, action = agent.act(agent.actor_training, carry, obs)
        rng, obs, envstate, reward, _, _ = agent.env_step(rng, envstate, action)
        rewards.append(float(reward))
    assert rewards == [0.0, 0.0, 1.0]


def test_refuses_what_knows_nothing_of_the_memory():
    class ByHooks(PPO):
        def _sample_actions(self, rng, training, obs):
            return jnp.zeros((), int)

    class WithoutDistribution(PPOBase):
        pass

    config = AgentConfig(actor_network=MEMORY, critic_network=StateCritic())
    with pytest.raises(TypeError, match="which _sample_actions would know nothing of"):
        ByHooks(Recall(), None, config)
    with pytest.raises(TypeError, match=r"with a memory, _distribution_of\(output\)"):
        WithoutDistribution(Recall(), None, config)
    with pytest.raises(TypeError, match="critic's network must have no memory, got WithMemory"):
        make(critic_network=MEMORY)
    with pytest.raises(ValueError, match="n_groups must divide the 1 environments of a minibatch"):
        make(batch_size=4, minibatch_size=1, n_groups=2)
    agent = make()
    actor = agent.start(KEY, hyperparams()).actor_training
    with pytest.raises(TypeError, match="has a memory: call act"):
        agent.policy(actor, jnp.zeros(2))
