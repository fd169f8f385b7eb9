"""The shared suite for the on-policy agents."""

import re

import jax
from probes import MatchSign
from registry import ON_POLICY, others_are_slow
from suite import *  # noqa: F403
from suite import KEY

CASES = ON_POLICY


@others_are_slow
def test_vmapped_seeds_decompose_one_matrix_at_a_time(case):
    """A batched QR decomposition can freeze XLA's CPU backend."""
    keys = jax.random.split(KEY, (2, 3))
    start = jax.vmap(jax.vmap(case.make(MatchSign).start, (0, None)), (0, None))
    program = jax.jit(start).lower(keys, case.hyperparams()).as_text()
    decompositions = re.findall(r"@lapack_sgeqrf.*-> \(tensor<([0-9x]+)xf32>", program)
    assert decompositions
    assert all(shape.count("x") == 1 for shape in decompositions)
