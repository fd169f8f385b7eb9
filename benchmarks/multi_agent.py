"""Compares the speed and returns of recurrent IPPO and MAPPO with the JaxMARL baselines.

Every run is a fresh process, and the runs of the two libraries alternate. The baselines are not in a
package: they run from a checkout of JaxMARL's repository, in their own virtual environment with the same
version of JAX. Without a checkout, only jaxagents runs. It needs JaxMARL too:
`pip install ".[jaxmarl]"`.
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
    "Win rate",
    "Steps per second",
    "Compilation (s)",
)


def main() -> None:
    """Runs the benchmark and prints its report."""
    parser = peers.parser_of_two(__doc__, LIBRARIES, timeout=3600.0)
    add = parser.add_argument
    add("--jaxmarl-checkout", type=Path, help="checkout of JaxMARL's repository")
    add("--tasks", nargs="+", choices=list(TASKS), default=["simple_spread", "3m", "2s3z"])
    add("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    add("--seeds", type=peers.positive, default=3, help="processes per library and task")
    add("--share", type=float, default=1.0, help="share of the updates to run")
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
    """The number of updates in a run."""
    return max(1, round(share * TASKS[task].updates))


def report(rounds: dict[Any, list[Round]], args: argparse.Namespace) -> str:
    """The page."""
    columns = reports.columns(itertools.chain(*rounds.values()))
    table = [row for work, found in rounds.items() for row in rows(*work, found, args.share)]
    return "\n\n".join(
        [
            "# IPPO and MAPPO compared with JaxMARL",
            "How do recurrent IPPO and MAPPO compare with the JaxMARL baselines in speed and "
            "returns? All use a GRU of 128 units between two layers of 128, whose parameters all "
            "agents share, and the settings in the baselines' configuration files, except for the "
            "number of steps. The learning rate decays to zero. Remaining differences:",
            "- In IPPO, actor and critic share the GRU and the layer before it. In jaxagents, each has "
            "its own optimizer, and values are normalised.\n"
            "- In MAPPO, jaxagents' critic is one network with a value for each agent; the "
            "baselines run the critic once per agent.\n"
            "- The baselines clip the value loss.\n"
            "- jaxagents masks out SMAX units that have died.",
            "Returns and win rates are measured with sampled actions at the end of a run: jaxagents "
            "plays 256 episodes; the baselines average the episodes during the last 2% of the updates. "
            "Steps per second exclude compilation and evaluation and are medians over seeds; each "
            "ratio compares two consecutive runs.",
            reports.table(HEAD, table),
            reports.measured_by(command(args)),
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


def command(args: argparse.Namespace) -> str:
    """The command that reproduces the page."""
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
    """Yields the rows of a task: one per library, and the ratio of their speeds."""
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
