"""Counts the kernels that one update of PPO launches on a GPU, compared with rejax.

    python benchmarks/kernels.py --peer-python PATH

Updates are compiled for an H100; no GPU is needed. Both Pythons need JAX's CUDA plugin,
`pip install "jax[cuda13]"`. Without `--peer-python`, only jaxagents is counted.
"""

import datetime
import sys
from pathlib import Path

import peers
import reports
from peers import OURS, Round

PEER = "rejax"
TOTAL = "**total**"
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
The counts are estimates. XLA compiles matrix products and convolutions without autotuning here, so a GPU
may launch a few more or fewer kernels for them. A copy counts as one kernel, a conditional as one plus
those of its longest branch, and a sort as one, although a GPU launches several.
"""


def main() -> None:
    """Runs the benchmark and prints its report."""
    parser = peers.parser(__doc__, timeout=600.0)
    add = parser.add_argument
    add("--works", nargs="+", choices=list(WORKS), default=list(WORKS), help="updates to count")
    add("--peer-python", type=Path, help=f"Python with {PEER} and JAX's CUDA plugin")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    args = parser.parse_args()
    pythons = {OURS: sys.executable} | ({PEER: args.peer_python} if args.peer_python else {})
    rounds: dict[str, Round] = {name: {} for name in args.works}
    for name, found in rounds.items():
        for library, python in pythons.items():
            line = [python, peers.WORKERS / "gpu_kernels.py", f"--library={library}", *WORKS[name]]
            found[library] = peers.run_worker(line, args.timeout)
            print(f"{library}, {name}: {found[library]}", file=sys.stderr)
    reports.write(report(rounds), args.markdown, opening)
    peers.exit_if_any_failed(result for found in rounds.values() for result in found.values())


def opening(page: str, chart: Path) -> str:
    """The number of kernels of each library."""
    bars = [
        reports.Bar(table.heading, library.partition(" ")[0], reports.numbers_in(total))
        for table in reports.tables(page)
        for part, *totals in table.rows
        if part == TOTAL
        for library, total in zip(table.head[1:], totals, strict=True)
    ]
    form = "{:,.0f}"
    pictures = reports.draw_bars(chart, "GPU kernels per update", bars, form, log=False)
    numbers = reports.against_others(bars, form, "kernels per update: {title}")
    return reports.in_large(numbers, pictures)


def report(rounds: dict[str, Round]) -> str:
    """The page."""
    columns = reports.columns(rounds.values())
    for result in (result for results in columns.values() for result in results):
        result.get("versions", {}).pop("backend", None)  # of the machine that compiles
    return "\n\n".join(
        [
            "# GPU kernels per update",
            "How many kernels does one update of PPO launch on a GPU? With small networks, a "
            "[GPU](accelerator.md) spends most of its time launching kernels, so fewer kernels mean "
            "faster updates. The counts come from the program that XLA compiles for an H100, with the "
            "settings of [PPO](ppo_speed.md). Each cell shows how often a part runs, times the number "
            "of kernels that it launches each time.",
            " ".join(ABOUT.split()),
            *(f"## {name}\n\n{table(found)}" for name, found in rounds.items()),
            f"Counted on {datetime.date.today()}. To reproduce: `python benchmarks/kernels.py`.",
            reports.version_table(columns),
            *reports.failures(columns),
        ]
    )


def table(found: Round) -> str:
    """The counts of each part and in total, and the ratio of the totals."""
    counts = {
        reports.label([result], library): result["kernels"]
        for library, result in found.items()
        if "failure" not in result
    }
    parts = dict.fromkeys(part for loops in counts.values() for part, _, _ in loops)
    rows = [[part, *(cell(part, loops) for loops in counts.values())] for part in parts]
    totals = [sum(times * each for _, times, each in loops) for loops in counts.values()]
    rows.append([TOTAL, *(f"**{total:,}**" for total in totals)])
    if len(totals) == 2:
        rows.append(["rejax / jaxagents", f"**{totals[1] / totals[0]:.2f}**", ""])
    return reports.table(["Part", *counts], rows)


def cell(part: str, loops: list[tuple[str, int, int]]) -> str:
    """How often a part runs, and its kernels each time, for each of its loops."""
    of_part = [(times, each) for name, times, each in loops if name == part]
    total = sum(times * each for times, each in of_part)
    terms = " + ".join(f"{times} x {each}" for times, each in of_part)
    return f"{terms} = {total:,}" if of_part else "-"


if __name__ == "__main__":
    main()
