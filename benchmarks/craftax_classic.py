"""Trains PPO in Craftax-Classic from symbolic observations, and reports which achievements it unlocks.

If the script is stopped and started again, it resumes.

The hyperparameters are those of the Craftax baselines, except for what is too large for so few steps:
the baselines have 1,024 environments with rollouts of 64 steps, and layers of 512 units.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import reports

import jaxagents
from jaxagents import PPO, ppo
from jaxagents.networks import CategoricalActor, StateCritic

ENV = "Craftax-Classic-Symbolic-v1"
N_ENVS, ROLLOUT_LENGTH = 64, 64
LAYERS = (256, 256, 256)
LEARNING_RATE = 2e-4
MOST = 22.0
"""The maximum return, apart from health lost and regained: 1 for each achievement."""
ACHIEVEMENTS = (
    "collect_coal",
    "collect_diamond",
    "collect_drink",
    "collect_iron",
    "collect_sapling",
    "collect_stone",
    "collect_wood",
    "defeat_skeleton",
    "defeat_zombie",
    "eat_cow",
    "eat_plant",
    "make_iron_pickaxe",
    "make_iron_sword",
    "make_stone_pickaxe",
    "make_stone_sword",
    "make_wood_pickaxe",
    "make_wood_sword",
    "place_furnace",
    "place_plant",
    "place_stone",
    "place_table",
    "wake_up",
)
SHARES = {name: f"Achievements/{name}" for name in ACHIEVEMENTS}
"""The `info` entry of each achievement: 100 if the game unlocked it, else 0."""


def main() -> None:
    """Trains each seed and writes the page."""
    args = parse_args()
    n_updates = max(args.points, round(args.steps / (N_ENVS * ROLLOUT_LENGTH)))
    trainings = []
    for seed in range(args.seeds):
        agent = make_agent(n_updates, args, args.folder / f"seed-{seed}")
        _, metrics = agent.resume(jax.random.key(seed), hyperparameters(n_updates), progress=False)
        trainings.append(jax.tree.map(np.asarray, metrics))
        print(f"seed {seed}: {metrics['returns'].mean(axis=-1)}", file=sys.stderr)
    steps = trainings[0]["update_step"] * N_ENVS * ROLLOUT_LENGTH
    returns = np.array([metrics["returns"].mean(axis=-1) for metrics in trainings])
    if args.markdown:
        args.markdown.parent.mkdir(parents=True, exist_ok=True)
        picture = args.markdown.with_suffix(".png")
        levels = {"untrained": returns[:, 0].mean()}
        reports.draw(picture, ENV, {"PPO": (steps, returns)}, levels=levels)
    reports.write(report(steps, returns, trainings, args), args.markdown, opening)


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--steps", type=int, default=1_000_000, help="environment steps per seed")
    add("--seeds", type=int, default=2)
    add("--points", type=int, default=10, help="evaluations per seed")
    add("--episodes", type=int, default=64, help="episodes per evaluation")
    about = "folder of the checkpoints, to resume from"
    add("--folder", type=Path, default=Path("runs/craftax-classic"), help=about)
    add("--markdown", type=Path, help="file for the page; the plot is saved next to it")
    return parser.parse_args()


def make_agent(n_updates: int, args: argparse.Namespace, folder: Path) -> PPO:
    """The agent, with achievements among the metrics of its evaluations."""
    env = jaxagents.make(f"craftax:{ENV}")
    n_per_point = max(1, n_updates // args.points)
    config = ppo.AgentConfig(
        n_steps=n_updates // n_per_point * n_per_point,
        batch_size=N_ENVS,
        rollout_length=ROLLOUT_LENGTH,
        minibatches_per_epoch=8,
        eval_frequency=n_per_point,
        n_evals=args.episodes,
        eval_deterministic=False,
        final_info=tuple(SHARES.values()),
        checkpoint_dir=folder,
        restore_agent=True,
        keep_checkpoints=1,
        actor_network=CategoricalActor(env.action_space.n, LAYERS),
        critic_network=StateCritic(LAYERS),
    )
    return PPO(env, None, config)


def hyperparameters(n_updates: int) -> ppo.HyperParameters:
    """The hyperparameters of the Craftax baselines, with learning rates that decay to zero."""
    rate = jaxagents.LinearSchedule(LEARNING_RATE, 0.0, n_updates)
    optimizer = ppo.OptimizerParams(rate, eps=1e-5, grad_clip=1.0)
    return ppo.HyperParameters(
        gamma=0.99,
        gae_lambda=0.8,
        eps_clip=0.2,
        ent_coeff=0.01,
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )


def report(
    steps: np.ndarray,
    returns: np.ndarray,
    trainings: list[dict[str, Any]],
    args: argparse.Namespace,
) -> str:
    """The page, in Markdown."""
    shares = {
        name: np.array([metrics[key].mean(axis=-1) for metrics in trainings])
        for name, key in SHARES.items()
    }
    made = sum(shares.values()) / 100.0
    scores = score(np.stack(list(shares.values()))).mean(axis=0)
    rows = [
        [
            f"{step:,}",
            f"{of_step.mean():.2f}",
            _each(of_step),
            f"{of_step.mean() / MOST:.1%}",
            f"{n:.2f}",
            f"{score_of_step:.1f}%",
        ]
        for step, of_step, n, score_of_step in zip(
            steps, returns.T, made.mean(axis=0), scores, strict=True
        )
    ]
    by_share = sorted(shares, key=lambda name: -shares[name][:, -1].mean())
    achievements = [
        [name.replace("_", " "), *(f"{shares[name][:, i].mean():.0f}%" for i in (0, -1))]
        for name in by_share
    ]
    parts = [
        "# PPO in Craftax-Classic",
        f"How far does PPO get in `{ENV}`? It trains in {N_ENVS} environments with rollouts of "
        f"{ROLLOUT_LENGTH} steps; actor and critic each have {len(LAYERS)} layers of {LAYERS[0]} units. "
        f"The return is the mean over {args.episodes} games with sampled actions. "
        f"Number of seeds: {len(trainings)}.",
        reports.table(
            ["Steps", "Return", "By seed", "Of the maximum", "Achievements (of 22)", "Score"], rows
        ),
        PUBLISHED,
        "Share of games in which the agent unlocks each achievement, before and after training:",
        reports.table(["Achievement", "Untrained", "Trained"], achievements),
        reports.measured_by(f"python benchmarks/craftax_classic.py --seeds {args.seeds}"),
        f"Versions: {reports.versions('jaxagents', 'jax', 'craftax')}.",
    ]
    return "\n\n".join(parts)


def opening(page: str, chart: Path) -> str:
    """The results after training, and the learning curve."""
    untrained, *_, trained = reports.tables(page)[0].rows
    steps, returned, _, share, achievements, points = trained
    numbers = [
        (returned, f"return after {steps} steps (untrained: {untrained[1]})"),
        (share, "of the maximum return"),
        (achievements, f"of {len(ACHIEVEMENTS)} achievements per game"),
        (points, "Crafter score"),
    ]
    return reports.in_large(numbers, {"Learning curve": chart.with_suffix(".png").name})


def score(shares: np.ndarray) -> np.ndarray:
    """The Crafter score, in percent, from success rates in percent, with achievements on the first axis.

    Hafner, 2022, "Benchmarking the Spectrum of Agent Capabilities", equation 1.
    """
    return np.exp(np.log1p(shares).mean(axis=0)) - 1.0


def _each(returns: np.ndarray) -> str:
    return ", ".join(f"{x:.2f}" for x in returns)


PUBLISHED = """\
The score is Crafter's: a geometric mean of the success rates below, so rare achievements raise it most.

**Published results.** Craftax-Classic has the rules of Crafter, where agents usually train for a million
steps from pixels. Crafter's scoreboard counts all games of a run. It lists a score of 4.6% and a return
of 4.2 for Stable-Baselines3's PPO, 15.6% and 10.3 for PPO with a residual network, and 1.6% and 2.1
for random actions; human experts reach 50.5% and 14.3. The Craftax paper (Matthews et al., 2024) reports
90% of the maximum return for PPO with symbolic observations after a billion steps."""


if __name__ == "__main__":
    main()
