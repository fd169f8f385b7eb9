"""Metrics: joined, averaged, and shown for each actor."""

import jax
import numpy as np
import pytest
from flax import linen as nn
from probes import MatchSign
from registry import AGENTS
from trees import assert_close

from jaxagents.core.metrics import MetricStats, join, mean_metrics

KEY = jax.random.key(0)


def test_a_later_training_is_appended_without_repeating_points():
    earlier = {"update_step": np.array([0, 2]), "returns": np.array([[1.0], [2.0]])}
    later = {"update_step": np.array([2, 4]), "returns": np.array([[2.0], [3.0]])}
    joined = join(earlier, later)
    np.testing.assert_array_equal(joined["update_step"], [0, 2, 4])
    np.testing.assert_array_equal(joined["returns"], [[1.0], [2.0], [3.0]])
    assert join(None, later) is later
    assert join(earlier, {}) is earlier
    assert join(None, {}) == {}


def test_points_may_have_another_name_and_metrics_keep_their_order():
    earlier = {"a": np.array([1.0]), "step": np.array([0])}
    later = {"step": np.array([0, 5]), "a": np.array([1.0, 2.0])}
    joined = join(earlier, later, "step")
    assert list(joined) == ["step", "a"]
    np.testing.assert_array_equal(joined["step"], [0, 5])


@pytest.mark.parametrize("metric", [3.0, np.zeros((2, 0))])
def test_nothing_cannot_be_summarised(metric):
    with pytest.raises(ValueError, match="with values along its last axis, such as metrics"):
        MetricStats.of(metric)


def test_means_are_taken_of_all_and_of_each_actor():
    means = mean_metrics({"loss": np.float32(0.1), "returns": np.array([[1.0, -3.0], [2.0, -4.0]])})
    assert means == {"loss": 0.1, "returns": -1.0, "returns/0": 1.5, "returns/1": -3.5}


def test_progress_shows_every_actor(capfd):
    case = next(case for case in AGENTS if case.n_actors == 2)
    case.make(MatchSign).train(KEY, case.hyperparams())
    assert " / " in capfd.readouterr().err


@pytest.mark.slow
def test_evaluation_keys_and_networks_that_hold_the_configuration_can_be_vmapped():
    case = AGENTS[0]

    class Network(nn.Module):
        config: object

        @nn.compact
        def __call__(self, obs):
            return nn.Dense(2)(obs)

    def make(n_steps):
        return case.make(
            MatchSign, n_steps=n_steps, eval_rng=jax.random.key(1), actor_network=Network
        )

    make(2).train(KEY, case.hyperparams(), progress=False)
    keys = jax.random.split(KEY, 2)
    members = jax.vmap(make(1).train, in_axes=(0, None))(keys, case.hyperparams())
    assert members[1]["returns"].shape == (2, 2, 3)
    alone = make(1).train(keys[1], case.hyperparams(), progress=False)
    assert_close(jax.tree.map(lambda x: x[1], members), alone)
