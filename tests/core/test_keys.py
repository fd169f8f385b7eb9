"""Random keys, from keys and integers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees

from jaxagents.core.arrays import as_key, as_keys, single_key

KEY = jax.random.key(3)


@pytest.mark.parametrize(
    "given", [KEY, jax.random.PRNGKey(3), 3, np.int64(3), np.uint32(3), jnp.int32(3)]
)
def test_an_integer_is_the_key_of_that_seed(given):
    trees.assert_equal(as_key(given), KEY)
    trees.assert_equal(jax.jit(as_key)(given), KEY)


@pytest.mark.parametrize("seed", [-1, -(2**31), 2**31, 2**32 - 1])
def test_seeds_have_32_bits(seed):
    trees.assert_equal(as_key(seed), jax.random.key(seed))


@pytest.mark.parametrize("given", [None, 0.5, "3", True, np.zeros(2), np.arange(2), {}])
def test_refuses_what_is_no_key(given):
    with pytest.raises(TypeError, match="Expected a random key such as"):
        single_key(given, "train")


@pytest.mark.parametrize(
    "given", [[0, 1, 2], range(3), np.arange(3), [jax.random.key(i) for i in range(3)]]
)
def test_a_sequence_of_integers_is_keys(given):
    trees.assert_equal(as_keys(given), jnp.stack([jax.random.key(i) for i in range(3)]))


def test_keys_of_seeds_stay_as_they_are():
    keys = jax.random.split(KEY, 2)
    trees.assert_equal(as_keys(keys), keys)
    trees.assert_equal(as_keys(jax.random.key_data(keys)), keys)
