"""Measures how PPO scales across devices.

Every run is a fresh process. Without accelerators, JAX splits the CPU into the requested number of
devices; with more devices than cores, the result only shows the overhead of sharing.
"""

import argparse
import os
import shutil
import sys
from itertools import chain
from pathlib import Path

import peers
import reports
from peers import Result
from workers.tasks import CARTPOLE

INTRODUCTION = """# Scaling across devices

How much faster is PPO on several devices? It trains in CartPole-v1 with two layers of 64 units, rollouts
of 128 steps, 4 epochs of 4 minibatches, and 8 groups of environments. Each number is the
median over {repeats} fresh processes; each ratio is relative to one device in the same round.

The devices share a CPU with {cores} cores. As long as there are enough cores, each device gets only one:
otherwise, a single device would use all of them, and more devices could not be faster."""
Results = dict[tuple[int, int], list[Result]]


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    worker = [sys.executable, peers.WORKERS / "sharded_ppo.py"]
    strong = [(devices, args.envs) for devices in args.devices]
    weak = [(devices, args.envs * devices) for devices in args.devices]
    results: Results = {work: [] for work in [*strong, *weak]}
    for _ in range(args.repeats):
        for devices, envs in results:
            options = [f"--environment={CARTPOLE.environment}", f"--envs={envs}"]
            options += [f"--seconds={args.seconds}"]
            variables = dict.fromkeys(("JAX_NUM_CPU_DEVICES", "N_DEVICES"), str(devices))
            command = [*on_cores(devices), *worker, *options]
            result = peers.run_worker(command, args.timeout, **variables)
            print(f"{devices} devices, {envs} environments: {result}", file=sys.stderr)
            results[devices, envs].append(result)
    sections = [
        INTRODUCTION.format(repeats=args.repeats, cores=reports.n_cores()),
        f"## Strong scaling: {args.envs:,} environments in total",
        scaling_table(results, strong),
        f"## Weak scaling: {args.envs:,} environments per device",
        scaling_table(results, weak),
        reports.measured_by("python benchmarks/scaling.py"),
        *reports.failures({f"{d} devices, {n} environments": r for (d, n), r in results.items()}),
    ]
    reports.write("\n\n".join(sections), args.markdown, opening)
    peers.exit_if_any_failed(chain(*results.values()))


def opening(page: str, chart: Path) -> str:
    """The speedups over one device."""
    bars = [
        reports.Bar(f"{devices} devices, {table.heading.partition(': ')[2]}", "", ratios)
        for table in reports.tables(page)
        for devices, _, _, cell in table.rows
        if (ratios := reports.numbers_in(cell)) and devices != "1"
    ]
    pictures = reports.draw_bars(chart, "Speedup over one device", bars, reports.TIMES)
    numbers = reports.in_words(bars[:5], reports.TIMES, "as fast as one device: {title}")
    return reports.in_large(numbers, pictures)


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=600.0)
    add = parser.add_argument
    add("--repeats", type=peers.positive, default=2, help="processes per number")
    add("--devices", nargs="+", type=int, default=[1, 2, 4], help="numbers of devices, 1 first")
    add("--envs", type=int, default=2048, help="environments in total, and per device")
    add("--seconds", type=float, default=1.0, help="approximate length of a timed call")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    return parser.parse_args()


def on_cores(n_devices: int) -> list[str]:
    """The command prefix that limits each CPU device to one core, while there are enough cores."""
    if not (hasattr(os, "sched_getaffinity") and shutil.which("taskset")):
        return []
    cores = sorted(os.sched_getaffinity(0))[:n_devices]
    return ["taskset", "-c", ",".join(map(str, cores))]


def scaling_table(results: Results, works: list[tuple[int, int]]) -> str:
    """A table of speeds and their ratios to the first."""
    rows = []
    for work in works:
        pairs = zip(results[work], results[works[0]], strict=True)
        speed = reports.median(results[work], "steps_per_second", ",.0f")
        rows.append([*work, speed, reports.ratio(pairs, "steps_per_second")])
    return reports.table(["Devices", "Environments", "Environment steps per second", "Ratio"], rows)


if __name__ == "__main__":
    main()
