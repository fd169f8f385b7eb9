"""Where the metrics of a training go."""

import json
import os
from pathlib import Path
from typing import Protocol

from jaxagents.core.describe import to_json


class Logger(Protocol):
    """Anything that takes named numbers at a step."""

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Records the metrics of an update step."""
        ...


class JSONLLogger:
    """Appends one line of JSON for each step to a file."""

    def __init__(self, path: str | os.PathLike) -> None:
        """Takes the file's path; what it already holds is kept."""
        self._path = Path(path)

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Appends a line."""
        line = json.dumps({"update_step": step, **to_json(metrics)})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
