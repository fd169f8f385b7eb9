"""Implicit Q-learning on a Minari dataset.

    python examples/sac_mujoco.py --minari-id double-pendulum/sac-v0
    python examples/iql_minari.py double-pendulum/sac-v0

The first command records SAC's training. The second learns from all of it, good and bad, evaluates
the policy in the dataset's environment, and writes to `runs/iql-minari`. You can use any dataset of
continuous actions, for example from `minari download`.
"""

from collections.abc import Sequence
from typing import Any

import optax
from offline_minari import load, make_parser, parse, sizes, train

from jaxagents import IQL, iql


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the example and returns the agent and its metrics."""
    parser = make_parser("IQL on a Minari dataset.", "iql")
    parser.add_argument("--expectile", type=float, default=0.9, help="near 1: the best of the data")
    parser.add_argument("--beta", type=float, default=3.0, help="0 clones all actions equally")
    parser.add_argument("--tau", type=float, default=0.02, help="step size of the target critics")
    options = parse(parser, argv)

    def actor_optimizer(learning_rate: Any) -> optax.GradientTransformation:
        return optax.adam(optax.cosine_decay_schedule(learning_rate, options.n_updates))

    task = load(options)
    config = iql.AgentConfig(
        **sizes(options), actor_optimizer=actor_optimizer, normalise_rewards=True
    )
    hyperparams = iql.HyperParameters(
        expectile=options.expectile,
        beta=options.beta,
        tau=options.tau,
        actor_learning_rate=options.learning_rate,
        critic_learning_rate=options.learning_rate,
        value_learning_rate=options.learning_rate,
    )
    return train(IQL(task.env, None, config, dataset=task.dataset), hyperparams, task, options)


if __name__ == "__main__":
    main()
