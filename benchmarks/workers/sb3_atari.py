"""Trains the PPO of Stable-Baselines3 in an Atari game."""

import argparse

import ale_py
import arcade
import gymnasium
import worker
from gymnasium import wrappers
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv, VecFrameStack


def make_game(game: str, clips_rewards: bool) -> gymnasium.Env:
    """A game with the same wrappers as in jaxagents, except for the frame stack."""
    gymnasium.register_envs(ale_py)
    env = gymnasium.make(f"ALE/{game}-v5", frameskip=1)
    env = wrappers.AtariPreprocessing(env, grayscale_newaxis=True)
    return wrappers.ClipReward(env, -1, 1) if clips_rewards else env


def make_games(args: argparse.Namespace, clips_rewards: bool) -> VecEnv:
    """Games in separate processes."""
    options = {"game": args.game, "clips_rewards": clips_rewards}
    games = make_vec_env(
        make_game, arcade.N_ENVS, args.seed, env_kwargs=options, vec_env_cls=SubprocVecEnv
    )
    return VecFrameStack(games, arcade.N_FRAMES)


def train(args: argparse.Namespace) -> list[arcade.Part]:
    """Trains, with evaluation games after each part if requested."""
    model = PPO(
        "CnnPolicy",
        make_games(args, clips_rewards=True),
        learning_rate=arcade.LEARNING_RATE,
        n_steps=arcade.ROLLOUT_LENGTH,
        batch_size=arcade.STEPS_OF_AN_UPDATE // arcade.N_MINIBATCHES,
        n_epochs=arcade.N_EPOCHS,
        gamma=arcade.GAMMA,
        gae_lambda=arcade.GAE_LAMBDA,
        clip_range=arcade.CLIP,
        ent_coef=arcade.ENTROPY,
        vf_coef=arcade.VALUE_COEFFICIENT,
        max_grad_norm=arcade.MAX_GRADIENT_NORM,
        seed=args.seed,
        device=args.device,
    )
    played = make_games(args, clips_rewards=False) if args.episodes else None
    n_steps, parts = args.updates * arcade.STEPS_OF_AN_UPDATE, []
    for _ in range(args.parts):
        seconds = worker.seconds(model.learn, n_steps, reset_num_timesteps=False)
        found = None
        if played:
            found = float(evaluate_policy(model, played, args.episodes, deterministic=False)[0])
        parts.append(arcade.Part(seconds, found))
    return parts


if __name__ == "__main__":
    arcade.main("stable-baselines3", train)
