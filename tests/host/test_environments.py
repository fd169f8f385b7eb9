"""Environments in custom loops."""

import pickle

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from jaxagents import SAC, sac
from jaxagents.data import ReplayBuffer
from jaxagents.host import example_transition, rescale_actions


class Strict(gymnasium.Env):
    """Asserts that actions are within bounds, and returns them."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, low=0.2, high=0.9, dtype="float32"):
        self.action_space = spaces.Box(np.array([low], dtype), np.array([high], dtype), dtype=dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action[0]!r} is outside"
        return np.zeros(1, np.float32), float(action[0]), False, False, {}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rescaled_actions_stay_in_their_box(dtype):
    rng = np.random.default_rng(0)
    for low, width in rng.uniform([-1, 0.1], [1, 2], (300, 2)):
        env = Strict(low, low + width, dtype)
        rescaled = rescale_actions(env)
        rescaled.reset()
        for action in (-1, 1):
            for kind in (np.float32, np.float64):
                _, reward, *_ = rescaled.step(np.array([action], kind))
                bound = env.action_space.low if action < 0 else env.action_space.high
                assert reward == pytest.approx(bound.item(), abs=1e-6)


def test_rescaled_vectors_stay_in_their_box():
    rng = np.random.default_rng(0)
    for low, width in rng.uniform([-1, 0.1], [1, 2], (30, 2)):
        vector = SyncVectorEnv([lambda low=low, high=low + width: Strict(low, high)] * 2)
        rescaled = rescale_actions(vector)
        assert rescaled.single_action_space == spaces.Box(-1.0, 1.0, (1,), np.float32)
        assert example_transition(rescaled).action_space.low == -1
        rescaled.reset()
        _, rewards, *_ = rescaled.step(np.float32([[-1], [1]]))
        np.testing.assert_allclose(rewards, [low, low + width], atol=1e-6)


def test_a_rescaled_environment_can_be_written_and_pickled():
    env = rescale_actions(gymnasium.make("Pendulum-v1"))
    assert isinstance(env, gymnasium.wrappers.RescaleAction)
    text = env.spec.to_json()
    for again in (
        gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(text)),
        pickle.loads(pickle.dumps(env)),
    ):
        again.reset()
        assert again.action_space == spaces.Box(-1.0, 1.0, (1,), np.float32)
        again.step(np.float32([-0.5]))
        assert again.unwrapped.last_u == -1.0
        assert rescale_actions(again) is again


def test_policies_of_agents_stay_in_the_box():
    env = Strict(0.1, 0.3, "float64")  # float32(0.1) is above 0.1, float32(0.3) too
    config = sac.AgentConfig(n_updates=1, n_envs=1, features=(4,), learning_starts=8)
    agent = SAC(env, None, config, eval_during_training=False)
    for unit in (-1.0, 1.0):
        action = np.asarray(jax.jit(agent._units.to_environment)(np.full(1, unit, np.float32)))
        assert env.action_space.contains(action)


def test_a_buffer_of_an_environment_knows_the_units_of_its_actions():
    env = gymnasium.make("Pendulum-v1")
    for given, bound in ((env, 2.0), (rescale_actions(env), 1.0)):
        buffer = ReplayBuffer.create(example_transition(given), 4)
        assert buffer.action_space.high == bound
        assert buffer.to_dataset().action_space == buffer.action_space
    cart = ReplayBuffer.create(example_transition(gymnasium.make("CartPole-v1")), 4)
    assert cart.action_space is None
