"""Compares the training speed of recurrent PPO in jaxagents and in purejaxrl.

Every run is a fresh process, and the runs of the two libraries alternate. purejaxrl is not in a package:
it runs from a checkout of its repository, in its own virtual environment with the same version of JAX.
Without a checkout, only jaxagents runs.
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
QUANTITIES = {  # column, key in a worker's result, and format
    "Environment steps per second": ("steps_per_second", ",.0f"),
    "Compilation (s)": ("compile_seconds", ".1f"),
    "Peak memory (MiB)": ("memory_mib", ",.0f"),
}


def main() -> None:
    """Runs the benchmark and prints its report."""
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=600.0)
    add = parser.add_argument
    add("--purejaxrl-checkout", type=Path, help="checkout of purejaxrl's repository")
    add("--repeats", type=peers.positive, default=2, help="processes per library and environment")
    add("--environments", nargs="+", default=list(ENVIRONMENTS), help="environments")
    add("--updates", type=peers.positive, default=60, help="updates per timed call")
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
    reports.write(report(rounds, args.repeats), args.markdown, opening)
    peers.exit_if_any_failed(
        result for found in chain(*rounds.values()) for result in found.values()
    )


def opening(page: str, chart: Path) -> str:
    """The ratios of all quantities."""
    names = "speed", "compilation time", "peak memory"
    bars = [
        reports.Bar(f"{name}, {environment}", "", ratios)
        for environment, kind, *cells in reports.tables(page)[0].rows
        if kind == "ratio"
        for name, cell in zip(names, cells, strict=True)
        if (ratios := reports.numbers_in(cell))
    ]
    pictures = reports.draw_bars(chart, "jaxagents / purejaxrl", bars, reports.TIMES)
    numbers = reports.in_words(bars[:5], reports.TIMES, "purejaxrl's {title}")
    return reports.in_large(numbers, pictures)


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
            "# Recurrent PPO",
            "How fast is recurrent PPO compared with purejaxrl? Both use the settings of purejaxrl's "
            "`ppo_rnn.py`: a GRU of 128 units between two layers of 128, four environments, rollouts of "
            "128 steps, and four epochs of four minibatches, each with the sequence of one environment. "
            "In both, actor and critic share the GRU and the layer before it. Remaining differences: "
            "purejaxrl has one optimizer for both, bootstraps only at the end of a rollout, clips the "
            "value loss, and computes values while acting instead of afterwards.",
            "The table shows medians over fresh processes. Ratios are jaxagents / purejaxrl: the median "
            "over pairs of consecutive runs, with the range in parentheses. `ppo_rnn.py` is unchanged, "
            "except that its GRU gets the size that Flax now requires.",
            reports.table(["", "", *QUANTITIES], rows),
            reports.measured_by(command),
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


if __name__ == "__main__":
    main()
