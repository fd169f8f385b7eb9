"""Measures the speedup from each optimisation of the library, with the installed JAX.

The full program and the programs without one optimisation train in turns. Results are saved in
`ablation.json` in the output folder, by JAX version; the page `ablation.md` shows all of them.
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
    """A training task to time.

    Attributes:
        title: Its name on the page.
        options: Options of the worker.
        parts: Optimisations to leave out, one at a time.
    """

    title: str
    options: tuple[str, ...]
    parts: tuple[str, ...]


AGAIN = "again"
PARTS = {  # names for the worker and for the page
    AGAIN: "none (the same program twice)",
    "successors": "successor values only at episode ends",
    "resets": "resets only at episode ends",
    "bijection": "shuffling by a bijection instead of a sort",
    "one-loop": "actor and critic updated in one loop",
    "parts": "gradients and values for 4,096 samples at a time",
    "one-array": "optimizer on one flat array (now only on accelerators)",
    "narrow": "gradients of narrow layers as one product per output",
    "small": "small products as sums",
    "few-actions": "unrolled sums over few actions",
    "gates": "GRU gates of all steps in one product",
    "cores": "one sweep member per core",
    "convolutions": "convolution gradients that are fast in loops",
}
ALWAYS = ("successors", "resets", "bijection", "one-loop", "narrow", "few-actions")


def ppo(environment: str, n_envs: int, *options: str) -> tuple[str, ...]:
    """Options of the PPO worker."""
    return (f"--environment={environment}", f"--envs={n_envs}", SECONDS, *options)


WORKS = {
    "cartpole-4": Work("CartPole-v1, 4 envs", ppo("CartPole-v1", 4), (*ALWAYS, "small")),
    "cartpole-64": Work("CartPole-v1, 64 envs", ppo("CartPole-v1", 64), ALWAYS),
    "cartpole-1024": Work("CartPole-v1, 1,024 envs", ppo("CartPole-v1", 1024), (*ALWAYS, "parts")),
    "breakout": Work("Breakout-MinAtar, 64 envs", ppo("Breakout-MinAtar", 64), ALWAYS),
    "seeds": Work(
        "CartPole-v1, 16 seeds x 4 envs", ppo("CartPole-v1", 4, "--seeds=16"), ("cores",)
    ),
    "memory": Work(
        "MemoryChain-bsuite, 4 envs, GRU",
        ("--work=recurrent", "--environment=MemoryChain-bsuite", "--updates=20"),
        ("gates",),
    ),
    "images": Work("DQN network, images", ("--work=images",), ("convolutions",)),
}


def main() -> None:
    """Runs the benchmark and writes the page."""
    parser = peers.parser(__doc__ or "", timeout=900.0)
    add = parser.add_argument
    add("--only", nargs="+", choices=WORKS, default=list(WORKS), help="training tasks")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="optimisations to leave out")
    add("--repeats", type=peers.positive, default=2, help="processes per program")
    add("--turns", type=peers.positive, default=peers.N_TURNS, help="timed calls per process")
    add("--output", type=Path, default=Path("runs/ablation"), help="folder for the results")
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
        reports.write(page(file), args.output / "ablation.md", opening)
    peers.exit_if_any_failed(results)


def page(file: Path) -> str:
    """The page with all results."""
    by_version: dict[str, dict[str, dict[str, Result]]] = reports.kept(file)
    newest_first = sorted(by_version, key=Version, reverse=True)
    sections, machine = [HEAD], f"{reports.processor()}, {reports.n_cores()} cores"
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
        measured = f"Measured on {' and '.join(dates)} ({machine})."
        sections.append(f"## JAX {jax_version}\n\n{reports.table(head, rows)}\n\n{measured}")
    sections.append("To reproduce: `python benchmarks/ablation.py`.")
    return "\n\n".join(sections)


def opening(page: str, chart: Path) -> str:
    """The largest speedup from each optimisation, on the newest version of JAX."""
    table, *_ = reports.tables(page)
    bars = []
    for part, *cells in table.rows:
        found = {work: cell for work, cell in zip(table.head[1:], cells, strict=True) if cell}
        if found and part != PARTS[AGAIN]:
            work = max(found, key=lambda work: float(found[work]))
            bars.append(reports.Bar(part, work, reports.numbers_in(found[work])))
    bars.sort(key=lambda bar: bar.numbers, reverse=True)
    pictures = reports.draw_bars(
        chart, "Largest speedup from each optimisation", bars, reports.TIMES
    )
    numbers = reports.in_words(bars[:5], reports.TIMES, "{title} ({kind})")
    return reports.in_large(numbers, pictures)


def gain(result: Result | None) -> str:
    """The table cell of a result."""
    return f"{result['gain']:.2f}" if result else ""


HEAD = """# What makes training fast

How much does each optimisation speed up training? Each number is the speed with an optimisation divided
by the speed without it. The programs take turns to train, each while the others wait; the number is
the median over all turns. Two processes of the same program differ by up to 10%, as the first row shows.
Each column but the last shows PPO in one environment; the last shows gradient steps of DQN's network."""


if __name__ == "__main__":
    main()
