"""The shared suite for the off-policy agents with a policy of their own."""

import pytest
from registry import ACTOR_CRITIC, named
from suite import *  # noqa: F403


@pytest.fixture(params=ACTOR_CRITIC, ids=named)
def case(request):
    return request.param


@pytest.fixture(params=[case for case in ACTOR_CRITIC if case.learns_values], ids=named)
def valued_case(request):
    return request.param
