"""Offline learners on the images of Breakout-MinAtar, from the policies of a training of PPO.

The environment is compiled; the learners are those of host loops.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import offline
from flax import linen as nn

from jaxagents import PPO
from jaxagents.bc import DiscreteBCLearner
from jaxagents.cql import DiscreteCQLLearner
from jaxagents.data import Dataset
from jaxagents.networks import CategoricalActor, PatchConv, StateCritic
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams

ENV, ENV_PARAMS = gymnax.make("Breakout-MinAtar")
EPISODE_LIMIT = 1000  # steps
NOISE = 0.1  # share of actions that are random, since the environment itself hardly is
N_STAGES = 4  # of the training of PPO; the policy before it, and after each, makes data
STEPS_OF_A_STAGE = 300  # in each environment
BATCH_SIZE = 128
UPDATES_IN_A_CALL = 20
LEARNERS = {"BC": DiscreteBCLearner, "discrete CQL": DiscreteCQLLearner}


class Breakout:
    """The task."""

    def make_data(self, args: argparse.Namespace) -> dict[str, tuple[Dataset, Any]]:
        """Steps of the policies before and after each stage of a training of PPO."""
        agent, hyperparams = make_agent(args.training // N_STAGES)
        rng = jax.random.key(args.seed)
        runner = agent.start(rng, hyperparams)
        stages = []
        for stage in range(N_STAGES + 1):
            key = jax.random.fold_in(rng, stage)
            act = partial(greedy, agent)
            stages.append(play(act, runner.actor_training, key, args.episodes, STEPS_OF_A_STAGE))
            if stage < N_STAGES:
                runner, _ = agent.train(None, None, runner, progress=False)
        steps = jax.tree.map(lambda *arrays: np.concatenate(arrays, axis=1), *stages)
        return {"mixed": (as_dataset(steps), np.concatenate(returns(steps)))}

    def learn(self, dataset: Dataset, args: argparse.Namespace) -> tuple[Any, Any]:
        """Learns in a loop of its own, and plays in compiled rollouts."""
        learner = LEARNERS[args.learner].create(
            args.seed,
            dataset["observations"][0],
            dataset["actions"][0],
            n_actions=ENV.num_actions,
            features=(128,),
            encoder=Encoder(),
        )
        points, found = [0], [evaluate(learner, args)]
        for step in range(UPDATES_IN_A_CALL, args.updates + 1, UPDATES_IN_A_CALL):
            learner, _ = learner.update_many(dataset.sample_many(UPDATES_IN_A_CALL, BATCH_SIZE))
            if step % args.eval_frequency == 0:
                points.append(step)
                found.append(evaluate(learner, args))
        return points, found


# Networks and agents.


class Encoder(nn.Module):
    """Features of images of 10 x 10 bytes and some channels."""

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        """Encodes a batch."""
        x = nn.relu(PatchConv(16)(images.astype(jnp.float32) / 255.0))
        return x.reshape(*x.shape[:-3], -1)


class Flat(nn.Module):
    """A network of a flattened image."""

    network: nn.Module

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        """Applies the network to one image."""
        return self.network(image.reshape(-1))


def make_agent(n_steps: int) -> tuple[PPO, HyperParameters]:
    """An agent of small networks, as it only has to make data."""
    config = AgentConfig(
        n_steps=n_steps,
        batch_size=64,
        rollout_length=128,
        minibatch_size=16,
        actor_network=Flat(CategoricalActor(ENV.num_actions)),
        critic_network=Flat(StateCritic()),
    )
    optimizer = OptimizerParams(learning_rate=1e-3)
    hyperparams = HyperParameters(
        ent_coeff=0.01, actor_optimizer_params=optimizer, critic_optimizer_params=optimizer
    )
    return PPO(ENV, ENV_PARAMS, config, eval_during_training=False), hyperparams


def greedy(agent: PPO, training: Any, images: jax.Array) -> jax.Array:
    """The most probable actions of PPO's policy."""
    return jax.vmap(partial(agent.policy, training))(images / 255.0)


def mode(learner: Any, images: jax.Array) -> jax.Array:
    """The actions that a learner prefers."""
    return learner.sample_actions(images)


# Playing.


class Step(NamedTuple):
    """One step in several environments, or, stacked along a first axis, many."""

    images: Any
    actions: Any
    rewards: Any
    next_images: Any
    terminated: Any
    ends: Any


@partial(jax.jit, static_argnums=(0, 3, 4))
def play(
    act: Callable[[Any, jax.Array], jax.Array],
    params: Any,
    key: jax.Array,
    n_envs: int,
    n_steps: int,
) -> Step:
    """Plays in several environments, one episode after another.

    Args:
        act: Maps `params` and images to actions.
        params: What is learned.
        key: Random key.
        n_envs: Number of environments.
        n_steps: Number of steps in each.

    Returns:
        The steps, shaped (steps, environments, ...).
    """

    def step(carry: Any, key: jax.Array) -> tuple[Any, Step]:
        images, state = carry
        noise_key, action_key, step_key = jax.random.split(key, 3)
        noise = jax.random.randint(action_key, (n_envs,), 0, ENV.num_actions)
        is_noise = jax.random.bernoulli(noise_key, NOISE, (n_envs,))
        actions = jnp.where(is_noise, noise, act(params, images))
        keys = jax.random.split(step_key, n_envs)
        obs, state, rewards, terminated, truncated, info = jax.vmap(ENV.step, (0, 0, 0, None))(
            keys, state, actions, ENV_PARAMS
        )
        successors = as_images(info["final_observation"])
        taken = Step(images, actions, rewards, successors, terminated, terminated | truncated)
        return (as_images(obs), state), taken

    reset_key, key = jax.random.split(key)
    obs, state = jax.vmap(ENV.reset, (0, None))(jax.random.split(reset_key, n_envs), ENV_PARAMS)
    _, steps = jax.lax.scan(step, (as_images(obs), state), jax.random.split(key, n_steps))
    return steps


def as_images(obs: jax.Array) -> jax.Array:
    """Observations of zeros and ones as images."""
    return (255 * obs).astype(jnp.uint8)


def evaluate(learner: Any, args: argparse.Namespace) -> list[float]:
    """Returns of episodes of a learner, the same starts and noise each time."""
    steps = play(mode, learner, jax.random.key(args.seed), args.episodes, EPISODE_LIMIT)
    return [of_env[0] for of_env in returns(steps)]


def returns(steps: Step) -> list[np.ndarray]:
    """Returns of the whole episodes, for each environment."""
    totals, ends = np.cumsum(steps.rewards, axis=0), np.asarray(steps.ends)
    return [np.diff(totals[ends[:, i], i], prepend=0.0) for i in range(ends.shape[1])]


def as_dataset(steps: Step) -> Dataset:
    """All steps, environment by environment."""
    rows = jax.tree.map(lambda x: np.swapaxes(x, 0, 1).reshape(-1, *x.shape[2:]), steps)
    return Dataset(
        {
            "observations": rows.images,
            "actions": rows.actions,
            "rewards": rows.rewards,
            "next_observations": rows.next_images,
            "masks": 1.0 - rows.terminated.astype(np.float32),
            "ends": rows.ends,
        }
    )


if __name__ == "__main__":
    offline.main(Breakout())
