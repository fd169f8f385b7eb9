"""The layers of the package: no import points to a higher layer, and there are no import cycles."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import jaxagents

FLOORS = [
    ["core", "ops", "utils", "depreceated", "catalogue"],
    ["sharding", "loggers", "callbacks", "plotting", "compilation_cache", "exporting"],
    ["networks", "envs", "data"],
    ["learners"],
    ["checkpoints"],
    ["engine"],
    ["agents"],
    ["host"],
    ["a2c", "bc", "dqn", "ppo", "pqn", "reinforce", "sac", "td3"],
    ["awac", "c51", "cql", "ippo", "iql", "qrdqn", "rnd", "td3bc"],
    ["mappo"],
    ["presets"],
    ["cli", "__init__", "__main__"],
]
"""Packages by layer, lowest first. Packages of one layer may import each other without cycles."""

ROOT = Path(jaxagents.__file__).parent
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def room_of(path: Path) -> str:
    first, *rest = path.relative_to(ROOT).parts
    return first if rest else path.stem


def imports(path: Path) -> Iterator[str]:
    """The dotted names that a file imports from the package, anywhere in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jaxagents"):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("jaxagents"))


def rooms_imported(path: Path) -> set[str]:
    names = (name.split(".")[1:] for name in imports(path))
    return {first[0] for first in names if first and first[0] in FLOOR_OF}


FILES = sorted(path for path in ROOT.rglob("*.py"))


def test_every_room_has_a_floor():
    assert {room_of(path) for path in FILES} == set(FLOOR_OF)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_runs_up(path: Path):
    own = FLOOR_OF[room_of(path)]
    above = {room for room in rooms_imported(path) if FLOOR_OF[room] > own}
    assert not above


def test_no_import_runs_in_a_circle():
    imported = {room: set() for room in FLOOR_OF}
    for path in FILES:
        imported[room_of(path)] |= rooms_imported(path) - {room_of(path)}
    graphlib.TopologicalSorter(imported).prepare()  # raises a CycleError
