"""Fixtures of the tests of the examples."""

import importlib
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from short_trainings import cut_trainings_short, keep_devices, trace_trainings

EXAMPLES = Path(__file__).parents[2] / "examples"


def pytest_itemcollected(item):
    """Marks the tests of this folder as slow, for `make test-all`."""
    item.add_marker("slow")


@pytest.fixture
def examples():
    """The folder of the examples."""
    return EXAMPLES


@pytest.fixture
def load(monkeypatch):
    """Imports a script of the folder, as if it ran there."""
    mpl.use("agg")
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


@pytest.fixture
def check_files():
    """Checks that files exist and are not empty."""

    def check(folder, *names):
        for name in names:
            assert (folder / name).stat().st_size > 0, name

    return check


@pytest.fixture
def refuses(capsys):
    """Checks that a script refuses to overwrite its results."""

    def check(script, argv):
        with pytest.raises(SystemExit):
            script.main(argv)
        assert "choose another --output" in capsys.readouterr().err

    return check


@pytest.fixture
def in_a_folder(monkeypatch, tmp_path):
    """A temporary folder, the available devices, and plots without a window."""
    keep_devices(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    mpl.use("agg")
    yield
    plt.close("all")


@pytest.fixture
def short_trainings(monkeypatch, in_a_folder):
    """Short runs in a temporary folder."""
    cut_trainings_short(monkeypatch)


@pytest.fixture
def traced_trainings(monkeypatch, short_trainings):
    """Runs that compile nothing, in a temporary folder."""
    trace_trainings(monkeypatch)
