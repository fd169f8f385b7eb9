"""Trains jaxagents' PPO in a brax environment."""

import argparse
import math

import jax
import jax.numpy as jnp
import locomotion
import worker
from flax import linen as nn

import jaxagents
from jaxagents import PPO, networks
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.learners.optimizer import OptimizerParams
from jaxagents.ppo import AgentConfig, HyperParameters


class ScaledHyperParameters(HyperParameters):
    """Hyperparameters of PPO, and a factor for rewards."""

    reward_scale: Traced = hyperparameter(1.0, 0.0)


class ScaledPPO(PPO):
    """PPO with scaled rewards, like brax's PPO."""

    _hyperparams_type = ScaledHyperParameters

    def _with_rewards(self, runner, traj):
        reward = runner.hyperparams.reward_scale * traj.reward
        return super()._with_rewards(runner, traj._replace(reward=reward))


class Actor(nn.Module):
    """brax's network: the mean and the standard deviation both depend on the observation."""

    n_actions: int

    @nn.compact
    def __call__(self, obs):
        outputs = _layers((*locomotion.ACTOR_LAYERS, 2 * self.n_actions))(obs)
        mean, std = jnp.split(outputs, 2, axis=-1)
        return mean, jnp.log(nn.softplus(std) + locomotion.MIN_STD)


class Critic(nn.Module):
    """brax's network."""

    @nn.compact
    def __call__(self, obs):
        return _layers((*locomotion.CRITIC_LAYERS, 1))(obs)[..., 0]


def _layers(features: tuple[int, ...]) -> nn.Module:
    return networks.MLP(
        features,
        locomotion.ACTIVATION,
        activate_final=False,
        kernel_init=locomotion.KERNEL_INIT,
    )


def train(name: str, task: locomotion.Task, args: argparse.Namespace) -> list[locomotion.Part]:
    """Trains with an evaluation after each part."""
    env = jaxagents.make(
        f"brax:{name}", backend=locomotion.BACKEND, episode_length=locomotion.EPISODE_LENGTH
    )
    config = AgentConfig(
        batch_size=task.n_envs,
        rollout_length=task.rollout_length,
        minibatches_per_epoch=locomotion.N_MINIBATCHES,
        actor_epochs=task.n_epochs,
        critic_epochs=task.n_epochs,
        normalise_observations=True,
        squash_actions=True,
        actor_network=Actor(math.prod(env.action_space.shape)),
        critic_network=Critic(),
    )
    optimizer = OptimizerParams(locomotion.LEARNING_RATE, grad_clip=float("inf"))
    hyperparams = ScaledHyperParameters(
        reward_scale=task.reward_scale,
        gamma=task.gamma,
        gae_lambda=locomotion.GAE_LAMBDA,
        eps_clip=locomotion.CLIP,
        ent_coeff=task.entropy,
        vf_coeff=locomotion.VALUE_COEFFICIENT,
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )
    agent = ScaledPPO(env, None, config, eval_during_training=False)
    key, runner = jax.random.key(args.seed), None
    parts = []
    for number in range(args.parts):
        options = {"n_steps": args.updates, "progress": False}
        seconds = worker.seconds(agent.train, key, hyperparams, runner, **options)
        runner = agent.training_runner
        found = agent.eval(jax.random.key(number), args.episodes)["returns"]
        parts.append(locomotion.Part(seconds, float(found.mean())))
    return parts


if __name__ == "__main__":
    locomotion.main("jaxagents", train)
