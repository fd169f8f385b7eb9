"""Normalisation of observations, rewards and values by running statistics.

The shared suite also interrupts, vmaps and shards runs with normalisation.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from jaxtyping import PyTree
from probes import MatchSign
from registry import AGENTS

from jaxagents import ops
from jaxagents.agents.off_policy import gradient_step
from jaxagents.agents.targets import observe_targets
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import DiscreteCritic, Normalised
from jaxagents.td3 import TD3Learner

KEY = jax.random.key(0)


CASES = {case.name: case for case in AGENTS}
BOTH = {"normalise_observations": True, "normalise_rewards": True}
OF_AGENTS = {
    "DQN": {
        "critic_network": Normalised(DiscreteCritic(features=(32,), n_actions=2)),
        "normalise_rewards": True,
    },
    "SAC": BOTH,
    "discrete SAC": BOTH,
    "IQL": {"normalise_observations": True},
}
"""Ways to normalise: by a switch, or by networks that need none."""
SIGNS = np.float32([[1000.1, 0.0], [999.9, 0.0]])
"""Observations of a positive and of a negative sign."""


class Reporter(struct.PyTreeNode):
    """A learner that only reports its rewards."""

    hyperparams: PyTree

    def update(self, batch):
        return self, {"rewards": batch["rewards"]}


class FarOff(MatchSign):
    """Shows the sign as a small part of a large number, with noise; rewards are in thousands.

    Episodes do not end with a rollout of eight steps.
    """

    n_steps = 3

    def observe(self, state):
        noise = jnp.cos(1e3 * state.time.astype(float))
        return jnp.stack([1000.0 + 0.1 * state.sign, 500.0 * noise])

    def reward(self, state, action):
        return 1000.0 * super().reward(state, action)


@functools.cache
def make(name, env=FarOff):
    """A small agent that normalises, and whose programs are kept."""
    return CASES[name].make(env, False, **OF_AGENTS[name])


def started(agent, name):
    """The shapes of a fresh runner."""
    return jax.eval_shape(agent.program.start, KEY, CASES[name].hyperparams())


def moments(state):
    (of_vector,) = state.extra_variables["observed"]["statistics"]["moments"]
    return of_vector


def test_returns_of_long_ago_are_forgotten():
    moments = jax.tree.map(np.asarray, ops.no_moments())
    observe = jax.jit(lambda targets, moments: observe_targets(targets, None, moments))
    for i in range(400):
        targets = np.full((2, 5), 100.0 if i < 150 else 1.0, np.float32)
        moments = observe(targets, moments)
    assert moments.count == 99 * 10
    np.testing.assert_allclose(moments.mean, 1.0 + 99.0 * 0.99**250, rtol=1e-3)


def of_a_batch():
    """A learner created from a batch of observations, with the statistics of one."""
    obs, actions = np.zeros((5, 2)), np.zeros((5, 1))
    return TD3Learner.create(0, obs, actions, normalise_observations=True, features=(8,))


@pytest.mark.parametrize(
    "learner",
    [
        *(lambda name=name: started(make(name), name).learner for name in ("SAC", "discrete SAC")),
        lambda: jax.eval_shape(of_a_batch),
    ],
    ids=["SAC", "discrete SAC", "of a batch"],
)
def test_every_network_of_a_learner_normalises(learner):
    for state in networks_of(learner()).values():
        assert moments(state).mean.shape == (2,)


@pytest.mark.parametrize("name", ["A2C", "DQN"])
def test_without_the_switches_a_runner_is_as_before(name):
    runner = started(CASES[name].make(FarOff, False), name)
    states = jax.tree.leaves(runner, is_leaf=lambda x: isinstance(x, TrainState))
    assert not any(x.extra_variables for x in states if isinstance(x, TrainState))
    assert (runner.received, runner.returns) == ((), ())
    assert name == "DQN" or runner.targets == ()


def networks_of(learner):
    return {
        name: getattr(learner, name)
        for name in ("actor", "critic", "value", "target_actor", "target_critic", "target_value")
        if isinstance(getattr(learner, name, None), TrainState)
    }


def discounted(rewards, ends, gamma):
    """The discounted return of an episode so far, at each step of each environment."""
    carried, so_far = 0.0, []
    for reward, ended in zip(rewards.T, ends.T, strict=True):
        so_far.append(carried + reward)
        carried = gamma * np.where(ended, 0.0, so_far[-1])
    return np.stack(so_far)


def test_off_policy_agents_keep_raw_transitions_observe_them_and_learn_from_normal_ones():
    agent = make("DQN")
    runner = agent.advance(agent.start(KEY, CASES["DQN"].hyperparams()), 3)
    rows = runner.buffer.to_dataset()
    n_rows, n_envs = 32 + 3 * 4, 4
    assert len(rows["rewards"]) == n_rows
    stored = {name: np.asarray(rows[name]) for name in ("rewards", "observations", "ends")}
    assert set(np.unique(stored["rewards"])) <= {0.0, 1000.0}
    assert stored["observations"][:, 0].min() > 900.0
    for state in networks_of(runner.learner).values():
        found = moments(state)
        assert found.count == n_rows
        np.testing.assert_allclose(found.mean, stored["observations"].mean(0), rtol=1e-5)
        np.testing.assert_allclose(found.variance, stored["observations"].var(0), rtol=1e-2)
    reporter = Reporter(runner.learner.hyperparams)
    _, info = gradient_step(agent, reporter, runner.buffer, KEY, runner.returns)
    learned_from = np.asarray(info["rewards"])
    assert (learned_from == 0.0).any()
    one = 1000.0 / np.sqrt(runner.returns.variance)
    np.testing.assert_allclose(learned_from[learned_from != 0.0], one, rtol=1e-5)
    of_envs = (stored[name].reshape(n_envs, -1) for name in ("rewards", "ends"))
    np.testing.assert_allclose(
        runner.returns.variance, discounted(*of_envs, gamma=0.5).var(), rtol=1e-4
    )
    assert runner.returns.count == n_rows
    assert runner.received.shape == (n_envs,)
    learner = agent.advance(runner, np.int32(400)).learner
    np.testing.assert_array_equal(learner.sample_actions(SIGNS), [1, 0])


def test_offline_agents_have_the_statistics_of_their_dataset_from_the_start():
    agent = make("IQL")
    runner = jax.jit(agent.program.start)(KEY, CASES["IQL"].hyperparams())
    (rows,) = agent.data.arrays["observations"]
    for state in networks_of(runner.learner).values():
        found = moments(state)
        np.testing.assert_allclose(found.mean, np.float64(rows).mean(0), rtol=1e-6)
        np.testing.assert_allclose(found.variance, np.float64(rows).var(0), rtol=1e-3)
        assert found.count == len(rows)
