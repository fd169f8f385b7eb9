"""Measures rejax's off-policy algorithms."""

import functools
from typing import Any

import jax
import replay
from rejax import DQN, SAC


class Trainer:
    """The algorithm, compiled for each requested number of updates."""

    def __init__(self, work: replay.Work) -> None:
        shared = {
            "num_envs": work.n_envs,
            "batch_size": work.batch_size,
            "buffer_size": work.buffer_size,
            "fill_buffer": replay.LEARNING_STARTS,
            "gamma": replay.GAMMA,
            "polyak": 1.0 - replay.TAU,
            "learning_rate": replay.LEARNING_RATE,
            "agent_kwargs": {"activation": "relu"},
            "skip_initial_evaluation": True,
        }
        if work.algorithm == "ddqn":
            algorithm = DQN.create(env="CartPole-v1", ddqn=True, **shared)
        else:
            algorithm = SAC.create(env="Pendulum-v1", **shared)
        self.algorithm = algorithm.replace(eval_callback=lambda *_: ())
        map_seeds = jax.vmap if work.n_seeds > 1 else lambda train: train
        self.n_seeds = work.n_seeds
        self.compiled = functools.cache(lambda n: jax.jit(map_seeds(self._training(n))))

    def _training(self, n_updates: int) -> Any:
        n_steps = replay.LEARNING_STARTS + n_updates * self.algorithm.num_envs
        return self.algorithm.replace(total_timesteps=n_steps, eval_freq=n_steps).train

    def train(self, seed: int, n_updates: int) -> Any:
        key = jax.random.key(seed)
        rngs = jax.random.split(key, self.n_seeds) if self.n_seeds > 1 else key
        state, _ = self.compiled(n_updates)(rngs)
        return state


if __name__ == "__main__":
    replay.main("rejax", Trainer)
