"""The shared suite for the on-policy agents."""

import dataclasses
import re

import jax
from probes import MatchSign
from registry import ON_POLICY
from suite import *  # noqa: F403
from suite import KEY

from jaxagents import rnd


def quick(case):
    """The same with a small embedding, if it has one, whose usual size takes seconds to run."""
    if case.agent is not rnd.RND:
        return case
    small = rnd.Embedding(features=(16,), size=8)
    return dataclasses.replace(case, fields={**case.fields, "embedding_network": small})


CASES = [quick(case) for case in ON_POLICY]


def test_vmapped_seeds_decompose_one_matrix_at_a_time(case):
    """A batched QR decomposition can freeze XLA's CPU backend."""
    keys = jax.random.split(KEY, (2, 3))
    start = jax.vmap(jax.vmap(case.make(MatchSign).start, (0, None)), (0, None))
    program = jax.jit(start).lower(keys, case.hyperparams()).as_text()
    decompositions = re.findall(r"@lapack_sgeqrf.*-> \(tensor<([0-9x]+)xf32>", program)
    assert decompositions
    assert all(shape.count("x") == 1 for shape in decompositions)
