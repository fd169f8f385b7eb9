"""Measures jaxagents' off-policy agents."""

from typing import Any

import gymnax
import jax
import numpy as np
import replay

from jaxagents import DDQN, SAC, dqn, sac


class Trainer:
    """The agent and its hyperparameters."""

    def __init__(self, work: replay.Work) -> None:
        fields = {
            "batch_size": work.n_envs,
            "minibatch_size": work.batch_size,
            "features": replay.HIDDEN_LAYERS,
            "buffer_size": work.buffer_size - work.buffer_size % work.n_envs,
            "learning_starts": replay.LEARNING_STARTS,
            "eval_frequency": 10**9,
        }
        rates = {"gamma": replay.GAMMA, "tau": replay.TAU}
        if work.algorithm == "ddqn":
            rates["critic_learning_rate"] = replay.LEARNING_RATE
            self.hyperparams = dqn.HyperParameters(**rates)
            self.agent = DDQN(*gymnax.make("CartPole-v1"), dqn.AgentConfig(**fields), False)
        else:
            for network in ("actor", "critic", "temperature"):
                rates[f"{network}_learning_rate"] = replay.LEARNING_RATE
            self.hyperparams = sac.HyperParameters(**rates)
            self.agent = SAC(*gymnax.make("Pendulum-v1"), sac.AgentConfig(**fields), False)
        self.n_seeds = work.n_seeds

    def train(self, seed: int, n_updates: int) -> Any:
        key = jax.random.key(seed)
        if self.n_seeds == 1:
            runner = self.agent.start(key, self.hyperparams)
            return self.agent.advance(runner, np.int32(n_updates))
        rngs = jax.random.split(key, self.n_seeds)
        result = self.agent.sweep(rngs, self.hyperparams, n_steps=n_updates, progress=False)
        return result.runners


if __name__ == "__main__":
    replay.main("jaxagents", Trainer)
