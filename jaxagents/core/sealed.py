"""Classes whose objects are sealed once their whole constructor has run."""

import abc
import inspect
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
