"""Conservative Q-learning on a Minari dataset.

    python examples/sac_mujoco.py --minari-id double-pendulum/sac-v0
    python examples/cql_minari.py double-pendulum/sac-v0

The first command records SAC's training. The second learns from all of it, good and bad, evaluates
the policy in the dataset's environment, and writes to `runs/cql-minari`. You can use any dataset of
continuous actions, for example from `minari download`.
"""

from collections.abc import Sequence
from typing import Any

from offline_minari import load, make_parser, parse, sizes, train

from jaxagents import CQL, cql


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the example and returns the agent and its metrics."""
    parser = make_parser("CQL on a Minari dataset.", "cql")
    parser.add_argument("--conservative-weight", type=float, default=1.0, help="0 is SAC")
    parser.add_argument("--n-action-samples", type=int, default=4, help="for each of three kinds")
    parser.add_argument("--tau", type=float, default=0.02, help="step size of the target critics")
    parser.set_defaults(batch_size=128)
    options = parse(parser, argv)
    task = load(options)
    config = cql.AgentConfig(
        **sizes(options), n_action_samples=options.n_action_samples, normalise_rewards=True
    )
    hyperparams = cql.HyperParameters(
        conservative_weight=options.conservative_weight,
        tau=options.tau,
        actor_learning_rate=options.learning_rate,
        critic_learning_rate=options.learning_rate,
        temperature_learning_rate=options.learning_rate,
    )
    return train(CQL(task.env, None, config, dataset=task.dataset), hyperparams, task, options)


if __name__ == "__main__":
    main()
