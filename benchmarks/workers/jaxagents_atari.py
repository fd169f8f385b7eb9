"""Trains jaxagents' PPO in an Atari game of `ale-py` or EnvPool."""

import argparse
import functools
import sys
from pathlib import Path

import arcade
import gymnasium
import jax
import numpy as np
import worker
from gymnasium.wrappers.vector import TransformObservation

from jaxagents import PPO
from jaxagents.envs import Gymnasium
from jaxagents.learners.optimizer import OptimizerParams
from jaxagents.ppo import HyperParameters

sys.path.append(str(Path(__file__).parents[2] / "examples"))
import atari_ppo

POOL = "--pool"


def make_pool(args: argparse.Namespace) -> Gymnasium:
    """EnvPool games with the same wrappers, and channels last."""
    import envpool

    pool = envpool.make(
        f"{args.game}-v5",
        env_type="gymnasium",
        num_envs=arcade.N_ENVS,
        seed=args.seed,
        reward_clip=True,
        repeat_action_probability=arcade.STICKINESS,
        use_fire_reset=False,
    )
    seen = gymnasium.spaces.Box(0, 255, (84, 84, arcade.N_FRAMES), np.uint8)
    pool = TransformObservation(
        pool,
        functools.partial(np.moveaxis, source=1, destination=-1),
        single_observation_space=seen,
    )
    return Gymnasium(pool, eval_env=functools.partial(atari_ppo.make_game, args.game))


def train(args: argparse.Namespace, in_pool: bool) -> list[arcade.Part]:
    """Trains, with evaluation games after each part if requested."""
    options = atari_ppo.Options(args.game, n_envs=arcade.N_ENVS, output=Path("unused"))
    example = atari_ppo.make_agent(options)
    config = example.config.replace(checkpoint_dir=None, restore_agent=False)
    env = make_pool(args) if in_pool else example.env
    agent = PPO(env, None, config, eval_during_training=False)
    optimizer = OptimizerParams(arcade.LEARNING_RATE, arcade.ADAM_EPS, arcade.MAX_GRADIENT_NORM)
    hyperparams = HyperParameters(
        gamma=arcade.GAMMA,
        gae_lambda=arcade.GAE_LAMBDA,
        eps_clip=arcade.CLIP,
        ent_coeff=arcade.ENTROPY,
        vf_coeff=arcade.VALUE_COEFFICIENT,
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )
    key, runner, parts = jax.random.key(args.seed), None, []
    for number in range(args.parts):
        how = {"n_steps": args.updates, "progress": False}
        seconds = worker.seconds(agent.train, key, hyperparams, runner, **how)
        runner, found = agent.training_runner, None
        if args.episodes:
            played = agent.eval(jax.random.key(number), args.episodes, deterministic=False)
            found = float(played["returns"].mean())
        parts.append(arcade.Part(seconds, found))
    agent.env.close()
    return parts


if __name__ == "__main__":
    in_pool = POOL in sys.argv
    sys.argv = [word for word in sys.argv if word != POOL]
    arcade.main("jaxagents", functools.partial(train, in_pool=in_pool))
