"""Updates of one's own: the examples of the guide, in every kind of environment, losing nothing."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from gymnasium_probes import Walk
from probes import MatchSign

from jaxagents import PPO
from jaxagents.envs import Gymnasium
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "extending.md"
CONFIG = AgentConfig(
    n_steps=4, batch_size=4, rollout_length=8, minibatch_size=2, stop_if_not_finite=False
)


@pytest.fixture(scope="module")
def examples():
    """The classes of the page, without its trainings."""
    names = {"__name__": "extending"}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        exec(block.partition("\n\n\nagent = ")[0], names)
    return names


class Spoilt(MatchSign):
    """Some of its rewards are no numbers."""

    def step_env(self, key, state, action, params):
        obs, state, reward, done, info = super().step_env(key, state, action, params)
        is_spoilt = jax.random.uniform(jax.random.fold_in(key, 7)) < 0.1
        return obs, state, jnp.where(is_spoilt, jnp.nan, reward), done, info


class SpoiltWalk(Walk):
    """Its second reward is no number."""

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, float("nan") if self._time == 2 else reward, *rest


@pytest.fixture(scope="module")
def of_ppo():
    """The runner and the report of an update of PPO."""
    return updated(PPO)


def updated(kind):
    agent = kind(Spoilt(), None, CONFIG.replace(normalise_observations=True), False)
    runner = agent.program.start(KEY, HyperParameters())
    return jax.jit(agent._training_step)(runner)


@pytest.mark.parametrize("name", ["TwicePPO", "PPG"])
def test_updates_of_the_guide_lose_nothing(examples, of_ppo, name):
    runner, report = updated(examples[name])
    _, expected = of_ppo
    assert report.numbers.keys() > expected.numbers.keys()
    assert expected.nonfinite["rewards"].any()
    assert not expected.nonfinite["rewards"].all()
    trees.assert_equal(report.nonfinite, expected.nonfinite)
    for network in ("actor_training", "critic_training"):
        observed, once = (getattr(it, network).extra_variables for it in (runner, of_ppo[0]))
        trees.assert_equal(observed, once)


@pytest.mark.parametrize("name", ["TwicePPO", "PPG"])
def test_updates_of_the_guide_are_made_on_the_host(examples, name):
    agent = examples[name](Gymnasium(SpoiltWalk), None, CONFIG, False)
    with pytest.warns(UserWarning, match=r"since update 1: rewards of environments \[0, 1, 2, 3\]"):
        runner, _ = agent.train(KEY, HyperParameters(), n_steps=1, progress=False)
    added = {"TwicePPO": "first_actor_loss", "PPG": "auxiliary_error"}[name]
    assert {added, "kl", "explained_variance", "actor_loss"} <= runner.info.keys()


def test_a_second_lesson_is_of_the_critic_as_it_is_by_then(examples):
    """Which learns the same returns again, and so comes nearer to them."""
    agents = [kind(MatchSign(), None, CONFIG, False) for kind in (PPO, examples["TwicePPO"])]
    losses = [agent.advance(agent.start(KEY, HyperParameters()), 1).info for agent in agents]
    assert losses[1]["critic_loss"] < losses[0]["critic_loss"]
    np.testing.assert_array_equal(losses[1]["first_actor_loss"], losses[0]["actor_loss"])


def test_an_auxiliary_phase_follows_every_few_updates(examples):
    agent = examples["PPG"](MatchSign(), None, CONFIG, False)
    runner = agent.start(KEY, HyperParameters())
    errors = []
    for _ in range(8):
        runner = agent.advance(runner, 1)
        errors.append(float(runner.info["auxiliary_error"]))
    assert [error > 0.0 for error in errors] == [False, False, False, True] * 2
    assert errors[7] < errors[3]
    epochs, minibatches = 2 * agent.n_auxiliary, 4 * agent.config.n_minibatches
    expected = 8 * 4 * agent.config.n_minibatches + epochs * minibatches
    assert runner.actor_training.step == runner.critic_training.step == expected
