"""Episodes: termination, truncation and resets."""

import functools

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import Box, Discrete, Endless, Probe

from jaxagents import A2C, IPPO, PPO
from jaxagents.envs import Episodes, as_environment
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)
SMALL = {"n_steps": 1, "batch_size": 4, "minibatch_size": 2, "rollout_length": 4, "n_evals": 2}


class Counter:
    """Counts; terminates at 5, and reports the truncation that `truncate_at` asks for."""

    def __init__(self, truncate_at=None, done_is_either=True):
        self.truncate_at = truncate_at
        self.done_is_either = done_is_either

    default_params = None

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


def play(episodes, n, action=0):
    step = jax.jit(lambda state: episodes.step(KEY, state, action))
    _, state = jax.jit(episodes.reset)(KEY)
    steps = []
    for _ in range(n):
        steps.append(step(state))
        state = steps[-1].envstate
    return jax.tree.map(lambda *x: np.stack(x), *steps)


def test_an_episode_terminates_and_the_next_begins():
    steps = play(Episodes(as_environment(Counter()), 100), 6)
    np.testing.assert_array_equal(steps.terminated, [0, 0, 0, 0, 1, 0])
    np.testing.assert_array_equal(steps.truncated, [0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(steps.obs[:, 0], [1, 2, 3, 4, 0, 1])
    np.testing.assert_array_equal(steps.next_obs[:, 0], [1, 2, 3, 4, 5, 1])
    np.testing.assert_array_equal(steps.envstate.step, [1, 2, 3, 4, 0, 1])


@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize(
    ("env", "max_steps"),
    [
        (Counter(), 3),
        (Counter(truncate_at=3), 100),
        (Counter(truncate_at=3, done_is_either=False), 100),
    ],
)
def test_limits_truncate_or_terminate_if_they_are_to(env, max_steps, terminates):
    episodes = Episodes(as_environment(env), max_steps, terminate_at_limits=terminates)
    steps, ends = play(episodes, 4), np.array([0, 0, 1, 0])
    np.testing.assert_array_equal(steps.truncated, ends * (not terminates))
    np.testing.assert_array_equal(steps.terminated, ends * terminates)
    np.testing.assert_array_equal(steps.next_obs[:, 0], [1, 2, 3, 1])


def test_termination_at_the_time_limit_is_no_truncation():
    steps = play(Episodes(as_environment(Counter()), 5), 5)
    assert steps.terminated[4]
    assert not steps.truncated[4]


def test_gymnax_parameters_limit_the_time():
    env, params = gymnax.make("MountainCar-v0")
    episodes = Episodes(as_environment(env, params.replace(max_steps_in_episode=3)), 100)
    np.testing.assert_array_equal(play(episodes, 3).truncated, [0, 0, 1])


def test_agrees_with_gymnax_step_by_step():
    env, params = gymnax.make("CartPole-v1")
    episodes = Episodes(as_environment(env, params), 10_000)
    _, state = jax.jit(episodes.reset)(KEY)
    inner = state.envstate
    step = jax.jit(lambda key, state: episodes.step(key, state, 1))
    step_of_gymnax = jax.jit(
        lambda key, state: env.step_env(jax.random.split(key)[0], state, 1, params)
    )
    for t in range(30):
        key = jax.random.key(t)
        ours = step(key, state)
        obs, inner, reward, done, _ = step_of_gymnax(key, inner)
        np.testing.assert_allclose(ours.next_obs, obs)
        assert ours.reward == reward
        assert ours.terminated == done
        state = ours.envstate
        if done:
            return
    pytest.fail("the pole never fell")


def test_box_actions_are_clipped():
    class Echo(Probe):
        def action_space(self, params):
            return Box(-1.0, 2.0, ())

        def reward(self, state, action):
            return action

    episodes = Episodes(as_environment(Echo()), 10)
    _, state = jax.jit(episodes.reset)(KEY)
    step = jax.jit(episodes.step)
    assert step(KEY, state, np.float32(5.0)).reward == 2.0
    assert step(KEY, state, np.float32(-5.0)).reward == -1.0


def started(agent, **hyperparams):
    """A fresh runner, compiled without what its updates would need."""
    return jax.jit(agent.program.start)(KEY, HyperParameters(**hyperparams))


def rollout_with_targets(agent, runner):
    """A rollout with everything that is learned from it."""

    @jax.jit
    def collect(runner):
        runner, traj, _ = agent._collect(runner)
        return agent._with_targets(runner, traj)[1]

    return jax.tree.map(np.asarray, collect(runner))


@pytest.mark.parametrize("terminates", [False, True])
def test_targets_across_a_limit_by_hand(terminates):
    """Three steps of reward 1, 2, 1 with a time limit of 2, and a critic V(obs) = 10 * obs."""

    class TenTimes(nn.Module):
        @nn.compact
        def __call__(self, obs):
            return 10.0 * obs[0] + 0.0 * self.param("unused", nn.initializers.zeros, ())

    class Actor(nn.Module):
        @nn.compact
        def __call__(self, obs):
            return nn.Dense(2)(obs)

    class Counting(Counter):
        def action_space(self, params):
            return Discrete(2)

    config = AgentConfig(
        batch_size=1,
        minibatch_size=1,
        rollout_length=3,
        max_episode_steps=2,
        terminate_at_limits=terminates,
        actor_network=Actor(),
        critic_network=TenTimes(),
    )
    agent = PPO(Counting(), None, config)
    traj = rollout_with_targets(agent, started(agent, gamma=0.5, gae_lambda=0.8))
    np.testing.assert_array_equal(traj.reward[:, 0], [1, 2, 1])
    np.testing.assert_array_equal(traj.truncated[:, 0], [0, not terminates, 0])
    np.testing.assert_array_equal(traj.terminated[:, 0], [0, terminates, 0])
    np.testing.assert_array_equal(traj.value[:, 0], [0, 10, 0])
    np.testing.assert_array_equal(traj.next_value[:, 0], [10, 20, 10])
    # delta = [1 + 5 - 0, 2 + 10 - 10, 1 + 5 - 0], without the 10 if nothing follows the second step,
    # after which the trace is cut.
    delta = 2 - 10 if terminates else 2 + 10 - 10
    first = 6 + 0.5 * 0.8 * delta
    np.testing.assert_allclose(traj.advantage[:, 0], [first, delta, 6], rtol=1e-6)
    np.testing.assert_allclose(traj.target[:, 0], [first, delta + 10, 6], rtol=1e-6)


def test_random_numbers_belong_to_the_index_of_an_environment():
    def rollout(batch_size):
        config = AgentConfig(**{**SMALL, "batch_size": batch_size})
        env, params = gymnax.make("CartPole-v1")
        agent = PPO(env, params, config)
        return jax.jit(lambda: agent._collect(agent.program.start(KEY, HyperParameters()))[1].obs)()

    few, many = (np.asarray(rollout(batch_size)) for batch_size in (4, 8))
    np.testing.assert_array_equal(few[0], many[0, :4])


class Countdown:
    """Ends when its number of steps has passed; the next one is drawn, as is a key that it carries."""

    default_params = None

    def reset_env(self, key, params):
        left_key, state_key = jax.random.split(key)
        left = jax.random.randint(left_key, (), 1, 100)
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
    """Steps of all environments, compiled as on a backend."""
    return jax.jit(lambda *args: EPISODES.step_all(*args))


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
@pytest.mark.parametrize("n_over", [0, 1, 18, 19, 37, N_MANY])
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


def test_many_environments_restart_under_vmap():
    keys = jax.random.split(KEY, (2, N_MANY))
    _, states = jax.jit(jax.vmap(jax.vmap(EPISODES.reset)))(keys)
    actions = np.zeros((2, N_MANY), np.int32)
    both = jax.jit(jax.vmap(jax.vmap(jax.random.split)))(keys)
    together = jax.jit(jax.vmap(EPISODES.step_all))(both, states, actions)
    for i in range(2):
        keys, states_of_one, found = jax.tree.map(lambda x, i=i: x[i], (both, states, together))
        alone = step_many(jax.default_backend())(keys, states_of_one, actions[i])
        trees.assert_equal(found, alone)


class DictProbe(Probe):
    """Observes a dict of an image, a vector and an integer."""

    def observe(self, state):
        image = jnp.full((5, 5, 2), state.sign > 0, jnp.uint8)
        return {"image": image, "vector": state.sign[None], "count": state.time}


def trained(agent, **hyperparams):
    """The runner and the metrics of an agent that can be evaluated, too."""
    given = agent._hyperparams_type(**hyperparams)
    runner, metrics = agent.train(KEY, given, progress=False)
    jax.eval_shape(agent.program.play, KEY, agent._acting(runner))
    return runner, metrics


@pytest.mark.slow
def test_trains_on_pytree_observations():
    config = AgentConfig(n_steps=1, batch_size=4, rollout_length=4)
    _, metrics = trained(IPPO(DictProbe(2), None, config, eval_during_training=False))
    assert np.isfinite(metrics["critic_loss"][-1])


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Breakout-MinAtar", {}),
        ("FrozenLake-misc", {}),
        ("Pendulum-v1", {}),
        ("PointRobot-misc", {"squash_actions": True}),
    ],
)
@pytest.mark.slow_except("Pendulum", "PointRobot")
def test_trains_on_images_integers_and_boxes(name, fields):
    sizes = {"n_steps": 1, "batch_size": 4, "rollout_length": 4, "max_episode_steps": 20}
    config = A2C._config_type(**sizes, **fields)
    agent = A2C(*gymnax.make(name), config, eval_during_training=False)
    runner, metrics = trained(agent, ent_coeff=0.1)
    assert np.isfinite(metrics["actor_loss"][-1])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(runner.actor_training.params))


def test_a_critic_may_keep_an_axis_of_one():
    program = PPO(Probe(), None, AgentConfig(**SMALL, critic_network=nn.Dense(1)), False).program
    runner = jax.eval_shape(program.start, KEY, HyperParameters())
    jax.eval_shape(program.advance, runner, np.int32(1))


def test_environments_that_report_truncation_bootstrap():
    """The value of an endless stream of ones, cut by the environment itself every two steps."""

    class Cut(Endless):
        def step_env(self, key, state, action, params):
            obs, state, reward, done, _ = super().step_env(key, state, action, params)
            cut = state.time >= 2
            return obs, state, reward, done | cut, {"truncated": cut}

    agent = PPO(Cut(), None, AgentConfig(**{**SMALL, "n_steps": 1}), eval_during_training=False)
    runner = started(agent, gamma=0.5)
    traj = rollout_with_targets(agent, runner)
    np.testing.assert_array_equal(traj.truncated[:, 0], [0, 1, 0, 1])
    np.testing.assert_array_equal(traj.terminated, False)
    expected = traj.reward + 0.5 * traj.next_value - traj.value
    np.testing.assert_allclose(traj.advantage[1::2], expected[1::2], rtol=1e-6)
    trees.assert_equal(traj.obs[0], runner.obs)
