"""Measures jaxagents' recurrent IPPO and MAPPO in cooperative games."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import teams
import worker
from flax import linen as nn

import jaxagents
from jaxagents import IPPO, MAPPO, ppo
from jaxagents.envs import Environment, Step
from jaxagents.envs.spaces import Discrete
from jaxagents.networks import (
    CategoricalActor,
    PerActor,
    StateCritic,
    Torso,
    WithMemory,
)


class Meeting(Environment):
    """Two agents on a line that should meet."""

    n_actors, action_space, max_steps = 2, Discrete(2), 5

    def reset(self, key: jax.Array) -> tuple[Any, Any]:
        places = jax.random.uniform(key, (2,))
        return places[:, None], places

    def step(self, key: jax.Array, state: Any, action: Any) -> Step:
        places = state + 0.1 * (2.0 * action - 1.0)
        distance, never = jnp.abs(places[0] - places[1]), jnp.bool_(False)
        return Step(places[:, None], places, jnp.full((2,), -distance), never, never, {})


AGENTS = {"IPPO": IPPO, "MAPPO": MAPPO}


def main() -> None:
    """Trains once, and prints one line of JSON."""
    args = teams.parser().parse_args()
    task = teams.TASKS[args.task]
    settings = task.settings[args.algorithm]
    agent = make_agent(AGENTS[args.algorithm], task, settings, args.updates, args.episodes)
    hyperparams = hyperparameters(settings, args.updates)
    began = time.perf_counter()
    runner = agent.start(jax.random.key(args.seed), hyperparams)
    jax.block_until_ready(agent.advance(runner, np.int32(1)))
    seconds_to_compile = time.perf_counter() - began
    runner = agent.start(jax.random.key(args.seed), hyperparams)
    found: dict[str, Any] = {"compile_seconds": seconds_to_compile, "seconds": 0.0, "returns": []}
    found |= {"wins": []} if task.shows_wins else {}
    for n_updates in np.diff(np.linspace(0, args.updates, teams.N_POINTS + 1).round().astype(int)):
        began = time.perf_counter()
        runner = jax.block_until_ready(agent.advance(runner, np.int32(n_updates)))
        found["seconds"] += time.perf_counter() - began
        if args.episodes:
            agent.collect_training(runner, {})
            metrics = agent.eval(jax.random.key(args.seed), args.episodes)
            found["returns"].append(float(metrics["returns"].mean()) * task.return_scale)
            if task.shows_wins:
                found["wins"].append(float(metrics["won"].mean()))
    n_steps = args.updates * settings.steps_per_update
    found["steps_per_second"] = n_steps / found["seconds"]
    worker.report("jaxagents", found, "jaxmarl")


def make_agent(
    kind: type[IPPO], task: teams.Task, settings: teams.Settings, n_updates: int, n_episodes: int
) -> IPPO:
    """An agent whose actors share one recurrent network; in IPPO, the critics share it too."""
    env = Meeting()
    if task.of_jaxmarl:
        env = jaxagents.make(f"jaxmarl:{task.environment}", **task.options)

    def with_memory(network: nn.Module) -> WithMemory:
        cell = nn.GRUCell(features=settings.width)
        return WithMemory(network, cell, Torso((settings.width,), nn.relu))

    def of_all(network: nn.Module) -> nn.Module:
        return PerActor(network, env.n_actors, shared_params=True)

    layers = {"features": (settings.width,), "activation": nn.relu}
    actor = CategoricalActor(env.action_space.n, **layers)
    if kind is MAPPO:
        critic = with_memory(StateCritic(n_values=env.n_actors, **layers))
        networks = {"actor_network": of_all(with_memory(actor)), "critic_network": critic}
    else:
        networks = {
            "trunk": of_all(with_memory(Torso(features=()))),
            "actor_network": of_all(actor),
            "critic_network": of_all(StateCritic(**layers)),
            "normalise_values": True,
        }
    config = ppo.AgentConfig(
        n_steps=n_updates,
        eval_deterministic=False,
        terminate_at_limits=True,
        final_info=("won",) if task.shows_wins else (),
        batch_size=settings.n_envs,
        rollout_length=settings.rollout_length,
        minibatch_size=settings.n_envs // settings.n_minibatches,
        actor_epochs=settings.n_epochs,
        critic_epochs=settings.n_epochs,
        **networks,
    )
    return kind(env, None, config)


def hyperparameters(settings: teams.Settings, n_updates: int) -> ppo.HyperParameters:
    """The agent's hyperparameters. JaxMARL halves the squared error in the value loss."""
    rate = jaxagents.LinearSchedule(settings.learning_rate, 0.0, n_updates)
    optimizer = ppo.OptimizerParams(
        learning_rate=rate, eps=1e-5, grad_clip=settings.max_gradient_norm
    )
    return ppo.HyperParameters(
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        eps_clip=settings.clip,
        ent_coeff=settings.entropy_coefficient,
        vf_coeff=settings.value_coefficient / 2.0,
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )


if __name__ == "__main__":
    main()
