"""Checks of environments, the same for every suite, and steps in them."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxagents
from jaxagents import IPPO, PPO, ippo, ppo
from jaxagents.envs import Episodes

KEY = jax.random.key(0)
_SIZES = {"n_steps": 2, "batch_size": 4, "minibatch_size": 2, "rollout_length": 4, "n_evals": 2}


def check_suite_environment(env, **options):
    """Shapes, randomness and maps are right, and an agent makes two updates."""
    jaxagents.check_env(env, n_steps=100, **options)
    agent, module = (PPO, ppo) if env.n_actors is None else (IPPO, ippo)
    config = module.AgentConfig(**_SIZES, max_episode_steps=10)
    trained = agent(env, None, config)
    _, metrics = trained.train(KEY, module.HyperParameters(), progress=False)
    assert np.isfinite(metrics["actor_loss"][-1])
    return trained


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


def assert_equal_trees(a, b):
    """Two pytrees have the same numbers, up to rounding."""
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)
