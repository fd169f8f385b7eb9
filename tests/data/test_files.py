"""Files of arrays."""

import re
import sys

import numpy as np
import pytest
import trees

from jaxagents.core.extras import pip_install
from jaxagents.data import Dataset

N = 5


def arrays():
    rng = np.random.default_rng(0)
    return {
        "observations": {
            "image": rng.integers(256, size=(N, 4, 4, 3), dtype=np.uint8),
            "robot": {"joints": rng.normal(size=(N, 2)).astype(np.float32), "on": np.arange(N) > 2},
        },
        "actions": np.arange(N, dtype=np.int8),
        "rewards": rng.normal(size=N),
        "half": np.arange(N, dtype=np.float16),
        "names": np.array([b"a", b"bc", b"", b"d", b"e"]),
        "file": np.zeros((N, 0)),
        "allow_pickle": np.ones((N, 1, 1), np.uint64),
    }


@pytest.mark.parametrize("name", ["data.npz", "data.h5", "data.hdf5"])
def test_what_was_saved_is_loaded(tmp_path, name):
    path = tmp_path / name
    Dataset(arrays()).save(path)
    loaded = Dataset.load(path, seed=3)
    trees.assert_equal(dict(loaded), arrays())
    dtypes = {key: array.dtype for key, array in loaded._flat.items()}
    assert dtypes == {key: array.dtype for key, array in Dataset(arrays())._flat.items()}
    drawn = Dataset(arrays(), seed=3).sample(9)["actions"]
    np.testing.assert_array_equal(loaded.sample(9)["actions"], drawn)


@pytest.mark.parametrize("name", ["data.npz", "data.h5"])
def test_files_that_exist_are_not_touched_and_missing_folders_named(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="exists already: choose another name"):
        Dataset(arrays()).save(path)
    assert path.read_bytes() == b"precious"
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*none; create it"):
        Dataset(arrays()).save(tmp_path / "none" / name)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("data.npz", np.array([{}, []], dtype=object)),
        ("data.npz", np.zeros(2, "V2")),
        ("data.h5", np.array(["a", "b"])),
    ],
)
def test_types_that_would_not_come_back_are_refused(tmp_path, name, array):
    with pytest.raises(TypeError, match="cannot keep 'observations/x', of type"):
        Dataset({"observations": {"x": array}}).save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="disk full"):
        Dataset(arrays()).save(tmp_path / "data.npz")
    assert not list(tmp_path.iterdir())


def test_hdf5_of_others_is_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.hdf5"
    with h5py.File(path, "w") as file:
        file["actions"] = np.arange(3)
        file.create_group("empty")
        file.create_dataset("observations/x", data=np.ones((3, 2)), chunks=(1, 2))
    loaded = Dataset.load(path)
    trees.assert_equal(
        dict(loaded), {"actions": np.arange(3), "observations": {"x": np.ones((3, 2))}}
    )


def test_hdf5_that_leads_to_other_files_is_not_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(64))
    with h5py.File(tmp_path / "external.h5", "w") as file:
        file.create_dataset("a", (16,), "float32", external=[(str(secret), 0, 64)])
    layout = h5py.VirtualLayout((16,), "float32")
    layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "a", (16,))
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("a", layout)
    for name in ("external.h5", "virtual.h5"):
        with pytest.raises(ValueError, match=f"{name} keeps 'a' in other files"):
            Dataset.load(tmp_path / name)


def test_a_missing_h5py_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    for use in (Dataset(arrays()).save, Dataset.load):
        with pytest.raises(ImportError, match=re.escape(pip_install("hdf5"))):
            use(tmp_path / "data.h5")
    assert not list(tmp_path.iterdir())
