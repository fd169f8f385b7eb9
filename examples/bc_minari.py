"""Behavioural cloning on a Minari dataset, or on its best episodes.

    python examples/sac_mujoco.py --minari-id double-pendulum/sac-v0
    python examples/bc_minari.py double-pendulum/sac-v0
    python examples/bc_minari.py double-pendulum/sac-v0 --best-share 0.2 --output runs/bc-best

The first command records SAC's training. The second clones all of it, good and bad; the third
clones only the best episodes, a fifth of the steps. Both evaluate the policy in the dataset's
environment and write to `runs/bc-minari`. You can use any dataset of continuous actions, for
example from `minari download`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from offline_minari import episode_returns, load, make_parser, parse, sizes, train

from jaxagents import BC, bc
from jaxagents.data import Dataset


def best_episodes(dataset: Dataset, share: float) -> Dataset:
    """The episodes with the highest returns that make up a given share of the steps."""
    episodes = np.cumsum(np.append(0, dataset["ends"][:-1]))
    order = np.argsort(-episode_returns(dataset), kind="stable")
    n_steps = np.cumsum(np.bincount(episodes)[order])
    n_kept = 1 + np.searchsorted(n_steps, share * len(dataset))
    return dataset.get_subset(np.isin(episodes, order[:n_kept]))


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the example and returns the agent and its metrics."""
    parser = make_parser("Behavioural cloning on a Minari dataset.", "bc")
    parser.add_argument("--best-share", type=float, default=1.0, help="share of the steps to clone")
    options = parse(parser, argv)
    if not 0.0 < options.best_share <= 1.0:
        parser.error(f"--best-share must lie in (0, 1], got {options.best_share}.")
    task = load(options)
    best = best_episodes(task.dataset, options.best_share)
    print(f"{len(best):,} steps are cloned.")
    agent = BC(task.env, None, bc.AgentConfig(**sizes(options)), dataset=best)
    hyperparams = bc.HyperParameters(actor_learning_rate=options.learning_rate)
    return train(agent, hyperparams, task, options)


if __name__ == "__main__":
    main()
