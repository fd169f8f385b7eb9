"""Measures the training speed of PPO with a memory, in jaxagents and in purejaxrl, at the same work.

Every run is a fresh process, and the runs of the two alternate. purejaxrl is in no package: it runs from
a checkout of its repository, in a virtual environment of its own with the same versions of JAX. Without
one, jaxagents runs alone.
"""

from itertools import chain
from pathlib import Path

import peers
import reports
from peers import Round

LIBRARIES = {
    "jaxagents": ("jaxagents", "jaxagents_recurrent.py"),
    "purejaxrl": ("purejaxrl", "purejaxrl_recurrent.py"),
}
ENVIRONMENTS = ("MemoryChain-bsuite",)
QUANTITIES = {  # how each is called in the report, in a worker's result, and its format
    "Environment steps a second": ("steps_per_second", ",.0f"),
    "Compilation (s)": ("compile_seconds", ".1f"),
    "Peak memory (MiB)": ("memory_mib", ",.0f"),
}


def main() -> None:
    """Runs the benchmark and prints its report."""
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=600.0)
    add = parser.add_argument
    add("--purejaxrl-checkout", type=Path, help="of purejaxrl's repository")
    add("--repeats", type=peers.positive, default=2, help="processes for each library and task")
    add("--environments", nargs="+", default=list(ENVIRONMENTS), help="where to train")
    add("--updates", type=peers.positive, default=60, help="of each timed call")
    args = parser.parse_args()
    if args.purejaxrl_checkout is None:
        args.libraries = ["jaxagents"]
    works = {
        name: [f"--environment={name}", f"--updates={args.updates}"] for name in args.environments
    }
    if args.purejaxrl_checkout is not None:
        checkout = f"--checkout={args.purejaxrl_checkout.resolve()}"
        works = {name: [*options, checkout] for name, options in works.items()}
    rounds = peers.in_turns(LIBRARIES, works, args.repeats, args)
    reports.write(report(rounds, args.repeats), args.markdown)
    peers.exit_if_any_failed(
        result for found in chain(*rounds.values()) for result in found.values()
    )


def report(rounds: dict[str, list[Round]], n_repeats: int) -> str:
    """The page."""
    columns = reports.columns(chain(*rounds.values()))
    rows = [
        row
        for name, measured in rounds.items()
        for row in reports.comparison(name, measured, dict(QUANTITIES.values()))
    ]
    command = (
        f"python benchmarks/recurrent_speed.py --purejaxrl-checkout PATH --repeats {n_repeats}"
    )
    return "\n\n".join(
        [
            "# PPO with a memory",
            f"Made by `{command}`, {reports.machine()}.",
            "A GRU of 128 units between two layers of 128, four environments, rollouts of 128 steps, "
            "four epochs of four minibatches, of the sequence of one environment each: the settings of "
            "`ppo_rnn.py` of purejaxrl. In both, actor and critic share the GRU and the layer before "
            "it. What remains different: purejaxrl has one optimizer for both, bootstraps only at the "
            "end of a rollout, clips the loss of values, and computes values while it acts, not after.",
            "Medians of fresh processes; each ratio compares two consecutive runs, ours over "
            "purejaxrl's, with the range. `ppo_rnn.py` is unchanged, except that its GRU gets its size, "
            "which Flax now requires.",
            reports.table(["", "", *QUANTITIES], rows),
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


if __name__ == "__main__":
    main()
