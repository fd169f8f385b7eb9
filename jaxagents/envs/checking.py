"""A check of an environment that plays in it, for whoever has just written one."""

import warnings
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from jaxagents.core.compilation import quick_jit
from jaxagents.core.numbers import positive
from jaxagents.envs.adapters import as_environment
from jaxagents.envs.checks import doubts_about_outputs, mistakes_in_shapes
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.findings import Repetitions, doubts_of_play, mistakes_of_play
from jaxagents.envs.random_play import Player, Sampler, play_at_random, player_of
from jaxagents.envs.spaces import Space, check_components, map_spaces
from jaxagents.envs.tracing import told_of_writing, traced_attributes, traced_reset

_N_ENVS = 8
_FOR_EVER = int(np.iinfo(np.int32).max)


class EnvironmentReport(NamedTuple):
    """The findings of a check of an environment; `print` shows them.

    Attributes:
        name: Name of the environment.
        n_actors: Number of actors; `None` if there is one and no axis of actors.
        observation_space: Its space of observations, `None` if it declares none.
        action_space: Its space of actions, `None` if it declares none.
        n_steps: Number of steps played, over all environments.
        lengths: Lengths of the episodes that ended, in steps.
        returns: Their undiscounted returns, under random actions.
        truncated: Whether they were cut, rather than ended.
        warnings: What is suspicious.
    """

    name: str
    n_actors: int | None
    observation_space: Space
    action_space: Space
    n_steps: int
    lengths: Int[np.ndarray, "episodes"]
    returns: Float[np.ndarray, "episodes *actors"]
    truncated: Bool[np.ndarray, "episodes"]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.name}:",
            f"  actors: {self.n_actors or 1}",
            f"  observation_space: {self.observation_space!r}",
            f"  action_space: {self.action_space!r}",
            f"  steps of random play: {self.n_steps:,}",
            f"  episodes: {len(self.lengths)}",
        ]
        if len(self.lengths):
            lines += [
                f"  truncated: {self.truncated.mean():.0%}",
                f"  lengths: {_range(self.lengths)}",
                f"  returns: {_range(self.returns)}",
            ]
        return "\n".join([*lines, *(f"  warning: {warning}" for warning in self.warnings)])


def check_env(
    env: Any,
    env_params: PyTree = None,
    *,
    sample_action: Sampler | None = None,
    n_steps: int = 1000,
    seed: int = 0,
) -> EnvironmentReport:
    """Checks an environment by playing random actions in it, before an agent is trained there.

    ```python
    print(jaxagents.check_env(MyEnvironment()))
    ```

    Args:
        env: Whatever an agent takes: an environment of gymnax, an object with `reset_env` and
            `step_env`, or an [`Environment`][jaxagents.envs.Environment].
        env_params: Its parameters; `None` takes `env.default_params`.
        sample_action: Draws an action (of all actors), given a random key. By default, actions are drawn
            from the action space uniformly.
        n_steps: Number of steps, in each of eight environments side by side.
        seed: Seed of the random keys.

    Returns:
        A report. What is suspicious, but may be meant, is a warning as well.

    Raises:
        TypeError: It is not an environment.
        ValueError: It has mistakes; the message tells all that were found.
    """
    n_steps = positive("n_steps", n_steps)
    episodes, player, doubts = _trace(env, env_params, sample_action)
    name, key = episodes.env.wording.environment, jax.random.key(seed)
    try:
        repetitions = Repetitions(episodes, player, key, _N_ENVS)
        play = quick_jit(lambda key: play_at_random(episodes, player, key, _N_ENVS, n_steps))(key)
    except Exception as error:
        raise ValueError(_all_of([_told(error, "run by jax.jit and jax.vmap")], name)) from error
    play = jax.tree.map(np.asarray, play)
    mistakes = [*repetitions.mistakes(), *mistakes_of_play(play, episodes.env)]
    if mistakes:
        raise ValueError(_all_of(mistakes, name))
    doubts = (*doubts, *repetitions.doubts(), *doubts_of_play(play, episodes.env))
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=2)
    over = play.terminated | play.truncated
    return EnvironmentReport(
        name=episodes.env.name,
        n_actors=episodes.env.n_actors,
        observation_space=episodes.observation_space,
        action_space=episodes.action_space,
        n_steps=n_steps * _N_ENVS,
        lengths=play.length[over],
        returns=play.returns[over],
        truncated=play.truncated[over],
        warnings=doubts,
    )


def _trace(
    env: Any, env_params: PyTree, sample_action: Sampler | None
) -> tuple[Episodes, Player, list[str]]:
    """The environment, its actions, and doubts about what it gives, if its shapes are right."""
    name, before = type(env).__name__, dict(getattr(env, "__dict__", {}))
    try:
        made = as_environment(env, env_params)
        if made.on_host:
            raise TypeError(
                f"check_env checks compiled environments, and {made.name} runs on the host: "
                "gymnasium.utils.env_checker.check_env(env) checks those of Gymnasium, and "
                "pettingzoo.test.parallel_api_test(env) those of PettingZoo."
            )
        episodes = Episodes(made, _FOR_EVER, () if made.n_actors is None else (made.n_actors,))
        player = _player_of(episodes, sample_action)
        action = jax.eval_shape(lambda key: player(key, None), jax.random.key(0))
        traced_reset(made)
        before = _with_new_attributes(env, before)
        mistakes = mistakes_in_shapes(episodes, action)
        before = _with_new_attributes(env, before)
        doubts = [] if mistakes else doubts_about_outputs(episodes, action)
    except Exception as error:
        if type(error) is TypeError:  # those of JAX have types of their own
            raise
        mistakes = [_told(error, "traced"), *_changed_attributes(env, before)]
        raise ValueError(_all_of(list(dict.fromkeys(mistakes)), name)) from error
    mistakes += _changed_attributes(env, before)
    if mistakes:
        raise ValueError(_all_of(mistakes, name))
    return episodes, player, doubts


def _player_of(episodes: Episodes, sample_action: Sampler | None) -> Player:
    if sample_action is not None:
        return lambda key, obs: sample_action(key)
    if episodes.action_space is None:
        raise ValueError(
            "There is no action_space to draw actions from: declare one, or give sample_action, such as "
            "lambda key: jax.random.uniform(key, (2,))."
        )
    name = f"{episodes.env.wording.environment}.action_space"
    map_spaces(lambda space: check_components(space, name), episodes.action_space)
    return player_of(episodes.action_space, episodes.actors_shape)


def _with_new_attributes(env: Any, before: dict[str, Any]) -> dict[str, Any]:
    """Attributes as they were first: those that are written once, such as cached ones, do not change."""
    return {**getattr(env, "__dict__", {}), **before}


def _changed_attributes(env: Any, before: dict[str, Any]) -> list[str]:
    """Complaints about attributes that a reset or a step wrote to."""
    now = getattr(env, "__dict__", {})
    changed = [key for key, value in before.items() if now.get(key) is not value]
    names = dict.fromkeys([*changed, *traced_attributes(now)])
    return told_of_writing(type(env).__name__, list(names))


def _all_of(mistakes: list[str], name: str) -> str:
    return "\n".join([f"{name} is not right:", *(f"- {mistake}" for mistake in mistakes)])


def _told(error: Exception, how: str) -> str:
    """The message of an error: the whole of a check's, and the first line of any other."""
    if type(error) is ValueError:
        return str(error)
    first = next(iter(str(error).strip().splitlines()), "")
    return f"A reset or a step cannot be {how}: {type(error).__name__}: {first}"


def _range(x: np.ndarray) -> str:
    return f"{x.mean():.4g} (from {x.min():.4g} to {x.max():.4g})"
