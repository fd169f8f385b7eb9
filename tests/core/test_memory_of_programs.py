"""Memory of the programs of agents."""

from pathlib import Path

import gymnax
import jax
import pytest

from jaxagents import PPO, ppo
from jaxagents.core import shared_programs

MAPS = Path("/proc/self/maps")


@pytest.mark.skipif(not MAPS.exists(), reason="memory mappings are listed on Linux alone")
def test_ever_new_configurations_fill_no_memory(monkeypatch):
    monkeypatch.setattr(shared_programs, "_among_the_last_used", lambda programs: None)
    n_mappings = []
    for length in (2, 3, 4):
        config = ppo.AgentConfig(batch_size=4, rollout_length=length, n_steps=1, n_evals=2)
        agent = PPO(*gymnax.make("CartPole-v1"), config)
        agent.train(jax.random.key(0), ppo.HyperParameters(), progress=False)
        agent.eval(jax.random.key(0), n_evals=3)
        del agent
        n_mappings.append(len(MAPS.read_text().splitlines()))
    assert n_mappings[-1] < n_mappings[0] + 100  # one agent's programs have about a thousand
