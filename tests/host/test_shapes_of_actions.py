"""Continuous actions that are not vectors, for agents on the host and in custom loops."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from jaxagents import PPO, SAC, TD3, SACLearner, ppo, sac, td3
from jaxagents.data import ReplayBuffer
from jaxagents.envs import Gymnasium
from jaxagents.host import evaluate, example_transition, rescale_actions

KEY = jax.random.key(0)
ON_POLICY = {"n_steps": 1, "rollout_length": 4, "n_evals": 2, "batch_size": 2, "minibatch_size": 2}
OFF_POLICY = {
    "n_steps": 2,
    "n_evals": 2,
    "batch_size": 2,
    "minibatch_size": 4,
    "buffer_size": 64,
    "learning_starts": 4,
    "features": (),
}
SHAPES = pytest.mark.parametrize("shape", [(), (2, 3)], ids=str)


class Shaped(gymnasium.Env):
    """Takes arrays of its shape alone, as their space has them; they are punished by their size."""

    observation_space = spaces.Box(-1, 1, (3,))

    def __init__(self, shape):
        self.action_space = spaces.Box(-2, 2, shape)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)  # which warns unless it is an array
        self._time += 1
        return np.zeros(3, np.float32), -np.sum(np.abs(action)), self._time == 4, False, {}


@pytest.mark.parametrize(
    ("agent", "config", "shape"),
    [
        (PPO, ppo.AgentConfig(**ON_POLICY), (2, 3)),
        (SAC, sac.AgentConfig(**OFF_POLICY), (2, 3)),
        (TD3, td3.AgentConfig(**OFF_POLICY), ()),
    ],
    ids=["PPO", "SAC", "TD3"],
)
def test_agents_act_in_boxes_of_any_shape(agent, config, shape):
    runner, metrics = agent(Gymnasium(lambda: Shaped(shape)), None, config).train(
        KEY, progress=False
    )
    assert np.isfinite(metrics["returns"]).all()
    if agent is not PPO:
        assert runner.buffer.to_dataset()["actions"].shape[1:] == shape


@SHAPES
@pytest.mark.filterwarnings("ignore:.*Casting input x")  # of what Gymnasium's RescaleAction gives
@pytest.mark.parametrize("n_envs", [None, 2])
def test_loops_of_ones_own_do_so_too(shape, n_envs):
    one = Shaped(shape)
    env = rescale_actions(SyncVectorEnv([lambda: Shaped(shape)] * n_envs) if n_envs else one)
    example = example_transition(env)
    assert example["actions"].shape == shape
    buffer = ReplayBuffer.create(example, size=10)
    obs, _ = env.reset(seed=0)
    action = env.action_space.sample()
    next_obs, reward, *_ = env.step(action)
    mask, end = np.ones(n_envs or (), np.float32), np.zeros(n_envs or (), bool)
    row = (obs, action, np.float32(reward), next_obs, mask, end)
    names = ("observations", "actions", "rewards", "next_observations", "masks", "ends")
    transition = dict(zip(names, row, strict=True))
    if n_envs:
        buffer.add_transitions(transition | {"environments": np.arange(n_envs)})
    else:
        buffer.add_transition(transition)
    assert buffer.sample(4)["actions"].shape == (4, *shape)
    policy = jax.jit(lambda obs: np.full(shape, 0.5, np.float32))
    outcomes = evaluate(policy, rescale_actions(one), 2)
    np.testing.assert_array_equal(outcomes["returns"], -4 * np.sum(np.ones(shape)))  # half of 2


@SHAPES
def test_learners_ask_for_vectors(shape):
    example = np.zeros(3, np.float32), np.zeros(shape, np.float32)
    with pytest.raises(
        ValueError, match=r"shape \(\.\.\., action_dim\)|flatten actions of several axes"
    ):
        SACLearner.create(0, *example)
