"""Observations, rewards and values that agents normalise by running statistics.

The shared suite normalises too: there such trainings are interrupted, vmapped, and shared by devices.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from jaxtyping import PyTree
from probes import MatchSign, Probe
from registry import AGENTS

from jaxagents import A2C, ops
from jaxagents.a2c import AgentConfig
from jaxagents.agents.off_policy import gradient_step
from jaxagents.agents.targets import observe_targets
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import CategoricalActor, DiscreteCritic, Normalised
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
"""How agents normalise, by a switch or by networks that need none."""
SIGNS = np.float32([[1000.1, 0.0], [999.9, 0.0]])
"""Observations of a positive and of a negative sign."""


class Reporter(struct.PyTreeNode):
    """A learner that does nothing but report the rewards that it is given."""

    hyperparams: PyTree

    def update(self, batch):
        return self, {"rewards": batch["rewards"]}


class FarOff(MatchSign):
    """Shows the sign as a small part of a large number, beside noise, and rewards in thousands.

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


class Structured(Probe):
    """A dict of a picture, a vector and a number of a kind."""

    def observe(self, state):
        return {
            "picture": jnp.full((3, 3, 1), 200, jnp.uint8),
            "vector": jnp.stack([state.sign, 1e3]),
            "kind": jnp.ones((), jnp.int32),
        }


def test_observations_of_any_structure():
    config = AgentConfig(n_steps=1, batch_size=4, rollout_length=4, **BOTH)
    program = A2C(Structured(), None, config, False).program
    runner = jax.eval_shape(program.start, KEY, CASES["A2C"].hyperparams())
    runner, _ = jax.eval_shape(program.advance, runner, np.int32(1))
    kept = runner.actor_training.extra_variables["observed"]["statistics"]["moments"]
    assert [None if part is None else part.mean.shape for part in kept] == [None, None, (2,)]


def test_a_network_that_normalises_needs_no_switch_and_leaves_others_alone():
    actor = Normalised(CategoricalActor(2, features=()))
    runner = started(CASES["A2C"].make(FarOff, False, actor_network=actor), "A2C")
    assert moments(runner.actor_training).mean.shape == (2,)
    assert not runner.critic_training.extra_variables


@pytest.mark.parametrize("name", ["SAC", "discrete SAC"])
def test_every_network_of_a_learner_normalises(name):
    for state in networks_of(started(make(name), name).learner).values():
        assert moments(state).mean.shape == (2,)


@pytest.mark.parametrize("name", ["A2C", "DQN", "discrete BC"])
def test_without_the_switches_a_runner_is_as_before(name):
    runner = started(CASES[name].make(FarOff, False), name)
    states = jax.tree.leaves(runner, is_leaf=lambda x: isinstance(x, TrainState))
    assert not any(x.extra_variables for x in states if isinstance(x, TrainState))
    if name != "discrete BC":
        assert (runner.received, runner.returns) == ((), ())
    if name == "A2C":
        assert runner.targets == ()


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


def test_a_learner_made_of_a_batch_has_statistics_of_one_observation():
    learner = TD3Learner.create(
        0, np.zeros((5, 2)), np.zeros((5, 1)), normalise_observations=True, features=(8,)
    )
    obs = np.random.default_rng(0).normal(50.0, 2.0, (40, 2)).astype(np.float32)
    learner = learner.observe(obs)
    for state in networks_of(learner).values():
        np.testing.assert_allclose(moments(state).mean, obs.mean(0), rtol=1e-5)


def test_offline_agents_have_the_statistics_of_their_dataset_from_the_start():
    agent = make("IQL")
    runner = jax.jit(agent.program.start)(KEY, CASES["IQL"].hyperparams())
    (rows,) = agent.data.arrays["observations"]
    for state in networks_of(runner.learner).values():
        found = moments(state)
        np.testing.assert_allclose(found.mean, np.float64(rows).mean(0), rtol=1e-6)
        np.testing.assert_allclose(found.variance, np.float64(rows).var(0), rtol=1e-3)
        assert found.count == len(rows)
