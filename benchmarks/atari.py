"""Measures the speed and returns of PPO in an Atari game, compared with Stable-Baselines3.

jaxagents runs the agent of `examples/atari_ppo.py`, once with games of `ale-py` in separate processes
and once with EnvPool, which has to be installed. Every run is a fresh process. Stable-Baselines3 is
installed from PyPI in its own virtual environment.
"""

import argparse
import sys
from pathlib import Path

import peers
import reports

WORKERS = {  # environment, file and options of each
    "jaxagents": (peers.OURS, "jaxagents_atari.py", []),
    "jaxagents, EnvPool": (peers.OURS, "jaxagents_atari.py", ["--pool"]),
    "Stable-Baselines3": ("sb3-atari", "sb3_atari.py", []),
}
HEAD = "Library", "Steps per second", "Frames per second", "First updates (s)", "Return"
FRAMES_OF_A_STEP = 4


def main() -> None:
    """Runs the benchmark and prints its report."""
    args = parse_args()
    rounds = {library: run(library, args) for library in args.libraries}
    reports.write(report(rounds, args), args.markdown, opening)
    peers.exit_if_any_failed(rounds.values())


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = peers.parser(__doc__, timeout=3600.0)
    add = parser.add_argument
    add("--game", default="Pong", help="Atari game")
    add("--libraries", nargs="+", choices=WORKERS, default=list(WORKERS), help="libraries to run")
    add("--peer-python", type=Path, help="Python with the other library (default: set one up)")
    add("--updates", type=peers.positive, default=8, help="updates per part, each of 1,024 steps")
    add("--parts", type=peers.positive, default=4, help="parts of a run; the first one compiles")
    add("--episodes", type=int, default=0, help="evaluation games after each part")
    add("--device", default="cpu", help="device of PyTorch; JAX uses JAX_PLATFORMS")
    add("--markdown", type=Path, metavar="PATH", help="also write the report to this file")
    return parser.parse_args()


def run(library: str, args: argparse.Namespace) -> peers.Result:
    """Runs one library."""
    name, file, options = WORKERS[library]
    python = sys.executable if name == peers.OURS else args.peer_python or peers.python_of(name)
    work = {"game": args.game, "updates": args.updates, "parts": args.parts}
    work |= {"episodes": args.episodes, "device": args.device}
    words = [f"--{word}={value}" for word, value in work.items()]
    result = peers.run_worker([python, peers.WORKERS / file, *options, *words], args.timeout)
    print(f"{library}: {result}", file=sys.stderr)
    return result


def opening(page: str, chart: Path) -> str:
    """The speed of each library."""
    bars = [
        reports.Bar(table.heading[0].lower() + table.heading[1:], library, speed)
        for table in reports.tables(page)
        if table.head == list(HEAD)
        for library, cell, *_ in table.rows
        if (speed := reports.numbers_in(cell))
    ]
    form = "{:,.0f}"
    pictures = reports.draw_bars(chart, "Environment steps per second", bars, form, log=False)
    numbers = reports.against_others(bars, form, "steps per second {title}")
    return reports.in_large(numbers, pictures)


def report(rounds: peers.Round, args: argparse.Namespace) -> str:
    """The page, in Markdown."""
    parts = [
        "# PPO in Atari",
        f"How fast is PPO in {args.game} from pixels, compared with Stable-Baselines3? It plays 8 games "
        "at once, with rollouts of 128 steps and 4 epochs of 4 minibatches. Actor and critic share "
        "DQN's convolutions and a layer of 512 units. The games have the usual wrappers: frame skip 4, "
        "84 x 84 greyscale images, a stack of four frames, rewards clipped to -1, 0 or 1, and sticky "
        "actions. They run in separate processes, or in EnvPool's threads.",
        f"Speeds are medians over {args.parts - 1} parts of a run, {args.updates * 1024:,} steps each, "
        "after a first part that includes compilation.",
        f"## On a {device(rounds)}",
        reports.table(HEAD, [row_of(library, result) for library, result in rounds.items()]),
        *curve(rounds, args),
        reports.measured_by(command(args)),
        reports.version_table({library: [result] for library, result in rounds.items()}),
        *reports.failures({library: [result] for library, result in rounds.items()}),
    ]
    return "\n\n".join(parts)


def device(rounds: peers.Round) -> str:
    """The device of JAX."""
    versions = reports.measured(rounds.values(), "versions")
    return "GPU" if any("gpu" in found.get("backend", "") for found in versions) else "CPU"


def command(args: argparse.Namespace) -> str:
    """The command that reproduces the report."""
    options = f"--game {args.game} --updates {args.updates} --parts {args.parts}"
    options += f" --episodes {args.episodes} --device {args.device}"
    return f"python benchmarks/atari.py {options}"


def row_of(library: str, result: peers.Result) -> list[str]:
    """The table row of a library."""
    speed = next(reports.measured([result], "steps_per_second"), float("nan"))
    first = next(reports.measured([result], "first_seconds"), float("nan"))
    last = next(reports.measured([result], "returns"), [None])[-1]
    numbers = f"{speed:,.0f}", f"{FRAMES_OF_A_STEP * speed:,.0f}", f"{first:.0f}"
    return [library, *numbers, "-" if last is None else f"{last:.1f}"]


def curve(rounds: peers.Round, args: argparse.Namespace) -> list[str]:
    """The learning curve, if there is one; draws its plot next to the page."""
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
        f"The return is the mean over {args.episodes} games with sampled actions, for one seed.",
        f"![Learning curves]({picture.name})",
    ]


if __name__ == "__main__":
    main()
