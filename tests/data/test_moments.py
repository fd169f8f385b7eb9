"""The moments of datasets, by which networks normalise observations."""

import jax
import numpy as np

from jaxagents.data.moments import moments_of_rows


def test_there_are_moments_for_everything_but_images():
    rng = np.random.default_rng(0)
    arrays = {
        "vector": rng.normal(3.0, 2.0, (50, 4)).astype(np.float32),
        "whole": rng.integers(-5, 6, (50, 3)),
        "number": rng.integers(0, 9, 50).astype(np.uint8),
        "mask": rng.random((50, 3)) < 0.5,
        "images": {"of bytes": np.ones((50, 4, 4, 3), np.uint8), "real": np.ones((50, 4, 4, 1))},
    }
    found = moments_of_rows(arrays)
    leaves = jax.tree.leaves(arrays)
    assert len(jax.tree.leaves(found, is_leaf=lambda x: x is None)) == 3 * len(leaves)
    for name in ("vector", "whole", "number", "mask"):
        wide = np.float64(arrays[name])
        np.testing.assert_allclose(found[name].mean, wide.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(found[name].variance, wide.var(axis=0), rtol=1e-5)
        assert found[name].count == 50
    for moments in found["images"].values():
        assert moments.count == 0
        assert moments.mean.shape == ()
