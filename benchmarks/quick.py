"""Compares the speed of six training tasks with rejax in ten minutes, to check a change of the library.

    make bench-quick
    python benchmarks/quick.py --keep

It prints each ratio and the last one saved by `--keep` with this version of JAX. It never fails because
of a low ratio.
"""

import statistics
import sys
from importlib.metadata import version
from pathlib import Path

import peers
import reports
from peers import OURS

PEER = "rejax"
KEPT = Path(__file__).parents[1] / "docs" / "benchmarks" / "quick.json"
WORKS = {  # suffix of the workers' file names, and their options
    "PPO, CartPole-v1, 4 environments": ("ppo", "--environment=CartPole-v1", "--envs=4"),
    "PPO, CartPole-v1, 64 environments": ("ppo", "--environment=CartPole-v1", "--envs=64"),
    "PPO, CartPole-v1, 1,024 environments": ("ppo", "--environment=CartPole-v1", "--envs=1024"),
    "PPO, Breakout-MinAtar, 64 environments": (
        "ppo",
        "--environment=Breakout-MinAtar",
        "--envs=64",
    ),
    "PPO, Pendulum-v1, 64 environments": ("ppo", "--environment=Pendulum-v1", "--envs=64"),
    "DDQN, CartPole-v1": ("replay", "--work=DDQN, 10 environments, batch 128"),
}


HEAD = ("", "Steps per second", f"Ours / {PEER}", "Before", "Compilation (s)")


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = peers.parser_of_two(__doc__ or "", (OURS, PEER), timeout=300.0)
    add = parser.add_argument
    add("--keep", action="store_true", help="save the ratios to compare later runs with")
    add("--works", nargs="+", choices=list(WORKS), default=list(WORKS), help="tasks to measure")
    add("--turns", type=peers.positive, default=11, help="timed calls per library")
    add("--seconds", type=float, default=0.7, help="approximate length of a timed call")
    args = parser.parse_args()
    pythons = {OURS: Path(sys.executable)}
    if PEER in args.libraries:
        pythons[PEER] = args.peer_python or peers.python_of(PEER)
    before = reports.kept(KEPT).get(version("jax"), {})
    rows, results = [], []
    for work in args.works:
        end, *options = WORKS[work]
        options.append(f"--seconds={args.seconds}")
        commands = {
            library: [python, peers.WORKERS / f"{library}_{end}.py", *options]
            for library, python in pythons.items()
        }
        found = peers.take_turns(commands, args.turns, args.timeout)
        ratios = reports.ratios_of([(found[OURS], found.get(PEER, {}))], "steps_per_second")
        ratio = statistics.median(ratios) if ratios else None
        if args.keep and ratio:
            reports.keep(KEPT, version("jax"), work, result=round(ratio, 3))
        speed = reports.median([found[OURS]], "steps_per_second", ",.0f")
        compilation = (reports.median([x], "compile_seconds", ".1f") for x in found.values())
        old_and_new = (f"{x:.2f}" if x else "-" for x in (ratio, before.get(work)))
        rows.append([work, speed, *old_and_new, " / ".join(compilation)])
        print(*rows[-1], sep=" | ", file=sys.stderr)
        results += found.values()
    title = f"# Quick comparison\n\nMeasured {reports.machine()} with jax {version('jax')}."
    reports.write(f"{title}\n\n{reports.table(HEAD, rows)}", args.markdown)
    peers.exit_if_any_failed(results)


if __name__ == "__main__":
    main()
