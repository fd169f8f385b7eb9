"""A stretch of a training that is made once more, update by update."""

import jax
import numpy as np
import pytest
import trees
from probes import MatchSign
from registry import AGENTS

CASES = {case.name: case for case in AGENTS}
KEY = jax.random.key(0)
SIZES = {"n_steps": 6, "eval_frequency": 6}


def replayed(folder, name, hyperparams=None, **fields):
    """A training of six updates, and the replay of its last four."""
    case = CASES[name]
    agent = case.make(MatchSign, False, **SIZES, checkpoint_dir=folder, **fields)
    runner, _ = agent.train(KEY, case.hyperparams(**hyperparams or {}), progress=False)
    return runner, agent.replay(2, 4)


@pytest.mark.slow
def test_hyperparameters_change_where_they_did(tmp_path):
    case = CASES["PPO"]
    fields = {"checkpoint_dir": tmp_path, "restore_agent": True, "keep_checkpoints": None}
    agent = case.make(MatchSign, False, **SIZES, actor_epochs=3, **fields)
    runner, _ = agent.train(KEY, case.hyperparams(), n_steps=4, progress=False)
    changed, _ = agent.train(None, case.hyperparams(gamma=0.2), runner, n_steps=4, progress=False)
    trees.assert_equal(agent.replay(3, 5).runner, changed)
    trees.assert_equal(agent.replay(3, 1).runner.hyperparams, runner.hyperparams)


@pytest.mark.parametrize("name", ["PPO", "DQN", "SAC"])
@pytest.mark.slow_except("PPO")
def test_every_update_reports_what_happened(tmp_path, name):
    runner, stretch = replayed(tmp_path, name)
    trees.assert_equal(stretch.runner, runner)
    assert stretch.metrics["update_step"].tolist() == [3, 4, 5, 6]
    for reported, number in runner.info.items():
        np.testing.assert_array_equal(stretch.metrics[reported][-1], number, err_msg=reported)
    assert stretch.not_finite_since is None
