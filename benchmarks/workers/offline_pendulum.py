"""Offline learners on Pendulum-v1: from an expert's data, and from an expert's and random data."""

import argparse
import functools
from typing import Any

import gymnasium
import jax
import numpy as np
import offline

from jaxagents import host
from jaxagents.bc import BCLearner
from jaxagents.cql import CQLLearner
from jaxagents.data import Dataset
from jaxagents.iql import IQLLearner
from jaxagents.sac import SACLearner

ENVIRONMENT = "Pendulum-v1"
FEATURES = (64, 64)  # hidden layers of all networks
REWARD_SCALE = 0.1  # rewards lie between -16 and 0
LEARNERS = {
    "BC": BCLearner.create,
    "IQL": IQLLearner.create,
    "CQL": functools.partial(  # a penalty and a temperature that fit rewards of this size
        CQLLearner.create,
        n_action_samples=4,
        conservative_weight=0.1,
        initial_temperature=0.1,
        actor_learning_rate=3e-4,
    ),
}


class Pendulum:
    """The task."""

    def make_data(self, args: argparse.Namespace) -> dict[str, tuple[Dataset, Any]]:
        """Episodes of soft actor-critic after its training, and as many of random actions besides."""
        env = make_env()
        learner = create(SACLearner.create, args.seed, env)
        config = host.OnlineConfig(
            n_steps=args.training, start_steps=1000, eval_frequency=args.training, seed=args.seed
        )
        learner, _ = host.train_online(learner, env, config, progress=False)
        rng = np.random.default_rng(args.seed)
        expert, good = host.evaluate_with_trajectories(learner.sample_actions, env, args.episodes)
        random, bad = host.evaluate_with_trajectories(
            lambda _: rng.uniform(-1.0, 1.0, env.action_space.shape), env, args.episodes, seed=1
        )
        returns = np.concatenate([expert["returns"], random["returns"]])
        return {
            "expert": (single_precision(good), expert["returns"]),
            "mixed": (single_precision([*good, *bad]), returns),
        }

    def learn(self, dataset: Dataset, args: argparse.Namespace) -> tuple[Any, Any]:
        """Learns by `train_offline`."""
        env = make_env()
        dataset = Dataset({**dataset, "rewards": dataset["rewards"] * np.float32(REWARD_SCALE)})
        config = host.OfflineConfig(
            n_updates=args.updates,
            eval_frequency=args.eval_frequency,
            n_evals=args.episodes,
            seed=args.seed,
        )
        learner = create(LEARNERS[args.learner], args.seed, env)
        _, metrics = host.train_offline(learner, dataset, config, eval_env=env, progress=False)
        return metrics["step"], metrics["returns"]


def make_env() -> gymnasium.Env:
    """The environment, with actions in [-1, 1]."""
    return host.rescale_actions(gymnasium.make(ENVIRONMENT))


def create(make_learner: Any, seed: int, env: gymnasium.Env) -> Any:
    """A learner for an environment."""
    examples = env.observation_space.sample(), env.action_space.sample()
    return make_learner(seed, *examples, features=FEATURES)


def single_precision(trajectories: list[dict[str, Any]]) -> Dataset:
    """A dataset of all steps."""
    arrays = {**host.concatenate_trajectories(trajectories)}
    return Dataset(jax.tree.map(lambda x: x if x.dtype == bool else x.astype(np.float32), arrays))


if __name__ == "__main__":
    offline.main(Pendulum())
