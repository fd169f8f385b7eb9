"""Trains PPO by self-play, as `examples/self_play.py` does, and tests it against other opponents.

One opponent plays at random. The others look ahead: to the end of the game in tic-tac-toe and takeaway,
and by a few moves in connect four. They choose at random among the moves that look best. The agent plays
its most probable move.
"""

import argparse
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import players
import reports
from flax import linen as nn

import jaxagents
from jaxagents import ppo
from jaxagents.envs import Environment, Episodes, Opponents
from jaxagents.networks import CategoricalActor, StateCritic

sys.path.append(str(Path(__file__).parents[1] / "examples"))
from self_play import SelfPlay

HEAD = (
    *("Opponent", "Agent"),
    *(f"{seat} {end}" for seat in ("First:", "Second:") for end in ("wins", "draws", "losses")),
)
N_PAST, N_ENVS, ROLLOUT_LENGTH = 16, 128, 32
RANDOM = {"random play": players.at_random}


class Game(NamedTuple):
    """A game, its opponents, and the training settings.

    Attributes:
        make: Creates the game, with an opponent that moves at random.
        opponents: The opponents to test against, by name.
        most_moves: Maximum number of moves per player.
        n_updates: Number of updates.
        features: Hidden layer sizes of networks that flatten the board; `None` uses the default
            networks, which see it as an image.
        n_epochs: Epochs per update.
        learning_rate: Learning rate.
        ent_coeff: Entropy coefficient.
    """

    make: Callable[[], Environment]
    opponents: dict[str, Any]
    most_moves: int
    n_updates: int
    features: tuple[int, ...] | None = (128, 128)
    n_epochs: int = 4
    learning_rate: float = 1e-3
    ent_coeff: float = 0.2


def games() -> dict[str, Game]:
    """The games, by name."""
    takeaway = RANDOM | {"perfect play": players.perfect_at_takeaway}
    tic_tac_toe = RANDOM | {"perfect play": players.perfect_at_tic_tac_toe}
    connect_four = RANDOM | {
        f"minimax, depth {n}": functools.partial(players.looking_ahead, n) for n in (1, 2, 4)
    }
    return {
        "takeaway": Game(players.Takeaway, takeaway, 21, 100, (64, 64)),
        "tic_tac_toe": Game(_game_of_pgx("tic_tac_toe"), tic_tac_toe, 5, 200),
        "connect_four": Game(
            _game_of_pgx("connect_four"),
            connect_four,
            most_moves=21,
            n_updates=240,
            features=None,
            n_epochs=2,
            learning_rate=5e-4,
            ent_coeff=0.15,
        ),
    }


def main() -> None:
    """Runs the benchmark and prints its page."""
    args = parse_args()
    rows = {name: [] for name in args.games}
    for name in args.games:
        for row in rows_of(games()[name], args):
            print(name, row, file=sys.stderr)
            rows[name].append(row)
    reports.write(report(rows, args), args.markdown, opening)


def parse_args() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--games", nargs="+", default=["tic_tac_toe", "connect_four"], choices=list(games()))
    add("--seeds", type=int, default=3)
    add("--share", type=float, default=1.0, help="share of the updates to run")
    add("--matches", type=int, default=1000, help="games against each opponent")
    add("--markdown", type=Path, help="file for the page")
    return parser.parse_args()


def rows_of(game: Game, args: argparse.Namespace) -> Iterator[list[str]]:
    """Trains in a game, and yields the rows of its table."""
    agent = make_agent(game, max(1, round(args.share * game.n_updates)))
    keys = jax.random.split(jax.random.key(0), args.seeds)
    runners = [agent.start(key, hyperparams_of(game)) for key in keys]
    trained = [agent.train(None, None, runner, progress=False)[0] for runner in runners]
    for what, opponent in game.opponents.items():
        env = game.make().against(opponent)
        play = jax.jit(functools.partial(play_games, agent, env, game, args.matches))
        for whose, group in {"untrained": runners[:1], "trained": trained}.items():
            results = [shares(*play(runner.actor_training)) for runner in group]
            yield [what, whose, *_cells(np.array(results))]


def opening(page: str, chart: Path) -> str:
    """The share of games won or drawn against each opponent, the trained agent first."""
    bars = [
        reports.Bar(f"{game} against {opponent}", agent, [100.0 - (first + second) / 2])
        for table in reports.tables(page)
        for game in [table.heading.replace("_", " ")]
        for opponent, agent, *cells in table.rows[::-1]
        for first, second in [[reports.numbers_in(cells[i])[0] for i in (2, 5)]]
    ]
    form = "{:.0f}%"
    pictures = reports.draw_bars(chart, "Games won or drawn, by opponent", bars, form, log=False)
    numbers = reports.against_others(bars, form, "of games won or drawn: {title}")
    return reports.in_large(numbers[:5], pictures)


def report(rows: dict[str, list[list[str]]], args: argparse.Namespace) -> str:
    """The page, in Markdown, from the rows of each game."""
    sizes = [
        f"{n_updates * N_ENVS * ROLLOUT_LENGTH:,} moves in {name}"
        for name, n_updates in ((name, games()[name].n_updates) for name in args.games)
    ]
    parts = [
        "# Self-play",
        "How well does PPO play after training only against itself? In training, each opponent is one "
        f"of {N_PAST} past versions of the agent, chosen at random, as in `examples/self_play.py`. "
        f"Training takes {' and '.join(sizes)}. The agent never trains against the opponents below.",
        f"Results are percentages of {args.matches:,} games, as means over {args.seeds} seeds, with the "
        "lowest and the highest seed in parentheses if they differ. The agent moves first in about half "
        "of the games, and always plays its most probable move. Random play chooses among all legal "
        "moves. The other opponents choose at random among their best moves: perfect play among all "
        "moves that keep the best outcome possible, minimax among all moves that look best to a search "
        "of the given depth, which only sees wins and losses.",
        *(f"## {name}\n\n{reports.table(HEAD, of_game)}" for name, of_game in rows.items()),
        reports.measured_by("python benchmarks/games.py"),
        f"Versions: {reports.versions('jaxagents', 'jax', 'pgx')}.",
    ]
    return "\n\n".join(parts)


def make_agent(game: Game, n_updates: int) -> SelfPlay:
    """An agent for a game."""
    env = Opponents(game.make(), N_PAST)
    config = ppo.AgentConfig(
        n_steps=n_updates,
        eval_frequency=n_updates,
        batch_size=N_ENVS,
        rollout_length=ROLLOUT_LENGTH,
        minibatch_size=N_ENVS // 4,
        actor_epochs=game.n_epochs,
        critic_epochs=game.n_epochs,
    )
    if game.features is not None:
        actor = CategoricalActor(env.action_space.n, game.features)
        config = config.replace(
            actor_network=nn.Sequential((jnp.ravel, actor)),
            critic_network=nn.Sequential((jnp.ravel, StateCritic(game.features))),
        )
    return SelfPlay(env, None, config, eval_during_training=False)


def hyperparams_of(game: Game) -> ppo.HyperParameters:
    """The hyperparameters for a game."""
    optimizer = ppo.OptimizerParams(learning_rate=game.learning_rate, grad_clip=0.5)
    return ppo.HyperParameters(
        gamma=1.0,
        ent_coeff=game.ent_coeff,
        actor_optimizer_params=optimizer,
        critic_optimizer_params=optimizer,
    )


def play_games(
    agent: SelfPlay, env: Environment, game: Game, n_games: int, actor: ppo.TrainState
) -> tuple[jax.Array, jax.Array]:
    """Whether the agent moves first in each game, and the results: 1, 0 or -1."""
    episodes = Episodes(env, game.most_moves)
    keys = jax.random.split(jax.random.key(1), (game.most_moves + 1, n_games))
    obs, state = jax.vmap(episodes.reset)(keys[0])

    def move(carry: tuple, keys: jax.Array) -> tuple[tuple, None]:
        obs, state, result, over = carry
        _, action = jax.vmap(lambda obs: agent.act(actor, (), obs))(obs)
        step = jax.vmap(episodes.play)(keys, state, action)
        result = jnp.where(over, result, step.reward)
        return (step.obs, step.envstate, result, over | step.terminated), None

    start = obs, state, jnp.zeros(n_games), jnp.zeros(n_games, bool)
    (_, _, result, _), _ = jax.lax.scan(move, start, keys[1:])
    return jax.vmap(is_first_move)(obs["observation"]), result


def shares(begins: jax.Array, result: jax.Array) -> np.ndarray:
    """Shares of wins, draws and losses, when the agent moves first and when it moves second."""
    begins, result = np.asarray(begins), np.asarray(result)
    return np.array([[(result[x] == r).mean() for r in (1, 0, -1)] for x in (begins, ~begins)])


def is_first_move(board: jax.Array) -> jax.Array:
    """Whether the opponent has not moved yet: it has no stone on the board, or took no match."""
    if board.ndim == 1:
        return board[-1] > 0
    return board[..., 1].sum() == 0


def _game_of_pgx(name: str) -> Callable[[], Environment]:
    return functools.partial(jaxagents.make, f"pgx:{name}")


def _cells(results: np.ndarray) -> list[str]:
    """Percentages: the mean over seeds, with the lowest and the highest if they differ."""
    each = 100.0 * results.reshape(len(results), -1).T
    return [
        f"{x.mean():.1f}" + (f" ({x.min():.1f} to {x.max():.1f})" if np.ptp(x) > 0 else "")
        for x in each
    ]


if __name__ == "__main__":
    main()
