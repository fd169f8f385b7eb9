"""Memory of the programs of agents."""

from pathlib import Path

import pytest
from scripts import run_script

SCRIPT = """
import gc, pathlib
import gymnax, jax
from jaxagents import PPO, ppo
from jaxagents.core import compilation

gc.disable()
compilation._last_used = id
for length in (2, 3, 4):
    config = ppo.AgentConfig(batch_size=4, rollout_length=length, n_steps=1, n_evals=2)
    agent = PPO(*gymnax.make("CartPole-v1"), config)
    agent.train(jax.random.key(0), ppo.HyperParameters(), progress=False)
    agent.eval(jax.random.key(0), n_evals=3)
    held = len(pathlib.Path("/proc/self/maps").read_text().splitlines())
    del agent
    print(held, len(pathlib.Path("/proc/self/maps").read_text().splitlines()))
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux lists memory mappings")
@pytest.mark.slow
def test_ever_new_configurations_fill_no_memory():
    printed = run_script(SCRIPT)
    held, released = zip(*(map(int, line.split()) for line in printed.splitlines()), strict=True)
    assert held[0] > released[0] + 200
    assert released[-1] < released[0] + 100
