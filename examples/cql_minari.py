"""Conservative Q-learning on a Minari dataset.

    python examples/sac_mujoco.py --minari-id double-pendulum/sac-v0
    python examples/cql_minari.py double-pendulum/sac-v0

learns from all that SAC did while it learned, the bad and the good, plays in the dataset's environment,
and writes to `runs/cql-minari`. Any dataset of continuous actions will do, such as those that
`minari download` gets.
"""

from collections.abc import Sequence
from typing import Any

from offline_minari import load, make_parser, parse, sizes, train

from jaxagents import CQL, cql


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Runs the example, and returns the agent and its metrics."""
    parser = make_parser("CQL on a Minari dataset.", "cql")
    parser.add_argument("--conservative-weight", type=float, default=1.0, help="0 is SAC")
    parser.add_argument("--n-action-samples", type=int, default=4, help="of each of three kinds")
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
