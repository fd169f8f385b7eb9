"""Callbacks: the progress that they get, and how they stop runs."""

import jax.numpy as jnp
import numpy as np
import pytest
import trees
from saved_runs import CASE, KEY, make

from jaxagents.callbacks import (
    Callback,
    Progress,
    StopAfter,
    StopAtReturn,
    StopOnPlateau,
    as_callbacks,
)
from jaxagents.checkpoints.records import saved_steps


class Witness(Callback):
    """Records its inputs, and stops the run at a step."""

    def __init__(self, at_point=None, at_chunk=None):
        self.at_point, self.at_chunk = at_point, at_chunk
        self.points, self.chunks = [], []

    def on_point(self, progress):
        self.points.append(progress)
        return progress.step == self.at_point

    def on_chunk(self, progress):
        self.chunks.append(progress)
        return self.at_chunk is not None and progress.step >= self.at_chunk


def train(callbacks, folder=None):
    agent = make(folder)
    return agent, *agent.train(KEY, CASE.hyperparams(), progress=False, callbacks=callbacks)


def sweep(callbacks, folder=None):
    sets = CASE.hyperparams(gamma=jnp.array([0.5, 0.7, 0.9]))
    return make(folder).sweep([0, 1], sets, progress=False, callbacks=callbacks)


def assert_saw_all(witness):
    """Of six updates, with a point after every second."""
    assert [progress.step for progress in witness.points] == [0, 2, 4, 6]
    assert witness.chunks[-1].step == 6
    seen = witness.points + witness.chunks
    assert {progress.n_steps for progress in seen} == {6}
    seconds = [progress.seconds for progress in witness.points]
    assert seconds[0] > 0
    assert seconds == sorted(seconds)
    np.testing.assert_array_equal(witness.points[-1].history["update_step"], [0, 2, 4, 6])


def test_they_see_chunks_and_points_and_change_nothing():
    witness = Witness()
    _, *run = train([witness])
    trees.assert_equal(tuple(run), train([])[1:])
    assert_saw_all(witness)
    last = witness.points[-1]
    assert last.metrics["returns"] == pytest.approx(run[1]["returns"][-1].mean())
    assert last.runner.update_step == 6


def test_they_see_all_members_of_a_sweep_and_change_nothing():
    witness = Witness()
    plain, seen = sweep([]), sweep([witness])
    trees.assert_equal(plain, seen)
    assert_saw_all(witness)
    assert {progress.runner for progress in witness.chunks} == {None}
    last, returns = witness.points[-1], plain.metrics["returns"]
    np.testing.assert_array_equal(np.moveaxis(last.history["returns"], 0, 2), returns)
    assert last.metrics["returns"] == pytest.approx(returns[:, :, -1].mean())
    assert set(last.metrics) == set(plain.metrics)
    trees.assert_equal(last.runner, plain.runners)


def test_a_function_is_called_at_points(capfd):
    def third_point(progress):
        return len(progress.history["update_step"]) == 3

    agent = make()
    runner, metrics = agent.train(KEY, CASE.hyperparams(), callbacks=[third_point])
    assert runner.update_step == agent.previous_training_max_step == 4
    np.testing.assert_array_equal(metrics["update_step"], [0, 2, 4])
    assert "third_point ends the training." in capfd.readouterr().err
    agent.train(KEY, CASE.hyperparams(), n_steps=4, callbacks=[third_point])
    assert "ends" not in capfd.readouterr().err


@pytest.mark.parametrize("ends", [{"at_point": 2}, {"at_chunk": 1}])
def test_a_run_that_was_ended_goes_on_as_if_it_had_not_been(ends, tmp_path):
    (step,) = ends.values()
    _, runner, _ = train([Witness(**ends)], tmp_path)
    assert runner.update_step == step == saved_steps(tmp_path)[-1]
    resumed, metrics = make(tmp_path).resume(KEY, CASE.hyperparams(), progress=False)
    _, whole, whole_metrics = train([])
    trees.assert_equal(resumed, whole)
    np.testing.assert_array_equal(metrics["returns"][-1], whole_metrics["returns"][-1])


NEVER_BETTER = StopOnPlateau(2, min_improvement=1e9)


def test_a_plateau_counts_the_evaluations_before(tmp_path):
    for _ in range(2):
        agent = make(tmp_path)
        runner, metrics = agent.resume(
            KEY, CASE.hyperparams(), progress=False, callbacks=[NEVER_BETTER]
        )
        assert runner.update_step == 4
        np.testing.assert_array_equal(metrics["update_step"], [0, 2, 4])
    witness = Witness(at_point=6)
    agent.train(None, None, runner, progress=False, callbacks=[witness])
    steps = [progress.history["update_step"].tolist() for progress in witness.points]
    assert steps == [[0, 2, 4], [0, 2, 4, 6]]
    assert witness.points[0].metrics["returns"] == pytest.approx(metrics["returns"][-1].mean())


def test_a_plateau_of_a_sweep_counts_the_evaluations_before(tmp_path):
    for _ in range(2):
        assert (sweep([NEVER_BETTER], tmp_path).runners.update_step == 4).all()
    witness = Witness()
    more = sweep([witness], tmp_path)
    np.testing.assert_array_equal(witness.points[-1].history["update_step"], [0, 2, 4, 6])
    returns = np.moveaxis(witness.points[-1].history["returns"], 0, 2)
    np.testing.assert_array_equal(returns, more.metrics["returns"])


def progress_of(means, seconds=0.0):
    history = {"returns": np.array(means, float)[:, None]}
    return Progress(len(means), 100, seconds, {"returns": float(means[-1])}, history, None)


def test_stops_at_a_return():
    assert not StopAtReturn(2.0).on_point(progress_of([1.0]))
    assert StopAtReturn(2.0).on_point(progress_of([1.0, 2.0]))
    with pytest.raises(KeyError, match="no metric 'wins'; there are"):
        StopAtReturn(2.0, metric="wins").on_point(progress_of([1.0]))


def test_stops_on_a_plateau():
    for means, margin, ends in (
        ([1, 2, 3], 0.0, False),
        ([1, 3, 2], 0.0, False),
        ([1, 3, 2, 3], 0.0, True),
        ([3, 1, 2], 0.0, True),
        ([1, 1.5, 1.9], 1.0, True),
        ([1, 1.5, 2.1], 1.0, False),
        ([1, np.nan, np.nan], 0.0, True),
        ([np.nan, np.nan, np.nan], 0.0, False),
        ([np.nan, 3, 2, np.nan], 0.0, True),
    ):
        assert StopOnPlateau(2, margin).on_point(progress_of(means)) == ends, means


def test_ready_made_ones_look_at_the_mean_of_a_sweep():
    of_sets_at_points = np.array([[1.0, 3.0], [3.0, 5.0]])
    returns = of_sets_at_points[:, :, None, None]  # of one seed, and one episode
    last = progress_of([2.0, 4.0])._replace(history={"returns": returns})
    assert StopAtReturn(4.0).on_point(last)
    assert not StopOnPlateau(1).on_point(last)
    assert StopOnPlateau(1, min_improvement=3.0).on_point(last)


def test_stops_after_a_time():
    assert not StopAfter(1.0).on_chunk(progress_of([1.0], seconds=0.9))
    assert StopAfter(1.0).on_chunk(progress_of([1.0], seconds=1.0))
    _, runner, metrics = train([StopAfter(0.0)])
    assert runner.update_step == 0
    assert len(metrics["returns"]) == 1


def test_refuses_what_makes_no_sense():
    for make_one, error, message in (
        (lambda: StopAtReturn("475"), ValueError, "target must be a number, got 475"),
        (lambda: StopAtReturn(np.nan), ValueError, "target must lie in .*, got nan"),
        (lambda: StopOnPlateau(0), ValueError, "patience must be a positive integer, got 0"),
        (lambda: StopOnPlateau(3, -1.0), ValueError, "min_improvement must lie in .*, got -1"),
        (lambda: StopAfter(-1), ValueError, "seconds must lie in .*, got -1"),
        (lambda: sweep(StopAfter(1)), TypeError, "a single StopAfter.*: put it in brackets"),
        (lambda: as_callbacks(3), TypeError, "must be a list of callbacks, got 3"),
        (lambda: as_callbacks([3]), TypeError, "or a function that takes the progress .* got 3"),
    ):
        with pytest.raises(error, match=message):
            make_one()


@pytest.mark.parametrize("answer", [3, "no", np.array([True, False])])
def test_an_answer_that_is_neither_yes_nor_no_is_named(answer):
    def write(progress):
        return answer

    with pytest.raises(TypeError, match=r"write must return True to end the run, .* got"):
        train([write])
