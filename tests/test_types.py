"""Function types are checked while tests run."""

import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from jaxagents.ops import generalised_advantages


def test_shapes_of_arguments_are_checked():
    rewards, values, ends = jnp.zeros((3, 2)), jnp.zeros((3, 4)), jnp.zeros((3, 2), bool)
    with pytest.raises(TypeCheckError, match="parameter 'values'"):
        generalised_advantages(rewards, values, rewards, ends, ends, 0.9, 0.9)


def test_shapes_of_results_are_checked(monkeypatch):
    ones, ends = jnp.ones((3, 2)), jnp.zeros((3, 2), bool)
    monkeypatch.setattr(
        "jaxagents.ops.returns.scan_backwards", lambda *args, **kwargs: jnp.zeros(3)
    )
    with pytest.raises(TypeCheckError, match="return value"):
        generalised_advantages(ones, ones, ones, ends, ends, 0.9, 0.9)
