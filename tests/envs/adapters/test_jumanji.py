"""Environments of jumanji."""

import jax
import numpy as np
import pytest
from suite_checks import KEY, check_suite_environment, lasts, trace_updates

import jaxagents
from jaxagents import DQN, PPO, dqn, ppo
from jaxagents.envs import Episodes, as_environment
from jaxagents.envs.drawings import draw_states
from jaxagents.envs.spaces import Discrete, MultiDiscrete

pytest.importorskip("jumanji")
pytestmark = pytest.mark.filterwarnings("ignore")


def test_steps_as_jumanji_does_and_gives_the_true_successor():
    env = jaxagents.make("jumanji:Maze-v0")
    step, native_step = jax.jit(Episodes(env, 1000).step), jax.jit(env.env.step)
    (obs, state), over = jax.jit(Episodes(env, 1000).reset)(KEY), False
    while not over:
        action = np.argmax(obs["action_mask"])
        _, expected = native_step(state.envstate.native, action)
        timestep = step(KEY, state, action)
        np.testing.assert_array_equal(timestep.next_obs["walls"], expected.observation.walls)
        np.testing.assert_array_equal(
            timestep.next_obs["action_mask"], expected.observation.action_mask
        )
        assert timestep.reward == expected.reward
        obs, state = timestep.obs, timestep.envstate
        over = timestep.terminated | timestep.truncated
        assert over == expected.last()


def test_the_time_limit_truncates_though_jumanji_terminates():
    env = jaxagents.make("jumanji:SlidingTilePuzzle-v0", time_limit=3)
    assert lasts(env, 0, 3) == [(False, False)] * 2 + [(False, True)]
    assert env.max_steps == 3


def test_combinations_that_are_masked_are_numbered_through():
    env = jaxagents.make("jumanji:Minesweeper-v0")
    assert env.action_space == Discrete(100)
    step = jax.jit(lambda: env.step(KEY, env.reset(KEY)[1], 37))()
    assert step.obs["board"][3, 7] >= 0
    assert not step.obs["action_mask"][37]
    trace_updates(PPO(env, None, ppo.AgentConfig()))


def test_other_actions_of_several_numbers_stay_so_with_a_mask_for_each():
    env = jaxagents.make("jumanji:Cleaner-v0")
    assert env.action_space == MultiDiscrete((4, 4, 4))
    obs, _ = jax.eval_shape(env.reset, KEY)
    assert [mask.shape for mask in obs["action_mask"]] == [(4,)] * 3
    assert "allowed" not in obs
    check_suite_environment(env)


def test_takes_native_environments_without_wrappers_that_reset():
    import jumanji
    from jumanji import wrappers

    native = jumanji.make("Game2048-v1")
    env = as_environment(wrappers.AutoResetWrapper(native))
    assert type(env.env) is type(native)
    config = dqn.AgentConfig()
    assert DQN(env, None, config) == DQN("jumanji:Game2048-v1", None, config)
    with pytest.raises(TypeError, match="VmapWrapper makes one environment into many"):
        as_environment(wrappers.VmapWrapper(native))


@pytest.mark.parametrize("name", ["Game2048-v1", "Maze-v0"])
def test_is_drawn(name):
    pytest.importorskip("matplotlib").use("agg")
    env = jaxagents.make(f"jumanji:{name}")
    _, states = jax.jit(jax.vmap(env.reset))(KEY[None])
    (picture,) = draw_states(env, states, 1)
    assert picture.std() > 1
