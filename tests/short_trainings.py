"""Shortens the runs of examples and guides: their code runs, but learns nothing."""

import dataclasses
from typing import Any

import jax
import pytest
from mistakes.things import zeros

from jaxagents.agents.agent import Agent
from jaxagents.core.config import StaticConfig

ALWAYS = {"n_steps": 4, "eval_frequency": 4}
"""The numbers of any configuration, so that agents of several pages are equal, and share programs."""
MOST = {
    "n_updates": 4,
    "n_evals": 1,
    "learning_starts": 128,
    "batch_size": 64,
    "minibatch_size": 64,
    "rollout_length": 32,
}
"""The largest of others."""


def cut_trainings_short(patch: pytest.MonkeyPatch) -> None:
    """Gives every configuration small numbers."""
    check = StaticConfig.__post_init__

    def cut(config: StaticConfig) -> None:
        for field in dataclasses.fields(config):
            value = getattr(config, field.name)
            if field.name in ALWAYS:
                object.__setattr__(config, field.name, ALWAYS[field.name])
            elif isinstance(value, int) and value > MOST.get(field.name, value):
                object.__setattr__(config, field.name, MOST[field.name])
        check(config)

    patch.setattr(StaticConfig, "__post_init__", cut)


def trace_trainings(patch: pytest.MonkeyPatch) -> None:
    """Only traces runs in compiled environments, which calls all hooks, and returns zeros."""
    train = Agent.train

    def traced(agent: Agent, rng: Any, hyperparams: Any = None, *others: Any, **how: Any) -> Any:
        if agent.episodes.env.on_host or others or how:
            return train(agent, rng, hyperparams, *others, **how)
        outcome = zeros(lambda: train(agent, rng, hyperparams))
        agent.collect_training(*outcome)
        return outcome

    patch.setattr(Agent, "train", traced)


def keep_devices(patch: pytest.MonkeyPatch) -> None:
    """Gives code that asks for CPU devices the existing ones."""
    update = jax.config.update

    def kept(name: str, value: object) -> None:
        if name != "jax_num_cpu_devices":
            update(name, value)

    patch.setattr(jax.config, "update", kept)
