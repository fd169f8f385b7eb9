"""Writes the opening of `docs/performance.md` from the speed ratios of the other pages."""

import argparse
import re
from pathlib import Path

import reports

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
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
NUMBERS = re.compile(r'<div class="numbers" markdown>.*?</div>', re.DOTALL)


def main() -> None:
    """Writes the page and its chart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path, default=PAGE, help="file of the page")
    path = parser.parse_args().markdown
    ratios = shown()
    reports.draw_ratios(path.with_name("performance.svg"), ratios)
    path.write_text(page(ratios))


def shown() -> list[reports.Ratio]:
    """The ratios, with their names in the overview."""
    ratios = []
    for name, title, peer, called in SHOWN:
        text = (PAGE.parent / "benchmarks" / f"{name}.md").read_text()
        there = {(x.title, x.peer): x for x in reports.speed_ratios(text)}
        ratios.append(there[title, peer]._replace(title=called))
    return ratios


def page(ratios: list[reports.Ratio]) -> str:
    """The page, with the ratios of its opening updated."""
    chosen = (ratios[i] for i in IN_LARGE)
    numbers = [(reports.times(x), f"as fast as {x.peer}: {x.title}") for x in chosen]
    return NUMBERS.sub(lambda _: reports.in_large(numbers), PAGE.read_text(), count=1)


if __name__ == "__main__":
    main()
