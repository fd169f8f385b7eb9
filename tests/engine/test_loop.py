"""The loop over points and chunks: their sizes, and where an interruption stops."""

import numpy as np
import pytest

from jaxagents.engine.interruption import Interruption
from jaxagents.engine.loop import TimedChunks, drive, updates_between_points


@pytest.mark.parametrize(
    ("n_steps", "frequency", "first", "expected"),
    [
        (6, 2, 0, [0, 2, 2, 2]),
        (5, 2, 0, [0, 2, 2, 1]),
        (1, 10, 0, [0, 1]),
        (1000, 10, 0, [0, *[10] * 100]),
        (4, 3, 2, [0, 1, 3]),
        (4, 2, 2, [0, 2, 2]),
        (5, 4, 3, [0, 1, 4]),
    ],
)
def test_points_lie_at_multiples_of_the_frequency(n_steps, frequency, first, expected):
    assert updates_between_points(n_steps, frequency, first) == expected


class Counter:
    """A program whose runner is a number of updates."""

    def advance(self, runner, n_updates):
        return runner + int(n_updates), {}

    def evaluate(self, runner):
        return {"step": runner, "half": runner / 2}


class Witness:
    """Keeps what it is told, and interrupts at a step."""

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


class Requested(Interruption):
    requested = False


def driven(chunks_of, at=None, lengths=(0, 2, 1)):
    interruption = Requested()
    witness = Witness(interruption, at)
    outcome = drive(Counter(), 0, lengths, [witness], chunks_of(interruption))
    return *outcome, witness.seen


def one_by_one(interruption):
    return TimedChunks(interruption, seconds=1e-12)


def test_observers_see_every_chunk_and_every_point():
    runner, metrics, seen = driven(one_by_one)
    assert runner == 3
    assert list(metrics) == ["step", "half"]
    np.testing.assert_array_equal(metrics["half"], [0, 1, 1.5])
    assert seen == [
        ("point", 0, [0]),
        ("chunk", 1, 1),
        ("chunk", 2, 1),
        ("point", 2, [0, 2]),
        ("chunk", 3, 1),
        ("point", 3, [0, 2, 3]),
    ]


def test_an_interruption_lets_a_timed_chunk_end_and_skips_its_point():
    for at in [("point", 0), ("chunk", 1)]:
        *_, seen = driven(TimedChunks, at, lengths=(0, 1, 1))
        assert seen == [("point", 0, [0]), ("chunk", 1, 1), ("interruption", 1, [0])]


def test_what_stops_before_its_first_point_has_no_metrics():
    runner, metrics, seen = driven(one_by_one, ("chunk", 1), lengths=(5,))
    assert (runner, metrics) == (1, {})
    assert seen == [("chunk", 1, 1), ("interruption", 1, [])]


def test_chunks_cover_every_update():
    chunks = TimedChunks(Interruption())
    for length in (0, 1, 7, 1000, 3):
        assert sum(chunks.split(length)) == length


def test_chunks_grow_while_they_are_quick_and_are_single_updates_while_slow():
    quick = list(TimedChunks(Interruption(), seconds=10.0).split(10_000))
    assert quick[:4] == [1, 8, 64, 512]
    assert set(TimedChunks(Interruption(), seconds=1e-12).split(10)) == {1}


def test_timed_chunks_stop_after_the_chunk_in_which_it_was_requested():
    interruption = Requested()
    chunks, made = TimedChunks(interruption, seconds=1e-12), 0
    for n_updates in chunks.split(10):
        made += n_updates
        interruption.requested = made == 3
    assert chunks.stopped
    assert made == 3


def test_a_point_does_not_stop_timed_chunks_before_another_chunk():
    interruption = Requested()
    chunks = TimedChunks(interruption)
    interruption.requested = True
    assert list(chunks.split(0)) == []
    assert not chunks.stopped
    assert list(chunks.split(10)) == [1]
    assert chunks.stopped
