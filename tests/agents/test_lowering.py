"""Programs of agents for accelerators, which need none to be lowered."""

import jax
import numpy as np
import pytest
from probes import MatchSign
from registry import AGENTS, others_are_slow


@pytest.mark.parametrize("case", AGENTS, ids=[case.name for case in AGENTS])
@others_are_slow
def test_updates_are_lowered_for_accelerators(case):
    agent = case.make(MatchSign)
    runner = jax.eval_shape(agent.program.start, jax.random.key(0), case.hyperparams())
    data = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), agent.data)

    def advance(runner, n_updates, data):
        return agent.program.with_data(data).advance(runner, n_updates)

    traced = jax.jit(advance).trace(runner, np.int32(1), data)
    text = traced.lower(lowering_platforms=("cuda", "tpu")).as_text()
    assert "stablehlo.while" in text
