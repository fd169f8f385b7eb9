"""Plots of runs."""

import json
from typing import Any, NamedTuple

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

from jaxagents import LinearSchedule, PiecewiseSchedule
from jaxagents.core.describe import to_json
from jaxagents.plotting import plot_learning_curve, plot_losses, plot_sweep
from jaxagents.plotting.drawing import inter_quartile_mean

PNG = b"\x89PNG"


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


class Runners(NamedTuple):
    hyperparams: Any


class Result(NamedTuple):
    runners: Runners
    metrics: dict


def metrics_of(*leading, n_points=4, actors=()):
    """Metrics whose run number `i` has returns near `100 * i`, rising by ten for each point."""
    rng = np.random.default_rng(0)
    runs = np.arange(np.prod(leading, dtype=int)).reshape(*leading, 1)
    points = np.broadcast_to(np.arange(n_points), (*leading, n_points))
    means = (100.0 * runs + 10 * points).reshape(*leading, n_points, 1, *[1] * len(actors))
    return {
        "update_step": points * 5,
        "returns": means + rng.normal(size=(*leading, n_points, 6, *actors)),
        "lengths": np.full((*leading, n_points, 6), 9),
        "actor_loss": np.where(points == 0, np.nan, 1.0 * points),
        "kl": 0.1 * points,
        "entropy": 1.0 - points,
        "actor_gradient_norm": 0.5 * points,
    }


def sweep_of(n_sets, n_seeds, hyperparams):
    repeated = jax.tree.map(lambda x: np.repeat(np.asarray(x)[:, None], n_seeds, 1), hyperparams)
    return Result(Runners(repeated), metrics_of(n_sets, n_seeds))


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_one_process_of_several_saves_the_picture(tmp_path, monkeypatch):
    metrics = {"update_step": np.arange(3), "loss": np.ones(3)}
    for process, is_saved in ((1, False), (0, True)):
        monkeypatch.setattr(jax, "process_index", lambda process=process: process)
        plot_learning_curve(metrics, tmp_path / "curve.png", metric="loss")
        assert (tmp_path / "curve.png").exists() == is_saved
    assert (tmp_path / "curve.png").read_bytes().startswith(PNG)
    for path, error, message in (
        (
            tmp_path / "none" / "curve.png",
            FileNotFoundError,
            "there is no folder .*none; create it",
        ),
        ("", ValueError, "path must name a file, .* got ''"),
        (".", ValueError, r"path must name a file, .* got '\.'"),
    ):
        with pytest.raises(error, match=message):
            plot_learning_curve(metrics, path, metric="loss")


def test_plots_one_line_for_each_actor():
    metrics = metrics_of(actors=(2,))
    axes = plot_learning_curve(metrics, steps_per_update=10, label="x", title="PPO")
    assert legend_of(axes) == ["x, actor 0", "x, actor 1"]
    np.testing.assert_allclose(axes.lines[1].get_xdata(), [0, 50, 100, 150])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), metrics["returns"][..., 1].mean(axis=1))
    again = plot_learning_curve(metrics, metric="lengths", ax=axes)
    assert again is axes
    assert axes.get_title() == "PPO"
    assert plot_learning_curve(metrics).get_xlabel() == "update steps"
    with pytest.raises(KeyError, match="no metric 'loss'"):
        plot_learning_curve(metrics, metric="loss")


def test_plots_one_number_for_each_point_of_a_loop_of_ones_own():
    numbers = [np.nan, 1.0, np.nan, 3.0]
    metrics = {"step": np.array([0, 10, 20, 30]), "critic_loss": np.array(numbers)}
    axes = plot_learning_curve(metrics, metric="critic_loss")
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [10, 30])
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [1.0, 3.0])
    assert axes.lines[0].get_label() == axes.get_ylabel() == "critic loss"
    assert axes.get_xlabel() == "steps"
    assert not axes.collections
    plot_learning_curve({**metrics, "returns": np.ones((4, 2))}, ax=axes)
    assert axes.lines[1].get_label() == "mean of the episodes"
    assert axes.lines[0].get_color() != axes.lines[1].get_color()
    assert len(axes.collections) == 1


def test_inter_quartile_mean_and_its_interval():
    values = np.array([[1000.0, 1], [1, 2], [3, 2], [-1000, 3]])
    estimate = inter_quartile_mean(values)
    np.testing.assert_allclose(estimate.mean, [2, 2])
    np.testing.assert_array_equal(estimate.low, inter_quartile_mean(values).low)
    alone = inter_quartile_mean(values[:1])
    assert alone.low[0] == alone.mean[0] == alone.high[0] == 1000
    values = np.random.default_rng(0).normal(size=64)
    few, many = inter_quartile_mean(values[:6]), inter_quartile_mean(values)
    assert many.high - many.low < few.high - few.low
    assert many.low < 0 < many.high


def test_plots_the_runs_of_seeds():
    metrics = metrics_of(5)
    axes = plot_learning_curve(metrics, steps_per_update=8)
    (line,) = axes.lines
    np.testing.assert_allclose(line.get_xdata(), [0, 40, 80, 120])
    means = metrics["returns"].mean(axis=2)
    expected = np.sort(means, axis=0)[1:4].mean(axis=0)
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert len(axes.collections) == 1
    assert legend_of(axes) == ["inter-quartile mean of 5 runs, 95 % interval"]
    assert axes.get_xlabel() == "environment steps"
    assert axes.xaxis.get_major_formatter()(200_000) == "200k"
    axes.xaxis.set_major_formatter("{x:,.0f}")
    plot_learning_curve(metrics, steps_per_update=8, ax=axes)
    assert axes.xaxis.get_major_formatter()(200_000) == "200,000"
    assert legend_of(plot_learning_curve(metrics_of(1))) == ["mean of the episodes"]


def test_a_list_is_drawn_where_all_have_points():
    runs = [metrics_of(n_points=4), metrics_of(n_points=9)]
    axes = plot_learning_curve(runs, label="PPO")
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 5, 10, 15])
    assert legend_of(axes) == ["PPO"]
    both = plot_learning_curve([metrics_of(3), metrics_of()])
    assert legend_of(both) == ["inter-quartile mean of 4 runs, 95 % interval"]


def test_points_where_a_run_is_not_finite_are_left_out():
    metrics = metrics_of(3, actors=(2,))
    metrics["returns"][1, 2:] = np.nan
    axes = plot_learning_curve(metrics, label="IPPO")
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 5])
    assert len(axes.collections) == 2
    metrics = metrics_of(2, 4)  # and of a set, of whose intervals SciPy would warn
    metrics["returns"][0, 1, -1] = np.nan
    assert [len(line.get_xdata()) for line in plot_learning_curve(metrics).lines] == [3, 4]


def test_plots_each_set_of_a_sweep():
    rates = np.float32([1e-3, 3e-4])
    hyperparams = {"actor": {"rate": rates}, "critic": {"rate": rates}, "gamma": np.full(2, 0.9)}
    axes = plot_learning_curve(sweep_of(2, 3, hyperparams))
    assert legend_of(axes) == ["rate 0.001", "rate 0.0003"]
    title = axes.get_legend().get_title().get_text()
    assert title == "inter-quartile mean of 3 runs, 95 % interval"
    different = {"actor": {"rate": rates}, "critic": {"rate": rates[::-1]}}
    full = plot_learning_curve(sweep_of(2, 1, different))
    assert legend_of(full)[0] == "actor.rate 0.001, critic.rate 0.0003"
    assert legend_of(plot_learning_curve(metrics_of(2, 2))) == ["set 0", "set 1"]


def test_sets_are_named_after_what_of_a_schedule_differs(tmp_path):
    rates = np.float32([1e-3, 3e-4])
    falling = LinearSchedule(rates, np.zeros(2), np.full(2, 9.0))
    steps = tuple(np.full((2, 2), [[0.0], [9.0]]))
    piecewise = PiecewiseSchedule((np.zeros(2), rates), steps)
    lines = [{"step": 0, "set": i, "seed": 0, "returns": i} for i in range(2)]
    for schedule, name in ((falling, "rate initial"), (piecewise, "rate values 1")):
        folder = write_lines(tmp_path / name, lines)
        hyperparams = {"actor": {"rate": schedule}, "gamma": np.full(2, 0.9)}
        (folder / "hyperparameters.json").write_text(json.dumps(to_json(hyperparams)))
        for source in (sweep_of(2, 1, hyperparams), folder):
            labels = [label.get_text() for label in plot_sweep(source).get_yticklabels()]
            assert labels == [f"{name} 0.001", f"{name} 0.0003"]


def test_of_many_sets_the_best_are_in_colour_and_their_legend_leaves_room():
    axes = plot_learning_curve(sweep_of(9, 2, {"x": np.arange(9.0)}))
    assert legend_of(axes) == [*(f"x {i}" for i in range(3, 9)), "3 other sets"]
    assert {line.get_color() for line in axes.lines[6:]} == {"grey"}
    assert len({line.get_color() for line in axes.lines[:6]}) == 6
    panels = plot_losses(metrics_of(30, 2), names=["actor_loss", "kl"])
    panels[0].figure.canvas.draw()
    assert all(panel.get_window_extent().height > 50 for panel in panels)


def test_shows_which_set_was_best(tmp_path):
    result = sweep_of(3, 4, {"x": np.array([1.0, 2, 3]), "y": np.array([0.5, 0.5, 0.1])})
    result.metrics["returns"][1, :, -1] += 1e4
    axes = plot_sweep(result, tmp_path / "sweep.png", title="which?")
    assert (tmp_path / "sweep.png").exists()
    assert axes.get_title() == "which?"
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["x 1, y 0.5", "x 2, y 0.5", "x 3, y 0.1"]
    (best,) = [line for line in axes.lines if line.get_label() == "best set"]
    assert best.get_ydata() == [1]
    result.metrics["returns"][1, 2, -1, 0] = np.nan
    (best,) = [line for line in plot_sweep(result).lines if line.get_label() == "best set"]
    assert best.get_ydata() == [2]
    result.metrics["returns"][:] = np.nan
    assert plot_sweep(result).get_legend() is None


def test_plots_all_that_updates_report(tmp_path):
    panels = plot_losses(metrics_of(), tmp_path / "losses.png", title="PPO")
    assert (tmp_path / "losses.png").exists()
    titles = [axes.get_title() for axes in panels]
    assert titles == ["actor loss", "actor gradient norm", "entropy", "kl"]
    np.testing.assert_allclose(panels[0].lines[0].get_ydata(), [1, 2, 3])
    (kl,) = plot_losses(metrics_of(3), names="kl", steps_per_update=2)
    assert kl.get_xlabel() == "environment steps"
    assert len(kl.collections) == 1
    of_sweep = plot_losses(sweep_of(2, 2, {"x": np.arange(2.0)}))
    assert [line.get_label() for line in of_sweep[0].lines] == ["x 0", "x 1"]
    with pytest.raises(
        ValueError, match="no losses other than NaN: there are update_step, returns"
    ):
        plot_losses({name: metrics_of()[name] for name in ("update_step", "returns")})
    with pytest.raises(KeyError, match="no metric 'loss'"):
        plot_losses(metrics_of(), names=["loss"])


def write_lines(folder, lines):
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text)
    return folder


def test_reads_the_folder_of_a_training(tmp_path):
    lines = [
        {"update_step": 0, "returns": 1.0, "actor_loss": None},
        {"update_step": 9, "returns": 7.0, "actor_loss": 0.5},
        {"update_step": 15, "returns": 8.0, "actor_loss": 0.4},
        {"update_step": 5, "returns": 2.0, "actor_loss": 0.7},  # begun again from an earlier point
        {"update_step": 9, "returns": 3.0, "actor_loss": 0.5},
    ]
    folder = write_lines(tmp_path / "run", lines)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"update_step": 20, "ret')  # as if just being written
    for given in (folder, str(folder), folder / "metrics.jsonl"):
        axes = plot_learning_curve(given)
        np.testing.assert_allclose(axes.lines[0].get_xdata(), [0, 5, 9])
        np.testing.assert_allclose(axes.lines[0].get_ydata(), [1, 2, 3])
    assert legend_of(plot_learning_curve([folder, metrics_of()])) == [
        "inter-quartile mean of 2 runs, 95 % interval"
    ]
    assert [axes.get_title() for axes in plot_losses(folder)] == ["actor loss"]


def test_numbers_of_actors_and_slashes_in_the_names_of_metrics_in_a_folder(tmp_path):
    losses = {"loss/actor": 0.5, "loss/0": 0.1, "kl/": 1}
    lines = [{"step": i, "returns": 1.5, "returns/0": 1, "returns/1": 2, **losses} for i in (0, 1)]
    folder = write_lines(tmp_path, lines)
    np.testing.assert_allclose(plot_learning_curve(folder).lines[1].get_ydata(), [2, 2])
    panels = plot_losses(folder)
    assert [axes.get_title() for axes in panels] == ["loss/0", "loss/actor", "kl/"]
    np.testing.assert_allclose(panels[1].lines[0].get_ydata(), [0.5, 0.5])


def test_reads_the_folder_of_a_sweep(tmp_path):
    members = [(0, 0), (0, 1), (1, 0), (1, 1)]
    lines = [
        {"update_step": step, "set": of_set, "seed": seed, "returns": of_set + step}
        for step in (0, 3, 6)
        for of_set, seed in members
    ]
    folder = write_lines(tmp_path / "sweep", lines[:-1])  # in the middle of the last point
    hyperparams = {"optimizer": {"rate": [0.001, 0.1]}, "gamma": [0.9, 0.9]}
    (folder / "hyperparameters.json").write_text(json.dumps(hyperparams))
    for given in (tmp_path, folder):
        axes = plot_sweep(given)
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == ["rate 0.001", "rate 0.1"]
    axes = plot_learning_curve(folder)
    np.testing.assert_allclose(axes.lines[1].get_ydata(), [1, 4])
    write_lines(folder, lines[:3])
    with pytest.raises(ValueError, match="lacks members"):
        plot_sweep(folder)


def test_refuses_what_is_no_training():
    for source, error, message in (
        (7, TypeError, "got int"),
        ([], TypeError, "got nothing"),
        ({"returns": np.ones(3)}, ValueError, "must hold 'update_step' or 'step'"),
        ({"step": np.ones((1, 1, 1, 1))}, ValueError, r"got shape \(1, 1, 1, 1\)"),
        ([metrics_of(2, 2), metrics_of()], ValueError, "several sets of hyperparameters"),
        ([metrics_of(), {"step": np.arange(3)}], ValueError, "Runs must all count"),
        ([metrics_of(), {"update_step": np.arange(4) + 100}], ValueError, "at the same steps"),
        ([metrics_of(), metrics_of(actors=(2,))], ValueError, "all the input arrays must have"),
        (metrics_of(n_points=0), ValueError, r"no points to draw yet: .* has shape \(0,\)"),
    ):
        with pytest.raises(error, match=message):
            plot_learning_curve(source)


def test_refuses_folders_without_metrics(tmp_path):
    for text, error, message in (
        (None, FileNotFoundError, "holds no metrics.jsonl: pass the checkpoint_dir"),
        ("", ValueError, "no points yet"),
        ("{oops\n", ValueError, "line 1 is not JSON"),
        ("3\n", ValueError, "line 1 is not an evaluation point"),
        ('{"returns": 1}\n', ValueError, "line 1 is not an evaluation point"),
    ):
        if text is not None:
            (tmp_path / "metrics.jsonl").write_text(text)
        with pytest.raises(error, match=message):
            plot_learning_curve(tmp_path)


def test_a_point_without_finite_neighbours_is_a_dot():
    # Losses are NaN before the first update, and so a short run has one.
    for n_runs in (1, 2):
        (panel,) = plot_losses([metrics_of(n_points=2)] * n_runs, names="actor_loss")
        assert (panel.lines[0].get_marker(), panel.lines[0].get_markevery()) == ("o", [0])
    metrics = metrics_of(n_points=3)
    metrics["returns"][1, 0] = np.nan
    axes = plot_learning_curve(metrics)
    assert (axes.lines[0].get_marker(), axes.lines[0].get_markevery()) == ("o", [0, 2])
    axes = plot_learning_curve(metrics_of(8, 2, n_points=1))
    assert {line.get_marker() for line in axes.lines} == {"o"}
