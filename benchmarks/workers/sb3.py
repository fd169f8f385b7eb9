"""The interface that Stable-Baselines3 and sbx share."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from minatar.gym import register_envs
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from tasks import BREAKOUT, Task

N_EVALUATION_ENVS = 32

register_envs()


class Trainer:
    """The algorithm of either library. It trains seeds and learning rates one after the other."""

    def __init__(
        self,
        algorithm: Callable[..., Any],
        policy_options: dict[str, Any],
        task: Task,
        n_envs: int,
    ) -> None:
        """Stores the settings of the models.

        Args:
            algorithm: The library's PPO.
            policy_options: The activation function.
            task: The task.
            n_envs: Number of environments.
        """
        self.algorithm = algorithm
        self.policy_options = {"net_arch": list(task.hidden_layers), **policy_options}
        self.task = task
        self.n_envs = n_envs
        self.models = functools.cache(self._model)

    def train(self, seed: int, n_updates: int, learning_rate: float | None = None) -> Any:
        """Trains by `learn`. An existing model continues, since sbx compiles again for each model."""
        model = self.models(seed, learning_rate or self.task.learning_rate)
        return model.learn(n_updates * self.n_envs * self.task.rollout_length)

    def train_seeds(self, seed: int, n_seeds: int, n_updates: int) -> None:
        for i in range(n_seeds):
            self.train(seed + i, n_updates)

    def train_rates(self, seed: int, rates: Sequence[float], n_updates: int) -> None:
        for rate in rates:
            self.train(seed, n_updates, rate)

    def curve(self, seed: int, n_updates: int, n_points: int, n_episodes: int) -> list[float]:
        """Continues training from one evaluation to the next."""
        model = self._model(seed, self.task.learning_rate)
        envs = environments(self.task, N_EVALUATION_ENVS)
        envs.seed(seed)
        n_steps = n_updates * self.n_envs * self.task.rollout_length
        means = []
        for _ in range(n_points):
            model.learn(n_steps, reset_num_timesteps=False)
            returns, _ = evaluate_policy(
                model, envs, n_episodes, deterministic=True, return_episode_rewards=True
            )
            means.append(float(np.mean(returns)))
        return means

    def _model(self, seed: int, learning_rate: float) -> Any:
        task = self.task
        return self.algorithm(
            "MlpPolicy",
            environments(task, self.n_envs),
            learning_rate=learning_rate,
            n_steps=task.rollout_length,
            batch_size=task.minibatch_size(self.n_envs),
            n_epochs=task.n_epochs,
            gamma=task.gamma,
            gae_lambda=task.gae_lambda,
            clip_range=task.clip,
            ent_coef=task.entropy_coefficient,
            vf_coef=task.value_coefficient,
            max_grad_norm=task.max_gradient_norm,
            policy_kwargs=self.policy_options,
            seed=seed,
            device="cpu",
        )


def environments(task: Task, n_envs: int) -> DummyVecEnv:
    """Environments that step one after the other, the default of Stable-Baselines3."""
    return DummyVecEnv([lambda: Monitor(environment(task))] * n_envs)


def environment(task: Task) -> gymnasium.Env:
    """One environment. Breakout has no sticky actions, like gymnax's."""
    if task is BREAKOUT:
        return gymnasium.make("MinAtar/Breakout-v1", max_episode_steps=1000, sticky_action_prob=0.0)
    return gymnasium.make(task.environment)
