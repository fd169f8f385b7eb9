"""Trains PPO, DDQN, PQN, SAC or TD3 with and without a memory in partially observable tasks.

In MemoryChain, the first observation says which action is right in the last step; in MiniGrid's Memory,
an object in the first room says which way to go at the end of a hallway. The other tasks hide
velocities. The agents have default networks that differ only in their memory; in MiniGrid, actor and
critic share a trunk. DDQN and PQN only run the tasks with discrete actions, SAC and TD3 only the task
with continuous actions, for a tenth of the steps.

MiniGrid needs xminigrid: `pip install ".[xminigrid]"`.
"""

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

import jaxagents
from jaxagents import DDQN, PPO, PQN, SAC, TD3, LinearSchedule, dqn, pqn, sac, td3
from jaxagents.agents.agent import Agent
from jaxagents.agents.config import Memory
from jaxagents.envs import Environment, Step, as_environment
from jaxagents.networks import MinGRUCell, Torso, WithMemory
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams

TITLE = "# {} with and without a memory"
MEMORIES: dict[str, Memory | None] = {
    "none": None,
    "gru": "gru",
    "lstm": "lstm",
    "min_gru": "min_gru",
}
CELLS = {"gru": nn.GRUCell, "lstm": nn.OptimizedLSTMCell, "min_gru": MinGRUCell}
BATCH_SIZE = 64
N_EVALS = 128
Look = Callable[[jax.Array], jax.Array]


class Seen(Environment):
    """An environment whose observations a function transforms."""

    def __init__(self, env: Environment, look: Look) -> None:
        """Wraps an environment.

        Args:
            env: The environment.
            look: Maps its observation to what the agent sees.
        """
        self._env, self._look = env, look
        self.action_space, self.max_steps = env.action_space, env.max_steps

    def reset(self, key: jax.Array) -> tuple[jax.Array, Any]:
        """Starts an episode."""
        obs, state = self._env.reset(key)
        return self._look(obs), state

    def step(self, key: jax.Array, state: Any, action: Any) -> Step:
        """Takes a step."""
        step = self._env.step(key, state, action)
        return step._replace(obs=self._look(step.obs))


class Task(NamedTuple):
    """A task.

    Attributes:
        make: Creates the environment.
        n_updates: Number of updates.
        rollout_length: Rollout length.
        gamma: Discount factor.
        learning_rate: Initial learning rate.
        decays: Whether the learning rate decays to zero.
        entropy: Entropy coefficient.
        trunk_size: Layer size of a trunk shared by actor and critic; `None` for default networks.
    """

    make: Callable[[], Environment]
    n_updates: int
    rollout_length: int
    gamma: float = 0.99
    learning_rate: float = 1e-3
    decays: bool = False
    entropy: float = 0.0
    trunk_size: int | None = None


def memory_chain(length: int) -> Environment:
    """bsuite's MemoryChain of a given length."""
    env, params = gymnax.make("MemoryChain-bsuite")
    return as_environment(env, params.replace(memory_length=length))


def without_velocities(name: str, *positions: int) -> Environment:
    """A gymnax environment that shows only some entries of its observations."""
    return Seen(as_environment(*gymnax.make(name)), lambda obs: obs[np.array(positions)])


def minigrid() -> Environment:
    """MiniGrid's Memory with its view of 7 x 7 tiles, flattened."""
    return Seen(jaxagents.make("xminigrid:MiniGrid-MemoryS8", view_size=7), one_hot_tiles)


def one_hot_tiles(obs: jax.Array) -> jax.Array:
    """A one-hot encoding of the kind and the colour of each tile."""
    kinds, colours = jax.nn.one_hot(obs[..., 0], 13), jax.nn.one_hot(obs[..., 1], 12)
    return jnp.concatenate([kinds, colours], axis=-1).ravel()


TASKS = {
    "MemoryChain, 10 steps": Task(functools.partial(memory_chain, 10), 60, 64),
    "MemoryChain, 40 steps": Task(functools.partial(memory_chain, 40), 120, 128),
    "CartPole without velocities": Task(
        functools.partial(without_velocities, "CartPole-v1", 0, 2), 150, 128
    ),
    "Pendulum without velocity": Task(
        functools.partial(without_velocities, "Pendulum-v1", 0, 1), 300, 128, 0.95
    ),
    "MiniGrid-MemoryS8": Task(
        minigrid, 240, 128, gamma=0.995, decays=True, entropy=0.02, trunk_size=128
    ),
}


def main() -> None:
    """Runs the benchmark and prints its table."""
    args = parse_args()
    train = AGENTS[args.agent]
    lines = [TITLE.format(args.agent), "", "| Task | Memory | Mean return, by seed | Mean |"]
    lines += ["|---|---|---|---|"]
    for name in args.tasks:
        for memory in args.memories:
            returns = train(TASKS[name], MEMORIES[memory], args)
            by_seed = ", ".join(f"{x:.2f}" for x in returns)
            row = [name, memory, by_seed, f"{returns.mean():.2f}"]
            lines.append(f"| {' | '.join(row)} |")
            print(lines[-1], file=sys.stderr)
    table = "\n".join(lines)
    print(table)
    if args.markdown is not None:
        args.markdown.write_text(f"{table}\n", encoding="utf-8")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--agent", choices=list(AGENTS), default="PPO")
    add("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    add("--memories", nargs="+", default=list(MEMORIES), choices=list(MEMORIES))
    add("--seeds", type=int, default=3)
    add("--share", type=float, default=1.0, help="share of the updates to run")
    add("--markdown", type=Path, help="file for the table")
    return parser.parse_args()


def train_ppo(task: Task, memory: Memory | None, args: argparse.Namespace) -> np.ndarray:
    """The mean return of each seed after training PPO."""
    n_updates = n_updates_of(task, args)
    config = AgentConfig(
        n_steps=n_updates,
        eval_frequency=n_updates,
        n_evals=N_EVALS,
        batch_size=BATCH_SIZE,
        rollout_length=task.rollout_length,
        minibatch_size=BATCH_SIZE // 4,
        **networks(task, memory),
    )
    rate = LinearSchedule(task.learning_rate, 0.0, n_updates) if task.decays else task.learning_rate
    optimizer = OptimizerParams(learning_rate=rate, grad_clip=0.5)
    hyperparams = HyperParameters(
        gamma=task.gamma,
        ent_coeff=task.entropy,
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )
    return mean_returns(PPO(task.make(), None, config), hyperparams, args)


def train_ddqn(task: Task, memory: Memory | None, args: argparse.Namespace) -> np.ndarray:
    """The mean return of each seed after training DDQN for as many environment steps."""
    n_steps = n_updates_of(task, args) * BATCH_SIZE * task.rollout_length
    config = dqn.AgentConfig(minibatch_size=256, n_step_returns=10, **replay(n_steps, memory))
    hyperparams = dqn.HyperParameters(
        gamma=task.gamma, tau=0.01, critic_learning_rate=1e-3, epsilon_steps=0.3 * n_steps
    )
    return mean_returns(DDQN(task.make(), None, config), hyperparams, args)


def replay(n_steps: int, memory: Memory | None) -> dict[str, Any]:
    """Configuration fields shared by agents with a replay buffer."""
    n_updates = -(-n_steps // (16 * 4))
    return {
        "n_steps": n_updates,
        "eval_frequency": n_updates,
        "n_evals": N_EVALS,
        "batch_size": 16,
        "rollout_length": 4,
        "buffer_size": 65_536,
        "learning_starts": 2_048,
        "features": (64, 64),
        "memory": memory,
        "sequence_length": 32,
    }


def train_pqn(task: Task, memory: Memory | None, args: argparse.Namespace) -> np.ndarray:
    """The mean return of each seed after training PQN for as many environment steps."""
    n_updates = 2 * n_updates_of(task, args)
    config = pqn.AgentConfig(
        n_steps=n_updates,
        eval_frequency=n_updates,
        n_evals=N_EVALS,
        batch_size=BATCH_SIZE // 2,
        rollout_length=task.rollout_length,
        minibatch_size=4 * task.rollout_length,
        gradient_steps=4 * BATCH_SIZE // 8,
        features=(64, 64),
        memory=memory,
    )
    hyperparams = pqn.HyperParameters(
        gamma=task.gamma,
        q_lambda=0.95,
        epsilon=LinearSchedule(1.0, 0.05, 0.2 * n_updates),
        critic_learning_rate=LinearSchedule(1e-3, 0.0, n_updates),
    )
    return mean_returns(PQN(task.make(), None, config), hyperparams, args)


def train_actor_critic(
    kind: Any, module: Any, task: Task, memory: Memory | None, args: argparse.Namespace
) -> np.ndarray:
    """The mean return of each seed after training SAC or TD3 for a tenth of the environment steps."""
    n_steps = n_updates_of(task, args) * BATCH_SIZE * task.rollout_length // 10
    config = module.AgentConfig(
        minibatch_size=512, gradient_steps=8, burn_in=8, **replay(n_steps, memory)
    )
    hyperparams = module.HyperParameters(
        gamma=task.gamma, tau=0.01, actor_learning_rate=1e-3, critic_learning_rate=1e-3
    )
    return mean_returns(kind(task.make(), None, config), hyperparams, args)


AGENTS = {
    "PPO": train_ppo,
    "DDQN": train_ddqn,
    "PQN": train_pqn,
    "SAC": functools.partial(train_actor_critic, SAC, sac),
    "TD3": functools.partial(train_actor_critic, TD3, td3),
}


def n_updates_of(task: Task, args: argparse.Namespace) -> int:
    """The number of PPO updates."""
    return max(1, round(args.share * task.n_updates))


def mean_returns(agent: Agent, hyperparams: Any, args: argparse.Namespace) -> np.ndarray:
    """Trains an agent, and returns the mean return of each seed."""
    keys = jax.random.split(jax.random.key(0), args.seeds)
    _, metrics = jax.vmap(lambda key: agent.train(key, hyperparams))(keys)
    return np.asarray(metrics["returns"])[:, -1].mean(axis=-1)


def networks(task: Task, memory: Memory | None) -> dict[str, Any]:
    """Configuration fields that select the networks."""
    if task.trunk_size is None:
        return {"memory": memory}
    layer = (task.trunk_size,)
    trunk = Torso(2 * layer, nn.relu)
    if memory is not None:
        trunk = WithMemory(Torso(()), CELLS[memory](task.trunk_size), Torso(layer, nn.relu))
    return {"trunk": trunk, "normalise_values": True}


if __name__ == "__main__":
    main()
