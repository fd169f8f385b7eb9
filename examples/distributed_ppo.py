"""PPO on all devices of all processes. If you start it again, it resumes.

As one process: python distributed_ppo.py --checkpoint-dir runs/shared
As several: launch/slurm.sh, launch/kubernetes.yaml, or launch/ray_cluster.py
"""

import argparse
from pathlib import Path

import jax

from jaxagents import PPO, sharding
from jaxagents.ppo import AgentConfig, HyperParameters

N_GROUPS = 8  # a multiple of the number of devices; results depend on this, not on the devices


def main(argv: list[str] | None = None) -> PPO:
    """Trains and returns the agent."""
    args = parse_args(argv)
    sharding.initialize(args.coordinator, args.n_processes, args.process_id)
    import gymnax  # only now, since the import already uses JAX

    env, env_params = gymnax.make("CartPole-v1")
    config = AgentConfig(
        batch_size=args.n_envs,
        minibatch_size=args.n_envs // 4,
        rollout_length=32,
        n_groups=N_GROUPS,
        replicated_updates=args.replicated_updates,
        n_steps=args.n_steps,
        eval_frequency=max(1, args.n_steps // 5),
        max_episode_steps=500,
        checkpoint_dir=args.checkpoint_dir,
        restore_agent=True,
    )
    agent = PPO(env, env_params, config)
    mesh = sharding.make_mesh()
    agent.resume(jax.random.key(0), HyperParameters(), mesh=mesh)
    returns = agent.eval(jax.random.key(1), n_evals=64)["returns"]
    if jax.process_index() == 0:
        print(
            f"{jax.process_count()} processes, {mesh.size} devices, "
            f"{agent.previous_training_max_step} updates: mean return {returns.mean():.1f}"
        )
    return agent


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--checkpoint-dir", type=Path, required=True, help="folder that all processes see")
    add("--n-steps", type=int, default=200, help="total number of updates")
    add("--n-envs", type=int, default=256, help="environments over all devices")
    add("--replicated-updates", action="store_true", help="bit for bit on any number of devices")
    add("--coordinator", help="host:port of process 0, if JAX does not detect it")
    add("--n-processes", type=int, help="likewise")
    add("--process-id", type=int, help="likewise")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
