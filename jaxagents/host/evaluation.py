"""Playing whole episodes of a Gymnasium environment, to evaluate a policy or record videos."""

import copy
import itertools
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import gymnasium
import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.core.arrays import RandomKey, as_key
from jaxagents.core.files import check_film, film
from jaxagents.core.numbers import positive
from jaxagents.data import Dataset, units
from jaxagents.data.rows import in_dicts
from jaxagents.envs.on_host.vectors import start_of, step_of

_DEFAULT_FPS = 30

Policy = Callable[[PyTree], PyTree]
"""Maps one observation to one action, such as a NumPy or JAX array."""


class _Step(NamedTuple):
    """One step of an episode, or all its steps, stacked along a first axis."""

    observation: PyTree
    action: PyTree
    reward: float | np.ndarray
    next_observation: PyTree
    terminated: bool | np.ndarray
    truncated: bool | np.ndarray


def evaluate(
    policy: Policy, env: gymnasium.Env, n_episodes: int = 10, *, seed: int = 0
) -> dict[str, np.ndarray]:
    """Evaluates a policy in episodes played one after another.

    Episode `i` starts from a seed derived from `seed` and `i`, so that evaluations are reproducible. The
    policy receives unmodified observations, without a batch axis. An episode lasts until the environment
    ends it (`gymnasium.wrappers.TimeLimit` adds a limit).

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
        Arrays of shape `(n_episodes,)`: `returns` (undiscounted; NaN where observations or
        rewards were non-finite), `lengths` (steps), `final_rewards` (rewards of the last
        steps), `terminated` and `truncated`.

    Raises:
        TypeError: `env` is not a single Gymnasium environment, or a number is not an integer.
        ValueError: An action does not fit the environment's action space, `n_episodes` is not positive,
            or `seed` is negative.
    """
    episodes = _episodes(policy, env, n_episodes, seed)
    return _stack([_outcome(episode) for episode in episodes])


def evaluate_with_trajectories(
    policy: Policy, env: gymnasium.Env, n_episodes: int = 10, *, seed: int = 0
) -> tuple[dict[str, np.ndarray], list[dict[str, PyTree]]]:
    """Like [`evaluate`][jaxagents.host.evaluate], but also returns all steps.

    Args:
        policy: Maps one observation to one action.
        env: A single environment.
        n_episodes: Number of episodes.
        seed: Seed of the episodes, not negative.

    Returns:
        The metrics of [`evaluate`][jaxagents.host.evaluate], and for each episode a dict of arrays with
            one row per step, for a [`Dataset`][jaxagents.data.Dataset]: `observations`, `actions`,
            `rewards`, `next_observations`, `masks` and `ends`. The dict has the environment's
            `action_space` as an attribute.

    Raises:
        TypeError: `env` is not a single Gymnasium environment, or a number is not an integer.
        ValueError: An action does not fit the environment's action space, `n_episodes` is not positive,
            or `seed` is negative.
    """
    outcomes, trajectories = [], []
    for episode in _episodes(policy, env, n_episodes, seed):
        steps = list(episode)
        outcomes.append(_outcome(steps))
        trajectories.append(units.Transitions(_trajectory(_stack(steps)), env.action_space))
    return _stack(outcomes), trajectories


def concatenate_trajectories(
    trajectories: Sequence[Mapping[str, PyTree]], seed: int = 0
) -> Dataset:
    """Joins the steps of episodes into one dataset.

    Args:
        trajectories: Dicts of arrays with a first axis of steps, all with the same structure.
        seed: Seed for sampling from the dataset.

    Returns:
        The dataset, with rows in the order of the episodes. Tuples, as from a `Tuple` space, become
            dicts with keys `"0"`, `"1"`, and so on. Its `action_space` comes from the trajectories.

    Raises:
        ValueError: There are no trajectories, or their actions are in different units.
    """
    if not trajectories:
        raise ValueError("There are no trajectories.")
    boxes = {units.known_box(trajectory) for trajectory in trajectories}
    if len(boxes) > 1:
        each = sorted("unknown ones" if box is None else units.words(box) for box in boxes)
        raise ValueError(
            f"The trajectories have actions in different units: {' and '.join(each)}. Make a Dataset of "
            "each kind, and join them after rescale_actions."
        )
    plain = ({**trajectory} for trajectory in trajectories)
    joined = jax.tree.map(lambda *arrays: np.concatenate(arrays), *plain)
    return Dataset({key: in_dicts(value) for key, value in joined.items()}, seed, boxes.pop())


def record_video(
    policy: Policy,
    env: gymnasium.Env,
    path: str | os.PathLike,
    n_episodes: int = 1,
    *,
    seed: int = 0,
    fps: float | None = None,
) -> dict[str, np.ndarray]:
    """Records the episodes that [`evaluate`][jaxagents.host.evaluate] plays with the same seed.

    ```python
    env = gymnasium.make("Pendulum-v1", render_mode="rgb_array")
    metrics = record_video(policy, env, "pendulum.gif")
    ```

    Viewers play GIFs at no more than 50 frames per second, so a faster GIF drops frames to play at the
    right speed. GIF frames are kept in memory until the end; an MP4 is written frame by frame.

    Args:
        policy: Maps one observation to one action.
        env: A single environment, created with `render_mode="rgb_array"`.
        path: The file to write, ending in `.gif` or `.mp4`; it must not exist yet.
        n_episodes: Number of episodes in the video.
        seed: Seed of the episodes.
        fps: Frames (steps) per second; by default the environment's `metadata["render_fps"]`.

    Returns:
        The metrics of [`evaluate`][jaxagents.host.evaluate].

    Raises:
        TypeError: `env` is not a single Gymnasium environment.
        ValueError: The environment does not render arrays, `path` has an unsupported extension, or
            `fps` is not positive.
        FileExistsError: The file exists.
        FileNotFoundError: The folder does not exist.
        ImportError: imageio or imageio-ffmpeg is not installed.
    """
    _check_single(env)
    if env.render_mode != "rgb_array":
        raise ValueError(
            'record_video needs an environment made with render_mode="rgb_array", got '
            f"render_mode={env.render_mode!r}."
        )
    rate: float = env.metadata.get("render_fps", _DEFAULT_FPS) if fps is None else fps
    path = check_film(path, rate)
    frames = itertools.count()
    with film(path, rate) as its:

        def show() -> None:
            if next(frames) % its.every == 0:
                its.write(cast(Any, env.render()))

        episodes = _episodes(policy, env, n_episodes, seed, show)
        return _stack([_outcome(episode) for episode in episodes])


def supply_rng(f: Callable[..., PyTree], rng: RandomKey | None = None) -> Policy:
    """Passes a fresh random key to a function at each call.

    ```python
    metrics = evaluate(supply_rng(learner.sample_actions), env)
    ```

    Args:
        f: A function with a keyword argument `seed` for a random key.
        rng: Random key or seed that the fresh keys are derived from; 0 by default.

    Returns:
        The function without `seed`. It counts its calls: create a new one to get the same keys again.

    Raises:
        TypeError: `rng` is not a random key.
    """
    key = jax.random.key(0) if rng is None else as_key(rng)
    calls = itertools.count()

    def policy(*args: PyTree, **kwargs: PyTree) -> PyTree:
        return f(*args, seed=jax.random.fold_in(key, next(calls)), **kwargs)

    return policy


def _check_single(env: object) -> None:
    if not isinstance(env, gymnasium.Env):
        raise TypeError(
            "env must be a single Gymnasium environment, from gymnasium.make (not "
            f"gymnasium.make_vec), got {type(env).__name__}."
        )


def _episodes(
    policy: Policy,
    env: gymnasium.Env,
    n_episodes: int,
    seed: int,
    show: Callable[[], None] = lambda: None,
) -> Iterator[Iterator[_Step]]:
    """Plays one episode after another, lazily, and calls `show` for each state."""
    _check_single(env)
    seed = operator.index(seed)
    for number in range(positive("n_episodes", n_episodes)):
        (episode_seed,) = np.random.SeedSequence((seed, number)).generate_state(1)
        yield _play(policy, env, int(episode_seed), show)


def _play(
    policy: Policy, env: gymnasium.Env, seed: int, show: Callable[[], None]
) -> Iterator[_Step]:
    # Copies, since environments and policies may write to arrays that they return or receive.
    first, _ = start_of(env, env.reset(seed=seed))
    observation, over = copy.deepcopy(first), False
    show()
    while not over:
        action = _to_space(policy(copy.deepcopy(observation)), env.action_space)
        outcome = env.step(copy.deepcopy(action))
        successor, reward, terminated, truncated, _ = step_of(env, outcome)
        show()
        successor = copy.deepcopy(successor)
        yield _Step(observation, action, reward, successor, terminated, truncated)
        observation = successor
        over = terminated or truncated


def _to_space(action: PyTree, space: gymnasium.Space) -> PyTree:
    """Converts an action to the environment's format, in host memory."""
    if space.shape is None or space.dtype is None:  # a dict or a tuple of spaces
        return copy.deepcopy(jax.device_get(action))
    array = np.asarray(action)
    if array.shape != space.shape or not np.can_cast(array.dtype, space.dtype, "same_kind"):
        raise ValueError(
            f"The policy must map one observation to one action of {space}, which has shape "
            f"{space.shape} and dtype {space.dtype}; it returned shape {array.shape} and dtype "
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
    numbers = jax.tree.leaves((step.reward, step.observation, step.next_observation))
    arrays = [x for x in map(np.asarray, numbers) if x.dtype.kind in "fc"]
    return all(np.isfinite(x).all() for x in arrays)


def _trajectory(steps: _Step) -> dict[str, PyTree]:
    return {
        "observations": steps.observation,
        "actions": steps.action,
        "rewards": np.asarray(steps.reward, np.float32),
        "next_observations": steps.next_observation,
        "masks": 1.0 - np.asarray(steps.terminated, np.float32),
        "ends": steps.terminated | steps.truncated,
    }


def _stack(trees: Sequence[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
