"""EnvPool vectors, which step environments in threads and reset them automatically."""

import gymnasium
import jax
import numpy as np
import pytest

from jaxagents import PPO, ppo
from jaxagents.envs import Gymnasium
from jaxagents.envs.on_host.episodes import HostEpisodes, Played
from jaxagents.envs.on_host.vectors import Vector

envpool = pytest.importorskip("envpool")
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting")
N_ENVS, LIMIT = 3, 5


def pool(name="CartPole-v1", **options):
    options = {"num_envs": N_ENVS, "seed": 1, "max_episode_steps": LIMIT} | options
    return envpool.make(name, env_type="gymnasium", **options)


def test_steps_that_count_lead_from_each_observation_to_its_true_successor():
    """CartPole moves by its velocity, also in the step that ends an episode."""
    episodes = HostEpisodes(Vector(pool()), max_steps=100)
    none = np.zeros(N_ENVS, np.int32)
    episodes.restart(none.astype(np.uint32))
    n_ended = 0
    for time in range(20):
        before = episodes.obs
        step = episodes.step(np.full(N_ENVS, time % 2, np.int32))
        moved = before[:, 0] + 0.02 * before[:, 1]
        np.testing.assert_allclose(step.next_obs[step.counts, 0], moved[step.counts], rtol=1e-5)
        assert step.counts.all() == (time % (LIMIT + 1) != LIMIT)
        assert not step.terminated.any()
        assert step.truncated.all() == (time % (LIMIT + 1) == LIMIT - 1)
        n_ended += step.truncated.sum()
    assert episodes.played.number.sum() == n_ended == 3 * N_ENVS
    played, obs = Played(*map(np.copy, episodes.played)), episodes.obs
    episodes.step(none)
    with pytest.warns(UserWarning, match="cannot be played again"):
        episodes.go_to(played, obs)


def test_an_agent_learns_in_a_pool_and_is_evaluated_elsewhere():
    config = ppo.AgentConfig(
        n_steps=2, batch_size=N_ENVS, rollout_length=8, minibatch_size=1, n_evals=2
    )
    with pytest.raises(ValueError, match="cannot be copied for evaluations"):
        PPO(pool(), None, config)
    agent = PPO(Gymnasium(pool(), eval_env=gymnasium.make("CartPole-v1")), None, config)
    runner, metrics = agent.train(jax.random.key(0), ppo.HyperParameters(), progress=False)
    assert metrics["returns"].shape == (3, 2)
    assert np.isfinite(runner.obs).all()
    assert agent.env.name == "CartPoleGymnasiumEnvPool"


def test_a_pool_that_steps_some_of_its_environments_is_refused():
    with pytest.raises(ValueError, match="steps 2 of 3 at a time: make it without batch_size"):
        PPO(pool(batch_size=2), None, ppo.AgentConfig(batch_size=N_ENVS, minibatch_size=1))
