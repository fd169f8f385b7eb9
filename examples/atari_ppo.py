"""PPO on an Atari game, from pixels.

    pip install ".[atari]"
    python examples/atari_ppo.py
    python examples/atari_ppo.py --game Breakout --n-steps 10000000 --output runs/breakout

The games come with `ale-py`. Eight copies run in separate processes, with the usual wrappers: frame
skip 4, 84 x 84 greyscale images, a stack of four frames, and rewards clipped to -1, 0 or 1.
Checkpoints, metrics and a video are written to `runs/atari-ppo`. If you stop the script and start
it again, it resumes.
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
    """Options of the run."""

    game: str = "Pong"
    """Name of the game, as in `ALE/Pong-v5`."""
    n_steps: int = 1_000_000
    """Number of steps (of four frames each) over all games."""
    n_envs: int = 8
    """Number of parallel games."""
    rollout_length: int = 128
    """Number of steps in each game per update."""
    output: Path = Path("runs/atari-ppo")
    """Folder for the results."""
    seed: int = 0
    """Random seed."""


class ChannelsLast(gymnasium.ObservationWrapper):
    """Moves the stacked frames to the channel axis, as encoders expect."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        height, width = env.observation_space.shape[1:]
        self.observation_space = spaces.Box(0, 255, (height, width, N_FRAMES), np.uint8)

    def observation(
        self, observation: UInt8[np.ndarray, "frames height width"]
    ) -> UInt8[np.ndarray, "height width frames"]:
        return np.moveaxis(observation, 0, -1)


def make_game(game: str, clips_rewards: bool = False) -> gymnasium.Env:
    """Creates a game that can be rendered."""
    gymnasium.register_envs(ale_py)
    env = gymnasium.make(f"ALE/{game}-v5", frameskip=1, render_mode="rgb_array")
    env = wrappers.AtariPreprocessing(env)
    if clips_rewards:
        env = wrappers.ClipReward(env, -1, 1)
    return ChannelsLast(wrappers.FrameStackObservation(env, N_FRAMES))


def make_agent(options: Options) -> PPO:
    """Creates the agent: actor and critic are heads of one encoder."""
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
    """Trains or resumes, and records a video."""
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
