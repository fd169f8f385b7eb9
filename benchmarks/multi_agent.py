"""Trains teams by IPPO and MAPPO, both with a memory, here and by the baselines of JaxMARL.

Every run is a fresh process, and the runs of the two alternate. The baselines are in no package: they
run from a checkout of JaxMARL's repository, in a virtual environment of their own with the same versions
of JAX. Without one, jaxagents runs alone. It needs JaxMARL as well: `pip install ".[jaxmarl]"`.
"""

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import peers
import reports
from peers import Round
from workers.teams import TASKS

LIBRARIES = {
    "jaxagents": ("jaxagents", "jaxagents_teams.py"),
    "jaxmarl": ("jaxmarl", "jaxmarl_teams.py"),
}
ALGORITHMS = "IPPO", "MAPPO"
HEAD = (
    "Task",
    "",
    "Environment steps",
    "Return, by seed",
    "Battles won",
    "Steps a second",
    "Compilation (s)",
)


def main() -> None:
    """Runs the benchmark and prints its report."""
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=3600.0)
    add = parser.add_argument
    add("--jaxmarl-checkout", type=Path, help="of JaxMARL's repository")
    add("--tasks", nargs="+", choices=list(TASKS), default=["simple_spread", "3m", "2s3z"])
    add("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    add("--seeds", type=peers.positive, default=3, help="processes for each library and task")
    add("--share", type=float, default=1.0, help="of the updates")
    args = parser.parse_args()
    checkout = []
    if args.jaxmarl_checkout is None:
        args.libraries = ["jaxagents"]
    else:
        checkout = [f"--checkout={args.jaxmarl_checkout.resolve()}"]
    works = {
        (task, algorithm): [
            f"--task={task}",
            f"--algorithm={algorithm}",
            f"--updates={n_updates(task, args.share)}",
            *checkout,
        ]
        for task, algorithm in itertools.product(args.tasks, args.algorithms)
    }
    rounds = peers.in_turns(LIBRARIES, works, args.seeds, args)
    reports.write(report(rounds, args), args.markdown)
    peers.exit_if_any_failed(
        result for found in itertools.chain(*rounds.values()) for result in found.values()
    )


def n_updates(task: str, share: float) -> int:
    """Updates of a training."""
    return max(1, round(share * TASKS[task].updates))


def report(rounds: dict[Any, list[Round]], args: argparse.Namespace) -> str:
    """The page."""
    columns = reports.columns(itertools.chain(*rounds.values()))
    table = [row for work, found in rounds.items() for row in rows(*work, found, args.share)]
    return "\n\n".join(
        [
            "# Teams beside JaxMARL",
            f"Made by `{command(args)}`, {reports.machine()}.",
            "IPPO and MAPPO with a GRU of 128 units between two layers of 128, shared by all actors, "
            "and the settings of the baselines' own configuration files, except for the number of "
            "steps. The learning rate falls to zero. What remains different:",
            "- In IPPO actor and critic share the GRU and the layer before it. Here each has an "
            "optimizer, and values are normalised.\n"
            "- The critic of MAPPO is one network with a value for each actor here. In the baselines it "
            "runs once for each actor.\n"
            "- The baselines clip the loss of values.\n"
            "- Fallen units of SMAX are masked out here.",
            "Returns and the share of battles won use sampled actions at the end of a run: here in 256 "
            "episodes, in the baselines in the episodes of the last fiftieth of the updates. Steps a "
            "second exclude compilation and evaluations, and are medians over seeds; each ratio "
            "compares two consecutive runs.",
            reports.table(HEAD, table),
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


def command(args: argparse.Namespace) -> str:
    """The command that makes the page."""
    words = ["python benchmarks/multi_agent.py"]
    if args.jaxmarl_checkout is not None:
        words.append("--jaxmarl-checkout PATH")
    words += ["--tasks", *args.tasks]
    if len(args.algorithms) < len(ALGORITHMS):
        words += ["--algorithms", *args.algorithms]
    words.append(f"--seeds {args.seeds}")
    if args.share != 1.0:
        words.append(f"--share {args.share:g}")
    return " ".join(words)


def rows(task: str, algorithm: str, rounds: list[Round], share: float) -> Iterator[list[str]]:
    """The rows of a task: one for each library, and the ratio of their speeds."""
    title = f"{task}, {algorithm}"
    n_steps = n_updates(task, share) * TASKS[task].settings[algorithm].steps_per_update
    for library in rounds[0]:
        results = [found[library] for found in rounds]
        ends = [
            ", ".join(form.format(x[-1]) for x in reports.measured(results, key))
            for key, form in (("returns", "{:.2f}"), ("wins", "{:.0%}"))
            if key == "returns" or TASKS[task].shows_wins
        ]
        yield [
            title,
            reports.label(results, library),
            f"{n_steps:,}",
            *(ends if TASKS[task].shows_wins else [*ends, "-"]),
            reports.median(results, "steps_per_second", ",.0f"),
            reports.median(results, "compile_seconds", ".0f"),
        ]
    if len(rounds[0]) == 2:
        pairs = [tuple(found.values()) for found in rounds]
        yield [title, "ratio", "", "", "", reports.ratio(pairs, "steps_per_second"), ""]


if __name__ == "__main__":
    main()
