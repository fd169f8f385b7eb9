"""Chunks: their sizes, and where an interruption stops."""

from jaxagents.engine.interruption import Interruption
from jaxagents.engine.loop import AlignedChunks, TimedChunks


class Requested(Interruption):
    """Is requested once somebody says so."""

    requested = False


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


def test_aligned_chunks_end_at_multiples():
    chunks = AlignedChunks(Interruption(), 3, (5, 7))
    assert list(chunks.split(0)) == []
    assert list(chunks.split(13)) == [2, 2, 3, 4, 1, 1]  # to 5, 7, 10, 14, 15, 16
    assert list(chunks.split(5)) == [4, 1]
    assert list(AlignedChunks(Interruption(), 7, (1, 4)).split(3)) == [1, 1, 1]
    assert not chunks.stopped


def test_aligned_chunks_stop_before_the_next_chunk():
    interruption = Requested()
    chunks, made = AlignedChunks(interruption, 0, (2,)), 0
    for n_updates in chunks.split(6):
        made += n_updates
        interruption.requested = made == 6
    assert not chunks.stopped  # what was asked for is done
    assert list(chunks.split(0)) == []
    assert not chunks.stopped
    assert list(chunks.split(1)) == []
    assert chunks.stopped
