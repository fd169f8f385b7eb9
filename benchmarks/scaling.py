"""Measures how PPO scales over devices, and works out on paper where it stops.

Every run is a fresh process. Without accelerators the devices are parts of the CPU that JAX makes, as
many as asked for: more of them than cores show only what sharing costs.
"""

import argparse
import math
import os
import shutil
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path

import peers
from peers import Result

N_MINIBATCH_STEPS = 16  # 4 epochs of 4 minibatches
LINKS = {  # seconds until a message arrives, and bytes a second
    "Ethernet, 10 Gbit/s": (50e-6, 1.25e9),
    "InfiniBand, 400 Gbit/s": (5e-6, 50e9),
    "NVLink, 450 GB/s": (3e-6, 450e9),
}
ACCELERATORS = (8, 64, 512)
INTRODUCTION = """# Scaling over devices

PPO on CartPole-v1 with 64 x 64 units, 128 steps a rollout, 4 epochs of 4 minibatches, 8 groups, measured
by `python benchmarks/scaling.py --markdown docs/benchmarks/scaling.md`
{machine}.

Fresh processes for each number, of which it is the median: {repeats}.
A ratio is to one device in the same round.
Each device has a core of its own, as long as there are cores. Without such a bound, one CPU device
computes with all cores of the machine, and further ones on the same cores make it no faster."""
COUNTED = """## What devices tell each other

An update collects its samples without a word. After that, the devices bring together three numbers
of each minibatch's advantages, by an all-reduce each, and the gradients of actor and critic, by one of
both. In the compiled program there are {all_reduces} all-reduces, all of them of a minibatch, and
they have {all_reduced_bytes:,} bytes in all: as many as the parameters have, whatever the number of
environments and devices. No sample leaves its device."""
PAPER = """## On paper

How a minibatch step of {minibatch_samples:,} samples on each device ({envs:,} environments on
each) would scale, from the {step:.1f} ms that it took on one device here, and from the counted
bytes $B$. With $n$ devices in a ring, an all-reduce takes $2 (n - 1) (\\alpha + B / (n W))$, of
which there are {n_all_reduces}; $\\alpha$ is the time until a message arrives, and $W$ the bytes
a second.
In the rows of accelerators a step is taken to be a hundred times as fast as here, which is a guess.
Efficiency is the share of the time that is no communication.

{table}

Where it stops: the latency of a ring grows with the number of devices, while the bytes do not.
Once these all-reduces take as long as the step itself, more devices no longer help: at
{limits}. Larger networks and more environments on each device move that place outwards in
proportion to the time that a step takes. Libraries of collectives go over to trees for small
messages, whose latency grows with the logarithm of the number, so that the figures for many
devices are on the safe side."""


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    worker = [sys.executable, str(peers.WORKERS / "sharded_ppo.py")]
    results: dict[tuple[int, int], list[Result]] = {}
    for _ in range(args.repeats):
        for work in works(args):
            devices, envs = work
            options = [f"--devices={devices}", f"--envs={envs}", f"--seconds={args.seconds}"]
            variables = {"JAX_NUM_CPU_DEVICES": str(devices)}
            result = peers.run_worker(
                [*on_cores(devices), *worker, *options], args.timeout, **variables
            )
            print(f"{devices} devices, {envs} environments: {result}", file=sys.stderr)
            results.setdefault(work, []).append(result)
    peers.write(report(results, args), args.markdown)
    if any("failure" in result for runs in results.values() for result in runs):
        sys.exit("Some runs failed.")


def on_cores(n_devices: int) -> list[str]:
    """What gives a command one core for each CPU device, as far as there are cores."""
    if not (hasattr(os, "sched_getaffinity") and shutil.which("taskset")):
        return []
    cores = sorted(os.sched_getaffinity(0))[:n_devices]
    return ["taskset", "-c", ",".join(map(str, cores))]


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--devices", nargs="+", type=int, default=[1, 2, 4], help="numbers of devices, 1 first")
    add("--envs", type=int, default=2048, help="environments of all devices, or of each")
    add("--repeats", type=int, default=2, help="processes for each number")
    add("--seconds", type=float, default=1.0, help="aimed length of a timed call")
    add("--timeout", type=float, default=600.0, help="seconds after which a process is ended")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    return parser.parse_args()


def works(args: argparse.Namespace) -> list[tuple[int, int]]:
    """Numbers of devices and environments: as many in all, and as many on each."""
    strong = [(devices, args.envs) for devices in args.devices]
    weak = [(devices, args.envs * devices) for devices in args.devices]
    return list(dict.fromkeys([*strong, *weak]))


def report(results: dict[tuple[int, int], list[Result]], args: argparse.Namespace) -> str:
    """The page."""
    introduction = INTRODUCTION.format(machine=peers.machine(), repeats=args.repeats)
    sections = [
        introduction,
        f"## Strong scaling: {args.envs:,} environments in all",
        scaling_table(results, [(devices, args.envs) for devices in args.devices]),
        f"## Weak scaling: {args.envs:,} environments on each device",
        scaling_table(results, [(devices, devices * args.envs) for devices in args.devices]),
        *on_paper(results, args),
        *peers.failures({f"{d} devices, {n} environments": r for (d, n), r in results.items()}),
    ]
    return "\n\n".join(sections)


def scaling_table(
    results: dict[tuple[int, int], list[Result]], works: Iterable[tuple[int, int]]
) -> str:
    """Speeds, and their ratios to the first."""
    works = list(works)
    rows = []
    for work in works:
        pairs = list(zip(results[work], results[works[0]], strict=True))
        speed = peers.median(results[work], "steps_per_second", ",.0f")
        rows.append([*work, speed, peers.ratio(pairs, "steps_per_second")])
    return peers.table(["Devices", "Environments", "Environment steps a second", "Ratio"], rows)


def on_paper(results: dict[tuple[int, int], list[Result]], args: argparse.Namespace) -> list[str]:
    """What was counted in the largest run, and what follows from it."""
    counted = list(peers.measured(results[args.devices[-1], args.envs], "all_reduces"))
    alone = list(peers.measured(results[1, args.envs], "update_seconds"))
    if not counted or not alone:
        return []
    n_bytes = next(peers.measured(results[args.devices[-1], args.envs], "all_reduced_bytes"))
    n_all_reduces = counted[0]
    step = statistics.median(alone) / N_MINIBATCH_STEPS
    rows, limits = [], []
    for name, link in LINKS.items():
        for speed, kind in ((1, "as here"), (100, "accelerators")):
            compute = step / speed
            times = [communication(n, n_all_reduces, n_bytes, link) for n in ACCELERATORS]
            rows.append([name, kind, *(f"{compute / (compute + t):.0%}" for t in times)])
            n_equal = next(
                (
                    2**k
                    for k in range(1, 31)
                    if communication(2**k, n_all_reduces, n_bytes, link) > compute
                ),
                math.inf,
            )
            limits.append(f"about {n_equal:,} devices ({name}, {kind})")
    table = peers.table(["Link", "Compute", *(f"{n} devices" for n in ACCELERATORS)], rows)
    return [
        COUNTED.format(all_reduces=n_all_reduces, all_reduced_bytes=n_bytes),
        PAPER.format(
            envs=args.envs,
            minibatch_samples=args.envs * 128 // 4,
            step=step * 1e3,
            n_all_reduces=n_all_reduces,
            table=table,
            limits=", ".join(limits),
        ),
    ]


def communication(n: int, n_all_reduces: int, n_bytes: int, link: tuple[float, float]) -> float:
    """Seconds of the all-reduces of a minibatch step, in a ring of `n` devices."""
    latency, bandwidth = link
    return 2 * (n - 1) * (n_all_reduces * latency + n_bytes / (n * bandwidth))


if __name__ == "__main__":
    main()
