"""The shared suite for the agents that act by the values of discrete actions."""

import pytest
from registry import VALUE_BASED, named
from suite import *  # noqa: F403


@pytest.fixture(params=VALUE_BASED, ids=named)
def case(request):
    return request.param


@pytest.fixture(params=[case for case in VALUE_BASED if case.learns_values], ids=named)
def valued_case(request):
    return request.param
