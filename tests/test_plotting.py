"""Plots and the logger of JSON."""

import json

import jax
import numpy as np
import pytest

from jaxagents.loggers import JSONLLogger
from jaxagents.plotting import plot_learning_curve

PNG = b"\x89PNG"


def test_one_process_of_several_saves_the_picture(tmp_path, monkeypatch):
    metrics = {"update_step": np.arange(3), "loss": np.ones(3)}
    for process, is_saved in ((1, False), (0, True)):
        monkeypatch.setattr(jax, "process_index", lambda process=process: process)
        plot_learning_curve(metrics, tmp_path / "curve.png", metric="loss")
        assert (tmp_path / "curve.png").exists() == is_saved


def test_plots_one_line_for_each_actor(tmp_path):
    metrics = {
        "update_step": np.arange(3),
        "returns": np.random.default_rng(0).normal(size=(3, 5, 2)),
        "lengths": np.ones((3, 5)),
    }
    axes = plot_learning_curve(metrics, tmp_path / "curve.png", steps_per_update=10, label="x")
    assert [line.get_label() for line in axes.lines] == ["x, actor 0", "x, actor 1"]
    np.testing.assert_allclose(axes.lines[1].get_xdata(), [0, 10, 20])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), metrics["returns"][..., 1].mean(axis=1))
    assert (tmp_path / "curve.png").read_bytes().startswith(PNG)
    again = plot_learning_curve(metrics, metric="lengths", ax=axes)
    assert again is axes
    assert plot_learning_curve(metrics).get_xlabel() == "update steps"
    with pytest.raises(KeyError, match="no metric 'loss'"):
        plot_learning_curve(metrics, metric="loss")


def test_plots_what_host_loops_return():
    offline = {"step": np.array([0, 500]), "returns": np.zeros((2, 3))}
    axes = plot_learning_curve(offline)
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 500])
    assert axes.lines[0].get_label() == "mean of the episodes"
    assert axes.get_xlabel() == "updates"
    online = {**offline, "episode_return": np.array([np.nan, 1.0])}
    assert plot_learning_curve(online).get_xlabel() == "environment steps"
    assert plot_learning_curve(online, x_label="frames").get_xlabel() == "frames"


def test_plots_a_line_of_one_number_for_each_point():
    numbers = [np.nan, 1.0, np.nan, 3.0]
    metrics = {"step": np.array([0, 10, 20, 30]), "critic_loss": np.array(numbers)}
    axes = plot_learning_curve(metrics, metric="critic_loss")
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [10, 30])
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [1.0, 3.0])
    assert axes.lines[0].get_label() == axes.get_ylabel() == "critic loss"
    assert not axes.collections
    plot_learning_curve({**metrics, "returns": np.ones((4, 2))}, ax=axes)
    assert axes.lines[0].get_color() != axes.lines[1].get_color()
    assert len(axes.collections) == 1


def test_appends_lines_of_json(tmp_path):
    logger = JSONLLogger(tmp_path / "metrics.jsonl")
    logger.log(1, {"x": 0.5, "y": float("nan")})
    JSONLLogger(tmp_path / "metrics.jsonl").log(2, {"x": float("inf")})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"update_step": 1, "x": 0.5, "y": None},
        {"update_step": 2, "x": "inf"},
    ]
