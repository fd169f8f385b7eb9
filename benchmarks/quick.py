"""Measures six trainings beside rejax in ten minutes, to see what a change of the library costs.

    make bench-quick
    python benchmarks/quick.py --keep

It fails on no figure: it prints each ratio beside the one that was kept last with this version of JAX.
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
WORKS = {  # what the files of the workers end with, and their options
    "PPO, CartPole-v1, 4 environments": ("ppo", "--environment=CartPole-v1", "--envs=4"),
    "PPO, CartPole-v1, 64 environments": ("ppo", "--environment=CartPole-v1", "--envs=64"),
    "PPO, CartPole-v1, 1,024 environments": ("ppo", "--environment=CartPole-v1", "--envs=1024"),
    "PPO, Breakout-MinAtar, 64 environments": (
        "ppo",
        "--environment=Breakout-MinAtar",
        "--envs=64",
    ),
    "PPO, Pendulum-v1, 64 environments": ("ppo", "--environment=Pendulum-v1", "--envs=64"),
    "DDQN, CartPole-v1": ("replay", "--work=DDQN, an update of 128 each ten steps"),
}


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = peers.parser(__doc__ or "", timeout=300.0)
    parser.add_argument("--keep", action="store_true", help="keep the figures, for later runs")
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS), help="which")
    parser.add_argument("--turns", type=peers.positive, default=11, help="timed calls of each")
    parser.add_argument("--seconds", type=float, default=0.7, help="aimed length of one")
    parser.add_argument("--peer-python", type=Path, help=f"Python that has {PEER}")
    args = parser.parse_args()
    pythons = {OURS: Path(sys.executable), PEER: args.peer_python or peers.python_of(PEER)}
    before = reports.kept(KEPT).get(version("jax"), {})
    print(f"{reports.machine()}, jax {version('jax')}: ours / {PEER}")
    print(f"{'':40} {'steps a second':>16} {'ratio':>6} {'before':>7}  compilation (s)")
    results = []
    for work in args.works:
        end, *options = WORKS[work]
        options.append(f"--seconds={args.seconds}")
        commands = {
            library: [python, peers.WORKERS / f"{library}_{end}.py", *options]
            for library, python in pythons.items()
        }
        found = peers.take_turns(commands, args.turns, args.timeout)
        results += found.values()
        if any("failure" in result for result in found.values()):
            print(f"{work:40} failed")
            continue
        ratios = reports.ratios_of([(found[OURS], found[PEER])], "steps_per_second")
        ratio = statistics.median(ratios)
        speed = reports.median([found[OURS]], "steps_per_second", ",.0f")
        compilation = " / ".join(f"{found[who]['compile_seconds']:.1f}" for who in found)
        was = f"{before[work]:.2f}" if work in before else "-"
        print(f"{work:40} {speed:>16} {ratio:6.2f} {was:>7}  {compilation}", flush=True)
        if args.keep:
            reports.keep(KEPT, version("jax"), work, result=round(ratio, 3))
    peers.exit_if_any_failed(results)


if __name__ == "__main__":
    main()
