"""Goes through environments of the suites that are installed, and prints a table of what was found.

Each environment is checked by `jaxagents.check_env` (the same key gives the same episode, one
environment the same as many at once), trained in for two updates, drawn if its suite can, and timed with
random actions. Those whose suite is missing are left out. `pip install "jaxagents[envs]"` installs all.
"""

import argparse
import time
import traceback
import warnings
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxagents
from jaxagents import IPPO, PPO, ippo, ppo
from jaxagents.core.suites import is_installed
from jaxagents.envs import Environment, Episodes
from jaxagents.envs.films import draw_states
from jaxagents.envs.random_play import player_of

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
HEAD = "environment", "version", "actors", "masks", "trains", "draws", "steps a second"
KEY = jax.random.key(0)
SIZES = {"n_steps": 2, "batch_size": 4, "minibatch_size": 2, "rollout_length": 4, "n_evals": 2}


def main() -> None:
    """Prints a row for each environment."""
    args = parse_args()
    title = f"# With {args.n_envs} environments at once on {jax.devices()[0].device_kind}"
    lines = [title, "", _row(HEAD), _row(["---"] * len(HEAD))]
    print("\n".join(lines))
    for name, options in ENVIRONMENTS.items():
        suite = name.split(":")[0]
        if is_installed(suite) and suite in (args.only or [suite]):
            lines.append(_row(found(name, options, args.n_envs, args.n_steps)))
            print(lines[-1], flush=True)
    if args.markdown is not None:
        args.markdown.write_text("\n".join([*lines, ""]), encoding="utf-8")


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="SUITE", help="suites to go through")
    parser.add_argument("--n-envs", type=int, default=256, help="environments at once")
    parser.add_argument("--n-steps", type=int, default=64, help="steps that are timed")
    parser.add_argument("--markdown", type=Path, help="file for the table")
    return parser.parse_args()


def found(name: str, options: dict[str, object], n_envs: int, n_steps: int) -> list[str]:
    """The row of an environment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env = jaxagents.make(name, **options)
        obs, state = env.reset(KEY)
        masked = env.action_mask(state) is not None or (
            isinstance(obs, dict) and "action_mask" in obs
        )
        return [
            f"`{name}`",
            version(name.split(":")[0]),
            str(env.n_actors or 1),
            "yes" if masked else "no",
            said(lambda: check_and_train(env)),
            said(lambda: draw(env)) if env.can_draw else "no",
            f"{speed(env, n_envs, n_steps):,.0f}",
        ]


def said(task) -> str:
    """Whether a task worked; an error is printed."""
    try:
        task()
    except Exception:
        traceback.print_exc()
        return "fails"
    return "yes"


def check_and_train(env: Environment) -> None:
    """Checks an environment, and makes two updates in it."""
    jaxagents.check_env(env, n_steps=50)
    agent, module = (PPO, ppo) if env.n_actors is None else (IPPO, ippo)
    trained = agent(env, None, module.AgentConfig(**SIZES, max_episode_steps=10))
    _, metrics = trained.train(KEY, module.HyperParameters(), progress=False)
    assert np.isfinite(metrics["actor_loss"][-1])


def draw(env: Environment) -> None:
    """Draws the start of an episode."""
    _, states = jax.vmap(env.reset)(KEY[None])
    assert draw_states(env, states, 1).std() > 0


def speed(env: Environment, n_envs: int, n_steps: int) -> float:
    """Steps a second with random actions, with resets, after compilation."""
    actors = () if env.n_actors is None else (env.n_actors,)
    episodes = Episodes(env, 1_000_000, actors)
    player = player_of(env.action_space, actors)

    def step(carry, key):
        obs, states = carry
        action_keys, *step_keys = jax.random.split(key, (3, n_envs))
        actions = jax.vmap(player)(action_keys, obs)
        timestep = episodes.step_all(jnp.stack(step_keys, axis=1), states, actions)
        return (timestep.obs, timestep.envstate), timestep.reward.sum()

    play = jax.jit(lambda carry, keys: jax.lax.scan(step, carry, keys))
    start = jax.jit(jax.vmap(episodes.reset))(jax.random.split(KEY, n_envs))
    keys = jax.random.split(KEY, n_steps)
    jax.block_until_ready(play(start, keys))
    before = time.perf_counter()
    jax.block_until_ready(play(start, keys))
    return n_envs * n_steps / (time.perf_counter() - before)


def _row(cells) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
