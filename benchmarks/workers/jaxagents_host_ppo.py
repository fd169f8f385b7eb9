"""Measures jaxagents' PPO in environments on the host."""

from typing import Any

import host_ppo
import jax
import numpy as np

import jaxagents
from jaxagents import PPO
from jaxagents.learners.optimizer import OptimizerParams
from jaxagents.ppo import AgentConfig, HyperParameters


class Library:
    """jaxagents, as `host_ppo` measures it."""

    name = "jaxagents"

    def begin(self, env: str, seed: int) -> PPO:
        config = AgentConfig(
            batch_size=host_ppo.N_ENVS,
            rollout_length=host_ppo.ROLLOUT_LENGTH,
            minibatches_per_epoch=host_ppo.N_MINIBATCHES,
            actor_epochs=host_ppo.N_EPOCHS,
            critic_epochs=host_ppo.N_EPOCHS,
            normalise_observations=True,
            normalise_rewards=True,
            max_episode_steps=1000,
        )
        made = jaxagents.make(f"gymnasium:{env}")
        self.key = jax.random.key(seed)
        return PPO(made, None, config, eval_during_training=False)

    def train(self, agent: PPO, n_updates: int) -> None:
        optimizer = OptimizerParams(
            host_ppo.LEARNING_RATE, host_ppo.ADAM_EPS, host_ppo.MAX_GRADIENT_NORM
        )
        hyperparams = HyperParameters(
            gamma=host_ppo.GAMMA,
            gae_lambda=host_ppo.GAE_LAMBDA,
            eps_clip=host_ppo.CLIP,
            ent_coeff=0.0,
            kl_threshold=np.inf,
            actor_optimizer_params=optimizer,
            critic_optimizer_params=optimizer,
        )
        runner = agent.training_runner
        agent.train(self.key, hyperparams, runner, n_steps=n_updates, progress=False)

    def returns(self, agent: PPO, n_episodes: int) -> Any:
        return agent.eval(jax.random.key(0), n_episodes)["returns"]


if __name__ == "__main__":
    host_ppo.main(Library())
