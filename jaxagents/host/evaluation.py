"""Playing whole episodes of a Gymnasium environment."""

import copy
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.core.keys import RandomKey, as_key
from jaxagents.core.numbers import positive
from jaxagents.data import Dataset
from jaxagents.envs.on_host.returned import flag_of, reward_of, start_of, step_of

Policy = Callable[[PyTree], PyTree]
"""Maps one observation to one action, such as a NumPy or JAX array."""


class _Step(NamedTuple):
    """One step of an episode, or, stacked along a first axis, all of them."""

    observation: PyTree
    action: PyTree
    reward: float | np.ndarray
    next_observation: PyTree
    terminated: bool | np.ndarray
    truncated: bool | np.ndarray


def evaluate(
    policy: Policy, env: gymnasium.Env, n_episodes: int = 10, *, seed: int = 0
) -> dict[str, np.ndarray]:
    """Plays episodes one after another.

    The environment starts episode `i` from a seed derived from `seed` and `i`, so that the same policy
    meets the same episodes again. Observations are handed to the policy as they come, without a batch
    axis; an episode lasts until the environment ends it (`gymnasium.wrappers.TimeLimit` adds a limit).

    ```python
    policy = functools.partial(learner.sample_actions, temperature=0.0)
    metrics = evaluate(policy, gymnasium.make("Pendulum-v1"))
    metrics["returns"].mean()
    ```

    Args:
        policy: Maps one observation to one action.
        env: A single environment.
        n_episodes: Number of episodes.
        seed: Seed of the episodes, not negative.

    Returns:
        Arrays shaped `(n_episodes,)`: `returns` (undiscounted; NaN where observations or
        rewards were not finite), `lengths` (steps), `final_rewards` (rewards of the last
        steps), `terminated` and `truncated`.

    Raises:
        TypeError: `env` is not a single Gymnasium environment, or a number is no integer.
        ValueError: An action does not fit the environment's action space, `n_episodes` is not positive,
            or `seed` is negative.
    """
    episodes = _episodes(policy, env, n_episodes, seed)
    return _stack([_outcome(episode) for episode in episodes])


def evaluate_with_trajectories(
    policy: Policy, env: gymnasium.Env, n_episodes: int = 10, *, seed: int = 0
) -> tuple[dict[str, np.ndarray], list[dict[str, PyTree]]]:
    """Plays episodes one after another, and keeps all that happened.

    Args:
        policy: Maps one observation to one action.
        env: A single environment.
        n_episodes: Number of episodes.
        seed: Seed of the episodes, not negative.

    Returns:
        The metrics of [`evaluate`][jaxagents.host.evaluate], and for each episode a dict of arrays
            with one row for each step, as [`Dataset`][jaxagents.data.Dataset] takes it:
            `observations`, `actions`, `rewards`, `next_observations`, `masks` and `ends`.

    Raises:
        TypeError: `env` is not a single Gymnasium environment, or a number is no integer.
        ValueError: An action does not fit the environment's action space, `n_episodes` is not positive,
            or `seed` is negative.
    """
    outcomes, trajectories = [], []
    for episode in _episodes(policy, env, n_episodes, seed):
        steps = list(episode)
        outcomes.append(_outcome(steps))
        trajectories.append(_trajectory(_stack(steps)))
    return _stack(outcomes), trajectories


def concatenate_trajectories(
    trajectories: Sequence[Mapping[str, PyTree]], seed: int = 0
) -> Dataset:
    """All steps of episodes in one dataset.

    Args:
        trajectories: Dicts of arrays with a first axis of steps, all structured alike.
        seed: Seed of the dataset's sampling.

    Returns:
        The dataset, whose rows are in the order of the episodes.

    Raises:
        TypeError: They hold tuples, as those of observations in a `Tuple` space do.
        ValueError: There are no trajectories.
    """
    if not trajectories:
        raise ValueError("There are no trajectories.")
    for trajectory in trajectories:
        for key, value in trajectory.items():
            _check_arrays(key, value)
    return Dataset(jax.tree.map(lambda *arrays: np.concatenate(arrays), *trajectories), seed)


def supply_rng(f: Callable[..., PyTree], rng: RandomKey | None = None) -> Policy:
    """Gives a function a fresh random key at each call.

    ```python
    metrics = evaluate(supply_rng(learner.sample_actions), env)
    ```

    Args:
        f: Takes a random key as its keyword argument `seed`.
        rng: Random key, or its seed, from which the fresh ones derive; 0 by default.

    Returns:
        The function without `seed`. It counts its calls: make a new one to get the same keys again.

    Raises:
        TypeError: `rng` is not a random key.
    """
    key = jax.random.key(0) if rng is None else as_key(rng)
    calls = itertools.count()

    def policy(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return f(*args, seed=jax.random.fold_in(key, next(calls)), **kwargs)

    return policy


def check_single(env: object) -> None:
    """Raises unless this is a single Gymnasium environment.

    Raises:
        TypeError: It is a vector of environments, or none of Gymnasium's.
    """
    if not isinstance(env, gymnasium.Env):
        raise TypeError(
            "env must be a single Gymnasium environment, as gymnasium.make gives it (and not "
            f"gymnasium.make_vec), got {type(env).__name__}."
        )


def _episodes(
    policy: Policy, env: gymnasium.Env, n_episodes: int, seed: int
) -> Iterator[Iterator[_Step]]:
    """Plays one episode after another; each is played as its steps are drawn."""
    check_single(env)
    seed = operator.index(seed)
    for number in range(positive("n_episodes", n_episodes)):
        (episode_seed,) = np.random.SeedSequence((seed, number)).generate_state(1)
        yield _play(policy, env, int(episode_seed))


def _play(policy: Policy, env: gymnasium.Env, seed: int) -> Iterator[_Step]:
    # The copies: an environment may write every observation into the same array.
    observation = copy.deepcopy(begin(env, seed))
    over = False
    while not over:
        action = _to_space(policy(observation), env.action_space)
        successor, reward, terminated, truncated = take(env, action)
        successor = copy.deepcopy(successor)
        yield _Step(observation, action, reward, successor, terminated, truncated)
        observation = successor
        over = terminated or truncated


def _to_space(action: PyTree, space: gymnasium.Space) -> PyTree:
    """An action as the environment takes it, in the memory of the host."""
    if space.shape is None or space.dtype is None:  # a dict or a tuple of spaces
        return jax.device_get(action)
    array = np.asarray(action)
    if array.shape != space.shape or not np.can_cast(array.dtype, space.dtype, "same_kind"):
        raise ValueError(
            f"The policy must map one observation to one action of {space}, which has shape "
            f"{space.shape} and dtype {space.dtype}; it gave shape {array.shape} and dtype "
            f"{array.dtype}."
        )
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(array)
    return array.astype(space.dtype)


def _outcome(episode: Iterable[_Step]) -> dict[str, PyTree]:
    ends = [(step.reward, step.terminated, step.truncated, _is_finite(step)) for step in episode]
    rewards, terminated, truncated, finite = zip(*ends, strict=True)
    return {
        "returns": np.sum(rewards) if all(finite) else np.float64(np.nan),
        "lengths": len(rewards),
        "final_rewards": rewards[-1],
        "terminated": terminated[-1],
        "truncated": truncated[-1],
    }


def _is_finite(step: _Step) -> bool:
    return all(map(is_finite, (step.reward, step.observation, step.next_observation)))


def _trajectory(steps: _Step) -> dict[str, PyTree]:
    return {
        "observations": steps.observation,
        "actions": steps.action,
        "rewards": np.asarray(steps.reward, np.float32),
        "next_observations": steps.next_observation,
        "masks": 1.0 - np.asarray(steps.terminated, np.float32),
        "ends": steps.terminated | steps.truncated,
    }


def _check_arrays(name: str, value: PyTree) -> None:
    """Raises unless this is an array, or a dict of arrays that may be nested."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            _check_arrays(f"{name}/{key}", part)
    elif isinstance(value, tuple):
        raise TypeError(
            f"{name!r} must be an array, or a dict of them, got a tuple: change the environment with "
            "gymnasium.wrappers.TransformObservation or TransformAction, so that it has no Tuple space."
        )


def _stack(trees: Sequence[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


class Outcome(NamedTuple):
    """The outcome of a step.

    Attributes:
        observation: What is observed after it, as the environment's own array.
        reward: The reward.
        terminated: Whether the environment ended the episode.
        truncated: Whether a limit cut it.
    """

    observation: PyTree
    reward: float
    terminated: bool
    truncated: bool


def begin(env: gymnasium.Env, seed: int) -> PyTree:
    """Begins an episode.

    Args:
        env: The environment.
        seed: Seed of the episode.

    Returns:
        The first observation, as the environment's own array.

    Raises:
        TypeError: The environment does not return an observation and a dict.
    """
    observation, _ = start_of(env, env.reset(seed=seed))
    return observation


def take(env: gymnasium.Env, action: Any) -> Outcome:
    """Takes an action.

    Args:
        env: The environment.
        action: The action, of the environment's space.

    Returns:
        What it led to.

    Raises:
        TypeError: The environment does not return what those of Gymnasium do.
    """
    observation, reward, terminated, truncated, _ = step_of(env, env.step(action))
    return Outcome(
        observation,
        reward_of(env, reward),
        flag_of(env, "terminated", terminated),
        flag_of(env, "truncated", truncated),
    )


def is_finite(observation: PyTree) -> bool:
    """Whether all numbers of an observation are finite."""
    if isinstance(observation, np.ndarray):
        return _array_is_finite(observation)
    return all(map(_array_is_finite, jax.tree.leaves(observation)))


def _array_is_finite(leaf: Any) -> bool:
    array = np.asarray(leaf)
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
