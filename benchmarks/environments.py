"""Tests environments of the installed suites, and writes a table of the results.

Each environment is checked by `jaxagents.check_env`, rendered if its suite can, and timed with random
actions and while training PPO, whose losses must be finite. Suites that are not installed are skipped;
`pip install "jaxagents[envs]"` installs all of them.
"""

import argparse
import functools
import time
import traceback
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import reports

import jaxagents
from jaxagents import IPPO, PPO, ippo, ppo
from jaxagents.core.extras import is_installed
from jaxagents.envs import Environment, Episodes
from jaxagents.envs.drawings import draw_states
from jaxagents.envs.play import random_action

ENVIRONMENTS = {
    "gymnax:CartPole-v1": {},
    "brax:inverted_pendulum": {"backend": "spring"},
    "brax:ant": {"backend": "spring"},
    "craftax:Craftax-Classic-Symbolic-v1": {},
    "craftax:Craftax-Symbolic-v1": {},
    "jaxmarl:MPE_simple_spread_v3": {},
    "jaxmarl:MPE_simple_speaker_listener_v4": {},
    "jaxmarl:HeuristicEnemySMAX": {"scenario": "3m"},
    "jaxmarl:overcooked": {"layout": "cramped_room"},
    "jumanji:Game2048-v1": {},
    "jumanji:Minesweeper-v0": {},
    "jumanji:Maze-v0": {},
    "navix:Navix-Empty-5x5-v0": {},
    "navix:Navix-DoorKey-5x5-v0": {},
    "pgx:tic_tac_toe": {},
    "pgx:connect_four": {},
    "pgx:minatar-breakout": {},
    "playground:CartpoleBalance": {},
    "xminigrid:MiniGrid-Empty-5x5": {},
    "xminigrid:XLand-MiniGrid-R1-9x9": {},
}
HEAD = (
    "Environment",
    "Version",
    "Agents",
    "Action mask",
    "Passes `check_env`",
    "Renders",
    "Steps per CPU second, random",
    "Steps per CPU second, PPO",
)
KEY = jax.random.key(0)
N_UPDATES = 4
FAILS = "fails"
NOT_HERE = "no OpenGL"
DRAWN_BY_OPENGL = ("brax", "playground")


def main() -> None:
    """Tests the environments and writes the page."""
    args = parse_args()
    results_file = args.output / "environments.json"
    for name, options in ENVIRONMENTS.items():
        suite = name.split(":")[0]
        if is_installed(suite) and not {name, suite}.isdisjoint(args.only or [suite]):
            row = found(name, options, args)
            reports.keep(results_file, suite, name, result=row)
            print(*row, sep=" | ", flush=True)
    results = {
        name: row
        for of_suite in reports.kept(results_file).values()
        for name, row in of_suite.items()
    }
    rows = [results[name] for name in ENVIRONMENTS if name in results]
    reports.write(report(rows, args), args.output / "environments.md", opening)
    if any(FAILS in row for row in rows):
        raise SystemExit("Something failed: see the errors above.")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="suites or environments")
    parser.add_argument("--n-envs", type=int, default=256, help="parallel environments")
    parser.add_argument("--n-steps", type=int, default=64, help="rollout length")
    parser.add_argument(
        "--output", type=Path, default=Path("runs/environments"), help="folder for the results"
    )
    return parser.parse_args()


def report(rows: list[list[str]], args: argparse.Namespace) -> str:
    """The page, in Markdown."""
    parts = [
        "# Tested environments",
        "Which environments are tested, and how fast are they? Speeds are environment steps per second "
        f"of CPU time, summed over all cores, with {args.n_envs} parallel environments, excluding "
        "compilation. In multi-agent environments, a step of all agents counts once. The last two "
        "columns show the speed with random actions, and while training PPO (IPPO if there are several "
        f"agents) with default networks and rollouts of {args.n_steps} steps.",
        reports.table(HEAD, rows),
        reports.measured_by("python benchmarks/environments.py"),
        f"Versions: {reports.versions('jaxagents', 'jax')}.",
    ]
    return "\n\n".join(parts)


def opening(page: str, chart: Path) -> str:
    """The speed of PPO in each environment in which it trains."""
    (table,) = reports.tables(page)
    bars = [
        reports.Bar(name.replace("`", ""), "", speed)
        for name, *_, cell in table.rows
        if (speed := reports.numbers_in(cell))
    ]
    bars.sort(key=lambda bar: bar.numbers, reverse=True)
    form = "{:,.0f}"
    pictures = reports.draw_bars(chart, "Steps per CPU second while training PPO", bars, form)
    numbers = reports.in_words(bars[:5], form, "steps per CPU second: {title}")
    return reports.in_large(numbers, pictures)


def found(name: str, options: dict[str, object], args: argparse.Namespace) -> list[str]:
    """The table row of an environment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = jaxagents.make(name, **options)
        return [
            ", ".join([f"`{name}`", *(str(value) for value in options.values())]),
            version(name.split(":")[0]),
            str(env.n_actors or 1),
            "yes" if is_masked(env) else "no",
            said(lambda: check(env)),
            drawing(name, env),
            said(lambda: f"{speed(env, args.n_envs, args.n_steps):,.0f}"),
            said(lambda: f"{speed_of_ppo(env, args.n_envs, args.n_steps):,.0f}"),
        ]


def is_masked(env: Environment) -> bool:
    """Whether the environment has an action mask."""
    obs, state = env.reset(KEY)
    return env.action_mask(state) is not None or (isinstance(obs, dict) and "action_mask" in obs)


def said(task: Callable[[], str | None]) -> str:
    """Runs a task, and returns its answer, "yes" without one, or `FAILS` after printing an error."""
    try:
        return task() or "yes"
    except Exception:
        traceback.print_exc()
        return FAILS


def drawing(name: str, env: Environment) -> str:
    """Whether an environment renders."""
    if not env.can_draw:
        return "no"
    if name.startswith(DRAWN_BY_OPENGL) and not has_opengl():
        return NOT_HERE
    return said(lambda: draw(env))


@functools.cache
def has_opengl() -> bool:
    """Whether MuJoCo can render. Cached, since a second try may crash the process."""
    import mujoco

    try:
        mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>")).close()
    except Exception:
        return False
    return True


def check(env: Environment) -> None:
    """Checks an environment for mistakes."""
    jaxagents.check_env(env, n_steps=50)


def speed_of_ppo(env: Environment, n_envs: int, n_steps: int) -> float:
    """Environment steps per CPU second while training, after compilation."""
    agent, module = (PPO, ppo) if env.n_actors is None else (IPPO, ippo)
    config = module.AgentConfig(n_steps=N_UPDATES, batch_size=n_envs, rollout_length=n_steps)
    made = agent(env, None, config, eval_during_training=False)

    def train() -> None:
        _, metrics = made.train(KEY, module.HyperParameters(), progress=False)
        assert np.isfinite(metrics["actor_loss"][-1])

    train()
    return N_UPDATES * n_envs * n_steps / processor_time(train)


def processor_time(task: Callable[[], object]) -> float:
    """The CPU seconds that a task takes; other processes hardly affect them."""
    before = time.process_time()
    jax.block_until_ready(task())
    return time.process_time() - before


def draw(env: Environment) -> None:
    """Renders the start of an episode."""
    _, states = jax.vmap(env.reset)(KEY[None])
    assert draw_states(env, states, 1).std() > 0


def speed(env: Environment, n_envs: int, n_steps: int) -> float:
    """Environment steps per CPU second with random actions and resets, after compilation."""
    actors = () if env.n_actors is None else (env.n_actors,)
    episodes = Episodes(env, 1_000_000, actors)

    def step(carry, key):
        obs, states = carry
        action_keys, *step_keys = jax.random.split(key, (3, n_envs))
        actions = jax.vmap(functools.partial(random_action, episodes))(action_keys, obs)
        timestep = episodes.step_all(jnp.stack(step_keys, axis=1), states, actions)
        return (timestep.obs, timestep.envstate), timestep.reward.sum()

    play = jax.jit(lambda carry, keys: jax.lax.scan(step, carry, keys))
    start = jax.jit(jax.vmap(episodes.reset))(jax.random.split(KEY, n_envs))
    keys = jax.random.split(KEY, n_steps)
    jax.block_until_ready(play(start, keys))
    return n_envs * n_steps / processor_time(lambda: play(start, keys))


if __name__ == "__main__":
    main()
