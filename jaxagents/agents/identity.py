"""Objects that are frozen once they are made, and compared by value."""

import abc
from collections.abc import Hashable
from typing import Any


class SealedAtTheEnd(abc.ABCMeta):
    """Seals an object once its whole constructor, a subclass's included, has run."""

    # Without a return type, or type checkers would lose sight of the class that is made.
    def __call__(cls, *args: Any, **kwargs: Any):
        """Makes an object."""
        made = super().__call__(*args, **kwargs)
        made._seal()
        return made


class Frozen(metaclass=SealedAtTheEnd):
    """Something whose attributes stay as its constructor set them, with a key that it is compared by."""

    _key: Hashable
    _is_frozen = False

    @abc.abstractmethod
    def _seal(self) -> None:
        """Does what has to come after the constructor, of which `_freeze` is the last."""

    def _freeze(self, key: Hashable) -> None:
        self._key = key
        self._is_frozen = True

    def __setattr__(self, name: str, value: object) -> None:
        if self._is_frozen:
            raise AttributeError(
                f"{type(self).__name__} is frozen: '{name}' cannot be set, since compiled programs "
                "would not see the change. Make a new agent instead."
            )
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: '{name}' cannot be deleted.")

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frozen) and self._key == other._key
