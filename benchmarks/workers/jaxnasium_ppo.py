"""Measures the PPO of jaxnasium."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxnasium
import measure
from jaxnasium.algorithms import PPO
from jaxnasium.algorithms.architectures import MLP
from tasks import BREAKOUT, Task


class Trainer:
    """The algorithm, whose training is compiled for every number of updates asked for."""

    length_is_compiled = True

    def __init__(self, task: Task, n_envs: int) -> None:
        """Makes the algorithm, without its normalisation of observations and rewards."""
        body = MLP.with_params(hidden_sizes=task.hidden_layers, activation=jnp.tanh)
        self.env = environment(task)
        self.rate = task.learning_rate
        self.algorithm = PPO(
            learning_rate_start=task.learning_rate,
            learning_rate_end=None,
            ent_coef_start=task.entropy_coefficient,
            ent_coef_end=None,
            gamma=task.gamma,
            gae_lambda=task.gae_lambda,
            max_grad_norm=task.max_gradient_norm,
            clip_coef=task.clip,
            vf_coef=task.value_coefficient,
            num_envs=n_envs,
            num_steps=task.rollout_length,
            num_minibatches=task.n_minibatches,
            num_epochs=task.n_epochs,
            warmup_steps=0,
            normalize_observations=False,
            normalize_rewards=False,
            actor_kwargs={"body": body},
            critic_kwargs={"body": body},
            log_function=None,
        )
        self.at_once = functools.cache(
            lambda n: jax.jit(jax.vmap(functools.partial(self._trained, n)))
        )
        self.advance = eqx.filter_jit(self._advanced)
        self.play = eqx.filter_jit(self._played)

    def train(self, seed: int, n_updates: int) -> Any:
        """Trains afresh."""
        agent, _ = self._of_length(n_updates).train(jax.random.key(seed), self.env)
        return jax.block_until_ready(eqx.filter(agent, eqx.is_array))

    def train_seeds(self, seed: int, n_seeds: int, n_updates: int) -> Any:
        """Trains under `vmap`."""
        rngs = jax.random.split(jax.random.key(seed), n_seeds)
        rates = jnp.full(n_seeds, self.rate)
        return jax.block_until_ready(self.at_once(n_updates)(rngs, rates))

    def train_rates(self, seed: int, rates: Sequence[float], n_updates: int) -> Any:
        """Trains under `vmap`."""
        rngs = jax.random.split(jax.random.key(seed), len(rates))
        return jax.block_until_ready(self.at_once(n_updates)(rngs, jnp.array(rates)))

    def curve(self, seed: int, n_updates: int, n_points: int, n_episodes: int) -> list[float]:
        """Makes the updates of a training from evaluation to evaluation."""
        algorithm = self._of_length(n_updates * n_points)
        rng, reset_rng = jax.random.split(jax.random.key(seed))
        env = jaxnasium.VecEnvWrapper(self.env)
        agent = algorithm.init_agent(rng, env)
        obs, env_state = env.reset(jax.random.split(reset_rng, algorithm.num_envs))
        state = (agent, env_state, obs, rng)
        means = []
        for point in range(n_points):
            state = self.advance(algorithm, env, state, n_updates)
            rngs = jax.random.split(jax.random.key(seed + point), n_episodes)
            means.append(float(self.play(algorithm, state[0], rngs)))
        return means

    def _of_length(self, n_updates: int) -> PPO:
        n_steps = n_updates * self.algorithm.num_envs * self.algorithm.num_steps
        return dataclasses.replace(self.algorithm, total_timesteps=n_steps)

    def _trained(self, n_updates: int, rng: Any, rate: Any) -> Any:
        algorithm = dataclasses.replace(self._of_length(n_updates), learning_rate_start=rate)
        agent, _ = algorithm.train(rng, self.env)
        return eqx.filter(agent, eqx.is_array)

    def _advanced(self, algorithm: PPO, env: Any, state: Any, n_updates: int) -> Any:
        arrays, static = eqx.partition(state, eqx.is_array)

        def update(arrays: Any, i: Any) -> tuple[Any, None]:
            state, _ = algorithm.train_iteration(eqx.combine(arrays, static), i, env=env)
            return eqx.filter(state, eqx.is_array), None

        arrays, _ = jax.lax.scan(update, arrays, length=n_updates)
        return eqx.combine(arrays, static)

    def _played(self, algorithm: PPO, agent: Any, rngs: Any) -> Any:
        play = functools.partial(algorithm.evaluate, agent=agent, env=self.env)
        return jax.vmap(lambda rng: play(rng, num_eval_episodes=1))(rngs).mean()


def environment(task: Task) -> Any:
    """The library's own environment, or that of gymnax where it has none."""
    if task is BREAKOUT:
        env = jaxnasium.make(f"gymnax:{task.environment}")
        return jaxnasium.FlattenObservationWrapper(env)
    return jaxnasium.make(task.environment)


if __name__ == "__main__":
    measure.main("jaxnasium", Trainer)
