"""Training from a terminal: `jaxagents train --env CartPole-v1 --run-dir runs/cartpole`."""

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import optax
from jax.typing import ArrayLike

from jaxagents import PPO, cache_programs, verify
from jaxagents.checkpoints.records import saved_steps
from jaxagents.plotting import plot_learning_curve
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams

_N_MINIBATCHES = 4


def annealed_adam(
    learning_rate: optax.ScalarOrSchedule, eps: ArrayLike, n_gradient_steps: int
) -> optax.GradientTransformation:
    """Adam whose steps shrink linearly to zero over the training."""
    annealing = optax.linear_schedule(1.0, 0.0, n_gradient_steps)
    return optax.chain(optax.adam(learning_rate, eps=eps), optax.scale_by_schedule(annealing))


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line.

    Args:
        arguments: Words of the command line; those of the process by default.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    cache_programs()
    if options.command == "verify":
        _verify(parser, options.folder)
    else:
        _train_and_report(parser, options)


def _verify(parser: argparse.ArgumentParser, folder: Path) -> None:
    try:
        damages = verify(folder)
    except FileNotFoundError as error:
        parser.error(str(error))
    for step, damage in damages.items():
        print(f"{step:>12,}  {damage or 'whole'}")
    if any(damages.values()):
        sys.exit(1)


def _train_and_report(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if saved_steps(options.run_dir) and not options.resume:
        parser.error(
            f"{options.run_dir} already holds checkpoints: add --resume, or choose another."
        )
    if options.batch_size % _N_MINIBATCHES:
        parser.error(f"--batch-size must be a multiple of {_N_MINIBATCHES}.")
    agent = _make_agent(options)
    print(agent)
    _train(agent, options)
    _report(agent, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="jaxagents", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command", dest="command")
    train = commands.add_parser(
        "train",
        help="train PPO on a gymnax environment",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    train.add_argument("--env", default="CartPole-v1", help="name of a gymnax environment")
    train.add_argument("--run-dir", type=Path, required=True, help="folder for all results")
    train.add_argument("--resume", action="store_true", help="go on from the run's last checkpoint")
    train.add_argument("--seed", type=int, default=0)
    train.add_argument("--n-steps", type=int, default=300, help="update steps in all")
    train.add_argument("--batch-size", type=int, default=16, help="parallel environments")
    train.add_argument("--rollout-length", type=int, default=128)
    train.add_argument("--learning-rate", type=float, default=2e-3)
    train.add_argument("--entropy", type=float, default=0.01, help="weight of the entropy bonus")
    train.add_argument("--eval-frequency", type=int, default=15, help="updates between evaluations")
    verification = commands.add_parser(
        "verify", help="say of each checkpoint of a training whether it is whole (else exit with 1)"
    )
    verification.add_argument("folder", type=Path, help="folder of the training")
    return parser


def _make_agent(options: argparse.Namespace) -> PPO:
    import gymnax

    env, env_params = gymnax.make(options.env)
    n_gradient_steps = options.n_steps * AgentConfig.actor_epochs * _N_MINIBATCHES
    config = AgentConfig(
        n_steps=options.n_steps,
        batch_size=options.batch_size,
        minibatch_size=options.batch_size // _N_MINIBATCHES,
        rollout_length=options.rollout_length,
        optimizer=functools.partial(annealed_adam, n_gradient_steps=n_gradient_steps),
        eval_frequency=options.eval_frequency,
        checkpoint_dir=options.run_dir,
        restore_agent=options.resume,
    )
    return PPO(env, env_params, config)


def _train(agent: PPO, options: argparse.Namespace) -> None:
    optimizer = OptimizerParams(learning_rate=options.learning_rate, grad_clip=0.5)
    hyperparams = HyperParameters(
        ent_coeff=options.entropy,
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )
    agent.resume(jax.random.key(options.seed), hyperparams)


def _report(agent: PPO, options: argparse.Namespace) -> None:
    returns = agent.summarize(agent.eval(jax.random.key(options.seed + 1), n_evals=128)["returns"])
    steps_per_update = options.batch_size * options.rollout_length
    updates = agent.previous_training_max_step
    print(
        f"After {updates} updates ({updates * steps_per_update:,} environment steps), 128 greedy "
        f"episodes return {returns.mean:.1f} on average (std {returns.std:.1f}, "
        f"min {returns.min:.1f}, max {returns.max:.1f})."
    )
    picture = options.run_dir / "learning_curve.png"
    plot_learning_curve(
        agent.training_metrics or {},
        picture,
        steps_per_update=steps_per_update,
        title=f"PPO on {options.env}",
    )
    print(f"Configuration, metrics, checkpoints and {picture.name} are in {options.run_dir}.")
