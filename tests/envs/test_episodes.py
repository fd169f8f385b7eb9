"""Episodes: termination, truncation and resets."""

import functools

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import Box, Discrete, MatchSign, Probe
from suite_checks import played, trace_updates

from jaxagents import A2C, PPO
from jaxagents.envs import Episodes, as_environment
from jaxagents.envs.play import play_episodes
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)


class Counter:
    """Counts; terminates at 5, and reports the truncation that `truncate_at` asks for."""

    default_params = None

    def __init__(self, truncate_at=None, done_is_either=True):
        self.truncate_at = truncate_at
        self.done_is_either = done_is_either

    def action_space(self, params):
        return Discrete(2)

    def reset_env(self, key, params):
        return jnp.zeros(1), jnp.zeros((), jnp.int32)

    def step_env(self, key, state, action, params):
        state = state + 1
        done = state >= 5
        info = {}
        if self.truncate_at is not None:
            info["truncated"] = state >= self.truncate_at
            done |= info["truncated"] & self.done_is_either
        return jnp.full(1, state, float), state, jnp.asarray(state, float), done, info


def test_an_episode_terminates_and_the_next_begins():
    _, steps = played(Episodes(as_environment(Counter()), 5), [0] * 6)
    np.testing.assert_array_equal(steps.terminated, [0, 0, 0, 0, 1, 0])
    np.testing.assert_array_equal(steps.truncated, False)  # also where the limit is reached as well
    np.testing.assert_array_equal(steps.obs[:, 0], [1, 2, 3, 4, 0, 1])
    np.testing.assert_array_equal(steps.next_obs[:, 0], [1, 2, 3, 4, 5, 1])
    np.testing.assert_array_equal(steps.envstate.step, [1, 2, 3, 4, 0, 1])


@pytest.mark.parametrize(
    ("env", "max_steps", "terminates"),
    [
        (Counter(), 3, False),
        (Counter(), 3, True),
        (Counter(truncate_at=3), 100, False),
        (Counter(truncate_at=3, done_is_either=False), 100, True),
    ],
)
def test_limits_truncate_or_terminate_if_they_are_to(env, max_steps, terminates):
    episodes = Episodes(as_environment(env), max_steps, terminate_at_limits=terminates)
    (_, steps), ends = played(episodes, [0] * 4), np.array([0, 0, 1, 0])
    np.testing.assert_array_equal(steps.truncated, ends * (not terminates))
    np.testing.assert_array_equal(steps.terminated, ends * terminates)
    np.testing.assert_array_equal(steps.next_obs[:, 0], [1, 2, 3, 1])


def test_a_default_limit_is_for_environments_without_one_of_their_own():
    env, params = gymnax.make("CartPole-v1")
    long = as_environment(env, params.replace(max_steps_in_episode=12_000))
    assert Episodes(long).max_steps == 12_000
    assert Episodes(long, 50).max_steps == 50
    assert Episodes(as_environment(Counter())).max_steps == 9999
    assert Episodes(as_environment(Counter()), 20_000).max_steps == 20_000


def test_agrees_with_gymnax_step_by_step():
    env, params = gymnax.make("CartPole-v1")
    first, steps = played(Episodes(as_environment(env, params), 10_000), [1] * 12)
    step = jax.jit(lambda state: env.step_env(jax.random.split(KEY)[0], state, 1, params))
    obs, state = env.reset_env(KEY, params)
    np.testing.assert_array_equal(first, obs)
    for t in range(1 + np.flatnonzero(steps.terminated)[0]):
        obs, state, reward, done, _ = step(state)
        np.testing.assert_allclose(steps.next_obs[t], obs, rtol=1e-6)
        assert (steps.reward[t], steps.terminated[t]) == (reward, done)
    assert steps.envstate.step[t] == 0


def test_box_actions_are_clipped():
    class Echo(Probe):
        def action_space(self, params):
            return Box(-1.0, 2.0, ())

        def reward(self, state, action):
            return action

    episodes = Episodes(as_environment(Echo()), 10)
    step = jax.jit(lambda action: episodes.step(KEY, episodes.reset(KEY)[1], action).reward)
    assert (step(np.float32(5.0)), step(np.float32(-5.0))) == (2.0, -1.0)


class TenTimes(nn.Module):
    @nn.compact
    def __call__(self, obs):
        return 10.0 * obs + 0.0 * self.param("unused", nn.initializers.zeros, (1,))


@pytest.mark.parametrize("terminates", [False, True])
def test_targets_across_a_limit_by_hand(terminates):
    """Three steps of reward 1, 2, 1 with a limit of 2, and a critic V(obs) = 10 * obs.

    The environment reports the limit itself, or the agent has it, and has it terminate.
    """
    limit = {"max_episode_steps": 2, "terminate_at_limits": True} if terminates else {}
    sizes = {"batch_size": 1, "minibatch_size": 1, "rollout_length": 3}
    config = AgentConfig(**sizes, **limit, actor_network=nn.Dense(2), critic_network=TenTimes())
    agent = PPO(Counter(None if terminates else 2), None, config)

    @jax.jit
    def collect():
        runner = agent.program.start(KEY, HyperParameters(gamma=0.5, gae_lambda=0.8))
        runner, traj, _ = agent._collect(runner)
        return agent._with_targets(runner, traj)[1]

    traj = jax.tree.map(lambda x: np.asarray(x)[:, 0], collect())
    np.testing.assert_array_equal(traj.reward, [1, 2, 1])
    np.testing.assert_array_equal(traj.truncated, [0, not terminates, 0])
    np.testing.assert_array_equal(traj.terminated, [0, terminates, 0])
    np.testing.assert_array_equal(traj.value, [0, 10, 0])
    np.testing.assert_array_equal(traj.next_value, [10, 20, 10])
    # delta = [1 + 5 - 0, 2 + 10 - 10, 1 + 5 - 0], without the 10 if nothing follows the second step,
    # after which the trace is cut.
    delta = 2 - 10 if terminates else 2 + 10 - 10
    first = 6 + 0.5 * 0.8 * delta
    np.testing.assert_allclose(traj.advantage, [first, delta, 6], rtol=1e-6)
    np.testing.assert_allclose(traj.target, [first, delta + 10, 6], rtol=1e-6)


def test_random_numbers_belong_to_the_index_of_an_environment():
    def rollout(batch_size):
        config = AgentConfig(batch_size=batch_size, minibatch_size=2, rollout_length=4)
        agent = PPO(MatchSign(), None, config)
        return jax.jit(lambda: agent._collect(agent.program.start(KEY, HyperParameters()))[1].obs)()

    few, many = (np.asarray(rollout(batch_size)) for batch_size in (4, 8))
    np.testing.assert_array_equal(few[0], many[0, :4])


class Countdown:
    """Ends when its number of steps has passed; the next one is drawn, as is a key that it carries."""

    default_params = None

    def reset_env(self, key, params):
        left_key, state_key = jax.random.split(key)
        left = (jax.random.bits(left_key) % 99 + 1).astype(jnp.int32)
        return left[None].astype(float), (left, state_key)

    def step_env(self, key, state, action, params):
        left = state[0] - 1
        return left[None].astype(float), (left, state[1]), jnp.ones(()), left == 0, {}


N_MANY = 300
EPISODES = Episodes(as_environment(Countdown()), 1000)
reset_each = jax.jit(jax.vmap(EPISODES.reset))
step_each = jax.jit(jax.vmap(EPISODES.step))
split_each = jax.jit(jax.vmap(jax.random.split))


@functools.cache
def step_many(backend):
    """Steps of all environments, compiled as for a given backend."""
    return jax.jit(lambda *args: EPISODES.step_all(*args))


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
@pytest.mark.parametrize("n_over", [0, 19, N_MANY])
def test_many_environments_restart_as_each_would_alone(monkeypatch, n_over, backend):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    keys = jax.random.split(jax.random.key(n_over), N_MANY)
    _, states = reset_each(keys)
    ends = np.random.default_rng(0).permutation(np.arange(N_MANY) < n_over)
    state_left, state_keys = states.envstate
    left = np.where(ends, 1, np.asarray(state_left) + 1)
    states = states.replace(envstate=(left, state_keys))
    actions = np.zeros(N_MANY, np.int32)
    together = step_many(backend)(split_each(keys), states, actions)
    assert np.asarray(together.terminated).sum() == n_over
    trees.assert_equal(together, step_each(keys, states, actions))


def test_outcomes_are_those_of_whole_episodes():
    """Episodes of different lengths, side by side until the last of them is over."""
    play = jax.jit(lambda: play_episodes(EPISODES, lambda carry, obs: (carry, 0), (), KEY, 16))
    outcomes, (left, _) = play(), reset_each(jax.random.split(KEY, (16, 2))[:, 0])
    assert len(set(np.asarray(outcomes.lengths))) > 8
    for numbers in (outcomes.lengths, outcomes.returns):
        np.testing.assert_array_equal(numbers, left[:, 0])
    np.testing.assert_array_equal(outcomes.final_rewards, 1.0)
    np.testing.assert_array_equal(outcomes.terminated, True)
    np.testing.assert_array_equal(outcomes.truncated, False)


def test_learns_from_integers():
    sizes = {"n_steps": 2, "batch_size": 4, "rollout_length": 4, "max_episode_steps": 20}
    trace_updates(A2C(*gymnax.make("FrozenLake-misc"), A2C._config_type(**sizes)))
