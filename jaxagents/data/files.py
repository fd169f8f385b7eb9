"""Files of named arrays: NumPy's `.npz`, and HDF5."""

import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxagents.core.extras import require
from jaxagents.core.files import new_file, with_ending

BOUNDS = ("actions/low", "actions/high")
"""Names of the bounds of actions. No other arrays can have them if there is an array of actions."""


def write(path: str | os.PathLike, flat: Mapping[str, np.ndarray]) -> None:
    """Writes arrays, compressed, to a new file.

    Args:
        path: A new file. The suffix decides the format: `.npz`, or `.h5` or `.hdf5`.
        flat: Arrays by name. In HDF5, slashes in names separate groups, and `BOUNDS` become attributes
            of the actions.

    Raises:
        ValueError: The suffix is unknown.
        FileExistsError: The file exists.
        FileNotFoundError: The folder does not exist.
        TypeError: The format does not support the dtype of an array; the message names the array.
    """
    path = new_file(with_ending(path, _FORMATS))
    file_format = _FORMATS[path.suffix]
    for name, array in flat.items():
        if array.dtype.kind not in file_format.kinds:
            raise TypeError(f"A {path.suffix} file cannot keep {name!r}, of type {array.dtype}.")
    path.touch(exist_ok=False)
    try:
        file_format.write(path, flat)
    except BaseException:
        path.unlink()  # the incomplete file of this call
        raise


def read(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads a file written by [`write`][jaxagents.data.files.write], or any file in these formats.

    Args:
        path: The file.

    Returns:
        The arrays by name.

    Raises:
        ValueError: The suffix is unknown, or an HDF5 file refers to arrays in other files.
    """
    path = with_ending(path, _FORMATS)
    return _FORMATS[path.suffix].read(path)


class _Format(NamedTuple):
    write: Callable[[Path, Mapping[str, np.ndarray]], None]
    read: Callable[[Path], dict[str, np.ndarray]]
    kinds: str
    """Kinds of `numpy.dtype` that the format preserves."""


def _write_npz(path: Path, flat: Mapping[str, np.ndarray]) -> None:
    """Like `np.savez_compressed`, but also accepts arrays named `file` or `allow_pickle`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in flat.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _write_hdf5(path: Path, flat: Mapping[str, np.ndarray]) -> None:
    with require("h5py", "hdf5").File(path, "w") as file:
        for name, array in flat.items():
            parent, _, key = name.rpartition("/")
            if parent in flat:
                file[parent].attrs[key] = array
            else:
                compression = "gzip" if array.size > 1 else None
                file.create_dataset(name, data=array, compression=compression)


def _read_hdf5(path: Path) -> dict[str, np.ndarray]:
    h5py = require("h5py", "hdf5")
    flat = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Group):
            return
        if item.external or item.is_virtual:
            raise ValueError(
                f"{path} keeps {name!r} in other files, which are not read: copy all arrays "
                "into one file."
            )
        flat[name] = np.asarray(item[()])
        if name == "actions" and {"low", "high"} <= item.attrs.keys():
            flat.update({bound: item.attrs[bound.rpartition("/")[2]] for bound in BOUNDS})

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return flat


_HDF5 = _Format(_write_hdf5, _read_hdf5, "biufcS")
_FORMATS = {".npz": _Format(_write_npz, _read_npz, "biufcSUmM"), ".h5": _HDF5, ".hdf5": _HDF5}
