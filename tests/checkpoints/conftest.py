"""A folder with four checkpoints, for tests that change it."""

import shutil

import pytest
from saved_runs import trained


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """The agent of a run whose checkpoints are all kept."""
    return trained(tmp_path_factory.mktemp("whole"), keep_checkpoints=None)


@pytest.fixture
def folder(whole, tmp_path):
    """A copy of its folder."""
    return shutil.copytree(whole.config.checkpoint_dir, tmp_path / "run")
