"""Metrics: joined and averaged."""

import numpy as np
import pytest

from jaxagents.core.metrics import MetricStats, join, mean_metrics


def test_a_later_training_is_appended_without_repeating_points():
    earlier = {"update_step": np.array([0, 2]), "returns": np.array([[1.0], [2.0]])}
    later = {"update_step": np.array([2, 4]), "returns": np.array([[2.0], [3.0]])}
    joined = join(earlier, later)
    np.testing.assert_array_equal(joined["update_step"], [0, 2, 4])
    np.testing.assert_array_equal(joined["returns"], [[1.0], [2.0], [3.0]])
    assert join(None, later) is later
    assert join(earlier, {}) is earlier
    assert join(None, {}) == {}


def test_metrics_keep_their_order_and_are_nan_where_there_were_none():
    earlier = {"a": np.array([1.0]), "update_step": np.array([0])}
    later = {"update_step": np.array([0, 5]), "b": np.array([1.0, 2.0]), "a": np.array([1.0, 2.0])}
    joined = join(earlier, later)
    assert list(joined) == ["update_step", "b", "a"]
    np.testing.assert_array_equal(joined["update_step"], [0, 5])
    np.testing.assert_array_equal(joined["b"], [np.nan, 2.0])


@pytest.mark.parametrize("metric", [3.0, np.zeros((2, 0))])
def test_nothing_cannot_be_summarised(metric):
    with pytest.raises(ValueError, match="with values along its last axis, such as metrics"):
        MetricStats.of(metric)


def test_means_are_taken_of_all_and_of_each_actor():
    means = mean_metrics({"loss": np.float32(0.1), "returns": np.array([[1.0, -3.0], [2.0, -4.0]])})
    assert means == {"loss": 0.1, "returns": -1.0, "returns/0": 1.5, "returns/1": -3.5}
