"""Measures the SAC of sbx (Stable-Baselines3 in JAX)."""

import argparse
from collections.abc import Callable
from typing import Any

import gymnasium
import sac
from sbx import SAC
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.monitor import Monitor


class Library:
    """sbx, as `sac` measures it."""

    name = "sbx-rl"

    def updates(self, seed: int) -> Callable[[int], Any]:
        """A function that calls `train` with a number of updates."""
        env = gymnasium.make(sac.UPDATES_ENVIRONMENT)
        model = _model(env, seed, sac.N_RANDOM_STEPS)
        model.learn(sac.N_RANDOM_STEPS)  # random steps, without an update

        def update(n: int) -> Any:
            model.train(n, sac.BATCH_SIZE)
            return model.policy.actor_state.params

        return update

    def train(self, env: gymnasium.Env, n_steps: int, seed: int) -> None:
        _model(env, seed, sac.START_STEPS).learn(n_steps)

    def curve(
        self, env: gymnasium.Env, eval_env: gymnasium.Env, args: argparse.Namespace
    ) -> tuple[Any, Any]:
        evaluation = EvalCallback(
            Monitor(eval_env),
            n_eval_episodes=args.episodes,
            eval_freq=args.eval_frequency,
            log_path=".",  # it only keeps results that it also writes
            verbose=0,
        )
        _model(env, args.seed, args.start_steps).learn(args.steps, callback=evaluation)
        return evaluation.evaluations_timesteps, evaluation.evaluations_results


def _model(env: gymnasium.Env, seed: int, start_steps: int) -> SAC:
    return SAC(
        "MlpPolicy",
        env,
        learning_rate=sac.LEARNING_RATE,
        buffer_size=sac.BUFFER_SIZE,
        learning_starts=start_steps,
        batch_size=sac.BATCH_SIZE,
        tau=sac.TAU,
        gamma=sac.GAMMA,
        policy_kwargs={"net_arch": list(sac.HIDDEN_LAYERS)},
        seed=seed,
    )


if __name__ == "__main__":
    sac.main(Library())
