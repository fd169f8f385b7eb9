"""Settings of JAX that users turn on."""

import jax
import numpy as np
import pytest
from probes import MatchSign
from registry import AGENTS

from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}
FAMILIES = pytest.mark.parametrize("name", ["PPO", "DQN", "SAC", "CQL"])


@FAMILIES
def test_trains_while_nan_is_looked_for(name):
    case = CASES[name]
    agent, hyperparams = case.make(MatchSign), case.hyperparams()
    with jax.debug_nans(True):
        runner, metrics = agent.train(KEY, hyperparams, n_steps=2, progress=False)
        losses = metrics[case.loss]
        assert np.isnan(losses[0])
        assert np.isfinite(losses[1:]).all()
        fresh = agent.start(KEY, hyperparams)
        agent.train(None, hyperparams, fresh, n_steps=1, progress=False)
        agent.evaluate(agent.restart(fresh, hyperparams))


def test_nan_is_looked_for_where_many_train(tmp_path):
    case = CASES["DQN"]
    agent = case.make(MatchSign, n_groups=2, checkpoint_dir=tmp_path, checkpoint_buffer=False)
    with jax.debug_nans(True):
        agent.sweep(jax.random.split(KEY, 2), case.hyperparams(), n_steps=1, progress=False)
        agent.train(KEY, case.hyperparams(), n_steps=1, progress=False, mesh=make_mesh(2))
        runner, _ = agent.restore(0)
        agent.refill(runner)


@FAMILIES
def test_a_loss_that_is_nan_is_found(name):
    case = CASES[name]
    agent, hyperparams = case.make(MatchSign), case.hyperparams(learning_rate=np.nan)
    runner = agent.start(KEY, hyperparams)
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        agent.advance(runner, 2)
