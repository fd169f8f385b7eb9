"""The pure functions of training, and the agent on top of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from compilations import compilations
from probes import MatchSign
from registry import AGENTS

KEY = jax.random.key(0)
SMALL = next(case for case in AGENTS if case.name == "REINFORCE")


def _split(runner, metrics):
    """The runner and how it plays, and the means of losses, which programs may round otherwise."""
    played = {name: x for name, x in metrics.items() if name not in runner.info}
    losses = {name: metrics[name] for name in runner.info}
    return (runner.replace(info={}), played), (runner.info, losses)


def test_plain_equals_traced_bit_for_bit():
    agent = SMALL.make(MatchSign)
    plain = agent.train(KEY, SMALL.hyperparams(), progress=False)
    traced = jax.jit(agent.train)(KEY, SMALL.hyperparams())
    exact, rounded = zip(*(_split(*training) for training in (plain, traced)), strict=True)
    trees.assert_equal(*exact)
    trees.assert_close(*rounded)


def test_one_program_makes_every_number_of_updates():
    agent = SMALL.make(MatchSign)
    runner = agent.advance(agent.start(KEY, SMALL.hyperparams()), np.int32(1))
    with compilations() as made:
        for n_updates in (2, np.int64(2), jnp.asarray(2)):
            runner = agent.advance(runner, n_updates)
    assert not [name for name in made if "advance" in name]
    assert runner.update_step == 7
    with pytest.raises(TypeError, match="float"):
        agent.advance(runner, 1.5)


def test_an_agent_whose_runner_is_used_up_says_so():
    agent = SMALL.make(MatchSign)
    agent.collect_training(agent.start(KEY, SMALL.hyperparams()), {})
    runner = agent.advance(agent.training_runner, 1)
    for use in (lambda: agent.policy(jnp.zeros(2)), lambda: agent.previous_training_max_step):
        with pytest.raises(ValueError, match="used up by advance"):
            use()
    agent.collect_training(runner, {})
    assert agent.previous_training_max_step == 1


def test_one_program_starts_from_hyperparameters_of_every_type():
    agent = SMALL.make(MatchSign, n_steps=7)  # which no other test has
    runner = agent.start(KEY, SMALL.hyperparams(0.3))
    numbers = [np.float64(0.3), np.float32(0.3), jnp.float32(0.3), jnp.array([0.3, 0.2])[0]]
    with compilations() as made:
        others = [agent.start(KEY, SMALL.hyperparams(number)) for number in numbers]
        agent.restart(runner, SMALL.hyperparams(1))
        agent.restart(runner, SMALL.hyperparams(jnp.float32(1.0)))
    named = [name for name in made if "start)'" in name and "backend_compile" in name]
    assert len(named) == 1
    assert "restart" in named[0]
    for other in others:
        trees.assert_equal(runner, other)
