"""The section "Learning curve" of each agent's page: a figure, its command, and the return to expect.

    python docs/make_curves.py
    python docs/make_curves.py --train ippo mappo rnd

draws what `python benchmarks/presets.py --output docs/benchmarks/presets.json` measured, and rewrites
the sections. Agents without a preset train the example on their page instead: `--train` does, in a
minute or two each on two cores, and keeps the results in `docs/benchmarks/examples.json`.
"""

import argparse
import json
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import figures
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import EngFormatter

DOCS = Path(__file__).parent
PRESETS = DOCS / "benchmarks" / "presets.json"
TRAINED = DOCS / "benchmarks" / "examples.json"
EXAMPLES = {"ippo": "Meeting", "mappo": "BlindMeeting", "rnd": "DeepSea-bsuite"}
"""The pages whose example is trained, with its environment."""
CURVES = {
    "ppo": {"PPO": "ppo-cartpole"},
    "ippo": {"IPPO": "ippo"},
    "mappo": {"MAPPO": "mappo"},
    "reinforce": {"REINFORCE": "reinforce-cartpole"},
    "a2c": {"A2C": "a2c-cartpole"},
    "rnd": {"RND": "rnd"},
    "dqn": {"DQN": "dqn-cartpole", "DDQN": "ddqn-cartpole"},
    "c51": {"C51": "c51-cartpole"},
    "qrdqn": {"QR-DQN": "qrdqn-cartpole"},
    "pqn": {"PQN": "pqn-cartpole"},
    "sac": {"SAC": "sac-pendulum"},
    "td3": {"TD3": "td3-pendulum"},
    "td3bc": {"TD3+BC": "td3bc-pendulum"},
    "iql": {"IQL": "iql-pendulum"},
    "awac": {"AWAC": "awac-pendulum"},
    "cql": {"CQL": "cql-pendulum"},
    "bc": {"BC": "bc-pendulum"},
}
"""The curves of each page: results by the names of the agents."""
SECTION = re.compile(
    r"(?<=^## Learning curve\n).*?(?=^#)", re.DOTALL | re.MULTILINE
)
N_SEEDS = 3
DATASET = """
The dataset contains 50 episodes of a trained SAC agent and 50 of random actions; `mixed_data` in
`benchmarks/off_policy_tasks.py` collects it.
"""
DEMONSTRATIONS = """
The dataset contains 50 episodes of a trained SAC agent, the first half of what `mixed_data` in
`benchmarks/off_policy_tasks.py` collects.
"""


def page_of(agent: str) -> Path:
    """The page of an agent."""
    return DOCS / "agents" / f"{agent}.md"


def read(path: Path) -> dict[str, Any]:
    """The results in a file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def train_example(agent: str) -> dict[str, Any]:
    """Trains the example of a page with several seeds, and gives their learning curves."""
    text = page_of(agent).read_text(encoding="utf-8")
    block = re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"__name__": agent}
    began = time.process_time()
    exec(block[1], names)
    made, hyperparams = names["agent"], names.get("hyperparams")
    metrics = made.sweep(range(N_SEEDS), hyperparams).metrics
    returns = np.asarray(metrics["returns"])[0]
    returns = returns.reshape(*returns.shape[:2], -1).mean(axis=-1)
    returns = returns.astype(float).round(3)
    steps = made.config.n_envs * made.config.rollout_length
    return {
        "command": f"python docs/make_curves.py --train {agent}",
        "seeds": N_SEEDS,
        "x_label": "environment steps",
        "env_steps": (
            np.asarray(metrics["update_step"])[0, 0] * steps
        ).tolist(),
        "returns": returns.tolist(),
        "final": returns[:, -1].tolist(),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def draw(axes: Axes, label: str, result: dict[str, Any]) -> None:
    """Draws the mean of the seeds, and each of them as a thin line."""
    steps, returns = result["env_steps"], np.array(result["returns"])
    (line,) = axes.plot(steps, returns.mean(axis=0), label=label)
    axes.plot(
        steps, returns.T, color=line.get_color(), linewidth=0.7, alpha=0.5
    )
    axes.set_xlabel(result["x_label"])
    axes.set_ylabel("return")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def environment(agent: str, results: dict[str, Any]) -> str:
    """The name of the environment of a page's curves."""
    first = next(iter(CURVES[agent].values()))
    return EXAMPLES.get(agent) or results[first]["command"].split()[3]


def section(agent: str, results: dict[str, Any]) -> str:
    """The section of a page, without its heading."""
    names, env = " and ".join(CURVES[agent]), environment(agent, results)
    found = [results[name] for name in CURVES[agent].values()]
    lines = [
        f"![Learning curve of {names} in {env}](../pictures/curves/{agent}.svg)",
        "",
        "| Command | Steps | Final return | CPU time |",
        "|---|---|---|---|",
        *map(row, found),
    ]
    if "--dataset" in found[0]["command"]:
        data = DEMONSTRATIONS if agent == "bc" else DATASET
        lines.append(data.rstrip())
    return "\n" + "\n".join(lines) + "\n\n"


def row(result: dict[str, Any]) -> str:
    """A row of the table: what a run of a command takes, and what it gives."""
    finals, steps = result["final"], f"{result['env_steps'][-1]:,}"
    if result["x_label"] == "updates":
        steps += " updates"
    digits = 2 if max(map(abs, finals)) < 10 else 1
    mean, low, high = (
        f"{x:.{digits}f}"
        for x in (statistics.mean(finals), min(finals), max(finals))
    )
    expected = f"{mean} ({low} to {high}, {len(finals)} seeds)"
    seconds = f"{result['cpu_seconds']:.0f} s"
    return f"| `{result['command']}` | {steps} | {expected} | {seconds} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Draws the figures and rewrites the pages.

    Args:
        argv: Words of the command line; `sys.argv` by default.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", choices=EXAMPLES, nargs="+", default=[])
    options = parser.parse_args(argv)
    trained = read(TRAINED) | {
        agent: train_example(agent) for agent in options.train
    }
    TRAINED.write_text(json.dumps(trained) + "\n", encoding="utf-8")
    results = read(PRESETS) | trained
    for agent, curves in CURVES.items():
        if not set(curves.values()) <= set(results):
            print(f"{agent}: not measured yet")
            continue
        path = DOCS / "pictures" / "curves" / f"{agent}.svg"
        with figures.drawn(path) as axes:
            for label, name in curves.items():
                draw(axes, label, results[name])
            axes.set_title(
                f"{' and '.join(curves)} in {environment(agent, results)}"
            )
            if len(curves) > 1:
                axes.legend()
        page = page_of(agent)
        text = page.read_text(encoding="utf-8")
        page.write_text(
            SECTION.sub(lambda _, a=agent: section(a, results), text),
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
