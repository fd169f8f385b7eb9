"""Counting what JAX compiles."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def compilations() -> Iterator[list[str]]:
    """The names of the functions that are traced or compiled from here on."""
    made = []

    def listen(event: str, seconds: float, **details: str) -> None:
        if event.startswith("/jax/core/compile"):
            made.append(f"{event} {details}")

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield made
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
