"""Trains brax's own PPO in a brax environment."""

import argparse
import functools
from typing import Any

import jax
import locomotion
import numpy as np
from brax import envs
from brax.training.agents.ppo import networks
from brax.training.agents.ppo import train as ppo
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree


def device_put_replicated(tree: PyTree, devices: list[Any]) -> PyTree:
    """Copies arrays to each device. brax calls this function, which JAX has removed."""
    place = NamedSharding(Mesh(np.array(devices), ("devices",)), PartitionSpec("devices"))
    return jax.tree.map(lambda x: jax.device_put(np.stack([x] * len(devices)), place), tree)


def train(name: str, task: locomotion.Task, args: argparse.Namespace) -> list[locomotion.Part]:
    """Trains with an evaluation after each part."""
    parts = []

    def progress(n_steps: int, metrics: dict[str, Any]) -> None:
        if n_steps > 0:
            seconds = args.updates * task.steps_of_an_update / metrics["training/sps"]
            parts.append(locomotion.Part(seconds, float(metrics["eval/episode_reward"])))

    n_unrolls = task.rollout_length // task.unroll_length
    ppo.train(
        envs.get_environment(name, backend=locomotion.BACKEND),
        num_timesteps=args.parts * args.updates * task.steps_of_an_update,
        episode_length=locomotion.EPISODE_LENGTH,
        num_envs=task.n_envs,
        unroll_length=task.unroll_length,
        batch_size=task.n_envs * n_unrolls // locomotion.N_MINIBATCHES,
        num_minibatches=locomotion.N_MINIBATCHES,
        num_updates_per_batch=task.n_epochs,
        learning_rate=locomotion.LEARNING_RATE,
        discounting=task.gamma,
        gae_lambda=locomotion.GAE_LAMBDA,
        clipping_epsilon=locomotion.CLIP,
        entropy_cost=task.entropy,
        vf_loss_coefficient=locomotion.VALUE_COEFFICIENT,
        reward_scaling=task.reward_scale,
        normalize_observations=True,
        network_factory=functools.partial(
            networks.make_ppo_networks,
            policy_hidden_layer_sizes=locomotion.ACTOR_LAYERS,
            value_hidden_layer_sizes=locomotion.CRITIC_LAYERS,
            activation=locomotion.ACTIVATION,
        ),
        num_evals=args.parts + 1,
        num_eval_envs=args.episodes,
        deterministic_eval=True,
        seed=args.seed,
        progress_fn=progress,
    )
    return parts


if __name__ == "__main__":
    jax.device_put_replicated = device_put_replicated
    locomotion.main("brax", train)
