"""Draws the charts of all pages of results from their tables, and rewrites the numbers that open them.

Each benchmark does so when it writes its page; this needs no measurement.
"""

import argparse
import importlib
from pathlib import Path

import reports

DOCS = Path(__file__).parents[1] / "docs"
OVERVIEW = DOCS / "performance.md"
PAGES = (OVERVIEW, *sorted((DOCS / "benchmarks").glob("*.md")))
SHOWN = (  # page, title and library of a ratio, and its name in the overview
    ("ppo_speed", "CartPole-v1, 4 environments", "rejax", "PPO, 4 environments"),
    ("ppo_speed", "CartPole-v1, 64 environments", "rejax", "PPO, 64 environments"),
    ("ppo_speed", "CartPole-v1, 1,024 environments", "rejax", "PPO, 1,024 environments"),
    ("ppo_speed", "CartPole-v1, 64 environments", "stable-baselines3", "PPO, 64 environments"),
    ("ppo_speed", "Breakout-MinAtar, 64 environments", "rejax", "PPO, Breakout-MinAtar"),
    ("ppo_speed", "Pendulum-v1, 64 environments", "rejax", "PPO, Pendulum-v1"),
    ("recurrent_speed", "MemoryChain-bsuite", "purejaxrl", "Recurrent PPO"),
    ("replay_speed", "DDQN, 1 environment, batch 256", "rejax", "DDQN"),
    ("replay_speed", "SAC, 1 environment, batch 256", "rejax", "SAC"),
    ("sac_speed", "HalfCheetah-v5", "sbx-rl", "SAC, HalfCheetah-v5"),
    ("accelerator", "PPO, CartPole-v1, 1,024 environments", "rejax", "PPO on a GPU"),
    (
        "accelerator",
        "Recurrent MAPPO, simple_spread, 16 environments",
        "jaxmarl",
        "MAPPO on a GPU",
    ),
)
IN_LARGE = (1, 3, 6, 7, 10)
"""Indices of the ratios in large type."""


def main() -> None:
    """Writes the pages and their charts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=DOCS, help="folder of the pages")
    folder = parser.parse_args().output
    for page in PAGES:
        path = folder / page.relative_to(DOCS)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(reports.opened(page.read_text(), opening_of(page), path))


def opening_of(page: Path) -> reports.Opening:
    """The function that makes the opening of a page."""
    if page.stem in NO_SCRIPT:
        return NO_SCRIPT[page.stem]
    return getattr(importlib.import_module(page.stem), "opening", reports.speedups)


def shown(page: str, chart: Path) -> str:
    """The speed ratios of other pages, with their names in the overview."""
    bars = []
    for name, title, peer, called in SHOWN:
        text = OVERVIEW.with_name("benchmarks").joinpath(f"{name}.md").read_text()
        there = {(x.title, x.kind): x for x in reports.speed_ratios(text)}
        bars.append(there[title, peer]._replace(title=called))
    pictures = reports.draw_bars(chart, reports.TIMES_AS_FAST, bars, reports.TIMES)
    numbers = reports.in_words(
        (bars[i] for i in IN_LARGE), reports.TIMES, "as fast as {kind}: {title}"
    )
    return reports.in_large(numbers, pictures)


def convolutions(page: str, chart: Path) -> str:
    """How much longer gradients take in a loop, and how much faster the other library is."""
    newest, *_, variable = reports.tables(page)
    bars, ratios = [], []
    for layer, operand, alone, looped, ratio in newest.rows:
        title = f"{operand} gradient, {layer}"
        bars.append(reports.Bar(title, "in a loop", reports.numbers_in(looped)))
        bars.append(reports.Bar(title, "alone", reports.numbers_in(alone)))
        ratios.append(reports.Bar(title, "", reports.numbers_in(ratio)))
    pictures = reports.draw_bars(chart, "Time per gradient", bars, "{:,.0f} ms", log=False)
    ratios.sort(key=lambda bar: bar.numbers, reverse=True)
    numbers = reports.in_words(ratios[:3], reports.TIMES, "as long in a loop: {title}")
    for version, *cells in variable.rows[:2]:
        default, with_it = (reports.numbers_in(cell)[0] for cell in cells)
        ratio = reports.TIMES.format(default / with_it)
        numbers.append((ratio, f"as fast with the environment variable ({version})"))
    return reports.in_large(numbers, pictures)


NO_SCRIPT = {"performance": shown, "xla_convolutions": convolutions}
"""Openings of pages that no benchmark writes."""


if __name__ == "__main__":
    main()
