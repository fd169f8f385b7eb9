"""Measures the SAC of jaxagents."""

import argparse
from collections.abc import Callable
from typing import Any

import gymnasium
import sac

from jaxagents.data import ReplayBuffer
from jaxagents.host import OnlineConfig, example_transition, train_online
from jaxagents.sac import SACLearner


class Library:
    """The learner, and its training in Gymnasium environments."""

    name = "jaxagents"

    def updates(self, seed: int) -> Callable[[int], Any]:
        """`update`, or `update_many` for more than one."""
        env = gymnasium.make(sac.UPDATES_ENVIRONMENT)
        learner, buffer = _learner(env, seed), _filled_buffer(env, seed)

        def update(n: int) -> Any:
            nonlocal learner
            if n == 1:
                learner, _ = learner.update(buffer.sample(sac.BATCH_SIZE))
            else:
                learner, _ = learner.update_many(buffer.sample_many(n, sac.BATCH_SIZE))
            return learner

        return update

    def train(self, env: gymnasium.Env, n_steps: int, seed: int) -> None:
        config = _config(seed, n_steps, sac.START_STEPS, eval_frequency=n_steps)
        train_online(_learner(env, seed), env, config, progress=False)

    def curve(
        self, env: gymnasium.Env, eval_env: gymnasium.Env, args: argparse.Namespace
    ) -> tuple[Any, Any]:
        config = _config(
            args.seed,
            args.steps,
            args.start_steps,
            eval_frequency=args.eval_frequency,
            n_evals=args.episodes,
        )
        learner = _learner(env, args.seed)
        _, metrics = train_online(learner, env, config, eval_env=eval_env, progress=False)
        return metrics["step"], metrics["returns"]


def _learner(env: gymnasium.Env, seed: int) -> SACLearner:
    return SACLearner.create(
        seed,
        env.observation_space.sample(),
        env.action_space.sample(),
        features=sac.HIDDEN_LAYERS,
        gamma=sac.GAMMA,
        tau=sac.TAU,
        actor_learning_rate=sac.LEARNING_RATE,
        critic_learning_rate=sac.LEARNING_RATE,
        temperature_learning_rate=sac.LEARNING_RATE,
    )


def _config(seed: int, n_steps: int, start_steps: int, **fields: int) -> OnlineConfig:
    return OnlineConfig(
        n_steps=n_steps,
        start_steps=start_steps,
        batch_size=sac.BATCH_SIZE,
        buffer_size=sac.BUFFER_SIZE,
        seed=seed,
        **fields,
    )


def _filled_buffer(env: gymnasium.Env, seed: int) -> ReplayBuffer:
    """A replay buffer of random steps."""
    n = sac.N_RANDOM_STEPS
    buffer = ReplayBuffer.create(example_transition(env), sac.BUFFER_SIZE)
    config = _config(seed, n, n, eval_frequency=n)
    train_online(_learner(env, seed), env, config, buffer=buffer, progress=False)
    return buffer


if __name__ == "__main__":
    sac.main(Library())
