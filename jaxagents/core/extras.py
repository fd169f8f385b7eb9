"""Optional libraries."""

import importlib
from typing import Any


def require(module: str, requirement: str) -> Any:
    """Imports an optional library.

    Args:
        module: Name of the module.
        requirement: Requirement by which pip installs it.

    Returns:
        The module.

    Raises:
        ImportError: It is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(
            f'{library} is not installed: pip install "{requirement}" installs it.'
        ) from error
