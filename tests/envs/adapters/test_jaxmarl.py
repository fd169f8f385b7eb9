"""Environments of JaxMARL."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scripts import run_script
from suite_checks import KEY, check_steps, check_suite_environment, lasts, trace_updates

import jaxagents
from jaxagents import IPPO, PPO, ippo, ppo
from jaxagents.envs import Episodes, as_environment

jaxmarl = pytest.importorskip("jaxmarl")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
def test_is_imported_without_printing_and_leaves_streams_alone():
    script = """
    import contextlib, io, sys
    from jaxagents.envs.adapters.making import names_of
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        stdout, stderr = sys.stdout, sys.stderr
        assert "jaxmarl:MPE_simple_v3" in names_of("jaxmarl")
        assert (sys.stdout, sys.stderr) == (stdout, stderr)
    assert printed.getvalue() == ""
    """
    assert run_script(script) == ""


def test_steps_as_jaxmarl_does_and_gives_the_true_successor():
    native = jaxmarl.make("MPE_simple_spread_v3", max_steps=4)
    env = as_environment(native)
    assert env.n_actors == 3
    actions = dict(zip(native.agents, (0, 1, 4), strict=True))

    def in_rows(by_agent):
        return jnp.stack([by_agent[agent] for agent in native.agents])

    def step(key, state, _):
        obs, _, rewards, dones, _ = native.step_env(key, state.native, actions)
        return in_rows(obs), in_rows(rewards), jnp.float32(dones["__all__"])

    n_steps, last = check_steps(env, step, np.int32([0, 1, 4]))
    assert n_steps == 5  # one more than its limit, as JaxMARL has it
    assert last.truncated
    assert last.envstate.envstate.playing is None
    assert env.actor_mask(last.envstate.envstate) is None
    trace_updates(IPPO(env, None, ippo.AgentConfig()))


def test_agents_of_different_sizes_are_filled_up_and_masked():
    env = jaxagents.make("jaxmarl:MPE_simple_speaker_listener_v4", max_steps=3)
    speaker, listener = (env.env.action_space(agent).n for agent in env.agents)
    assert (speaker, listener) == (3, 5)
    assert env.action_space.n == 5
    obs, _ = Episodes(env, 10, (2,)).reset(KEY)
    np.testing.assert_array_equal(obs["action_mask"], [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    sizes = [env.env.observation_space(agent).shape[0] for agent in env.agents]
    assert obs["observation"].shape == (2, max(sizes))
    assert not obs["observation"][0, sizes[0] :].any()
    assert lasts(env, [0, 0], 4) == [(False, False)] * 3 + [(False, True)]
    check_suite_environment(env)


def test_layouts_have_names_and_agents_may_have_numbers():
    env = jaxagents.make("jaxmarl:overcooked", layout="coord_ring", max_steps=2)
    assert env.observation_space.dtype == np.float32
    assert lasts(env, [4, 4], 2) == [(False, False), (False, True)]
    _, state = jax.eval_shape(env.reset, KEY)
    info = jax.eval_shape(env.step, KEY, state, jnp.array([4, 4])).info
    assert info["shaped_reward"].shape == (2,)
    unnamed = jaxagents.make("jaxmarl:coin_game")
    assert unnamed.agents == ("0", "1")
    _, state = jax.eval_shape(unnamed.reset, KEY)
    step = jax.eval_shape(unnamed.step, KEY, state, jnp.zeros(2, int))
    assert step.reward.shape == (2,)


def test_equal_environments_are_equal():
    def agent(**options):
        return IPPO(jaxmarl.make("MPE_simple_spread_v3", **options), None, ippo.AgentConfig())

    assert agent() == agent()
    assert agent() != agent(max_steps=3)
    with pytest.raises(
        ValueError, match=r"single agent, but SimpleSpreadMPE has n_actors=3. Use IPPO"
    ):
        PPO(jaxmarl.make("MPE_simple_spread_v3"), None, ppo.AgentConfig())


def test_smax_masks_actions_and_units_that_fall_leave_the_game():
    env = jaxagents.make("jaxmarl:HeuristicEnemySMAX", scenario="3m")
    episodes = Episodes(env, 100, (3,))
    obs, state = episodes.reset(KEY)
    native_step, step = jax.jit(env.env.step_env), jax.jit(episodes.play)
    fallen, alone = np.zeros(3, bool), False
    state_of_world = env.env.reset(KEY)[0]["world_state"]
    np.testing.assert_array_equal(env.critic_state(env.reset(KEY)[1]), state_of_world)
    available = env.env.get_avail_actions(state.envstate.native)["ally_0"]
    np.testing.assert_array_equal(obs["action_mask"][0], available.astype(bool))
    assert not available.all()
    for i in range(100):
        assert obs["actor_mask"].dtype == bool
        np.testing.assert_array_equal(obs["actor_mask"], ~fallen)
        key, actions = jax.random.key(i), obs["action_mask"].argmax(-1)
        given = dict(zip(env.agents, actions, strict=True))
        rewards, dones = native_step(key, state.envstate.native, given)[2:4]
        won = np.array([dones["__all__"] & (rewards[agent] >= 1.0) for agent in env.agents])
        timestep = step(key, state, actions)
        np.testing.assert_array_equal(timestep.info["won"], won)
        obs, state = timestep.next_obs, timestep.envstate
        if dones["__all__"]:
            assert timestep.terminated | timestep.truncated
            break
        fallen |= np.array([dones[agent] for agent in env.agents])
        alone |= fallen.any()
    assert dones["__all__"]
    assert alone
    trace_updates(IPPO(env, None, ippo.AgentConfig()))
