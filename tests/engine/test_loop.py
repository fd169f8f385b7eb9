"""The loop over points and chunks: their sizes, interruption, and the progress bar."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from jaxagents.engine.loop import Interruption, TimedChunks, drive, updates_between_points
from jaxagents.engine.observers import ProgressBar


def test_points_lie_at_multiples_of_the_frequency():
    for n_steps, frequency, first, expected in (
        (6, 2, 0, [0, 2, 2, 2]),
        (5, 2, 0, [0, 2, 2, 1]),
        (1, 10, 0, [0, 1]),
        (4, 3, 2, [0, 1, 3]),
        (4, 2, 2, [0, 2, 2]),
    ):
        assert updates_between_points(n_steps, frequency, first) == expected


class Counter:
    """A program whose runner is the number of updates."""

    def advance(self, runner, n_updates):
        return runner + int(n_updates), {}

    def evaluate(self, runner):
        return {"step": runner, "half": runner / 2}


class Requested(Interruption):
    requested = False


class Witness:
    """Records its inputs, and interrupts at a step."""

    def __init__(self, interruption, at=None):
        self.interruption, self.at, self.seen = interruption, at, []

    def note(self, what, runner, details):
        self.seen.append((what, runner, details))
        self.interruption.requested = self.interruption.requested or (what, runner) == self.at

    def on_chunk(self, runner, n_updates, first):
        self.note("chunk", runner, n_updates)

    def on_point(self, runner, history):
        self.note("point", runner, history["step"].tolist())

    def on_interruption(self, runner, history):
        self.note("interruption", runner, history["step"].tolist() if history else [])


def driven(at=None, lengths=(0, 2, 1)):
    """A run whose chunks are single updates."""
    interruption = Requested()
    witness = Witness(interruption, at)
    chunks = TimedChunks(interruption, seconds=1e-12)
    return *drive(Counter(), 0, lengths, [witness], chunks), witness.seen


def test_observers_see_every_chunk_and_every_point():
    runner, metrics, seen = driven()
    assert runner == 3
    assert list(metrics) == ["step", "half"]
    np.testing.assert_array_equal(metrics["half"], [0, 1, 1.5])
    points = [("point", 0, [0]), ("point", 2, [0, 2]), ("point", 3, [0, 2, 3])]
    chunks = [("chunk", step, 1) for step in (1, 2, 3)]
    assert seen == [points[0], *chunks[:2], points[1], chunks[2], points[2]]


def test_an_interruption_lets_a_chunk_end_and_skips_its_point():
    for at in [("point", 0), ("chunk", 1)]:
        *_, seen = driven(at, lengths=(0, 1, 1))
        assert seen == [("point", 0, [0]), ("chunk", 1, 1), ("interruption", 1, [0])]
    runner, metrics, seen = driven(("chunk", 1), lengths=(5,))  # before its first point
    assert (runner, metrics) == (1, {})
    assert seen == [("chunk", 1, 1), ("interruption", 1, [])]


def test_chunks_cover_every_update_and_grow_while_they_are_quick():
    chunks = TimedChunks(Interruption())
    for length in (0, 1, 7, 1000, 3):
        assert sum(chunks.split(length)) == length
    quick = list(TimedChunks(Interruption(), seconds=10.0).split(10_000))
    assert quick[:4] == [1, 8, 64, 512]
    assert set(TimedChunks(Interruption(), seconds=1e-12).split(10)) == {1}


def test_a_point_does_not_stop_timed_chunks_before_another_chunk():
    interruption = Requested()
    chunks = TimedChunks(interruption)
    interruption.requested = True
    assert list(chunks.split(0)) == []
    assert not chunks.stopped
    assert list(chunks.split(10)) == [1]
    assert chunks.stopped


def test_a_first_interruption_is_noted_and_a_second_raises():
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interruption:
        assert not interruption.requested
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_are_not_interrupted():
    outcome = []

    def work():
        with Interruption() as interruption:
            outcome.append(interruption.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcome == [False]


def show_all(bar):
    with bar:
        bar.on_chunk(None, 2, {})
        bar.on_point(None, {"returns": np.array([[[7.0, 3.0], [7.0, 4.0]]])})  # of two actors
        bar.on_interruption(None, {})


def test_a_bar_shows_what_is_done_and_where_it_was_interrupted(capsys):
    show_all(ProgressBar("<PPO>", 1, 4))
    shown = capsys.readouterr().err
    for text in ("PPO", "return 7 / 3.5"):
        assert text in shown
    assert "<PPO>, stopped:  60%" in shown
    assert "| 3/5 [" in shown.split("stopped")[1]
    assert shown.count("\n") == 1


def test_a_bar_tells_of_compilation_and_does_not_take_it_for_speed(capsys):
    with ProgressBar("PPO", 1, 4) as bar:
        assert "PPO: 1/5 updates, compiling" in capsys.readouterr().err
        time.sleep(0.2)
        bar.on_chunk(None, 2, {})
        shown = capsys.readouterr().err
        assert "3/5 [00:00<?, ?update/s]" in shown
        assert "0/5" not in shown


@pytest.mark.parametrize("has_console", [True, False])
def test_a_bar_shows_nothing_where_it_is_not_to_or_cannot(has_console, capsys, monkeypatch):
    if not has_console:
        monkeypatch.setattr(sys, "stderr", None)
    show_all(ProgressBar("PPO", 0, 4, disable=has_console))
    assert capsys.readouterr().err == ""
