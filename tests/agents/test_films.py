"""Videos of episodes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from PIL import Image
from probes import Box, Discrete, Probe

from jaxagents import PPO, Environment, ppo
from jaxagents.envs import Episodes, Step, as_environment
from jaxagents.envs.drawings import draw_states
from jaxagents.envs.play import record_episode

KEY = jax.random.key(0)
CONFIG = ppo.AgentConfig(n_steps=1, batch_size=4, minibatch_size=2, rollout_length=4)


class Walk(Environment):
    """Random steps to the right until position 8; frames get brighter with the position."""

    action_space = Discrete(2)
    observation_space = Box(-1.0, 1.0, (1,))
    max_steps = 12
    render_fps = 20

    def reset(self, key):
        return jnp.zeros(1), (jnp.zeros(()), key)

    def step(self, key, state, action):
        position = state[0] + 2 * jax.random.uniform(key) + action
        obs = position[None] / 9 - 1
        return Step(obs, (position, key), jnp.ones(()), position > 8, jnp.zeros((), bool), {})

    def render(self, state):
        return np.full((8, 12, 3), int(10 * state[0]), np.uint8)


@pytest.fixture(scope="module")
def agent():
    agent = PPO(Walk(), None, CONFIG, False)
    runner = trees.zeros(agent.program.start, KEY, ppo.HyperParameters())
    agent.collect_training(runner, {})
    return agent


def test_films_the_episode_that_is_evaluated(agent):
    lengths = set()
    for seed in range(4):
        key = jax.random.key(seed)
        frames = agent.render_episode(key, deterministic=False)
        (length,) = agent.eval(key, n_evals=1, deterministic=False)["lengths"]
        assert frames.shape == (1 + length, 8, 12, 3)
        assert frames.dtype == np.uint8
        brightness = frames[:, 0, 0, 0].astype(int)
        assert brightness[0] == 0
        assert (np.diff(brightness) >= 0).all()
        lengths.add(int(length))
    assert len(lengths) > 1


def test_films_what_another_runner_does(agent):
    other = PPO(Walk(), None, CONFIG, False)
    frames = other.render_episode(KEY, runner=agent.training_runner)
    np.testing.assert_array_equal(frames, agent.render_episode(KEY))
    with pytest.raises(RuntimeError, match="not been trained"):
        other.render_episode(KEY)
    several = jax.tree.map(lambda x: jnp.stack([x, x]), agent.training_runner)
    with pytest.raises(ValueError, match="stack of 2 runs"):
        other.render_episode(KEY, runner=several)
    with pytest.raises(TypeError, match="A runner is needed"):
        other.render_episode(KEY, runner=agent.training_runner.actor_training)


def test_writes_a_film(agent, tmp_path):
    path = tmp_path / "film.gif"
    frames = agent.render_episode(KEY, path, max_steps=3)
    assert len(frames) == 4
    with Image.open(path) as film:
        assert film.size == (12, 8)
        assert film.info["duration"] == 50
        film.seek(film.n_frames - 1)
        last = np.asarray(film.convert("RGB"), int)
    assert np.abs(last - frames[-1]).max() < 8
    with pytest.raises(FileExistsError, match=r"film\.gif exists already"):
        agent.render_episode(KEY, path)
    agent.render_episode(KEY, tmp_path / "fast.gif", max_steps=3, fps=100)
    with Image.open(tmp_path / "fast.gif") as film:
        assert film.n_frames == 2


def test_films_several_actors():
    class Duet(Probe):
        n_steps = 3

        def reward(self, state, action):
            return jnp.zeros(())

        def terminated(self, state):
            return state.time >= self.n_steps

        def render(self, state, params):
            return np.full((2, 2, 3), state.time, np.uint8)

    env = as_environment(Duet(2))

    def policy(carry, obs):
        return carry + 1, jnp.full(2, carry)

    states, n_steps = record_episode(Episodes(env, 9, (2,)), policy, jnp.int32(0), KEY, 5)
    frames = draw_states(env, states, 1 + int(n_steps))
    assert frames[:, 0, 0, 0].tolist() == [0, 1, 2, 3]


def test_says_what_is_wrong_before_it_plays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, message in (
        ({"path": "film.avi"}, r"must end in \.gif or \.mp4"),
        ({"path": "film.gif", "fps": 0}, "fps must be positive, got 0"),
        ({"max_steps": 0}, "max_steps must be"),
    ):
        with pytest.raises(ValueError, match=message):
            PPO(Walk(), None, CONFIG, False).render_episode(KEY, **arguments)
    assert list(tmp_path.iterdir()) == []

    class Unseen(Walk):
        render = Environment.render

    with pytest.raises(NotImplementedError, match=r"Unseen does not draw: .* render\(state\)"):
        PPO(Unseen(), None, CONFIG, False).render_episode(KEY)
