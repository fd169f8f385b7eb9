"""Counts the kernels that one update of PPO starts on a GPU, beside rejax.

    python benchmarks/kernels.py --peer-python PATH

Updates are compiled for an H100, which need not be there. Both Pythons need JAX's plugin for CUDA,
`pip install "jax[cuda13]"`; without that of rejax, it is left out.
"""

import datetime
import sys
from pathlib import Path

import peers
import reports
from peers import OURS, Round

PEER = "rejax"
WORKS = {
    f"{environment}, {n_envs:,} environments": (f"--environment={environment}", f"--envs={n_envs}")
    for environment, n_envs in (
        ("CartPole-v1", 64),
        ("CartPole-v1", 1024),
        ("Breakout-MinAtar", 1024),
        ("Pendulum-v1", 1024),
    )
}
ABOUT = """
Products and convolutions are compiled without trying which of XLA's ways is fastest, so that a GPU may
start some more or fewer for them. A copy counts as a kernel, a conditional as one and its longest
branch, and a sort as one, though on a GPU it is several. Where minibatches are large, actor and critic
are fitted in a loop each.
"""


def main() -> None:
    """Runs the benchmark and prints its report."""
    parser = peers.parser(__doc__, timeout=600.0)
    add = parser.add_argument
    add("--works", nargs="+", choices=list(WORKS), default=list(WORKS), help="what to count")
    add("--peer-python", type=Path, help=f"Python that has {PEER} and JAX's plugin")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    args = parser.parse_args()
    pythons = {OURS: sys.executable} | ({PEER: args.peer_python} if args.peer_python else {})
    rounds: dict[str, Round] = {name: {} for name in args.works}
    for name, found in rounds.items():
        for library, python in pythons.items():
            line = [python, peers.WORKERS / "gpu_kernels.py", f"--library={library}", *WORKS[name]]
            found[library] = peers.run_worker(line, args.timeout)
            print(f"{library}, {name}: {found[library]}", file=sys.stderr)
    reports.write(report(rounds), args.markdown)
    peers.exit_if_any_failed(result for found in rounds.values() for result in found.values())


def report(rounds: dict[str, Round]) -> str:
    """The page."""
    columns = reports.columns(rounds.values())
    for result in (result for results in columns.values() for result in results):
        result.get("versions", {}).pop("backend", None)  # of the machine that compiles
    return "\n\n".join(
        [
            "# Kernels of an update on a GPU",
            f"Made by `python benchmarks/kernels.py` on {datetime.date.today()}, compiled for an H100.",
            "The kernels that one update of PPO starts, counted in the compiled program. With small "
            "networks, an [accelerator](accelerator.md) spends most of its time on starting them. "
            "Settings are as in [PPO](ppo_speed.md). Each cell says how often a part is computed, and "
            "how many kernels it starts each time.",
            " ".join(ABOUT.split()),
            *(f"## {name}\n\n{table(found)}" for name, found in rounds.items()),
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


def table(found: Round) -> str:
    """The counts of each part, and of all; those of the other library over ours below."""
    counts = {
        reports.label([result], library): result["kernels"]
        for library, result in found.items()
        if "failure" not in result
    }
    parts = dict.fromkeys(part for loops in counts.values() for part, _, _ in loops)
    rows = [[part, *(cell(part, loops) for loops in counts.values())] for part in parts]
    totals = [sum(times * each for _, times, each in loops) for loops in counts.values()]
    rows.append(["**all**", *(f"**{total:,}**" for total in totals)])
    if len(totals) == 2:
        rows.append(["rejax's over ours", f"**{totals[1] / totals[0]:.2f}**", ""])
    return reports.table(["Part", *counts], rows)


def cell(part: str, loops: list[tuple[str, int, int]]) -> str:
    """How often a part is computed, with how many kernels, in each loop of it."""
    of_part = [(times, each) for name, times, each in loops if name == part]
    total = sum(times * each for times, each in of_part)
    terms = " + ".join(f"{times} x {each}" for times, each in of_part)
    return f"{terms} = {total:,}" if of_part else "-"


if __name__ == "__main__":
    main()
