"""Leaves as they are saved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxagents.checkpoints.leaves import check_leaves, leaves_of, pack, unpack, with_leaves
from jaxagents.checkpoints.notes import CorruptCheckpointError

MANY = 100_000
TREE = {
    "few": jnp.arange(6.0).reshape(2, 3),
    "scalar": jnp.int32(7),
    "more": jnp.arange(4.0),
    "half": jnp.ones(3, jnp.bfloat16),
    "mask": np.array([True, False]),
    "none": jnp.zeros((0, 2), jnp.uint8),
    "key": jax.random.key(3),
    "many": jnp.arange(MANY, dtype=jnp.float32).reshape(2, -1),
}


def test_small_arrays_of_one_type_are_joined():
    arrays, signatures = pack(leaves_of(TREE))
    assert {name: array.size for name, array in arrays.items()} == {
        "alone/many": MANY,
        "joined/float32": 10,
        "joined/int32": 1,
        "joined/bfloat16": 3,
        "joined/bool": 2,
        "joined/uint32": 2,
    }
    assert {saved["path"]: saved.get("start") for saved in signatures} == {
        **{"few": 0, "more": 6, "scalar": 0, "half": 0, "mask": 0, "none": 0, "key": 0},
        "many": None,
    }


def test_leaves_come_back_as_they_were():
    arrays, signatures = pack(leaves_of(TREE))
    found = {saved["path"]: unpack(saved, arrays) for saved in signatures}
    template = jax.eval_shape(lambda: TREE)
    rebuilt = with_leaves(template, found)
    for (path, old), (_, new) in zip(leaves_of(TREE), leaves_of(rebuilt), strict=True):
        assert (path, old.dtype, old.shape) == (path, new.dtype, new.shape)
        np.testing.assert_array_equal(old, new)


def test_packed_arrays_are_copies():
    own = np.zeros(3), np.zeros(MANY)
    arrays, _ = pack(leaves_of(own))
    own[0][:] = own[1][:] = 1
    assert not any(array.any() for array in arrays.values())


def damaged(signatures, arrays):
    """Errors of the leaves that are not as they were saved, in words."""
    for saved in signatures:
        try:
            unpack(saved, arrays)
        except CorruptCheckpointError as error:
            yield str(error)


@pytest.mark.parametrize("path", ["few", "more", "many"])
def test_only_the_leaf_that_changed_is_damaged(path):
    arrays, signatures = pack(leaves_of(TREE))
    changed = next(saved for saved in signatures if saved["path"] == path)
    name = "alone/many" if path == "many" else "joined/float32"
    arrays[name].ravel()[changed.get("start", 0)] += 1
    assert list(damaged(signatures, arrays)) == [f"it has changed at {path}"]
    arrays, _ = pack(leaves_of(TREE))
    arrays["joined/float32"] = arrays["joined/float32"][:7]
    assert list(damaged(signatures, arrays)) == ["it has changed at more"]


@pytest.mark.parametrize("had", [True, False])
def test_leaves_of_another_width_are_refused_with_the_setting_to_make(had):
    def leaves():
        return leaves_of({"key": jax.random.key(3), "n": jnp.asarray(np.arange(2))})

    with jax.enable_x64(had):
        _, saved = pack(leaves())
    with jax.enable_x64(not had), pytest.raises(ValueError, match=rf"_enable_x64\", {had}\)\.$"):
        check_leaves(saved, leaves(), "The checkpoint", "agent")
    with pytest.raises(ValueError, match=r"dtype float32\.$"):
        check_leaves(saved, leaves_of({"key": jax.random.key(3), "n": jnp.ones(2)}), "It", "agent")
