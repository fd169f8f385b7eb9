"""A replay buffer on disk, in files that are written once."""

import os
import zipfile
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxagents.checkpoints.notes import CorruptCheckpointError
from jaxagents.data import ReplayBuffer, rows

_TRANSITIONS = "transitions"
_EXTRAS = "extras"
_LIST = ".written"
_UNFINISHED = ".unfinished"


class Part(NamedTuple):
    """A file with the transitions from number `first` up to `stop`, counted from the first ever.

    Attributes:
        name: Its name.
        first: Number of its first transition.
        stop: Number of the one after its last.
        digest: A digest of its bytes; `None` in checkpoints of the first format.
    """

    name: str
    first: int
    stop: int
    digest: int | None = None


class Journal:
    """Writes the transitions of a replay buffer to disk, each of them once.

    A checkpoint adds one file with the transitions since the last checkpoint, and names the files that
    together hold what the buffer holds. Every file is listed before it is written, so that what a kill
    leaves behind is known.
    """

    def __init__(self, folder: Path, buffer: ReplayBuffer) -> None:
        """Prepares it; nothing is written yet.

        Args:
            folder: Folder of the files, which need not exist.
            buffer: The buffer.
        """
        self._folder = folder
        self._buffer = buffer
        self._parts: list[Part] = []

    def write(self, step: int, extras: Mapping[str, Any]) -> list[Part]:
        """Writes what is new.

        Args:
            step: Step of the checkpoint, after which the file is named.
            extras: Further arrays, in a dict that may be nested.

        Returns:
            The files that hold the buffer's transitions; the last of them holds the extras.
        """
        stop = self._buffer.state_dict()["n_added"]
        oldest = stop - len(self._buffer)
        first = max(oldest, self._parts[-1].stop if self._parts else 0)
        arrays = {_TRANSITIONS: self._buffer.last(stop - first), _EXTRAS: extras}
        name, digest = _write(self._folder, str(step), rows.flatten(arrays))
        older = [p for p in self._parts if max(p.first, oldest) < min(p.stop, first)]
        self._parts = [*older, Part(name, first, stop, digest)]
        return self._parts

    def read(self, parts: Iterable[Iterable[Any]]) -> rows.Arrays:
        """Fills the buffer with the transitions that files hold.

        Args:
            parts: The files.

        Returns:
            The extras of the last file.

        Raises:
            CorruptCheckpointError: A file is damaged or missing.
        """
        self._parts = parts_of(parts)
        stop = self._parts[-1].stop
        self._count_from(max(0, stop - self._buffer.capacity))
        arrays = {}
        stops = [part.first for part in self._parts[1:]] + [stop]
        for part, part_stop in zip(self._parts, stops, strict=True):
            arrays = read_part(self._folder, part)
            begin = self._buffer.state_dict()["n_added"]
            kept = slice(begin - part.first, part_stop - part.first)
            new = {name: array[kept] for name, array in arrays[_TRANSITIONS].items()}
            self._buffer.add_transitions(rows.unflatten(new))
        return rows.unflatten(arrays[_EXTRAS])

    def end_episodes(self, environments: Collection[int]) -> None:
        """Marks the newest transition of environments, given by number, as the last of its episode."""
        if newest := self._buffer.end_episodes(environments):
            self._parts[-1] = self._parts[-1]._replace(stop=min(newest))  # to write them again

    def _count_from(self, n_added: int) -> None:
        """Empties the buffer, as if so many transitions had been added before."""
        state = self._buffer.state_dict()
        held = min(n_added, self._buffer.capacity)
        nothing = {
            name: np.broadcast_to(np.zeros((), array.dtype), (held, *array.shape[1:]))
            for name, array in state["transitions"].items()
        }
        self._buffer.load_state_dict({**state, "transitions": nothing, "n_added": n_added})


def parts_of(noted: Iterable[Iterable[Any]]) -> list[Part]:
    """The files that a checkpoint names.

    Args:
        noted: Their entries in its notes.

    Returns:
        The files.

    Raises:
        CorruptCheckpointError: One lies elsewhere than in the folder of the journal.
    """
    try:
        parts = [Part(*entry) for entry in noted]
    except TypeError as error:
        raise CorruptCheckpointError(f"A checkpoint lists no files of replay: {error}.") from error
    for part in parts:
        if not _is_name(part.name):
            raise CorruptCheckpointError(
                f"A checkpoint names {part.name!r} as a file of its replay buffer, which is not the "
                "name of a file in its folder replay."
            )
    return parts


def read_part(folder: Path, part: Part) -> dict[str, dict[str, np.ndarray]]:
    """The arrays of a file, by kind and by name.

    Args:
        folder: Folder of the file.
        part: The file.

    Returns:
        The arrays.

    Raises:
        CorruptCheckpointError: It cannot be read back as it was written.
    """
    arrays: dict[str, dict[str, np.ndarray]] = {_TRANSITIONS: {}, _EXTRAS: {}}
    path = folder / part.name
    try:
        if part.digest is not None and _digest(path) != part.digest:
            raise ValueError("its digest is another")
        with np.load(path, allow_pickle=False) as file:
            for member in file:
                kind, _, array_name = member.partition("/")
                arrays[kind][array_name] = file[member]
    except Exception as error:
        raise CorruptCheckpointError(
            f"The transitions in {path} cannot be read ({type(error).__name__}: {error})."
        ) from error
    return arrays


def remove_abandoned(folder: Path, named: Collection[str]) -> None:
    """Deletes the files of a journal that no checkpoint names, as a kill leaves them behind.

    Where no checkpoint names any, all stay, and are not a journal's any more: whoever has deleted the
    checkpoints may have kept them on purpose.

    Args:
        folder: Folder of the files, which need not exist.
        named: Names of the files that checkpoints name.
    """
    listed = _names_in_list(folder)
    abandoned = listed - set(named) if named else set()
    for name in abandoned:
        (folder / name).with_suffix(_UNFINISHED).unlink(missing_ok=True)
        if _is_part(folder / name):
            (folder / name).unlink()
    if listed:
        kept = "".join(f"{name}\n" for name in sorted(listed & set(named)))
        (folder / _LIST).write_text(kept, encoding="utf-8")


def _names_in_list(folder: Path) -> set[str]:
    """The names of the files that journals began to write in a folder."""
    try:
        names = (folder / _LIST).read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return set()
    return {name for name in names if _is_name(name)}


def _is_name(name: object) -> bool:
    """Whether something is the name of a file of a journal, and no path."""
    return isinstance(name, str) and name.endswith(".npz") and Path(name).name == name


def _is_part(path: Path) -> bool:
    """Whether a file holds what those of a journal do, and nothing else."""
    try:
        with zipfile.ZipFile(path) as file:
            members = file.namelist()
    except (OSError, zipfile.BadZipFile):
        return False
    kinds = {member.partition("/")[0] for member in members}
    return bool(kinds) and kinds <= {_TRANSITIONS, _EXTRAS}


def _digest(path: Path) -> int:
    digest = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest = zlib.crc32(block, digest)
    return digest


def _write(folder: Path, stem: str, arrays: Mapping[str, np.ndarray]) -> tuple[str, int]:
    """Writes a new file whole or not at all, and returns its name and its digest."""
    folder.mkdir(parents=True, exist_ok=True)
    path, number = folder / f"{stem}.npz", 1
    while path.exists() or path.with_suffix(_UNFINISHED).exists():
        number += 1
        path = folder / f"{stem}-{number}.npz"
    unfinished = path.with_suffix(_UNFINISHED)
    with (folder / _LIST).open("a", encoding="utf-8") as listed:
        listed.write(f"{path.name}\n")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
            file.flush()
            os.fsync(file.fileno())
        digest = _digest(unfinished)
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return path.name, digest
