"""Measures the PPO of rejax."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import measure
from rejax import PPO
from rejax.evaluate import evaluate


class Trainer:
    """The algorithm, and its training compiled for every number of updates asked for."""

    def __init__(self, n_envs: int) -> None:
        """Makes the algorithm."""
        algorithm = PPO.create(
            env=measure.ENVIRONMENT,
            num_envs=n_envs,
            num_steps=measure.ROLLOUT_LENGTH,
            num_minibatches=measure.N_MINIBATCHES,
            num_epochs=measure.N_EPOCHS,
            learning_rate=measure.LEARNING_RATE,
            ent_coef=measure.ENTROPY_COEFFICIENT,
            agent_kwargs={"activation": "tanh", "hidden_layer_sizes": measure.HIDDEN_LAYERS},
            skip_initial_evaluation=True,
        )
        self.algorithm = algorithm.replace(eval_callback=lambda *_: ())
        self.compiled = functools.cache(lambda n: jax.jit(self._training(n)))
        self.compiled_for_seeds = functools.cache(lambda n: jax.jit(jax.vmap(self._training(n))))

    def _training(self, n_updates: int) -> Any:
        n_steps = n_updates * self.algorithm.num_envs * self.algorithm.num_steps
        return self.algorithm.replace(total_timesteps=n_steps, eval_freq=n_steps).train

    def train(self, seed: int, n_updates: int) -> Any:
        """Trains afresh."""
        state, _ = self.compiled(n_updates)(jax.random.key(seed))
        return state

    def train_seeds(self, seed: int, n_seeds: int, n_updates: int) -> Any:
        """Trains under `vmap`."""
        rngs = jax.random.split(jax.random.key(seed), n_seeds)
        states, _ = self.compiled_for_seeds(n_updates)(rngs)
        return states

    def greedy_returns(self, trained: Any, seed: int, n_episodes: int) -> Any:
        """Plays with the trained actor; the library's own evaluation draws actions at random."""
        algorithm = self.algorithm
        actions = jnp.arange(algorithm.action_dim)

        def act(obs: Any, rng: Any) -> Any:
            repeated = jnp.broadcast_to(obs, (algorithm.action_dim, *obs.shape))
            log_probs, _ = algorithm.actor.apply(
                trained.actor_ts.params, repeated, actions, method="log_prob_entropy"
            )
            return jnp.argmax(log_probs)

        key = jax.random.key(seed)
        _, returns = evaluate(act, key, algorithm.env, algorithm.env_params, n_episodes)
        return returns


if __name__ == "__main__":
    measure.main("rejax", Trainer)
