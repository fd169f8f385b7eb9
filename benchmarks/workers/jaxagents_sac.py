"""Measures jaxagents' SAC."""

import argparse
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import sac

from jaxagents import SAC
from jaxagents.data import ReplayBuffer
from jaxagents.envs import Gymnasium
from jaxagents.host import example_transition, rescale_actions
from jaxagents.sac import AgentConfig, HyperParameters, SACLearner

RATES = ("actor_learning_rate", "critic_learning_rate", "temperature_learning_rate")
HYPERPARAMS = {
    "gamma": sac.GAMMA,
    "tau": sac.TAU,
    **dict.fromkeys(RATES, sac.LEARNING_RATE),
}


class Library:
    """The learner and the agent, as `sac` measures them."""

    name = "jaxagents"

    def updates(self, seed: int) -> Callable[[int], Any]:
        """A function that calls `update`, or `update_many` for several updates."""
        env = gymnasium.make(sac.UPDATES_ENVIRONMENT)
        buffer = _filled_buffer(env, seed)
        learner = SACLearner.create(
            seed,
            env.observation_space.sample(),
            env.action_space.sample(),
            features=sac.HIDDEN_LAYERS,
            **HYPERPARAMS,
        )

        def update(n: int) -> Any:
            nonlocal learner
            if n == 1:
                learner, _ = learner.update(buffer.sample(sac.BATCH_SIZE))
            else:
                learner, _ = learner.update_many(buffer.sample_many(n, sac.BATCH_SIZE))
            return learner

        return update

    def train(self, env: gymnasium.Env, n_steps: int, seed: int) -> None:
        config = _config(n_steps, sac.START_STEPS, eval_frequency=n_steps)
        agent = SAC(env, None, config, eval_during_training=False)
        agent.train(seed, HyperParameters(**HYPERPARAMS), progress=False)

    def curve(
        self, env: gymnasium.Env, eval_env: gymnasium.Env, args: argparse.Namespace
    ) -> tuple[Any, Any]:
        config = _config(
            args.steps,
            args.start_steps,
            eval_frequency=args.eval_frequency,
            n_evals=args.episodes,
        )
        agent = SAC(Gymnasium(env, eval_env=eval_env), None, config)
        _, metrics = agent.train(args.seed, HyperParameters(**HYPERPARAMS), progress=False)
        return metrics["update_step"] + args.start_steps, metrics["returns"]


def _config(n_steps: int, start_steps: int, **fields: Any) -> AgentConfig:
    """The configuration of a run of `n_steps` steps, of which the first `start_steps` are random."""
    return AgentConfig(
        n_envs=1,
        n_updates=n_steps - start_steps,
        learning_starts=start_steps,
        minibatch_size=sac.BATCH_SIZE,
        buffer_size=sac.BUFFER_SIZE,
        features=sac.HIDDEN_LAYERS,
        **fields,
    )


def _filled_buffer(env: gymnasium.Env, seed: int) -> ReplayBuffer:
    """A replay buffer filled with random steps."""
    n, rng = sac.N_RANDOM_STEPS, np.random.default_rng(seed)
    env = rescale_actions(env)
    buffer = ReplayBuffer.create(example_transition(env), sac.BUFFER_SIZE)
    obs, _ = env.reset(seed=seed)
    for _ in range(n):
        action = rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
        next_obs, reward, terminated, truncated, _ = env.step(action)
        ends = terminated or truncated
        buffer.add_transition(
            {
                "observations": obs,
                "actions": action,
                "rewards": np.float32(reward),
                "next_observations": next_obs,
                "masks": np.float32(not terminated),
                "ends": np.bool_(ends),
            }
        )
        obs = env.reset()[0] if ends else next_obs
    return buffer


if __name__ == "__main__":
    sac.main(Library())
