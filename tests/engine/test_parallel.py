"""Agents of several actors in parallel environments of PettingZoo, which are stepped on the host."""

import jax
import numpy as np
import pytest
import trees
from parallel_probes import LIMIT, Relay

import jaxagents
from jaxagents import IPPO, MAPPO
from jaxagents.envs import PettingZoo
from jaxagents.ippo import AgentConfig, HyperParameters, OptimizerParams

KEY = jax.random.key(0)
OPTIMIZER = OptimizerParams(learning_rate=0.02)
HYPERPARAMS = HyperParameters(actor_optimizer_params=OPTIMIZER)


def config(**changes):
    small = {
        "n_steps": 12,
        "batch_size": 4,
        "rollout_length": 8,
        "eval_frequency": 12,
        "n_evals": 6,
        "actor_epochs": 2,
        "network_sharing": "shared",
        "normalise_observations": True,
    }
    return AgentConfig(**{**small, **changes})


def drawn():
    return Relay("rgb_array")


@pytest.fixture(scope="module")
def agent():
    agent = IPPO(PettingZoo(drawn), None, config())
    agent.train(KEY, HYPERPARAMS, progress=False)
    return agent


@pytest.mark.slow
def test_every_actor_learns_until_it_leaves(agent):
    returns, lengths = (agent.training_metrics[name] for name in ("returns", "lengths"))
    assert returns.shape == (2, 6, 2)
    assert returns[0].mean() < 0.8 * returns[-1].mean()
    np.testing.assert_array_equal(returns[-1].max(axis=-1), lengths[-1])  # all take action 1
    assert (returns[-1].min(axis=-1) < lengths[-1]).any()
    assert (lengths[-1] <= LIMIT).all()


def test_a_resumed_training_is_the_same_bit_for_bit(agent, tmp_path):
    def resumable():
        folder = {"checkpoint_dir": tmp_path, "restore_agent": True}
        return IPPO(PettingZoo(drawn), None, config(**folder))

    resumable().train(KEY, HYPERPARAMS, n_steps=5, progress=False)
    runner, metrics = resumable().resume(KEY, HYPERPARAMS, progress=False)
    trees.assert_equal(runner, agent.training_runner)
    np.testing.assert_array_equal(metrics["returns"][-1], agent.training_metrics["returns"][-1])


def test_films_an_episode(agent, monkeypatch):
    key, closed = jax.random.key(4), []
    monkeypatch.setattr(Relay, "close", lambda self: closed.append(self), raising=False)
    frames = agent.render_episode(key)
    assert len(closed) == 1
    (length,) = agent.eval(key, n_evals=1)["lengths"]
    np.testing.assert_array_equal(frames[:, 0, 0, 0], np.arange(length + 1))


def test_copies_are_made_of_an_environment_or_taken_as_they_are(agent):
    first, second = (PettingZoo(Relay()) for _ in range(2))
    assert first == second
    assert first != PettingZoo(drawn)
    given = [drawn() for _ in range(4)]
    same = IPPO(PettingZoo(given), None, config())
    assert same.start(KEY, HYPERPARAMS).obs["observation"].shape == (4, 2, 4)
    assert all(env.agents for env in given)
    assert IPPO(Relay(), None, config()) == IPPO(first, None, config())
    assert repr(same) == "<IPPO on relay>"


def test_a_centralised_critic_sees_the_state():
    agent = MAPPO(Relay(), None, config())
    assert agent._observation["critic_state"].shape == (3,)
    assert "critic_state" not in IPPO(Relay(), None, config())._observation


def test_environments_by_their_names():
    env = jaxagents.make("pettingzoo:mpe/simple_speaker_listener-v4", max_cycles=3)
    assert env.agents == ("speaker_0", "listener_0")
    assert env.can_draw
    assert env == jaxagents.make("pettingzoo:mpe/simple_speaker_listener-v4", max_cycles=3)
    assert env != jaxagents.make("pettingzoo:mpe/simple_speaker_listener-v4")
    with pytest.raises(ValueError, match="Did you mean 'mpe/simple_spread-v3'"):
        jaxagents.make("pettingzoo:mpe.simple_spread_v3")
