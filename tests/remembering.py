"""Checks of an agent around a critic that has learnt to remember."""

import jax
from probes import Recall

from jaxagents import load_policy
from jaxagents.core.observed import Remembered


def check_acts_with_its_memory(agent, folder):
    """It wins an episode of `Recall` by what it remembers, and so does its exported policy."""
    agent.export_policy(folder / "policy.safetensors")
    policy = load_policy(folder / "policy.safetensors")
    rng, obs, envstate = agent.env_reset(jax.random.key(5))
    carry, exported_carry = agent.initial_carry(agent.learner), policy.initial_carry()
    rewards = []
    for _ in range(Recall.n_steps):
        seen = Remembered(carry, obs)
        values = agent.q(seen)
        assert values.shape == (2,)
        assert values.argmax() == agent.policy(seen)
        carry, action = agent.act(agent.learner, carry, obs)
        exported_carry, exported = policy.act(exported_carry, obs)
        assert exported == action
        rng, obs, envstate, reward, _, _ = agent.env_step(rng, envstate, action)
        rewards.append(float(reward))
    assert rewards == [0.0, 0.0, 1.0]
