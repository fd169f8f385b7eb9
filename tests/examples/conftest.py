"""What the tests of the examples share."""

import importlib
from pathlib import Path

import matplotlib as mpl
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def examples():
    """The folder of the examples."""
    return EXAMPLES


@pytest.fixture
def load(monkeypatch):
    """Imports a script of the folder, as running it there does."""
    mpl.use("agg")
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


@pytest.fixture
def check_files():
    """Checks that files are there, and not empty."""

    def check(folder, *names):
        for name in names:
            assert (folder / name).stat().st_size > 0, name

    return check
