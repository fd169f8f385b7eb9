"""Measures how PPO scales over devices.

Every run is a fresh process. Without accelerators the devices are parts of the CPU that JAX makes, as
many as asked for: more of them than cores show only what sharing costs.
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

INTRODUCTION = """# Scaling over devices

PPO on CartPole-v1 with 64 x 64 units, 128 steps a rollout, 4 epochs of 4 minibatches, 8 groups, measured
by `python benchmarks/scaling.py --markdown docs/benchmarks/scaling.md`
{machine}.

Each number is the median over {repeats} fresh processes.
A ratio compares with one device in the same round.
Each device has its own core, as long as there are cores. Otherwise one CPU device
would compute with all cores of the machine, and further devices on the same cores would not make it
faster."""
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
        INTRODUCTION.format(machine=reports.machine(), repeats=args.repeats),
        f"## Strong scaling: {args.envs:,} environments in all",
        scaling_table(results, strong),
        f"## Weak scaling: {args.envs:,} environments on each device",
        scaling_table(results, weak),
        *reports.failures({f"{d} devices, {n} environments": r for (d, n), r in results.items()}),
    ]
    reports.write("\n\n".join(sections), args.markdown)
    peers.exit_if_any_failed(chain(*results.values()))


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=600.0)
    add = parser.add_argument
    add("--repeats", type=peers.positive, default=2, help="processes for each number")
    add("--devices", nargs="+", type=int, default=[1, 2, 4], help="numbers of devices, 1 first")
    add("--envs", type=int, default=2048, help="environments of all devices, or of each")
    add("--seconds", type=float, default=1.0, help="aimed length of a timed call")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    return parser.parse_args()


def on_cores(n_devices: int) -> list[str]:
    """The words that give a command one core for each CPU device, as far as there are cores."""
    if not (hasattr(os, "sched_getaffinity") and shutil.which("taskset")):
        return []
    cores = sorted(os.sched_getaffinity(0))[:n_devices]
    return ["taskset", "-c", ",".join(map(str, cores))]


def scaling_table(results: Results, works: list[tuple[int, int]]) -> str:
    """Speeds, and their ratios to the first."""
    rows = []
    for work in works:
        pairs = zip(results[work], results[works[0]], strict=True)
        speed = reports.median(results[work], "steps_per_second", ",.0f")
        rows.append([*work, speed, reports.ratio(pairs, "steps_per_second")])
    return reports.table(["Devices", "Environments", "Environment steps a second", "Ratio"], rows)


if __name__ == "__main__":
    main()
