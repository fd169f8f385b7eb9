"""Policies and critics with a memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import Allowed, Recall

from jaxagents import IPPO, MAPPO, PPO, PPOBase
from jaxagents.agents.transitions import Transition, elements
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import CategoricalActor, PerActor, StateCritic, WithMemory
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
MEMORY = WithMemory(CategoricalActor(2, features=()), nn.GRUCell(features=8))


class Told(Recall):
    """Shows a sign at first, and adds it to the reward two steps later, whatever is done."""

    weight = 1.0

    def reward(self, state, action):
        told = jnp.where(state.time == self.n_steps - 1, state.sign, 0.0)
        return super().reward(state, action) + self.weight * told


class MostlyTold(Told):
    """Beside the sign, what is chosen matters little."""

    weight = 5.0


FORGETFUL = CategoricalActor(2, features=(8,))
REMEMBER = {"memory": "gru", "memory_size": 8, "actor_network": None, "critic_network": None}
"""Default networks, both with a memory."""
SHARED = {"n_groups": 2, "replicated_updates": True, "rollout_length": 4, **REMEMBER}
"""Such an agent, which two devices may share."""


def make(env=Recall, agent=PPO, **fields):
    fields = {"n_steps": 2, "n_evals": 16, "critic_network": StateCritic(features=(8,)), **fields}
    sizes = {"batch_size": 16, "rollout_length": 6, "minibatch_size": 8, "actor_network": MEMORY}
    return agent(env(), None, agent._config_type(**{**sizes, **fields}), False)


def hyperparams(learning_rate=1e-2):
    optimizer = OptimizerParams(learning_rate=learning_rate)
    return HyperParameters(actor_optimizer_params=optimizer, critic_optimizer_params=optimizer)


@pytest.fixture(scope="module")
def learnt():
    """An agent whose actor alone remembers, of one gradient step an update, and what training told."""
    normalised = {"normalise_observations": True, "normalise_rewards": True}
    steps = {"actor_epochs": 1, "critic_epochs": 1, "minibatch_size": 16}
    agent = make(Told, n_steps=300, eval_frequency=100, **steps, **normalised)
    _, metrics = agent.train(KEY, hyperparams(), progress=False)
    return agent, metrics


def is_right(returns):
    """Whether the last choices of actors were right, where a sign is added that is odd."""
    return returns % 2 == 0


def test_an_actor_learns_what_only_a_memory_can(learnt):
    """Which its critic cannot, that has none."""
    agent, metrics = learnt
    assert is_right(agent.eval(KEY, n_evals=64)["returns"]).all()
    assert metrics["explained_variance"][-1] < 0.6


def test_the_first_ratio_of_an_update_is_one(learnt):
    """Acting and learning see the same memories and statistics, over ends of episodes too."""
    agent, metrics = learnt
    np.testing.assert_allclose(metrics["kl"][1:], 0.0, atol=1e-6)
    assert agent.training_runner.carry.shape == (16, 8)


def test_the_memory_of_a_runner_is_fresh_where_an_episode_has_just_ended():
    agent = make(**SHARED)
    runner, _ = agent.train(KEY, hyperparams(), n_steps=1, progress=False)
    for carry in (runner.carry, runner.critic_carry):
        assert np.all(np.any(np.asarray(carry) != 0.0, axis=1))
    runner = agent.advance(runner, 2)  # after twelve steps, which are four episodes
    for carry in (runner.carry, runner.critic_carry):
        np.testing.assert_array_equal(carry, 0.0)


def test_interrupted_and_restored_is_uninterrupted(tmp_path):
    whole, _ = make(**SHARED).train(KEY, hyperparams(), n_steps=4, progress=False)
    make(checkpoint_dir=tmp_path, **SHARED).train(KEY, hyperparams(), n_steps=2, progress=False)
    agent = make(checkpoint_dir=tmp_path, restore_agent=True, **SHARED)
    runner, _ = agent.restore("last")
    resumed, _ = agent.train(None, None, runner, n_steps=2, progress=False)
    trees.assert_equal(whole, resumed)


@pytest.mark.slow
def test_two_devices_make_the_training_of_one():
    agent = make(**SHARED)
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
    assert rewards[:2] == [0.0, 0.0]
    assert is_right(rewards[2])


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
    with pytest.raises(ValueError, match="n_groups must divide the 1 environments of a minibatch"):
        make(batch_size=4, minibatch_size=1, n_groups=2)
    with pytest.raises(ValueError, match="n_groups must divide the 1 environments of a minibatch"):
        make(batch_size=4, minibatch_size=1, n_groups=2, **{**REMEMBER, "actor_network": FORGETFUL})
    with pytest.raises(ValueError, match=r"memory must be None or one of \('gru', .* got 'GRU'"):
        AgentConfig(memory="GRU")
    with pytest.raises(ValueError, match="actor_network and critic_network are both given"):
        make(memory="gru")

    class OwnDefault(PPO):
        def _critic_network(self):
            return StateCritic()

    with pytest.raises(TypeError, match="_critic_network makes a network without a memory"):
        make(agent=OwnDefault, **REMEMBER)
    agent = make()
    actor = jax.eval_shape(agent.program.start, KEY, hyperparams()).actor_training
    with pytest.raises(TypeError, match="has a memory: call act"):
        agent.policy(actor, jnp.zeros(2))


@pytest.mark.slow
def test_a_critic_with_a_memory_values_what_was_seen_before():
    """Which its actors cannot choose by, that have none."""
    remembers = {"critic_network": None, "memory": "lstm", "memory_size": 8}
    actors = PerActor(FORGETFUL, 2)
    agent = make(lambda: MostlyTold(2), MAPPO, n_steps=40, actor_network=actors, **remembers)
    runner, metrics = agent.train(KEY, hyperparams(), progress=False)
    assert [x.shape for x in runner.critic_carry] == [(16, 8)] * 2
    assert metrics["explained_variance"][-1] > 0.95
    assert is_right(agent.eval(KEY, n_evals=64)["returns"]).mean() < 0.8


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
    runner = jax.jit(agent.program.start)(KEY, hyperparams())
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
        sequences = jax.tree.map(lambda x: x[0], elements(inputs))
        return agent._values(training, sequences[0])

    trees.assert_close(values(judged), judged.value.T.reshape(-1))
    _, again = with_targets(after, judged)
    trees.assert_close(again.value, judged.value)  # from the memories before the rollout


def several(agent):
    """Actors of default networks with a memory, which take none but allowed actions."""
    fields = {**REMEMBER, "memory": "min_gru", "rollout_length": 4, "normalise_observations": True}
    return make(lambda: Allowed(2), agent, **fields)


@pytest.mark.slow
def test_default_networks_of_several_actors_may_have_a_memory():
    agent = several(IPPO)
    runner, metrics = agent.train(KEY, hyperparams(), progress=False)
    assert runner.carry.shape == runner.critic_carry.shape == (16, 2, 8)
    assert np.all(np.isfinite(metrics["actor_loss"][1:]))
    assert np.all(np.isfinite(agent.eval(KEY, n_evals=2)["returns"]))


def test_the_critic_of_several_actors_may_have_one_memory_for_all():
    runner = jax.eval_shape(several(MAPPO).program.start, KEY, MAPPO._hyperparams_type())
    assert runner.carry.shape == (16, 2, 8)
    assert runner.critic_carry.shape == (16, 8)
