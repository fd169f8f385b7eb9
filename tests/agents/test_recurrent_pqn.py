"""PQN with a memory."""

import jax
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import Allowed, Recall
from remembering import check_acts_with_its_memory

from jaxagents import PQN, PQNLearner, ops
from jaxagents.core.observed import Remembered
from jaxagents.networks import DiscreteCritic, WithMemory
from jaxagents.pqn import AgentConfig, HyperParameters
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
SIZES = {"batch_size": 4, "rollout_length": 7, "minibatch_size": 14, "gradient_steps": 4}
SMALL = {**SIZES, "n_steps": 4, "n_evals": 16, "features": (8, 8), "memory_size": 4}
SHARED = {"normalise_observations": True, "n_groups": 2, "replicated_updates": True}
"""Fields of an agent that two devices may share."""
HYPERPARAMS = HyperParameters(gamma=0.9, epsilon=0.2, critic_learning_rate=3e-3)


def make(env=Recall, kind=PQN, evaluates=True, **fields):
    memory = {} if "critic_network" in fields else {"memory": "gru"}
    return kind(env(), None, AgentConfig(**{**SMALL, **memory, **fields}), evaluates)


def train(agent, **options):
    return agent.train(KEY, HYPERPARAMS, progress=False, **options)


class Recorder(PQNLearner):
    """Reports the means and squares of what it is fitted to, and of its values."""

    def _loss(self, params, batch, targets):
        losses, info = super()._loss(params, batch, targets)
        q = info["q"]
        return losses, {"q": q, "q_squares": q**2, "targets": targets, "squares": targets**2}


class RecordingPQN(PQN):
    _discrete_learner = Recorder


def recording(**fields):
    """The agent that learns to remember, and is trained in all ways."""
    sizes = {"batch_size": 16, "rollout_length": 16, "minibatch_size": 64, "gradient_steps": 8}
    sizes |= {"n_steps": 120, "features": (16, 16), "memory_size": 16}
    return make(kind=RecordingPQN, evaluates=False, **sizes, **SHARED, **fields)


@pytest.fixture(scope="module")
def learnt():
    """An agent that has learnt to remember."""
    agent = recording()
    train(agent)
    return agent


def test_learns_what_only_a_memory_can(learnt, tmp_path):
    runner = learnt.training_runner
    observed = jax.tree.leaves(
        runner.learner.critic.extra_variables, is_leaf=lambda x: isinstance(x, ops.Moments)
    )
    assert [float(x.count) for x in observed] == [120 * 16 * 16]
    check_acts_with_its_memory(learnt, tmp_path)


def test_values_and_returns_are_those_of_single_steps():
    """Also of a rollout that starts amid episodes, and after episodes that end within it."""
    agent = recording()
    play = jax.jit(agent._play)
    hyperparams = HyperParameters(gamma=0.9, q_lambda=0.7, epsilon=0.5, critic_learning_rate=0.0)
    runner = agent.advance(agent.start(KEY, hyperparams), 1)
    assert np.abs(runner.carry["critic"]).max() > 0
    later, steps, _ = play(runner)
    steps, last_obs = jax.tree.map(np.asarray, (steps, later.obs))
    over = steps.terminated | steps.truncated
    assert over.any()
    assert not over[-1].all()

    critic = runner.learner.critic
    values_at = jax.jit(lambda seen: critic(seen))
    taken = jax.jit(ops.values_of)
    largest = jax.jit(lambda seen: critic(seen).max(axis=-1))
    after = jax.jit(lambda seen: critic(seen, method="after"))
    carry, values, next_values = runner.carry["critic"], [], []
    for t in range(len(over)):
        obs, action = jax.tree.map(lambda x, t=t: x[t], (steps.obs, steps.action))
        values.append(taken(values_at(Remembered(carry, obs)), action))
        carry = after(Remembered(carry, obs))
        # Within an episode the successor is what is observed next; its end is worth nothing.
        following = steps.obs[t + 1] if t + 1 < len(over) else last_obs
        next_values.append(largest(Remembered(carry, following)))
        carry = np.where(over[t][:, None], 0.0, carry)
    next_values = np.where(steps.terminated, steps.next_value, np.stack(next_values))
    np.testing.assert_allclose(steps.next_value, next_values, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(later.carry["critic"], carry, rtol=1e-5, atol=1e-6)

    outcome = steps.reward, next_values, steps.terminated, steps.truncated
    returns = jax.jit(ops.lambda_returns)(*outcome, 0.9, 0.7)
    info = agent.advance(runner, 1).info
    for name, expected in {"q": np.stack(values), "targets": np.asarray(returns)}.items():
        squares = "squares" if name == "targets" else "q_squares"
        np.testing.assert_allclose(info[name], expected.mean(), rtol=1e-4)
        np.testing.assert_allclose(info[squares], np.square(expected).mean(), rtol=1e-4)


def test_interrupted_and_restored_is_uninterrupted(tmp_path):
    whole, _ = train(recording(), n_steps=4)
    train(recording(checkpoint_dir=tmp_path), n_steps=2)
    agent = recording(checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = agent.restore("last")
    resumed, _ = agent.train(None, None, runner, n_steps=2, progress=False)
    trees.assert_equal(whole, resumed)


@pytest.mark.slow  # the program for a mesh alone takes ten seconds, and splits carries as PPO's does
def test_two_devices_make_the_training_of_one():
    alone, shared = (train(recording(), mesh=mesh, n_steps=4) for mesh in (None, make_mesh(2)))
    trees.assert_close(alone, shared)


def test_a_network_of_ones_own_learns_for_allowed_actions():
    """Rewards of others are no numbers, and losses would be none from then on."""
    network = WithMemory(
        DiscreteCritic(features=(8,), n_actions=4, layer_norm=True),
        nn.OptimizedLSTMCell(features=4),
    )
    agent = make(Allowed, evaluates=False, critic_network=network)
    runner = agent.advance(agent.start(KEY, HYPERPARAMS), 5)
    assert np.isfinite(runner.info["critic_loss"])


def test_the_layers_around_a_memory_are_normalised(learnt):
    params = learnt.learner.critic.params["network"]["network"]
    for part in ("torso", "network"):
        paths = jax.tree_util.tree_leaves_with_path(params[part])
        assert any("LayerNorm" in jax.tree_util.keystr(path) for path, _ in paths)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memory": "GRU"}, r"memory must be None or one of \('gru', .* got 'GRU'"),
        (
            {"minibatch_size": 4},
            r"multiple of rollout_length \* n_groups \(7\) where .* got 4\. Values .* do: 7, 14, 28\.",
        ),
        ({"minibatch_size": 4, "n_groups": 4}, r"rollout_length \* n_groups \(28\) where"),
        ({"encoder": nn.Dense(3)}, "put it into the critic's, as the torso"),
        (
            {"critic_network": WithMemory(DiscreteCritic(n_actions=2))},
            "is for the default network, but critic_network is given",
        ),
    ],
)
def test_names_what_does_not_go_with_a_memory(fields, message):
    with pytest.raises(ValueError, match=message):
        AgentConfig(**{**SMALL, "memory": "gru", **fields})
