"""The interface that Stable-Baselines3 and sbx share on the host."""

from collections.abc import Callable
from typing import Any

import host_ppo
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize


class Library:
    """The algorithm of either library."""

    def __init__(
        self, name: str, algorithm: Callable[..., Any], policy_options: dict[str, Any]
    ) -> None:
        """Stores the settings of the models.

        Args:
            name: Name of the package.
            algorithm: The library's PPO.
            policy_options: The activation function.
        """
        self.name = name
        self.algorithm = algorithm
        self.policy_options = {"net_arch": list(host_ppo.HIDDEN_LAYERS), **policy_options}

    def begin(self, env: str, seed: int) -> Any:
        self.env = env
        return self.algorithm(
            "MlpPolicy",
            VecNormalize(make_vec_env(env, host_ppo.N_ENVS, seed=seed), gamma=host_ppo.GAMMA),
            learning_rate=host_ppo.LEARNING_RATE,
            n_steps=host_ppo.ROLLOUT_LENGTH,
            batch_size=host_ppo.STEPS_OF_AN_UPDATE // host_ppo.N_MINIBATCHES,
            n_epochs=host_ppo.N_EPOCHS,
            gamma=host_ppo.GAMMA,
            gae_lambda=host_ppo.GAE_LAMBDA,
            clip_range=host_ppo.CLIP,
            ent_coef=0.0,
            max_grad_norm=host_ppo.MAX_GRADIENT_NORM,
            policy_kwargs=self.policy_options,
            seed=seed,
        )

    def train(self, model: Any, n_updates: int) -> None:
        model.learn(n_updates * host_ppo.STEPS_OF_AN_UPDATE, reset_num_timesteps=False)

    def returns(self, model: Any, n_episodes: int) -> list[float]:
        envs = VecNormalize(make_vec_env(self.env, 1, seed=0), training=False, norm_reward=False)
        envs.obs_rms = model.get_vec_normalize_env().obs_rms
        return evaluate_policy(model, envs, n_episodes, return_episode_rewards=True)[0]
