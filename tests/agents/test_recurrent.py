"""Policies and critics with a memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import Allowed, Recall

from jaxagents import IPPO, MAPPO, PPO
from jaxagents.agents.collect import Transition, by_environment
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import CategoricalActor, StateCritic, WithMemory
from jaxagents.ppo import HyperParameters, OptimizerParams
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
FORGETFUL = CategoricalActor(2, features=(8,))
SIZES = {"batch_size": 16, "rollout_length": 4, "minibatch_size": 16, "n_evals": 16}
MEMORY = {"memory": "gru", "memory_size": 8}
"""Default networks, both with a memory."""


class Told(Recall):
    """Shows a sign first, and adds it to the reward two steps later, whatever the action."""

    def reward(self, state, action):
        told = jnp.where(state.time == self.n_steps - 1, state.sign, 0.0)
        return super().reward(state, action) + told


def make(env=Recall, agent=PPO, **fields):
    """An agent with one gradient step per update."""
    fields = {"n_steps": 2, "actor_epochs": 1, "critic_epochs": 1, **SIZES, **fields}
    return agent(env(), None, agent._config_type(**fields), False)


def remembering(**fields):
    """The agent that learns to remember; two devices may share it."""
    fields |= {"normalise_observations": True, "normalise_rewards": True}
    return make(Told, n_groups=2, replicated_updates=True, **MEMORY, **fields)


def hyperparams(learning_rate=1e-2):
    optimizer = OptimizerParams(learning_rate=learning_rate)
    return HyperParameters(actor_optimizer_params=optimizer, critic_optimizer_params=optimizer)


@pytest.fixture(scope="module")
def learnt():
    """An agent that has learned to remember, and its metrics."""
    agent = remembering()
    _, metrics = agent.train(KEY, hyperparams(), n_steps=300, progress=False)
    return agent, metrics


def is_right(returns):
    """Whether the last choices of actors were right, where a sign is added that is odd."""
    return returns % 2 == 0


def test_actor_and_critic_learn_what_only_a_memory_can(learnt):
    agent, metrics = learnt
    assert is_right(agent.eval(KEY, n_evals=64)["returns"]).all()
    assert metrics["explained_variance"][-1] > 0.9


def test_the_first_ratio_of_an_update_is_one(learnt):
    """Acting and learning see the same memories and statistics, over ends of episodes too."""
    np.testing.assert_allclose(learnt[1]["kl"][1:], 0.0, atol=1e-6)


def test_the_memory_of_a_runner_is_fresh_where_an_episode_has_just_ended(learnt):
    runner = learnt[0].advance(learnt[0].start(KEY, hyperparams()), 1)
    for carry in (runner.carry, runner.critic_carry):
        assert np.all(np.any(np.asarray(carry) != 0.0, axis=1))
    runner = learnt[0].advance(runner, 2)  # after twelve steps, which are four episodes
    for carry in (runner.carry, runner.critic_carry):
        np.testing.assert_array_equal(carry, 0.0)


def test_interrupted_and_restored_is_uninterrupted_on_any_number_of_devices(learnt, tmp_path):
    whole, _ = learnt[0].train(KEY, hyperparams(), n_steps=4, progress=False)
    remembering(checkpoint_dir=tmp_path).train(KEY, hyperparams(), n_steps=2, progress=False)
    agent = remembering(checkpoint_dir=tmp_path, restore_agent=True)
    for mesh in (None, make_mesh(2)):
        runner, _ = agent.restore(2)
        resumed, _ = remembering().train(None, None, runner, n_steps=2, mesh=mesh, progress=False)
        trees.assert_equal(whole, resumed)


def test_refuses_what_knows_nothing_of_the_memory(learnt):
    own = {"actor_network": WithMemory(FORGETFUL), "critic_network": StateCritic()}
    with pytest.raises(ValueError, match="n_groups must divide the 1 environments of a minibatch"):
        make(batch_size=4, minibatch_size=1, n_groups=2, **own)
    with pytest.raises(TypeError, match="has a memory: call act"):
        learnt[0].policy(learnt[0].actor_training, jnp.zeros(2))


def test_values_pass_through_the_memory_and_over_ends_of_episodes():
    """The true successor is valued with the memory of its episode, even where that ends."""
    network = WithMemory(StateCritic(features=()), nn.OptimizedLSTMCell(features=4))
    rng = np.random.default_rng(0)
    obs, next_obs = rng.normal(size=(2, 7, 3, 2)).astype(np.float32)
    initial = jax.tree.map(np.asarray, network.initial())
    variables = jax.jit(network.init)(KEY, initial, obs[0, 0])
    training = TrainState.from_variables(network, variables)
    carry = jax.tree.map(lambda x: rng.normal(size=(3, *x.shape)).astype(np.float32), initial)
    terminated, truncated = np.zeros((2, 7, 3), bool)
    terminated[2, 0] = truncated[4, 1] = truncated[6, 2] = True
    reward = np.zeros((7, 3), np.float32)
    traj = Transition(obs, None, None, None, reward, next_obs, terminated, truncated)
    sizes = {"rollout_length": 7, "batch_size": 3, "minibatch_size": 3}
    agent = make(actor_network=FORGETFUL, critic_network=network, **sizes)
    runner = trees.zeros(agent.program.start, KEY, hyperparams())
    runner = runner.replace(critic_training=training, critic_carry=carry)
    step = jax.jit(lambda memory, obs: training(memory, obs))
    with_targets = jax.jit(agent._with_targets)
    after, judged = with_targets(runner, traj)
    judged = jax.tree.map(np.asarray, judged)
    for i in range(3):
        memory = jax.tree.map(lambda x, i=i: x[i], carry)
        for t in range(7):
            trees.assert_close(
                jax.tree.map(lambda x, t=t, i=i: x[t, i], judged.critic_carry), memory
            )
            memory, value = step(memory, obs[t, i])
            np.testing.assert_allclose(judged.value[t, i], value, rtol=1e-5, atol=1e-6)
            _, value = step(memory, next_obs[t, i])
            np.testing.assert_allclose(judged.next_value[t, i], value, rtol=1e-5, atol=1e-6)
            memory = initial if terminated[t, i] or truncated[t, i] else memory
        trees.assert_close(jax.tree.map(lambda x, i=i: x[i], after.critic_carry), memory)

    @jax.jit
    def values(judged):
        inputs = agent._critic_loss_input(runner, judged)
        sequences = jax.tree.map(lambda x: x[0], by_environment(inputs))
        return agent._values(training, sequences[0])

    trees.assert_close(values(judged), judged.value.T.reshape(-1))
    _, again = with_targets(after, judged)
    trees.assert_close(again.value, judged.value)  # from the memories before the rollout


@pytest.mark.parametrize(("agent", "of_critic"), [(IPPO, (16, 2, 8)), (MAPPO, (16, 8))])
def test_default_networks_of_several_actors_may_have_a_memory(agent, of_critic):
    fields = {**MEMORY, "memory": "min_gru", "normalise_observations": True}
    program = make(lambda: Allowed(2), agent, **fields).program
    runner = jax.eval_shape(program.start, KEY, agent._hyperparams_type())
    assert runner.carry.shape == (16, 2, 8)
    assert runner.critic_carry.shape == of_critic
    jax.eval_shape(program.advance, runner, 1)
