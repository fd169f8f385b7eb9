"""The example of Atari's games, where they are installed."""

import numpy as np
import pytest

pytest.importorskip("ale_py")
pytest.importorskip("cv2")


def test_an_agent_sees_the_last_frames_as_one_image(load, tmp_path):
    atari = load("atari_ppo")
    env = atari.make_game("Pong", clips_rewards=True)
    observation, _ = env.reset(seed=0)
    assert observation.shape == (84, 84, 4)
    assert observation.dtype == np.uint8
    np.testing.assert_array_equal(observation[..., 0], observation[..., 3])  # only one so far
    later, *_ = env.step(0)
    np.testing.assert_array_equal(later[..., 2], observation[..., 3])
    agent = atari.make_agent(atari.Options(n_steps=2_048, output=tmp_path))
    assert agent.config.n_steps == 2
    assert repr(agent) == "<PPO on ALE/Pong-v5>"
