"""Measures the IPPO of JaxMARL, which is in its repository, but not in its package.

The environment variable JAXMARL_SOURCE names a checkout of the repository.
"""

import functools
import importlib.util
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jaxmarl
import measure
import wandb
from tasks import Task

PROGRAM = Path("baselines", "IPPO", "ippo_ff_mpe.py")


class Trainer(measure.InTurn):
    """The program, whose training is compiled for every number of updates asked for."""

    length_is_compiled = True

    def __init__(self, task: Task, n_envs: int) -> None:
        self.task = task
        self.n_envs = n_envs
        self.program = program()
        self.env = jaxmarl.make(task.environment)
        self.compiled = functools.cache(
            lambda n, rate: jax.jit(self.program.make_train(self._config(n, rate)))
        )
        self.play = jax.jit(self._played, static_argnums=2)

    def train(self, seed: int, n_updates: int, learning_rate: float | None = None) -> Any:
        train = self.compiled(n_updates, learning_rate or self.task.learning_rate)
        trained = train(jax.random.PRNGKey(seed))["runner_state"][0]
        jax.effects_barrier()
        return jax.block_until_ready(trained)

    def curve(self, seed: int, n_updates: int, n_points: int, n_episodes: int) -> list[float]:
        """Trains afresh up to each evaluation: a longer training begins as a shorter one."""
        means = []
        for point in range(n_points):
            trained = self.train(seed, n_updates * (point + 1))
            rng = jax.random.PRNGKey(seed + point)
            means.append(float(self.play(trained.params, rng, n_episodes)))
        return means

    def _config(self, n_updates: int, learning_rate: float) -> dict[str, Any]:
        task = self.task
        return {
            "ENV_NAME": task.environment,
            "ENV_KWARGS": {},
            "NUM_ENVS": self.n_envs,
            "NUM_STEPS": task.rollout_length,
            "TOTAL_TIMESTEPS": n_updates * task.rollout_length * self.n_envs,
            "UPDATE_EPOCHS": task.n_epochs,
            "NUM_MINIBATCHES": task.n_minibatches,
            "LR": learning_rate,
            "ANNEAL_LR": False,
            "GAMMA": task.gamma,
            "GAE_LAMBDA": task.gae_lambda,
            "CLIP_EPS": task.clip,
            "ENT_COEF": task.entropy_coefficient,
            "VF_COEF": task.value_coefficient,
            "MAX_GRAD_NORM": task.max_gradient_norm,
            "ACTIVATION": "tanh",
        }

    def _played(self, params: Any, rng: Any, n_episodes: int) -> Any:
        """Mean return of greedy episodes, over these and over the agents."""
        env = self.env
        network = self.program.ActorCritic(env.action_space(env.agents[0]).n)

        def play(rng: Any) -> Any:
            reset_rng, rng = jax.random.split(rng)
            obs, state = env.reset(reset_rng)

            def step(carry: Any) -> Any:
                obs, state, rng, returns, _ = carry
                rng, step_rng = jax.random.split(rng)
                stacked = jnp.stack([obs[agent] for agent in env.agents])
                best = network.apply(params, stacked)[0].mode()
                actions = dict(zip(env.agents, best, strict=True))
                obs, state, rewards, done, _ = env.step_env(step_rng, state, actions)
                returns += jnp.stack([rewards[agent] for agent in env.agents])
                return obs, state, rng, returns, done["__all__"]

            start = (obs, state, rng, jnp.zeros(env.num_agents), jnp.array(False))
            return jax.lax.while_loop(lambda carry: ~carry[-1], step, start)[3]

        return jax.vmap(play)(jax.random.split(rng, n_episodes)).mean()


def program() -> Any:
    """The module in the checkout; what it logs goes nowhere."""
    path = Path(os.environ["JAXMARL_SOURCE"]) / PROGRAM
    spec = importlib.util.spec_from_file_location("ippo_ff_mpe", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    wandb.log = lambda metric: None
    return module


if __name__ == "__main__":
    measure.main("jaxmarl", Trainer)
