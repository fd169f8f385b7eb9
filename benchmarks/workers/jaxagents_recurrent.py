"""Measures jaxagents' recurrent PPO."""

import argparse
from collections.abc import Callable
from typing import Any

import gymnax
import jax
import numpy as np
import recurrent
from flax import linen as nn

import jaxagents
from jaxagents import PPO
from jaxagents.networks import CategoricalActor, StateCritic, Torso, WithMemory
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams


def make(args: argparse.Namespace) -> Callable[[int], Any]:
    """A compiled training function of the seed."""
    env, env_params = gymnax.make(args.environment)
    n_actions = env.action_space(env_params).n
    layers = {"features": (recurrent.WIDTH,), "activation": nn.relu}
    config = AgentConfig(
        n_steps=args.updates,
        batch_size=recurrent.N_ENVS,
        rollout_length=recurrent.ROLLOUT_LENGTH,
        minibatch_size=recurrent.N_ENVS // recurrent.N_MINIBATCHES,
        actor_epochs=recurrent.N_EPOCHS,
        critic_epochs=recurrent.N_EPOCHS,
        trunk=WithMemory(Torso(()), nn.GRUCell(features=recurrent.WIDTH), Torso(**layers)),
        actor_network=CategoricalActor(n_actions, **layers),
        critic_network=StateCritic(**layers),
    )
    agent = PPO(env, env_params, config, eval_during_training=False)
    optimizer = OptimizerParams(
        learning_rate=jaxagents.LinearSchedule(recurrent.LEARNING_RATE, 0.0, args.updates),
        eps=recurrent.ADAM_EPS,
        grad_clip=recurrent.MAX_GRADIENT_NORM,
    )
    hyperparams = HyperParameters(
        gamma=recurrent.GAMMA,
        gae_lambda=recurrent.GAE_LAMBDA,
        eps_clip=recurrent.CLIP,
        ent_coeff=recurrent.ENTROPY_COEFFICIENT,
        vf_coeff=recurrent.VALUE_COEFFICIENT / 2.0,  # purejaxrl halves the squared error
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )

    def train(seed: int, n_updates: int = args.updates) -> Any:
        runner = agent.start(jax.random.key(seed), hyperparams)
        return jax.block_until_ready(agent.advance(runner, np.int32(n_updates)))

    train(0, 1)
    return train


if __name__ == "__main__":
    recurrent.main("jaxagents", make)
