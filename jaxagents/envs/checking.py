"""A check of new environments with random actions."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxagents.core.arrays import is_key
from jaxagents.core.compilation import quick_jit
from jaxagents.core.numbers import positive
from jaxagents.core.observed import action_mask, network_input
from jaxagents.envs.adapters import as_environment
from jaxagents.envs.checks import (
    doubts_about_dtypes,
    mistakes_in_shapes,
    traced_reset,
    traced_step,
    written_attributes,
)
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.observations import doubts_about_axes
from jaxagents.envs.play import random_action
from jaxagents.envs.spaces import (
    Space,
    box_bounds,
    check_components,
    is_array,
    is_box,
    is_discrete,
    is_multi_discrete,
    parts,
)

_N_ENVS = 8
_NEVER = int(np.iinfo(np.int32).max)
_N_REPEATED_STEPS = 64
_FEW = 4
"""With at least this many episodes, equal lengths are no coincidence."""

_Draw = Callable[[Key[Array, ""], PyTree], PyTree]
"""Draws an action of one environment, given a random key and an observation."""


class EnvironmentReport(NamedTuple):
    """The result of `check_env`; print it for a summary.

    Attributes:
        name: Name of the environment.
        n_actors: Number of actors; `None` for a single actor, without an actor axis.
        observation_space: Observation space; `None` if undeclared.
        action_space: Action space; `None` if undeclared.
        n_steps: Number of steps taken, over all environments.
        lengths: Lengths of the episodes that ended, in steps.
        returns: Their undiscounted returns under random actions.
        truncated: Whether they were truncated rather than terminated.
        warnings: Anything suspicious that may be intended.
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
        def spread(x: np.ndarray) -> str:
            return f"{x.mean():.4g} (from {x.min():.4g} to {x.max():.4g})"

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
                f"  lengths: {spread(self.lengths)}",
                f"  returns: {spread(self.returns)}",
            ]
        return "\n".join([*lines, *(f"  warning: {warning}" for warning in self.warnings)])


def check_env(
    env: Any,
    env_params: PyTree = None,
    *,
    sample_action: Callable[[Key[Array, ""]], PyTree] | None = None,
    n_steps: int = 1000,
    seed: int = 0,
) -> EnvironmentReport:
    """Checks an environment with random actions; run it before you train an agent.

    ```python
    print(jaxagents.check_env(MyEnvironment()))
    ```

    Args:
        env: Anything that an agent accepts: a gymnax environment, an object with `reset_env` and
            `step_env`, or an [`Environment`][jaxagents.envs.Environment].
        env_params: The environment's parameters; `None` uses `env.default_params`.
        sample_action: Draws an action (for all actors) from a random key. By default, actions are drawn
            uniformly from the action space.
        n_steps: Number of steps in each of eight parallel environments.
        seed: Seed of the random keys.

    Returns:
        A report. Its warnings are also issued as Python warnings.

    Raises:
        TypeError: `env` is not an environment, or is stepped on the host.
        ValueError: The environment has mistakes; the message lists all that were found.
    """
    n_steps = positive("n_steps", n_steps)
    episodes, draw, doubts = _traced(env, env_params, sample_action)
    name, key = episodes.env.wording.environment, jax.random.key(seed)
    try:
        is_determined, keys_matter = _repeated(episodes, draw, key)
        play = quick_jit(lambda key: _play(episodes, draw, key, n_steps))(key)
    except Exception as error:
        raise ValueError(_list_of([_told(error, "run by jax.jit and jax.vmap")], name)) from error
    play = jax.tree.map(np.asarray, play)
    mistakes = _mistakes_of_play(episodes, play, is_determined)
    if mistakes:
        raise ValueError(_list_of(mistakes, name))
    doubts = (*doubts, *_doubts_of_play(episodes, play, is_determined and not keys_matter))
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


# Before playing: shapes, and attributes that are written to.


def _traced(
    env: Any, env_params: PyTree, sample_action: Callable | None
) -> tuple[Episodes, _Draw, list[str]]:
    """Checks shapes; returns the environment, how to draw actions, and warnings about its outputs."""
    name, before = type(env).__name__, dict(getattr(env, "__dict__", {}))
    try:
        made = as_environment(env, env_params)
        if made.on_host:
            raise TypeError(
                f"check_env checks compiled environments, but {made.name} runs on the host: use "
                "gymnasium.utils.env_checker.check_env(env) for Gymnasium, and "
                "pettingzoo.test.parallel_api_test(env) for PettingZoo."
            )
        episodes = Episodes(made, _NEVER, () if made.n_actors is None else (made.n_actors,))
        draw = _draw_of(episodes, sample_action)
        action = jax.eval_shape(lambda key: draw(key, None), jax.random.key(0))
        # Attributes that are written only once, such as cached ones, do not count as changed.
        traced_reset(made)
        before = {**getattr(env, "__dict__", {}), **before}
        mistakes = mistakes_in_shapes(episodes, action)
        before = {**getattr(env, "__dict__", {}), **before}
        doubts = [] if mistakes else _doubts_about_outputs(episodes, action)
    except Exception as error:
        if type(error) is TypeError:  # JAX raises subclasses of it
            raise
        mistakes = [*_told(error, "traced").splitlines(), *written_attributes(env, before)]
        raise ValueError(_list_of(list(dict.fromkeys(mistakes)), name)) from error
    mistakes += written_attributes(env, before)
    if mistakes:
        raise ValueError(_list_of(mistakes, name))
    return episodes, draw, doubts


def _draw_of(episodes: Episodes, sample_action: Callable | None) -> _Draw:
    if sample_action is not None:
        return lambda key, obs: sample_action(key)
    if episodes.action_space is None:
        raise ValueError(
            "There is no action_space to sample actions from: declare one, or pass "
            "sample_action, such as lambda key: jax.random.uniform(key, (2,))."
        )
    name = episodes.env.wording.environment
    check_components(episodes.action_space, f"{name}.action_space")
    return functools.partial(random_action, episodes)


def _list_of(mistakes: list[str], name: str) -> str:
    return "\n".join([f"{name} is not right:", *(f"- {mistake}" for mistake in mistakes)])


def _told(error: Exception, how: str) -> str:
    """The message of an error: all of it if a check raised it, else its first line."""
    if type(error) is ValueError:
        return str(error)
    first = next(iter(str(error).strip().splitlines()), "")
    return f"A reset or a step cannot be {how}: {type(error).__name__}: {first}"


# Random play.


class _Play(NamedTuple):
    """Steps of random play, shaped `(steps, environments)`.

    Attributes:
        length: Length of the episode so far, including this step.
        returns: Return of the episode so far.
        terminated: Whether the environment terminated the episode.
        truncated: Whether the environment truncated the episode.
        finite_reward: Whether the reward is finite.
        finite_obs: Whether the observation acted on is finite.
        finite_next_obs: Whether the true successor is finite.
        obs_in_space: Whether both observations are within the bounds of their space.
        some_allowed: Whether the observation acted on allows any action (of each actor).
    """

    length: Int[Array, "steps environments"]
    returns: Float[Array, "steps environments *actors"]
    terminated: Bool[Array, "steps environments"]
    truncated: Bool[Array, "steps environments"]
    finite_reward: Bool[Array, "steps environments"]
    finite_obs: Bool[Array, "steps environments"]
    finite_next_obs: Bool[Array, "steps environments"]
    obs_in_space: Bool[Array, "steps environments"]
    some_allowed: Bool[Array, "steps environments"]


def _play(episodes: Episodes, draw: _Draw, key: Key[Array, ""], n_steps: int) -> _Play:
    """Plays random actions in parallel environments."""
    space = episodes.observation_space

    def step(carry: tuple, key: Key[Array, ""]) -> tuple[tuple, _Play]:
        obs, state, returns = carry
        action_key, step_key = jax.random.split(key)
        taken = episodes.step(step_key, state, draw(action_key, obs))
        returns = returns + taken.reward
        masks = [jnp.asarray(mask, bool) for mask in jax.tree.leaves(action_mask(obs))]
        play = _Play(
            length=state.step + 1,
            returns=returns,
            terminated=taken.terminated,
            truncated=taken.truncated,
            finite_reward=_is_finite(taken.reward),
            finite_obs=_is_finite(obs),
            finite_next_obs=_is_finite(taken.next_obs),
            obs_in_space=_is_in(space, obs) & _is_in(space, taken.next_obs),
            some_allowed=_all([mask.any(axis=-1).all() for mask in masks]),
        )
        over = taken.terminated | taken.truncated
        return (taken.obs, taken.envstate, jnp.where(over, 0.0, returns)), play

    def in_one(key: Key[Array, ""]) -> _Play:
        reset_key, key = jax.random.split(key)
        first = (*episodes.reset(reset_key), jnp.zeros(episodes.actors_shape, jnp.float32))
        return jax.lax.scan(step, first, jax.random.split(key, n_steps))[1]

    return jax.vmap(in_one, out_axes=1)(jax.random.split(key, _N_ENVS))


def _repeated(episodes: Episodes, draw: _Draw, key: Key[Array, ""]) -> tuple[bool, bool]:
    """Plays the same actions twice; returns whether outcomes agree, and whether keys matter."""
    actions = jax.vmap(lambda key: draw(key, None))(jax.random.split(key, _N_REPEATED_STEPS))
    keys = jax.random.split(key, _N_ENVS)

    def make_program() -> tuple[str, Callable]:
        """Traces a program of a few steps; returns its text and a function that runs it."""

        def play(key: Key[Array, ""]) -> PyTree:
            reset_key, key = jax.random.split(key)
            first = episodes.reset(reset_key)

            def step(state: PyTree, x: tuple) -> tuple[PyTree, PyTree]:
                taken = episodes.step(x[0], state, x[1])
                return taken.envstate, taken._replace(info={})

            steps = jax.random.split(key, _N_REPEATED_STEPS), actions
            return first, jax.lax.scan(step, first[1], steps)[1]

        program = quick_jit(jax.vmap(play))
        return program.trace(keys).lower().as_text(), lambda: [
            np.asarray(x) for x in jax.tree.leaves(program(keys)) if not is_key(x)
        ]

    def are_equal(first: np.ndarray, second: np.ndarray) -> bool:
        return np.array_equal(first, second, equal_nan=jnp.issubdtype(first.dtype, jnp.inexact))

    (text, run), (other_text, run_other) = make_program(), make_program()
    first = run()
    again = run() if text == other_text else run_other()
    keys_matter = not all(are_equal(x, np.broadcast_to(x[:1], x.shape)) for x in first)
    return all(map(are_equal, first, again)), keys_matter


def _all(conditions: list[Bool[Array, ""]]) -> Bool[Array, ""]:
    return jnp.all(jnp.stack([*conditions, jnp.ones((), bool)]))


def _is_finite(tree: PyTree) -> Bool[Array, ""]:
    inexact = [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return _all([jnp.isfinite(x).all() for x in inexact])


def _is_in(space: Space, obs: PyTree) -> Bool[Array, ""]:
    """Whether an observation is within the declared bounds of its space."""
    obs, children = network_input(obs), parts(space)
    if children is not None:
        items = obs if isinstance(obs, dict) else dict(enumerate(jax.tree.leaves(obs)))
        return _all(
            [_is_in(child, items[name]) for name, child in children.items() if name in items]
        )
    if is_discrete(space) or is_multi_discrete(space):
        n_values = np.asarray(space.n if is_discrete(space) else space.nvec)
        return jnp.all((obs >= 0) & (obs < n_values))
    if not (is_box(space) and is_array(obs)):
        return jnp.ones((), bool)
    low, high = box_bounds(space)
    return jnp.all((obs >= low) & (obs <= high))


# Findings.


def _mistakes_of_play(episodes: Episodes, play: _Play, is_determined: bool) -> list[str]:
    """Errors: randomness from outside JAX, NaN, infinity, and masks that allow nothing."""
    name, reset, step = episodes.env.wording
    mistakes = []
    if not is_determined:
        mistakes.append(
            f"{name}.{reset} or {name}.{step} gives different outcomes for the same key, state "
            "and action. Draw random numbers with jax.random and the given key, not with "
            "numpy.random or random, and keep everything that changes in the state."
        )
    if not play.finite_obs[play.length == 1].all():
        mistakes.append(f"{name}.{reset} returns an observation with NaN or infinity.")
    if not play.some_allowed.all():
        first = play.length[~play.some_allowed].min() - 1
        mistakes.append(
            f"{name} allows no action after {first} steps of an episode that is not over: its "
            "action mask must allow at least one, such as an action that does nothing, or the "
            "step before must end the episode."
        )
    for what, finite in (
        ("a reward", play.finite_reward),
        ("an observation", play.finite_next_obs),
    ):
        if not finite.all():
            first = play.length[~finite].min()
            mistakes.append(
                f"{name}.{step} returns {what} with NaN or infinity under random actions, first "
                f"in step {first} of an episode."
            )
    return mistakes


def _doubts_of_play(episodes: Episodes, play: _Play, ignores_keys: bool) -> list[str]:
    """Warnings: unused keys, observations outside their space, and disguised time limits."""
    name, reset, step = episodes.env.wording
    doubts = []
    if ignores_keys:
        doubts.append(
            f"{name} does the same whatever the random keys of {reset} and {step} are. If it "
            "should be random, draw random numbers with jax.random and the given key: numbers "
            "from numpy.random, or from a key of its own, are constants in a compiled program."
        )
    if not play.obs_in_space.all():
        doubts.append(f"{name} returns observations outside the bounds of its observation_space.")
    lengths = play.length[play.terminated]
    alone = not play.truncated.any() and len(lengths) >= _FEW
    if alone and lengths[0] > 1 and (lengths == lengths[0]).all():
        doubts.append(
            f"All {len(lengths)} episodes of {name} terminated after exactly {lengths[0]} "
            f"steps. If that is a time limit, {step} should not report it as terminated, since "
            "agents value what follows a terminated step at zero: report it as truncated, or "
            "leave it out and set the environment's max_steps or config.max_episode_steps."
        )
    return doubts


def _doubts_about_outputs(episodes: Episodes, action: PyTree) -> list[str]:
    """Warnings about dtypes, image axes, and flags that are not boolean."""
    name, _, step = episodes.env.wording
    obs, _, outcome = traced_step(episodes.env, action)
    doubts = doubts_about_dtypes(episodes.env, obs, exact=True)
    n_leading = int(episodes.env.n_actors is not None)
    doubts += doubts_about_axes(network_input(obs), name, n_leading)
    doubts += [
        f"{name}.{step}: {flag} has dtype {x.dtype}, in which everything but 0 counts as true. "
        "Make it boolean."
        for flag, x in (("terminated", outcome.terminated), ("truncated", outcome.truncated))
        if x.dtype != bool
    ]
    return doubts
