"""Suites of environments, whose own code relies on JAX's default promotion of ranks."""

import jax
import pytest


@pytest.fixture(autouse=True)
def _promoted_ranks():
    with jax.numpy_rank_promotion("allow"):
        yield
