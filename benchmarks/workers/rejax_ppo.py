"""Measures rejax's PPO."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import measure
from rejax import PPO
from rejax.evaluate import evaluate
from tasks import Task


class Trainer:
    """The algorithm, compiled for each requested number of updates."""

    def __init__(self, task: Task, n_envs: int) -> None:
        algorithm = PPO.create(
            env=task.environment,
            num_envs=n_envs,
            num_steps=task.rollout_length,
            num_minibatches=task.n_minibatches,
            num_epochs=task.n_epochs,
            learning_rate=task.learning_rate,
            gamma=task.gamma,
            gae_lambda=task.gae_lambda,
            clip_eps=task.clip,
            ent_coef=task.entropy_coefficient,
            vf_coef=task.value_coefficient,
            max_grad_norm=task.max_gradient_norm,
            agent_kwargs={"activation": "tanh", "hidden_layer_sizes": task.hidden_layers},
            skip_initial_evaluation=True,
        )
        self.algorithm = algorithm.replace(eval_callback=lambda *_: ())
        self.compiled = functools.cache(lambda n: jax.jit(self._training(n).train))
        self.compiled_for_seeds = functools.cache(
            lambda n: jax.jit(jax.vmap(self._training(n).train))
        )
        self.compiled_for_rates = functools.cache(
            lambda n: jax.jit(jax.vmap(functools.partial(_train_at_rate, self._training(n))))
        )
        self.evaluated = functools.cache(lambda n: jax.jit(functools.partial(self._play, n)))

    def _training(self, n_updates: int) -> PPO:
        n_steps = n_updates * self.algorithm.num_envs * self.algorithm.num_steps
        return self.algorithm.replace(total_timesteps=n_steps, eval_freq=n_steps)

    def train(self, seed: int, n_updates: int) -> Any:
        return jax.block_until_ready(self.compiled(n_updates)(jax.random.key(seed)))

    def train_seeds(self, seed: int, n_seeds: int, n_updates: int) -> Any:
        rngs = jax.random.split(jax.random.key(seed), n_seeds)
        return jax.block_until_ready(self.compiled_for_seeds(n_updates)(rngs))

    def train_rates(self, seed: int, rates: Sequence[float], n_updates: int) -> Any:
        rngs = jax.random.split(jax.random.key(seed), len(rates))
        return jax.block_until_ready(self.compiled_for_rates(n_updates)(rngs, jnp.array(rates)))

    def curve(self, seed: int, n_updates: int, n_points: int, n_episodes: int) -> list[float]:
        """Continues training from one evaluation to the next."""
        rng = jax.random.key(seed)
        advance, play = self.compiled(n_updates), self.evaluated(n_episodes)
        state, _ = advance(rng)
        means = [float(play(state, rng))]
        for point in range(1, n_points):
            state, _ = advance(train_state=state)
            means.append(float(play(state, jax.random.key(seed + point))))
        return means

    def update(self) -> tuple[Callable, Any]:
        algorithm = self.algorithm
        return algorithm.train_iteration, jax.eval_shape(algorithm.init_state, jax.random.key(0))

    def _play(self, n_episodes: int, state: Any, rng: Any) -> Any:
        """Plays greedy episodes; rejax's own evaluation samples actions."""
        algorithm = self.algorithm
        greedy = self._most_probable if algorithm.discrete else self._mean

        def act(obs: Any, rng: Any) -> Any:
            return greedy(state.actor_ts.params, obs)

        _, returns = evaluate(act, rng, algorithm.env, algorithm.env_params, n_episodes)
        return returns.mean()

    def _most_probable(self, params: Any, obs: Any) -> Any:
        actions = jnp.arange(self.algorithm.action_dim)
        repeated = jnp.broadcast_to(obs, (len(actions), *obs.shape))
        log_probs, _ = self.algorithm.actor.apply(
            params, repeated, actions, method="log_prob_entropy"
        )
        return jnp.argmax(log_probs)

    def _mean(self, params: Any, obs: Any) -> Any:
        space = self.algorithm.action_space
        distribution = self.algorithm.actor.apply(params, obs[None], method="_action_dist")
        return jnp.clip(distribution.mean()[0], space.low, space.high)


def _train_at_rate(algorithm: PPO, rng: Any, rate: Any) -> Any:
    return algorithm.replace(learning_rate=rate).train(rng)


if __name__ == "__main__":
    measure.main("rejax", Trainer)
