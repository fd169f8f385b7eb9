"""Counts what JAX compiles, and the collective operations of a compiled program."""

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np


@contextlib.contextmanager
def compilations() -> Iterator[list[str]]:
    """Records the names of the functions that are traced or compiled from now on."""
    made = []

    def listen(event: str, seconds: float, **details: str) -> None:
        if event.startswith("/jax/core/compile"):
            made.append(f"{event} {details}")

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield made
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def lowered_updates(executor: Any, *beginning: Any) -> Any:
    """The program of updates of an executor, before it is compiled.

    `beginning` are the random keys and hyperparameters of fresh runners.
    """
    with getattr(executor, "_devices", contextlib.nullcontext)():
        runner = executor.start(*beginning)
        return executor._jitted.advance.trace(runner, np.int32(1), executor._data).lower()


_NAMES = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"


def collectives_of(lowered: Any) -> Counter:
    """The number of collective operations, by name."""
    return collectives_in(lowered.compile().as_text())


def collectives_in(compiled: str) -> Counter:
    """The same, in the text of a compiled program."""
    return Counter(re.findall(rf"\s({_NAMES})(?:-start)?\(", compiled))
