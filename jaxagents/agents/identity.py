"""Objects that are frozen once they are made, and compared by value."""

import abc
import inspect
from collections.abc import Hashable
from typing import Any


class SealedAtTheEnd(abc.ABCMeta):
    """Seals an object once its whole constructor, a subclass's included, has run."""

    # Without a return type, or type checkers would lose sight of the class that is made.
    def __call__(cls, *args: Any, **kwargs: Any):
        """Makes an object."""
        try:
            made = super().__call__(*args, **kwargs)
        except TypeError as error:
            _, called, fault = str(error).partition(".__init__() ")
            if not called or not _is_about_arguments(error):
                raise
            name = cls.__name__
            raise TypeError(f"{name}() {fault}. Call {name}{_arguments(cls)}.") from None
        made._seal()
        return made


def _arguments(made: type) -> inspect.Signature:
    """The arguments of a class's constructor, without their types."""
    signature = inspect.signature(made.__init__)
    _, *parameters = signature.parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)


def _is_about_arguments(error: TypeError) -> bool:
    """Whether an error was raised by a call of a constructor, rather than within it."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


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
