"""Measures jaxagents' PPO."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import measure
import numpy as np
from flax import linen as nn
from tasks import Task

import jaxagents
from jaxagents import PPO
from jaxagents.networks import CategoricalActor, GaussianActor, StateCritic
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams


class Trainer:
    """The agent and its hyperparameters."""

    def __init__(self, task: Task, n_envs: int, **config: Any) -> None:
        self.agent = self._agent(task, configuration(task, n_envs) | config)
        self.hyperparams = hyperparameters(task)

    def _agent(self, task: Task, config: dict[str, Any]) -> PPO:
        env = jaxagents.make(task.environment)
        space: Any = env.action_space
        layers = {"features": task.hidden_layers, "activation": jax.nn.tanh}
        discrete = hasattr(space, "n")
        actor = (
            CategoricalActor(space.n, **layers)
            if discrete
            else GaussianActor(space.shape, **layers)
        )
        return PPO(
            env,
            None,
            AgentConfig(
                actor_network=flat(actor), critic_network=flat(StateCritic(**layers)), **config
            ),
            eval_during_training=False,
        )

    def train(self, seed: int, n_updates: int) -> Any:
        runner = self.agent.start(jax.random.key(seed), self.hyperparams)
        return jax.block_until_ready(self.agent.advance(runner, np.int32(n_updates)))

    def train_seeds(self, seed: int, n_seeds: int, n_updates: int) -> Any:
        return self._sweep(jax.random.split(jax.random.key(seed), n_seeds), {}, n_updates)

    def train_rates(self, seed: int, rates: Sequence[float], n_updates: int) -> Any:
        params = self.hyperparams.actor_optimizer_params.replace(learning_rate=jnp.array(rates))
        sets = {"actor_optimizer_params": params, "critic_optimizer_params": params}
        return self._sweep(jax.random.split(jax.random.key(seed), 1), sets, n_updates)

    def _sweep(self, rngs: Any, sets: dict[str, Any], n_updates: int) -> Any:
        hyperparams = self.hyperparams.replace(**sets)
        result = self.agent.sweep(rngs, hyperparams, n_steps=n_updates, progress=False)
        return jax.block_until_ready(result.runners)

    def curve(self, seed: int, n_updates: int, n_points: int, n_episodes: int) -> list[float]:
        """Advances a training from evaluation to evaluation."""
        runner = self.agent.start(jax.random.key(seed), self.hyperparams)
        means = []
        for point in range(n_points):
            runner = self.agent.advance(runner, np.int32(n_updates))
            self.agent.collect_training(runner, {})
            returns = self.agent.eval(jax.random.key(seed + point), n_episodes)["returns"]
            means.append(float(returns.mean()))
        return means

    def update(self) -> tuple[Callable, Any]:
        program = self.agent.program
        state = jax.eval_shape(program.start, jax.random.key(0), self.hyperparams)
        return program._update, state


def configuration(task: Task, n_envs: int) -> dict[str, Any]:
    """Fields of the agent's configuration."""
    return {
        "batch_size": n_envs,
        "eval_frequency": 10**9,
        "rollout_length": task.rollout_length,
        "minibatch_size": n_envs // task.n_minibatches,
        "actor_epochs": task.n_epochs,
        "critic_epochs": task.n_epochs,
    }


def hyperparameters(task: Task) -> HyperParameters:
    """The agent's hyperparameters."""
    optimizer = OptimizerParams(learning_rate=task.learning_rate, grad_clip=task.max_gradient_norm)
    return HyperParameters(
        gamma=task.gamma,
        gae_lambda=task.gae_lambda,
        eps_clip=task.clip,
        ent_coeff=task.entropy_coefficient,
        vf_coeff=task.value_coefficient,
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )


def flat(network: nn.Module) -> nn.Module:
    """A network that flattens observations of any shape."""
    return nn.Sequential([jnp.ravel, network])


if __name__ == "__main__":
    measure.main("jaxagents", Trainer)
