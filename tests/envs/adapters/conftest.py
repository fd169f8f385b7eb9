"""Environment suites, whose code relies on JAX's default rank promotion."""

import jax
import pytest


@pytest.fixture(autouse=True)
def _promoted_ranks():
    with jax.numpy_rank_promotion("allow"):
        yield
