"""What the tests of the examples share."""

import importlib
from pathlib import Path

import jax
import matplotlib as mpl
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def quick_compilation(monkeypatch):
    """Compiles with few optimisations, here and in a notebook's process: the runs are short."""
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


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
