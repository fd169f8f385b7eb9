"""Records of a training that several processes make together."""

import contextlib
import secrets
import time
from pathlib import Path
from typing import Any

import jax

from jaxagents.core import processes
from jaxagents.core.checkpoint import Records
from jaxagents.core.metrics import Metrics

_SECONDS_FOR_A_FILE_TO_APPEAR = 10.0


class SharedRecords:
    """Records that the first process keeps, of runners that all processes fetch together."""

    def __init__(self, records: Records, directory: Path, program: Any) -> None:
        """Prepares them; nothing is written before the context is entered.

        Args:
            records: The records of the first process.
            directory: Their folder.
            program: The programs of all processes.
        """
        self._records = records
        self._directory = directory
        self._program = program
        self._leads = jax.process_index() == 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "SharedRecords":
        """Locks the folder and describes the training in it.

        Raises:
            FileExistsError: Another training writes to the folder, or it holds later checkpoints.
            FileNotFoundError: The folder is not the same for all processes.
            RuntimeError: The first process could not begin; its own error says why.
        """
        with contextlib.ExitStack() as stack:
            try:
                if self._leads:
                    stack.enter_context(self._records)
                error = None
            except Exception as raised:
                error = raised
            if processes.in_any(error is not None):
                raise error or RuntimeError(
                    f"The first process could not begin to write to {self._directory}; its own error "
                    "says why."
                )
            self._check_that_all_see_it()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        """Waits for the last checkpoint and unlocks the folder."""
        self._stack.close()

    def on_chunk(self, n_updates: int) -> None:
        """Does nothing."""

    def on_point(self, runner: Any, history: Metrics) -> None:
        """Saves a checkpoint."""
        runner = self._program.fetch(runner)
        if self._leads:
            self._records.on_point(runner, history)

    def on_interruption(self, runner: Any, history: Metrics) -> None:
        """Saves a checkpoint."""
        runner = self._program.fetch(runner)
        if self._leads:
            self._records.on_interruption(runner, history)

    def _check_that_all_see_it(self) -> None:
        token = self._directory / f".seen-by-all-{processes.agreed(secrets.randbits(30))}"
        if self._leads:
            token.touch()
        missing = processes.those_without(_appears(token))
        if self._leads:
            token.unlink()
        if missing:
            raise FileNotFoundError(
                f"checkpoint_dir {self._directory} must be the same folder for all processes, but "
                f"processes {missing} do not see what process 0 writes there."
            )


def _appears(path: Path) -> bool:
    """Whether a file is there, if need be after a while."""
    deadline = time.monotonic() + _SECONDS_FOR_A_FILE_TO_APPEAR
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
