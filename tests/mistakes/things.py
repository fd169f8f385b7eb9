"""Agents, runners and data to make mistakes with. None of it compiles an agent's program."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from probes import MatchSign, Target
from trees import zeros

from jaxagents import BC, DQN, PPO, SAC, BCLearner, DQNLearner, SACLearner, bc, dqn, ppo, sac
from jaxagents.data import Dataset
from jaxagents.networks import CategoricalActor, StateCritic

ON_POLICY = {"n_steps": 2, "batch_size": 4, "rollout_length": 4, "n_evals": 2}
OFF_POLICY = {"n_steps": 2, "buffer_size": 64, "learning_starts": 8, "features": (4,)}
OFFLINE = {"n_steps": 2, "minibatch_size": 8, "features": (4,)}


def key():
    return jax.random.key(0)


def keys(number):
    return jax.random.split(key(), number)


def mine(base, **members):
    """A subclass."""
    return type("Mine", (base,), members)


def make_ppo(env=None, agent=PPO, **fields):
    networks = {"actor_network": CategoricalActor(2, (4,)), "critic_network": StateCritic((4,))}
    config = ppo.AgentConfig(**{**ON_POLICY, **networks, **fields})
    return agent(MatchSign() if env is None else env, None, config)


def make_box_ppo(env=None, **fields):
    return PPO(env or Target(), None, ppo.AgentConfig(**{**ON_POLICY, **fields}))


def make_dqn(env=None, agent=DQN, **fields):
    return agent(env or MatchSign(), None, dqn.AgentConfig(**{**OFF_POLICY, **fields}))


def make_sac(env=None, **fields):
    return SAC(env or Target(), None, sac.AgentConfig(**{**OFF_POLICY, **fields}))


def make_bc(data=None, **fields):
    config = bc.AgentConfig(**{**OFFLINE, **fields})
    return BC(MatchSign(), None, config, dataset=Dataset(arrays()) if data is None else data)


def hyperparams(**fields):
    return ppo.HyperParameters(**fields)


def arrays(n_rows=32, **others):
    """Transitions of the probes with discrete actions."""
    zeros = np.zeros((n_rows, 2), np.float32)
    numbers = np.zeros(n_rows, np.float32)
    return {
        "observations": zeros,
        "actions": np.zeros(n_rows, np.int32),
        "rewards": numbers,
        "next_observations": zeros,
        "masks": numbers,
        **others,
    }


def with_one(value, n_rows=32, row=3):
    """Zeros, but for one row."""
    numbers = np.zeros(n_rows, np.float32)
    numbers[row] = value
    return numbers


@functools.cache
def agent():
    return make_ppo()


def runner_of(agent):
    return zeros(lambda: agent.start(key(), agent._hyperparams_type()))


@functools.cache
def runner():
    return runner_of(agent())


def copied(runner):
    return jax.tree.map(jnp.copy, runner)


def stacked(runner):
    """The runners of a sweep with three members."""
    return jax.tree.map(lambda x: jnp.stack([x] * 3), runner)


def trained():
    """An agent that holds a run."""
    agent = make_ppo()
    agent.collect_training(runner(), {})
    return agent


def train(agent_=None, hyperparams=None, rng=0, runner=None, **how):
    """Trains an agent from a key, or from a runner."""
    start = (rng, hyperparams) if runner is None else (None, None, runner)
    return (agent_ or agent()).train(*start, **{"progress": False, **how})


@functools.cache
def dqn_learner():
    create = functools.partial(DQNLearner.create, features=(4,), n_actions=2)
    return zeros(lambda: create(jax.random.key(0), jnp.zeros(2), jnp.int32(0)))


@functools.cache
def bc_learner():
    create = functools.partial(BCLearner.create, features=(4,))
    return zeros(lambda: create(jax.random.key(0), jnp.zeros(2), jnp.zeros(1)))


@functools.cache
def box_learner(kind=SACLearner):
    """A learner for continuous actions."""
    create = functools.partial(kind.create, features=(4,))
    return zeros(lambda: create(jax.random.key(0), jnp.zeros(2), jnp.zeros(1)))
