"""Custom updates: the examples of the guide, in every kind of environment."""

import functools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import struct
from gymnasium_probes import Walk
from probes import MatchSign

from jaxagents import A2C, PPO, a2c
from jaxagents.envs import Gymnasium
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "extending.md"
CONFIG = AgentConfig(
    n_steps=4, batch_size=4, rollout_length=8, minibatch_size=2, stop_if_not_finite=False
)


@functools.cache
def examples():
    """The classes of the page, without its runs."""
    names = {"__name__": "extending"}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        exec(block.partition("\n\n\nagent = ")[0], names)
    return names


@struct.dataclass
class Spoiling:
    share: float = 0.0


class Spoilt(MatchSign):
    """Some of its rewards may be NaN."""

    @property
    def default_params(self):
        return Spoiling()

    def step_env(self, key, state, action, params):
        obs, state, reward, done, info = super().step_env(key, state, action, params)
        is_spoilt = jax.random.uniform(jax.random.fold_in(key, 7)) < params.share
        return obs, state, jnp.where(is_spoilt, jnp.nan, reward), done, info


class SpoiltWalk(Walk):
    """Its second reward is NaN."""

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, float("nan") if self._time == 2 else reward, *rest


@functools.cache
def make(name):
    """PPO, or an agent of the page."""
    kind = examples().get(name, PPO)
    return kind(Spoilt(), None, CONFIG.replace(normalise_observations=True), False)


@functools.cache
def program_of_an_update(name):
    agent = make(name)
    return jax.jit(lambda runner: agent.at(agent.moment(runner))._training_step(runner))


@functools.cache
def updated(name, share):
    """The runner and the report of an update in which a share of the rewards is NaN."""
    hyperparams = HyperParameters(env_params={"share": share})
    return program_of_an_update(name)(make("PPO").start(KEY, hyperparams))


def test_a_second_lesson_loses_nothing_and_is_of_the_critic_as_it_is_by_then():
    """Which learns the same returns again, and so comes nearer to them."""
    (of_ppo, expected), (runner, report) = (updated(name, 0.1) for name in ("PPO", "TwicePPO"))
    assert report.numbers.keys() > expected.numbers.keys()
    assert expected.nonfinite["rewards"].any()
    assert not expected.nonfinite["rewards"].all()
    trees.assert_equal(report.nonfinite, expected.nonfinite)
    for network in ("actor_training", "critic_training"):
        observed, once = (getattr(it, network).extra_variables for it in (runner, of_ppo))
        trees.assert_equal(observed, once)
    once, twice = (updated(name, 0.0)[1].numbers for name in ("PPO", "TwicePPO"))
    assert twice["critic_loss"] < once["critic_loss"]
    np.testing.assert_array_equal(twice["first_actor_loss"], once["actor_loss"])


@pytest.mark.slow  # an example of the guide
def test_an_auxiliary_phase_follows_every_few_updates():
    agent = make("PPG")
    runner = agent.start(KEY, HyperParameters(env_params={"share": 0.0}))
    errors = []
    for _ in range(8):
        runner = agent.advance(runner, 1)
        errors.append(float(runner.info["auxiliary_error"]))
    assert [error > 0.0 for error in errors] == [False, False, False, True] * 2
    assert errors[7] < errors[3]
    epochs, minibatches = 2 * agent.n_auxiliary, 4 * agent.config.n_minibatches
    expected = 8 * 4 * agent.config.n_minibatches + epochs * minibatches
    assert runner.actor_training.step == runner.critic_training.step == expected


class Reporting(A2C):
    """Reports a number of its own."""

    def _learn(self, runner, traj, rngs):
        runner, numbers = super()._learn(runner, traj, rngs)
        return runner, {**numbers, "mine": jnp.float32(0.5)}


def test_updates_of_ones_own_are_made_on_the_host():
    sizes = {"n_steps": 1, "batch_size": 4, "rollout_length": 8, "stop_if_not_finite": False}
    agent = Reporting(Gymnasium(SpoiltWalk), None, a2c.AgentConfig(**sizes), False)
    with pytest.warns(UserWarning, match=r"since update 1: rewards of environments \[0, 1, 2, 3\]"):
        runner, _ = agent.train(KEY, a2c.HyperParameters(), progress=False)
    assert {"mine", "explained_variance", "actor_loss"} <= runner.info.keys()
