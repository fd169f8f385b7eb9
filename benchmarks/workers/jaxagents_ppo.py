"""Measures the PPO of jaxagents."""

from typing import Any

import gymnax
import jax
import measure
import numpy as np

from jaxagents import PPO
from jaxagents.networks import CategoricalActor, StateCritic
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams


class Trainer:
    """The agent and its hyperparameters."""

    def __init__(self, n_envs: int, n_groups: int = 1) -> None:
        """Makes the agent."""
        env, env_params = gymnax.make(measure.ENVIRONMENT)
        config = AgentConfig(
            batch_size=n_envs,
            n_groups=n_groups,
            eval_frequency=10**9,
            rollout_length=measure.ROLLOUT_LENGTH,
            minibatch_size=n_envs // measure.N_MINIBATCHES,
            actor_epochs=measure.N_EPOCHS,
            critic_epochs=measure.N_EPOCHS,
            actor_network=CategoricalActor(env.num_actions, measure.HIDDEN_LAYERS, jax.nn.tanh),
            critic_network=StateCritic(measure.HIDDEN_LAYERS, jax.nn.tanh),
        )
        optimizer = OptimizerParams(learning_rate=measure.LEARNING_RATE)
        self.agent = PPO(env, env_params, config, eval_during_training=False)
        self.hyperparams = HyperParameters(
            ent_coeff=measure.ENTROPY_COEFFICIENT,
            actor_optimizer_params=optimizer,
            critic_optimizer_params=optimizer,
        )

    def train(self, seed: int, n_updates: int) -> Any:
        """Trains afresh."""
        runner = self.agent.start(jax.random.key(seed), self.hyperparams)
        return self.agent.advance(runner, np.int32(n_updates))

    def train_seeds(self, seed: int, n_seeds: int, n_updates: int) -> Any:
        """Trains by `sweep`."""
        rngs = jax.random.split(jax.random.key(seed), n_seeds)
        result = self.agent.sweep(rngs, self.hyperparams, n_steps=n_updates, progress=False)
        return result.runners

    def greedy_returns(self, trained: Any, seed: int, n_episodes: int) -> Any:
        """Plays with the trained agent."""
        self.agent.collect_training(trained, {})
        return self.agent.eval(jax.random.key(seed), n_episodes)["returns"]


if __name__ == "__main__":
    measure.main("jaxagents", Trainer)
