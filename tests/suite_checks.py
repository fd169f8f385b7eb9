"""Checks of environments, the same for every suite, and steps in them."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxagents
from jaxagents import IPPO, PPO, ippo, ppo
from jaxagents.envs import Episodes

KEY = jax.random.key(0)
_SIZES = {"n_steps": 2, "batch_size": 4, "minibatch_size": 2, "rollout_length": 4, "n_evals": 2}


def check_suite_environment(env, trains=False):
    """Shapes, randomness and maps are right, and an agent can learn: its updates are traced, or made."""
    jaxagents.check_env(env, n_steps=20)
    agent, module = (PPO, ppo) if env.n_actors is None else (IPPO, ippo)
    made = agent(env, None, module.AgentConfig(**_SIZES, max_episode_steps=10))
    if trains:
        _, metrics = made.train(KEY, module.HyperParameters(), progress=False)
        assert np.isfinite(metrics["actor_loss"][-1])
    else:
        trace_updates(made)
    return made


def trace_updates(agent):
    """The shapes of two updates of an agent, and of an evaluation after them: nothing is compiled."""
    hyperparams = agent._hyperparams(agent._hyperparams_type())
    runner = jax.eval_shape(agent.program.start, KEY, hyperparams)
    runner = jax.eval_shape(agent.program.advance, runner, np.int32(2))[0]
    jax.eval_shape(agent.program.play, KEY, agent._acting(runner))
    return runner


def played(episodes, actions):
    """The first observation, and the outcomes of steps with some actions."""

    def step(state, action):
        taken = episodes.step(KEY, state, action)
        return taken.envstate, taken

    def play(actions):
        obs, state = episodes.reset(KEY)
        return obs, jax.lax.scan(step, state, actions)[1]

    return jax.tree.map(np.asarray, jax.jit(play)(np.int32(actions)))


def lasts(env, action, n_steps):
    """Whether each of some steps with one action terminated, and whether it truncated."""
    episodes = Episodes(env, 10_000, () if env.n_actors is None else (env.n_actors,))
    step = jax.jit(episodes.play)
    _, state = jax.jit(episodes.reset)(KEY)
    ends = []
    for key in jax.random.split(KEY, n_steps):
        timestep = step(key, state, jnp.asarray(action))
        state = timestep.envstate
        ends.append((bool(timestep.terminated), bool(timestep.truncated)))
    return ends


def check_steps(env, native_step, action, max_steps=1000):
    """Steps are as a suite takes them until an episode is over, and show the true successor.

    `native_step` maps a key, a state and an action to an observation, a reward and whether the episode
    is over. Returns the number of steps, and the last of them.
    """
    episodes = Episodes(env, max_steps, () if env.n_actors is None else (env.n_actors,))
    step, native_step = jax.jit(episodes.step), jax.jit(native_step)
    (_, state), over, n_steps = jax.jit(episodes.reset)(KEY), False, 0
    while not over:
        key = jax.random.key(n_steps)
        expected = native_step(jax.random.split(key)[0], state.envstate, action)
        timestep = step(key, state, action)
        over, n_steps = bool(timestep.terminated | timestep.truncated), n_steps + 1
        found = timestep.next_obs, timestep.reward, jnp.float32(over)
        for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)
        state = timestep.envstate
    begun, ended = map(jax.tree.leaves, (timestep.obs, timestep.next_obs))
    assert not all(map(np.allclose, begun, ended))
    assert state.step == 0
    return n_steps, timestep
