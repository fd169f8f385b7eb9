"""Measures what each of the things that make training fast gains, with the installed JAX.

The whole and all versions without one of them train in turns. What was measured is kept in
`ablation.json` of the output folder, by the version of JAX, and the page `ablation.md` is made of all
that is there.
"""

import datetime
import statistics
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import peers
import reports
from packaging.version import Version
from peers import OURS, Result

WORKER = peers.WORKERS / "jaxagents_without.py"
SECONDS = "--seconds=0.7"


class Work(NamedTuple):
    """A training to be timed.

    Attributes:
        title: How the page calls it.
        options: Options of the worker.
        parts: What it is trained without, one at a time.
    """

    title: str
    options: tuple[str, ...]
    parts: tuple[str, ...]


AGAIN = "again"
PARTS = {  # as the worker and the page call them
    AGAIN: "nothing: the same program again",
    "successors": "true successors are valued only where an episode ends",
    "resets": "environments are reset only where an episode ends",
    "bijection": "samples are mixed by a bijection instead of a sort",
    "one-loop": "actor and critic learn in one loop",
    "parts": "gradients and values are computed for 4,096 samples at a time",
    "one-array": "on accelerators alone since: the optimizer is given all parameters in one array",
    "narrow": "gradients of layers of few outputs are a product for each output",
    "small": "small products are written as sums",
    "few-actions": "sums over few actions are unrolled",
    "gates": "one product computes the gates of a GRU for all steps",
    "cores": "a sweep trains one member on each core at a time",
    "convolutions": "gradients of convolutions are convolutions that XLA computes fast in loops",
}
ALWAYS = ("successors", "resets", "bijection", "one-loop", "narrow", "few-actions")


def ppo(environment: str, n_envs: int, *options: str) -> tuple[str, ...]:
    """Options of a worker of PPO."""
    return (f"--environment={environment}", f"--envs={n_envs}", SECONDS, *options)


WORKS = {
    "cartpole-4": Work("CartPole-v1, 4", ppo("CartPole-v1", 4), (*ALWAYS, "small")),
    "cartpole-64": Work("CartPole-v1, 64", ppo("CartPole-v1", 64), ALWAYS),
    "cartpole-1024": Work("CartPole-v1, 1,024", ppo("CartPole-v1", 1024), (*ALWAYS, "parts")),
    "breakout": Work("Breakout-MinAtar, 64", ppo("Breakout-MinAtar", 64), ALWAYS),
    "seeds": Work("CartPole-v1, 16 x 4", ppo("CartPole-v1", 4, "--seeds=16"), ("cores",)),
    "memory": Work(
        "MemoryChain-bsuite, 4, GRU",
        ("--work=recurrent", "--environment=MemoryChain-bsuite", "--updates=20"),
        ("gates",),
    ),
    "images": Work("batches of images", ("--work=images",), ("convolutions",)),
}


def main() -> None:
    """Runs the benchmark and writes the page."""
    parser = peers.parser(__doc__ or "", timeout=900.0)
    add = parser.add_argument
    add("--only", nargs="+", choices=WORKS, default=list(WORKS), help="what is trained")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what is left out")
    add("--repeats", type=peers.positive, default=2, help="processes of each")
    add("--turns", type=peers.positive, default=peers.N_TURNS, help="timed calls of a process")
    add("--output", type=Path, default=Path("runs/ablation"), help="folder of the results")
    args = parser.parse_args()
    file, results = args.output / "ablation.json", []
    for name in args.only:
        work = WORKS[name]
        options = {OURS: [], AGAIN: []}
        options |= {part: [f"--without={part}"] for part in work.parts if part in args.parts}
        commands = {
            player: [sys.executable, WORKER, *work.options, *more]
            for player, more in options.items()
        }
        rounds = [peers.take_turns(commands, args.turns, args.timeout) for _ in range(args.repeats)]
        results += [result for found in rounds for result in found.values()]
        for part in commands.keys() - {OURS}:
            wholes = [OURS] if part == AGAIN else [OURS, AGAIN]
            pairs = [(found[whole], found[part]) for found in rounds for whole in wholes]
            gains = reports.ratios_of(pairs, "steps_per_second")
            if gains:
                about = {"gain": statistics.median(gains), "date": str(datetime.date.today())}
                reports.keep(file, version("jax"), part, name, result=about)
        reports.write(page(file), args.output / "ablation.md")
    peers.exit_if_any_failed(results)


def page(file: Path) -> str:
    """The page of all results."""
    by_version: dict[str, dict[str, dict[str, Result]]] = reports.kept(file)
    newest_first = sorted(by_version, key=Version, reverse=True)
    sections = [HEAD.format(processor=reports.processor(), n_cores=reports.n_cores())]
    for jax_version in newest_first:
        gains = by_version[jax_version]
        works = [name for name in WORKS if any(name in found for found in gains.values())]
        rows = [
            [about, *(gain(gains[part].get(name)) for name in works)]
            for part, about in PARTS.items()
            if part in gains
        ]
        head = "", *(WORKS[name].title for name in works)
        dates = sorted({result["date"] for found in gains.values() for result in found.values()})
        measured = f"Measured {' and '.join(dates)}."
        sections.append(f"## jax {jax_version}\n\n{measured}\n\n{reports.table(head, rows)}")
    return with_largest("\n\n".join(sections), by_version[newest_first[0]], file)


def with_largest(text: str, gains: dict[str, dict[str, Result]], file: Path) -> str:
    """The page, which opens with the largest gain of each part."""
    largest = []
    for part, found in gains.items():
        work = max(found, key=lambda name: found[name]["gain"])
        if part != AGAIN:
            largest.append((found[work]["gain"], PARTS[part], WORKS[work].title))
    if not largest:
        return text
    largest.sort(reverse=True)
    numbers = [(f"{x:.3g}\N{MULTIPLICATION SIGN}", f"{part} ({work})") for x, part, work in largest]
    bars = [
        (part, f"{x:.3g}\N{MULTIPLICATION SIGN} {work}", x, (x, x)) for x, part, work in largest
    ]
    picture = file.with_suffix(".svg")
    about = "The training in which each gains most"
    reports.draw_bars(picture, about, bars)
    return reports.opened(text, numbers[:5], picture.name, about)


def gain(result: Result | None) -> str:
    """A gain as a table shows it."""
    return f"{result['gain']:.2f}" if result else ""


HEAD = """# What makes training fast

Made by `python benchmarks/ablation.py`: the speed with each of these, divided by the speed without
it, on a {processor} with {n_cores} cores. Medians of turns of processes that wait for each other;
processes of the same program differ by up to a tenth, as the first row shows. Columns are PPO, with
the number of environments, but for the last one: gradient steps of DQN's network."""


if __name__ == "__main__":
    main()
