"""Tests that are slow for all of their parameters though some should be quick."""

from collections.abc import Sequence

import pytest

WHOLLY_SLOW = pytest.StashKey[set[str]]()
"""The key of their names in the stash of a configuration."""


def wholly_slow(items: Sequence[pytest.Item]) -> set[str]:
    """Names of tests whose `slow_except` names none of their parameters."""
    excepted = [item for item in items if item.get_closest_marker("slow_except")]
    quick = {name_of(item) for item in excepted if not item.get_closest_marker("slow")}
    return {name_of(item) for item in excepted} - quick


def name_of(item: pytest.Item) -> str:
    """The name of a test, without its parameters."""
    return item.nodeid.partition("[")[0]
