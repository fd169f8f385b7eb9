"""Chunks: the short parts in which updates are made, between which a training may stop."""

import heapq
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from jaxagents.core import processes
from jaxagents.running.interruption import Interruption

_SECONDS = 0.25


class Chunks(Protocol):
    """Splits the updates between two points.

    Attributes:
        stopped: Whether the training is to stop before the next point.
    """

    stopped: bool

    def split(self, length: int, /) -> Iterator[int]:
        """Yields numbers of updates that sum to `length`, or to less if the training is to stop."""
        ...

    def stop(self) -> None:
        """Has the chunk that was yielded last be the last of all."""


class TimedChunks:
    """Sizes chunks by the time that they take; an interruption stops after one.

    Attributes:
        stopped: Whether it has stopped.
    """

    def __init__(
        self, interruption: Interruption, seconds: float = _SECONDS, together: bool = False
    ) -> None:
        """Begins with chunks of one update.

        Args:
            interruption: Says when to stop.
            seconds: How long each chunk should take.
            together: Whether all processes do this at once: with chunks of the same sizes, and with
                the same chunk as the last.
        """
        self.stopped = False
        self._interruption = interruption
        self._seconds = seconds
        self._together = together
        self._size = 1

    def split(self, length: int) -> Iterator[int]:
        """Yields chunks, timing what its caller does with each."""
        remaining = length
        while remaining > 0:
            n_updates = min(self._size, remaining)
            began = time.perf_counter()
            yield n_updates
            requested = self.stopped or self._interruption.requested
            self.stopped = processes.in_any(requested) if self._together else requested
            if self.stopped:
                return
            elapsed = time.perf_counter() - began
            remaining -= n_updates
            fitting = math.floor(n_updates * self._seconds / elapsed)
            size = max(1, min(fitting, 8 * n_updates))
            self._size = processes.agreed(size) if self._together else size

    def stop(self) -> None:
        """Has the chunk that was yielded last be the last of all."""
        self.stopped = True


class AlignedChunks:
    """Ends chunks at multiples of given numbers of updates; an interruption stops before the next one.

    Attributes:
        stopped: Whether it has stopped.
    """

    def __init__(self, interruption: Interruption, first: int, frequencies: Sequence[int]) -> None:
        """Begins anywhere.

        Args:
            interruption: Says when to stop.
            first: Number of updates made earlier.
            frequencies: Chunks end at multiples of each.
        """
        self.stopped = False
        self._interruption = interruption
        self._step = first
        self._frequencies = frequencies

    def split(self, length: int) -> Iterator[int]:
        """Yields chunks."""
        last = self._step + length
        multiples = [range(self._step - self._step % n + n, last, n) for n in self._frequencies]
        for end in itertools.chain(heapq.merge(*multiples), [last]):
            if end == self._step:
                continue
            self.stopped = self.stopped or self._interruption.requested
            if self.stopped:
                return
            n_updates, self._step = end - self._step, end
            yield n_updates

    def stop(self) -> None:
        """Has the chunk that was yielded last be the last of all."""
        self.stopped = True
