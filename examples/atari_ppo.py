"""PPO in a game of Atari, from the pixels of its screen.

    pip install ".[atari]"
    python examples/atari_ppo.py
    python examples/atari_ppo.py --game Breakout --n-steps 10000000 --output runs/breakout

The games come with `ale-py`. Eight of them run in processes of their own, with the usual wrappers: every
fourth frame, 84 x 84 grey pixels, the last four of them, and rewards of -1, 0 or 1. What is learned is
written to `runs/atari-ppo`: checkpoints, metrics, and a video of an episode. A run that was stopped
goes on when it is started again.
"""

import dataclasses
import functools
from pathlib import Path

import ale_py
import gymnasium
import jax
import numpy as np
import tyro
from flax import linen as nn
from gymnasium import spaces, wrappers
from jaxtyping import UInt8

from jaxagents import PPO, ppo
from jaxagents.envs import Gymnasium
from jaxagents.learners.optimizer import OptimizerParams
from jaxagents.loggers import ConsoleLogger
from jaxagents.networks import Torso, WithEncoder
from jaxagents.networks.vision import make_encoder

N_FRAMES = 4


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of the training."""

    game: str = "Pong"
    """Name of the game, as in `ALE/Pong-v5`."""
    n_steps: int = 1_000_000
    """Number of steps, each of four frames, in all games together."""
    n_envs: int = 8
    """Number of games at once."""
    rollout_length: int = 128
    """Number of steps of each from update to update."""
    output: Path = Path("runs/atari-ppo")
    """Folder for the results."""
    seed: int = 0
    """Seed of the training."""


class ChannelsLast(gymnasium.ObservationWrapper):
    """Stacked frames as the channels of one image, with which encoders begin."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        height, width = env.observation_space.shape[1:]
        self.observation_space = spaces.Box(0, 255, (height, width, N_FRAMES), np.uint8)

    def observation(
        self, observation: UInt8[np.ndarray, "frames height width"]
    ) -> UInt8[np.ndarray, "height width frames"]:
        return np.moveaxis(observation, 0, -1)


def make_game(game: str, clips_rewards: bool = False) -> gymnasium.Env:
    """Makes a game that is drawn."""
    gymnasium.register_envs(ale_py)
    env = gymnasium.make(f"ALE/{game}-v5", frameskip=1, render_mode="rgb_array")
    env = wrappers.AtariPreprocessing(env)
    if clips_rewards:
        env = wrappers.ClipReward(env, -1, 1)
    return ChannelsLast(wrappers.FrameStackObservation(env, N_FRAMES))


def make_agent(options: Options) -> PPO:
    """Makes the agent: actor and critic are layers behind one encoder."""
    env = Gymnasium(
        functools.partial(make_game, options.game, clips_rewards=True),
        eval_env=functools.partial(make_game, options.game),
        vectorization_mode="async",
    )
    n_updates = max(1, options.n_steps // (options.n_envs * options.rollout_length))
    config = ppo.AgentConfig(
        n_steps=n_updates,
        batch_size=options.n_envs,
        rollout_length=options.rollout_length,
        minibatches_per_epoch=4,
        eval_frequency=max(1, n_updates // 10),
        n_evals=options.n_envs,
        eval_deterministic=False,
        max_episode_steps=27_000,
        trunk=WithEncoder(make_encoder("atari"), Torso((512,), nn.relu)),
        checkpoint_dir=options.output,
        restore_agent=True,
    )
    return PPO(env, None, config)


def main(options: Options) -> None:
    """Trains or resumes, and records an episode."""
    agent = make_agent(options)
    optimizer = OptimizerParams(2.5e-4, grad_clip=0.5)
    hyperparams = ppo.HyperParameters(
        eps_clip=0.1,
        ent_coeff=0.01,
        vf_coeff=0.5,
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )
    agent.resume(jax.random.key(options.seed), hyperparams, loggers=[ConsoleLogger()])
    film = options.output / f"update_{int(agent.training_runner.update_step)}.gif"
    if not film.exists():
        agent.render_episode(jax.random.key(1), film, deterministic=False)
    print(f"{film} shows an episode.")
    agent.env.close()


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
