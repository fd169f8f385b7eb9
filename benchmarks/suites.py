"""Trains PPO and IPPO in environments of other suites, over several seeds, and reports their returns.

In Overcooked, two cooks share one network and at first also get the shaped reward, as in the JaxMARL
baselines; the report shows the true reward. Tasks whose suite is not installed are skipped.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import reports
from flax import linen as nn

import jaxagents
from jaxagents import IPPO, PPO, ppo
from jaxagents.core.extras import is_installed
from jaxagents.networks import CategoricalActor, PerActor, StateCritic

HEAD = (
    *("Environment", "Agent", "Steps", "Untrained", "Return, by seed", "Maximum"),
    "CPU minutes per seed",
)
N_ENVS, N_EVALS = 64, 64
SHAPED = "shaped_reward"


class GuidedIPPO(IPPO):
    """IPPO with shaped rewards, whose weight decays to zero in the first half of training."""

    def _with_rewards(self, runner, traj):
        weight = jnp.maximum(1.0 - 2.0 * runner.update_step / self.config.n_steps, 0.0)
        reward = traj.reward + weight * traj.info[SHAPED]
        return super()._with_rewards(runner, traj._replace(reward=reward))


class Task(NamedTuple):
    """A task.

    Attributes:
        n_updates: Number of updates.
        most: The maximum return, if known.
        options: Options of the environment.
        guided: Whether the agents also learn from shaped rewards.
        hyperparams: Overrides of the shared hyperparameters.
        config: Overrides of the shared configuration.
    """

    n_updates: int
    most: str = "-"
    options: dict[str, Any] = {}  # noqa: RUF012
    guided: bool = False
    hyperparams: dict[str, Any] = {}  # noqa: RUF012
    config: dict[str, Any] = {}  # noqa: RUF012


TASKS = {
    "gymnax:CartPole-v1": Task(60, "500"),
    "navix:Navix-Empty-8x8-v0": Task(60, "1"),
    "navix:Navix-DoorKey-5x5-v0": Task(250, "1"),
    "xminigrid:MiniGrid-Empty-8x8": Task(60, "below 1"),
    "xminigrid:MiniGrid-DoorKey-5x5": Task(150, "below 1"),
    "brax:inverted_pendulum": Task(
        500,
        "1000",
        {"backend": "spring"},
        config={"rollout_length": 64, "normalise_rewards": True},
    ),
    "jaxmarl:overcooked": Task(
        200,
        options={"layout": "cramped_room"},
        guided=True,
        config={
            "summed_info": (SHAPED,),
            "eval_deterministic": False,
        },
    ),
}


def main() -> None:
    """Trains in each environment and prints the page."""
    args = parse_args()
    rows = []
    for name in args.tasks:
        if is_installed(name.split(":")[0]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows.append(trained(name, TASKS[name], args))
            print(rows[-1], file=sys.stderr)
    reports.write(report(rows, args), args.markdown, opening)


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    add("--seeds", type=int, default=3)
    add("--share", type=float, default=1.0, help="share of the updates to run")
    add("--markdown", type=Path, help="file for the page")
    return parser.parse_args()


def opening(page: str, chart: Path) -> str:
    """The returns, and a chart of their shares of the maximum where that is known."""
    (table,) = reports.tables(page)
    bars, numbers = [], {}
    for name, _, _, untrained, by_seed, most, _ in table.rows:
        env, returned = name.replace("`", ""), np.mean(reports.numbers_in(by_seed))
        number = np.format_float_positional(returned, precision=2, trim="-")
        about = "" if most == "-" else f" (maximum: {most})"
        numbers[env.partition(":")[0]] = number, f"return in {env}{about}"
        for limit in reports.numbers_in(most):
            start = reports.numbers_in(untrained)[0]
            bars.append(reports.Bar(env, "trained", [100 * returned / limit]))
            bars.append(reports.Bar(env, "untrained", [100 * start / limit]))
    pictures = reports.draw_bars(chart, "Share of the maximum return", bars, "{:.0f}%", log=False)
    return reports.in_large(numbers.values(), pictures)


def report(rows: list[list[str]], args: argparse.Namespace) -> str:
    """The page, in Markdown."""
    suites = dict.fromkeys(name.split(":")[0] for name in TASKS)
    parts = [
        "# PPO in other suites",
        "What do PPO and IPPO learn in navix, xminigrid, brax and Overcooked with default networks (two "
        f"layers of 64 units)? They train in {N_ENVS} environments, with a learning rate that decays "
        f"from 0.001 to zero. The return is the mean over {N_EVALS} greedy episodes after training, for "
        f"each of {args.seeds} seeds. For the untrained agent, the table shows the mean over seeds.",
        "In Overcooked, two cooks share one network, and evaluations sample actions. In the first half "
        "of training, the cooks also get a shaped reward for steps towards a soup, with a weight that "
        "decays to zero, as in the JaxMARL baselines. The table shows the true reward: 20 per soup.",
        reports.table(HEAD, rows),
        reports.measured_by("python benchmarks/suites.py"),
        f"Versions: {reports.versions('jaxagents', 'jax', *suites)}.",
    ]
    return "\n\n".join(parts)


def trained(name: str, task: Task, args: argparse.Namespace) -> list[str]:
    """The row of an environment."""
    n_updates = max(1, round(args.share * task.n_updates))
    agent = make_agent(name, task, n_updates)
    hyperparams = ppo.HyperParameters(
        ent_coeff=0.01,
        actor_optimizer_params=_falling(n_updates),
        critic_optimizer_params=_falling(n_updates),
        **task.hyperparams,
    )
    before = time.process_time()
    keys = jax.random.split(jax.random.key(0), args.seeds)
    trainings = [agent.train(key, hyperparams, progress=False)[1] for key in keys]
    minutes = (time.process_time() - before) / 60 / args.seeds
    returns = np.array([_of_a_team(x["returns"]) for x in trainings])
    config = agent.config
    return [
        f"`{name}`" + "".join(f", {x}" for x in task.options.values()),
        "IPPO, shaped" if task.guided else "PPO",
        f"{n_updates * config.batch_size * config.rollout_length / 1e6:.2g} million",
        f"{returns[:, 0].mean():.2f}",
        ", ".join(f"{x:.2f}" for x in returns[:, -1]),
        task.most,
        f"{minutes:.1f}",
    ]


def make_agent(name: str, task: Task, n_updates: int) -> PPO:
    """The agent, with networks that flatten observations."""
    env = jaxagents.make(name, **task.options)
    sizes = {"batch_size": N_ENVS, "rollout_length": 128, "minibatch_size": N_ENVS // 4}
    points = {"n_steps": n_updates, "eval_frequency": n_updates, "n_evals": N_EVALS}
    config = ppo.AgentConfig(**(points | sizes | task.config))
    if env.n_actors is None:
        if jaxagents.envs.is_box(env.action_space):
            return PPO(env, None, config)
        return PPO(env, None, config.replace(**networks(env.action_space.n)))
    lifted = {
        field: PerActor(network, env.n_actors, shared_params=True)
        for field, network in networks(env.action_space.n).items()
    }
    return GuidedIPPO(env, None, config.replace(**lifted))


def networks(n_actions: int) -> dict[str, nn.Module]:
    """Networks that flatten observations."""
    return {
        "actor_network": nn.Sequential((jnp.ravel, CategoricalActor(n_actions))),
        "critic_network": nn.Sequential((jnp.ravel, StateCritic())),
    }


def _falling(n_updates: int) -> ppo.OptimizerParams:
    """An optimizer with a learning rate that decays to zero."""
    rate = jaxagents.LinearSchedule(1e-3, 0.0, n_updates)
    return ppo.OptimizerParams(learning_rate=rate, grad_clip=0.5)


def _of_a_team(returns: np.ndarray) -> np.ndarray:
    """The mean return at each point; all agents of a team get the same reward."""
    return np.asarray(returns).reshape(len(returns), -1).mean(axis=1)


if __name__ == "__main__":
    main()
