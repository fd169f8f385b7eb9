"""Loggers of metrics: console, JSON lines, TensorBoard, Weights & Biases."""

import abc
import contextlib
import datetime
import errno
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, TextIO

import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from jaxagents.core.describe import to_json
from jaxagents.core.extras import require
from jaxagents.core.files import folder


class Logger(Protocol):
    """Anything with a method `log`. Agents never close a logger: whoever opens one closes it."""

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Records the metrics of a step."""
        ...


def as_loggers(loggers: object) -> list[Logger]:
    """Loggers as a list.

    Raises:
        TypeError: They are not a list of loggers.
    """
    if hasattr(loggers, "log") or not isinstance(loggers, Iterable):
        kind = f"a single {type(loggers).__name__}: put it in brackets"
        raise TypeError(f"loggers must be a list of loggers, got {kind}.")
    listed = list(loggers)
    for logger in listed:
        if isinstance(logger, type) or not hasattr(logger, "log"):
            raise TypeError(
                f"Each of the loggers must have a method log(step, metrics), got {logger!r}."
            )
    return listed


class ClosingLogger(contextlib.AbstractContextManager, abc.ABC):
    """Base class of loggers that must be closed: use them in a `with` statement, or call `close`.

    ```python
    with TensorBoardLogger("runs/1") as logger:
        agent.train(rng, hyperparams, loggers=[logger])
    ```
    """

    @abc.abstractmethod
    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Records the metrics of a step.

        Args:
            step: Number of the step.
            metrics: Numbers by name.

        Raises:
            TypeError: A metric is not a number.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Writes any remaining data; nothing can be logged afterwards."""

    def __exit__(self, *exception: object) -> None:
        self.close()


class ConsoleLogger(ClosingLogger):
    """Writes one aligned line for each step, above a progress bar if there is one."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Takes the stream to write to.

        Args:
            stream: An open text stream; by default standard output.
        """
        self._stream = stream

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Writes a line."""
        columns = [f"step {step:>11,}"]
        for name, value in _numbers(metrics).items():
            columns.append(f"{name} {value:>{'10.4g' if isinstance(value, float) else '10,d'}}")
        tqdm.write("  ".join(columns), file=self._stream)

    def close(self) -> None:
        """Does nothing: the stream belongs to the caller."""


class JSONLLogger(ClosingLogger):
    """Appends a line of JSON to a file for each step, with NaN as `null` and infinity as `"inf"`."""

    def __init__(self, path: str | os.PathLike, step_name: str = "update_step") -> None:
        """Takes the path of a file to append to.

        Args:
            path: The file. It and its folder need not exist. A later `chdir` does not affect it.
            step_name: Key for the step, which agents count in updates.

        Raises:
            IsADirectoryError: The path is a folder.
        """
        self._path = Path(path).expanduser().absolute()
        if self._path.is_dir():
            raise IsADirectoryError(f"path must be a file, got the folder {self._path}.")
        self._step_name = step_name

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Appends a line.

        Args:
            step: Number of the step.
            metrics: Numbers by name.

        Raises:
            TypeError: A metric is not a number.
            ValueError: A metric has the same name as the step.
            OSError: The line cannot be written; no part of it is kept. Symbolic links are not followed.
        """
        if self._step_name in metrics:
            raise ValueError(
                f"{self._step_name!r} is the name of the step: give that metric another name."
            )
        line = json.dumps(to_json({self._step_name: step, **_numbers(metrics)}))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        _append(self._path, f"{line}\n".encode())

    def close(self) -> None:
        """Does nothing: each line is written immediately."""


class TensorBoardLogger(ClosingLogger):
    """Writes a curve for each metric, for `tensorboard --logdir` (tensorboardX, `tensorboard` extra)."""

    def __init__(self, directory: str | os.PathLike) -> None:
        """Opens a new event file.

        Args:
            directory: Folder of the run, which need not exist.

        Raises:
            ImportError: tensorboardX is not installed.
            ValueError: `directory` is not a path.
        """
        tensorboard = require("tensorboardX", "tensorboard")
        path = os.fspath(folder("directory", directory))
        # Points show up during the run, even if nobody closes the logger.
        self._writer = tensorboard.SummaryWriter(path, flush_secs=1)

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Adds a point to each curve."""
        for name, value in _numbers(metrics).items():
            self._writer.add_scalar(name, float(value), step)

    def close(self) -> None:
        """Flushes and closes the file."""
        self._writer.close()


class WandbLogger(ClosingLogger):
    """Logs to a new run on Weights & Biases (`wandb` extra).

    Attributes:
        run: The wandb run, for logging anything else.
    """

    def __init__(
        self,
        project: str,
        name: str | None = None,
        group: str | None = None,
        config: Any = None,
        mode: str | None = None,
        directory: str | os.PathLike | None = None,
        **settings: object,
    ) -> None:
        """Starts a run.

        Args:
            project: The project.
            name: Name of the run; the time is appended to make it unique.
            group: Group of related runs, such as the seeds of an experiment.
            config: The settings of the run: a dataclass, or a dict that may hold dataclasses, such as
                an agent's configuration and hyperparameters.
            mode: `"online"`, `"offline"` or `"disabled"`; by default the environment variable
                `WANDB_MODE`, or online.
            directory: Folder for the run's files, which need not exist; by default the working
                directory.
            **settings: Additional arguments of `wandb.init`, such as `entity`, `tags` and `settings`.

        Raises:
            ImportError: wandb is not installed.
        """
        wandb = require("wandb", "wandb")
        if directory is not None:
            directory = Path(directory).expanduser()
            directory.mkdir(parents=True, exist_ok=True)
        now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S-%f")
        arguments = {
            "project": project,
            "name": f"{name}-{now}" if name else now,
            "group": group,
            "config": None if config is None else to_json(config),
            "mode": mode,
            "dir": directory,
            "reinit": "create_new",  # else a second logger would write to the first one's run
        }
        self.run = wandb.init(**{**arguments, **settings})

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Logs to the run; steps must not decrease."""
        self.run.log(_numbers(metrics), step=step)

    def close(self) -> None:
        """Finishes the run."""
        self.run.finish()


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Metrics as Python numbers; single precision keeps its short form, 0.1, not 0.10000000149."""
    numbers = {}
    for name, value in metrics.items():
        array = np.asarray(value)
        if array.ndim == 0 and jnp.issubdtype(array.dtype, jnp.floating):
            numbers[name] = float(str(array[()]))
        elif array.ndim == 0 and array.dtype.kind in "biu":
            numbers[name] = array.item()
        else:
            found = f"an array of shape {array.shape}" if array.ndim else repr(value)
            raise TypeError(
                f"Metric {name!r} must be a number, got {found}: log its mean, or leave it out."
            )
    return numbers


def _append(path: Path, data: bytes) -> None:
    """Appends a line, completely or not at all, and starts a new line if a kill cut off the last one."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    file = os.open(path, flags, 0o666)
    try:
        size = os.fstat(file).st_size
        if size:
            os.lseek(file, size - 1, os.SEEK_SET)
            data = data if os.read(file, 1) == b"\n" else b"\n" + data
        written = os.write(file, data)
        if written < len(data):
            os.ftruncate(file, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(file)
