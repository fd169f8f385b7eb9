"""Policies as files, beside what the suite says of every agent's; and one training out of many."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import MatchSign
from registry import AGENTS

from jaxagents import PPO, load_policy, ops, ppo
from jaxagents.networks import WithMemory

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}


def fresh(case):
    """An agent that acts as it began."""
    agent = case.make(MatchSign, False)
    agent.collect_training(agent.start(KEY, case.hyperparams()), {})
    return agent


def observations_of(agent, n=5):
    keys = jax.random.split(jax.random.key(3), n)
    return jax.vmap(agent.episodes.reset)(keys)[0]


def test_only_what_acts_is_exported(tmp_path):
    agent = fresh(CASES["PPO"])
    agent.export_policy(tmp_path / "ppo")
    weights = load_policy(tmp_path / "ppo").weights
    flat = jax.tree_util.tree_leaves_with_path(agent.actor_training.params)
    names = {f"params/{jax.tree_util.keystr(path, simple=True, separator='/')}" for path, _ in flat}
    assert set(weights) == names
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / "ppo").stat().st_mode == plain.stat().st_mode  # others may read it too
    agent = fresh(CASES["SAC"])
    agent.export_policy(tmp_path / "sac")
    assert all(name.startswith("actor/params") for name in load_policy(tmp_path / "sac").weights)


class Remembering(PPO):
    """Acts by a network with a memory."""

    def _distribution_of(self, output):
        return ops.Categorical(output)


def test_a_policy_with_a_memory_is_given_it(tmp_path):
    network = WithMemory(nn.Dense(2), cell=nn.GRUCell(features=4))
    config = ppo.AgentConfig(n_steps=1, batch_size=4, rollout_length=4, actor_network=network)
    agent = Remembering(MatchSign(), None, config, eval_during_training=False)
    agent.train(KEY, ppo.HyperParameters(), progress=False)
    agent.export_policy(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    obs = observations_of(agent, 3)
    with pytest.raises(TypeError, match=r"has a memory: call carry, action = policy\.act"):
        policy(obs)
    carry, batch = policy.initial_carry(), policy.initial_carry(3)
    own = agent.initial_carry(agent.actor_training)
    for step in range(2):
        carry, action = policy.act(carry, obs[step])
        batch, actions = policy.act(batch, obs)
        own, expected = agent.act(agent.actor_training, own, obs[step])
        trees.assert_close(jax.tree.leaves(own), carry)
        assert action == expected
        assert actions.shape == (3,)


def test_refuses_what_does_not_fit(tmp_path):
    agent = CASES["PPO"].make(MatchSign)
    path = tmp_path / "policy"
    with pytest.raises(RuntimeError, match="has not been trained"):
        agent.export_policy(path)
    agent = fresh(CASES["PPO"])
    agent.export_policy(path)
    with pytest.raises(FileExistsError, match="exists already: choose another name"):
        agent.export_policy(path)
    policy = load_policy(path)
    for wrong in (
        np.zeros(3),
        np.zeros(()),
        np.zeros((2, 2, 2)),
        {"a": np.zeros(2), "b": np.zeros(2)},
    ):
        with pytest.raises(ValueError, match=r"takes an observation of shape \(2,\), or a batch"):
            policy(wrong)
    with pytest.raises(FileNotFoundError, match="There is no file"):
        load_policy(tmp_path / "nothing")
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is no file of safetensors"):
        load_policy(tmp_path / "other")


def test_selects_one_training_out_of_many():
    case = CASES["PPO"]
    agent = case.make(MatchSign, n_steps=2)
    keys = jax.random.split(KEY, 2)
    rates = jnp.array([1e-2, 1e-3, 0.0])
    result = agent.sweep(keys, case.hyperparams(rates), progress=False)
    runner, metrics = agent.select(result, 1, 1)
    alone = agent.train(keys[1], case.hyperparams(rates[1]), progress=False)
    trees.assert_equal((runner, metrics), alone)
    agent.select((result.runners, result.metrics), 2, 0)
    trees.assert_equal(agent.training_runner, jax.tree.map(lambda x: x[2, 0], result.runners))
    assert agent.previous_training_max_step == 2
    for wrong in ((3, 0), (1,), (0, 2), (0, 0, 0)):
        with pytest.raises(IndexError, match=r"along axes of lengths \(3, 2\): give one position"):
            agent.select(result, *wrong)
    with pytest.raises(TypeError, match=r"select takes what sweep .* got 1 first"):
        agent.select(1, 0)
