"""Operations on pytrees of arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents.core.arrays import replace_rows


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_rows_are_replaced_a_few_at_a_time(share):
    rng = np.random.default_rng(0)
    where, rows = rng.random(11) < share, rng.normal(size=(2, 11)).astype(np.float32)
    sizes = []

    def replacements(some):
        sizes.append(len(some))
        return {"first": jnp.asarray(rows[1]).at[some].get(mode="clip")}

    replaced = jax.jit(lambda *args: replace_rows(*args, replacements, at_once=3))
    found = replaced(where, {"first": rows[0]})
    np.testing.assert_array_equal(found["first"], np.where(where, rows[1], rows[0]))
    assert set(sizes) == {3}
