"""A stretch of a training that is made once more, update by update and minibatch by minibatch."""

import jax
import jax.numpy as jnp
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


def means(minibatches):
    """The mean of each row, as compiled programs compute it."""
    mean = jax.jit(jnp.mean)
    return np.stack([mean(row) for row in jnp.asarray(minibatches)])


@pytest.mark.slow
def test_hyperparameters_change_where_they_did(tmp_path):
    case = CASES["PPO"]
    fields = {"checkpoint_dir": tmp_path, "restore_agent": True, "keep_checkpoints": None}
    agent = case.make(MatchSign, False, **SIZES, actor_epochs=3, **fields)
    runner, _ = agent.train(KEY, case.hyperparams(), n_steps=4, progress=False)
    changed, _ = agent.train(None, case.hyperparams(gamma=0.2), runner, n_steps=4, progress=False)
    trees.assert_equal(agent.replay(3, 5).runner, changed)
    trees.assert_equal(agent.replay(3, 1).runner.hyperparams, runner.hyperparams)


@pytest.mark.parametrize(
    ("name", "fields", "n_in_epoch", "n_of_actor"),
    [
        ("PPO", {"actor_epochs": 3, "critic_epochs": 2}, 2, 6),
        ("DQN", {"gradient_steps": 3}, 3, None),
        ("SAC", {"gradient_steps": 2}, 2, 2),
    ],
)
@pytest.mark.slow_except("PPO")
def test_every_minibatch_reports_what_happened(tmp_path, name, fields, n_in_epoch, n_of_actor):
    runner, stretch = replayed(tmp_path, name, **fields)
    trees.assert_equal(stretch.runner, runner)
    for reported in stretch.metrics.keys() & stretch.minibatches.keys():
        last = stretch.minibatches[reported][:, -n_in_epoch:]
        np.testing.assert_array_equal(means(last), stretch.metrics[reported], err_msg=reported)
    explained = {"update_step", "explained_variance"}
    assert stretch.metrics.keys() - stretch.minibatches.keys() <= explained
    if n_of_actor is not None:
        assert stretch.minibatches["actor_loss"].shape == (4, n_of_actor)
    assert stretch.not_finite_minibatch is None


def test_epochs_that_early_stopping_undid_are_marked(tmp_path):
    _, stretch = replayed(tmp_path, "PPO", {"kl_threshold": 0.0}, actor_epochs=3)
    assert stretch.minibatches["actor_kept"].tolist() == [[True] * 2 + [False] * 4] * 4
    assert stretch.minibatches["critic_kept"].all()
    kept = stretch.minibatches["actor_loss"][:, :2]
    np.testing.assert_array_equal(means(kept), stretch.metrics["actor_loss"])
