"""An entry of the table: a function that makes a mistake, and the error that it has to raise."""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Mistake:
    """A mistake.

    Attributes:
        make: Makes it. If it takes `folder`, it is given an empty one.
        error: Class of the error.
        message: Regular expression of what the error says.
    """

    make: Callable[..., Any]
    error: type[Exception]
    message: str

    @property
    def name(self) -> str:
        """Its name in a report of tests."""
        return self.make.__name__

    @property
    def title(self) -> str:
        """The mistake in words."""
        return inspect.getdoc(self.make).rstrip(".")

    def __call__(self, folder: Path) -> None:
        """Makes the mistake."""
        self.make(*[folder] * ("folder" in inspect.signature(self.make).parameters))


class Theme:
    """Mistakes of one kind, collected by decorating the functions that make them."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.mistakes: list[Mistake] = []

    def __call__(self, error: type[Exception], message: str) -> Callable[[Callable], Callable]:
        def collect(make: Callable) -> Callable:
            self.mistakes.append(Mistake(make, error, message))
            return make

        return collect
