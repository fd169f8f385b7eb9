"""Measures PPO in a game of Atari: steps a second beside Stable-Baselines3, and what is learned.

The agent of jaxagents is that of `examples/atari_ppo.py`, in games of `ale-py`, in processes of their
own, and in games of EnvPool, which has to be installed. Every run is a fresh process. The other library
lives in a virtual environment of its own, which this script makes from PyPI.
"""

import argparse
import sys
from pathlib import Path

import peers
import reports

WORKERS = {  # environment, file and options of each
    "jaxagents": (peers.OURS, "jaxagents_atari.py", []),
    "jaxagents, EnvPool": (peers.OURS, "jaxagents_atari.py", ["--pool"]),
    "sb3": ("sb3-atari", "sb3_atari.py", []),
}
HEAD = "Library", "Steps a second", "Frames a second", "First updates (s)", "Return"
FRAMES_OF_A_STEP = 4


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    rounds = {library: run(library, args) for library in args.libraries}
    reports.write(report(rounds, args), args.markdown)
    peers.exit_if_any_failed(rounds.values())


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=3600.0)
    add = parser.add_argument
    add("--game", default="Pong")
    add("--libraries", nargs="+", choices=WORKERS, default=list(WORKERS), help="who")
    add("--peer-python", type=Path, help="Python that has the other; by default one is set up")
    add("--updates", type=peers.positive, default=8, help="of each part, of 1,024 steps each")
    add(
        "--parts", type=peers.positive, default=4, help="of a training, of which the first compiles"
    )
    add("--episodes", type=int, default=0, help="games after each part")
    add("--device", default="cpu", help="of networks of PyTorch; JAX_PLATFORMS says that of JAX")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    return parser.parse_args()


def run(library: str, args: argparse.Namespace) -> peers.Result:
    """Measures a library."""
    name, file, options = WORKERS[library]
    python = sys.executable if name == peers.OURS else args.peer_python or peers.python_of(name)
    work = {"game": args.game, "updates": args.updates, "parts": args.parts}
    work |= {"episodes": args.episodes, "device": args.device}
    words = [f"--{word}={value}" for word, value in work.items()]
    result = peers.run_worker([python, peers.WORKERS / file, *options, *words], args.timeout)
    print(f"{library}: {result}", file=sys.stderr)
    return result


def report(rounds: peers.Round, args: argparse.Namespace) -> str:
    """The page of Markdown."""
    parts = [
        "# PPO in Atari",
        f"By `{command(args)}`, {reports.machine()}.",
        f"PPO in {args.game} from its pixels, in 8 games at once, with 128 steps of each "
        "between updates and 4 epochs of 4 minibatches. Actor and critic share the convolutions of "
        "DQN and a layer of 512. Games have the usual wrappers: every fourth frame, 84 x 84 grey "
        "pixels, the last four of them, rewards of -1, 0 or 1, sticky actions. They run in separate "
        "processes, or in EnvPool's threads.",
        f"Steps a second are the median of {args.parts - 1} parts of a run, of "
        f"{args.updates * 1024:,} steps each, after a first one that compiles.",
        reports.table(HEAD, [row_of(library, result) for library, result in rounds.items()]),
        *curve(rounds, args),
        reports.version_table({library: [result] for library, result in rounds.items()}),
        *reports.failures({library: [result] for library, result in rounds.items()}),
    ]
    return "\n\n".join(parts)


def command(args: argparse.Namespace) -> str:
    """The command that makes the same report."""
    options = f"--game {args.game} --updates {args.updates} --parts {args.parts}"
    options += f" --episodes {args.episodes} --device {args.device}"
    return f"python benchmarks/atari.py {options}"


def row_of(library: str, result: peers.Result) -> list[str]:
    """A row of the table."""
    speed = next(reports.measured([result], "steps_per_second"), float("nan"))
    first = next(reports.measured([result], "first_seconds"), float("nan"))
    last = next(reports.measured([result], "returns"), [None])[-1]
    numbers = f"{speed:,.0f}", f"{FRAMES_OF_A_STEP * speed:,.0f}", f"{first:.0f}"
    return [library, *numbers, "-" if last is None else f"{last:.1f}"]


def curve(rounds: peers.Round, args: argparse.Namespace) -> list[str]:
    """The learning curve, as a picture beside the page."""
    learned = {
        library: (result["steps"], [result["returns"]])
        for library, result in rounds.items()
        if args.episodes and "failure" not in result
    }
    if not learned or args.markdown is None:
        return []
    picture = args.markdown.with_suffix(".png")
    picture.parent.mkdir(parents=True, exist_ok=True)
    reports.draw(picture, args.game, learned)
    return [
        f"A return is the mean of {args.episodes} games, with actions drawn from the policy. There is "
        "one seed.",
        f"![Learning curves]({picture.name})",
    ]


if __name__ == "__main__":
    main()
