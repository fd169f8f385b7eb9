"""The shared suite for the agents that learn from a dataset."""

import pytest
from registry import OFFLINE, named
from suite import *  # noqa: F403


@pytest.fixture(params=OFFLINE, ids=named)
def case(request):
    return request.param


@pytest.fixture(params=[case for case in OFFLINE if case.learns_values], ids=named)
def valued_case(request):
    return request.param
