"""Episodes in environments on the host, each with its own seed."""

import abc
import contextlib
import threading
import warnings
import weakref
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree, UInt8, UInt32

from jaxagents.core.arrays import to_host
from jaxagents.core.observed import action_mask
from jaxagents.envs.on_host.infos import Infos, Numbers
from jaxagents.envs.spaces import Space, box_bounds, is_box, is_multi_discrete, map_spaces

_BEGUN_BY: weakref.WeakValueDictionary[int, "HostEpisodes"] = weakref.WeakValueDictionary()
"""The `HostEpisodes` that began the current episode of each environment, by the environment's id."""
_IN_USE: set[int] = set()
"""Ids of the environments that are being played."""
_lock = threading.Lock()
_GOES_ON = (
    "Training continues, but not as if it had never stopped, with new episodes in environments"
)


class VectorStep(NamedTuple):
    """Outcome of one step of all environments.

    Attributes:
        obs: Observations to act on next.
        next_obs: The true successors, before any reset.
        reward: Rewards, one per actor if there are several.
        terminated: Whether the environment terminated the episode.
        truncated: Whether a limit truncated the episode.
        counts: Whether an action was taken; if not, the next episode was started instead.
        info: The kept info entries, by name.
    """

    obs: PyTree
    next_obs: PyTree
    reward: Float[np.ndarray, "environments *actors"]
    terminated: Bool[np.ndarray, "environments"]
    truncated: Bool[np.ndarray, "environments"]
    counts: Bool[np.ndarray, "environments"]
    info: dict[str, Numbers]

    @property
    def starts(self) -> Bool[np.ndarray, "environments"]:
        """Whether the next action is the first of an episode, or not taken at all."""
        return self.terminated | self.truncated | ~self.counts


class Copies(abc.ABC):
    """Copies of an environment on the host that step together.

    Attributes:
        n_envs: Number of environments.
        given: The user's object that holds them, which the user closes and may use elsewhere; `None` if
            we created them.
        starts_episodes: Whether they start the next episode by themselves.
        action_space: Action space of one environment; with several actors, of one actor.
        infos: Reads the kept info entries.
        environments: The unwrapped environments, if they are in this process.
    """

    n_envs: int
    given: object | None
    starts_episodes: bool
    action_space: Space
    infos: Infos
    environments: Sequence[object]

    @abc.abstractmethod
    def reset(self, seeds: Sequence[int | None], where: Bool[np.ndarray, "environments"]) -> PyTree:
        """Starts episodes.

        Args:
            seeds: A seed per environment; `None` where no episode starts.
            where: Which environments start one; all, if they start episodes by themselves.

        Returns:
            The current observations of all environments.
        """

    @abc.abstractmethod
    def step(self, actions: PyTree) -> VectorStep:
        """Takes one step in every environment, given actions with environments first."""

    @abc.abstractmethod
    def picture(self) -> UInt8[np.ndarray, "height width 3"]:
        """Returns an image of the first environment."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the environments, unless the user created them."""


def check_distinct(envs: Collection[object], others: Collection[object] = ()) -> None:
    """Raises `ValueError` if an environment occurs twice, or is among the others."""
    seen = set(map(id, others))
    for env in envs:
        if id(env) in seen:
            raise ValueError(
                f"The same {type(env).__qualname__} is there twice, and its episodes would "
                "interfere: make a new one each time, with `lambda: MyEnv()` or `[MyEnv() for "
                "_ in range(n)]`, not `lambda: env` or `[env] * n`."
            )
        seen.add(id(env))


class Played(NamedTuple):
    """Progress of the current episode in each environment.

    Attributes:
        seed: Seed of all episodes of the environment.
        number: Number of the episode.
        actions: The actions taken so far, followed by padding.
        step: Number of steps taken so far.
    """

    seed: UInt32[np.ndarray, "environments"]
    number: Int[np.ndarray, "environments"]
    actions: PyTree
    step: Int[np.ndarray, "environments"]

    def is_same(self, other: "Played") -> bool:
        """Whether the same steps were taken in the same episodes."""
        times = (self.seed, other.seed), (self.number, other.number), (self.step, other.step)
        if not all(np.array_equal(one, another) for one, another in times):
            return False

        def same_so_far(actions: np.ndarray, others: np.ndarray) -> bool:
            longest = min(actions.shape[1], int(self.step.max(initial=0)))
            past = np.arange(longest) < self.step[:, None]
            return np.array_equal(actions[:, :longest][past], others[:, :longest][past])

        return all(jax.tree.leaves(jax.tree.map(same_so_far, self.actions, other.actions)))


class HostEpisodes:
    """Plays episodes in all environments of a vector.

    If the caller starts the vector's episodes, each episode has its own seed and can be replayed. If the
    vector starts them, only the first has a seed, and later ones depend on all before.

    Attributes:
        max_steps: Time limit, in steps.
        obs: The current observations.
        pictures: Images since the last restart, if drawn: one of the first episode's start, and one per
            step.
        infos: Reads the kept info entries.
        environments: The unwrapped environments; see `Copies`.
    """

    def __init__(
        self,
        vector: Copies,
        max_steps: int,
        terminate_at_limits: bool = False,
        draws: bool = False,
    ) -> None:
        """Prepares to play; no episode starts yet.

        Args:
            vector: The environments.
            max_steps: Time limit, in steps, unless the vector starts episodes by itself.
            terminate_at_limits: Whether truncated episodes count as terminated.
            draws: Whether to draw the first environment.
        """
        self.max_steps = max_steps
        self.obs: PyTree = None
        self.pictures: list[UInt8[np.ndarray, "height width 3"]] = []
        self.infos, self.environments = vector.infos, vector.environments
        self._terminate_at_limits, self._draws = terminate_at_limits, draws
        self._played: Played | None = None
        self._left: list[bytes] | None = None
        self._vector, self._space = vector, vector.action_space
        first = vector if vector.given is None else vector.given
        self._objects = [*map(id, (first, *vector.environments))]

    @property
    def played(self) -> Played:
        """Progress of the current episodes, updated in place."""
        assert self._played is not None
        return self._played

    def take(self) -> bool:
        """Reserves the environments; returns `False` if they are in use already."""
        with _lock:
            if not _IN_USE.isdisjoint(self._objects):
                return False
            _IN_USE.update(self._objects)
            return True

    def give_back(self) -> None:
        """Releases the environments for others."""
        with _lock:
            _IN_USE.difference_update(self._objects)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """A context for playing, which notices if the user played in the environments in between."""
        from jaxagents.envs.on_host.copying import state_of  # imports Gymnasium

        is_given = self._vector.given is not None
        if is_given and self._left is not None and self._left != state_of(self._vector):
            self._played = None
        yield
        self._left = state_of(self._vector) if is_given else None

    def are_at(self, played: Played) -> bool:
        """Whether the environments are exactly at this progress, with no one else's steps since."""
        mine, own = all(_BEGUN_BY.get(x) is self for x in self._objects), self._played
        return mine and own is not None and own.is_same(played)

    def go_to(self, played: Played, obs: PyTree) -> Bool[np.ndarray, "environments"]:
        """Replays episodes up to the given progress, unless the environments are there already.

        Where that is impossible, it warns and starts the next episode.

        Args:
            played: The progress of the episodes.
            obs: The observations that followed; ignored for episodes without steps.

        Returns:
            Whether each episode continues; if not, the next one was started.
        """
        begun = played.step > 0
        if self.are_at(played):
            return np.ones_like(begun)
        if self._vector.starts_episodes:
            self._start(played._replace(number=played.number + begun))
            again = ~begun
        else:
            again = self._play_again(played)
            again &= ~begun | _equal_rows(self.obs, obs)
            self._start_next(~again)
        if not again.all():
            warnings.warn(self._why_not(again), stacklevel=2)
        return again

    def restart(self, seeds: UInt32[np.ndarray, "environments"]) -> None:
        """Starts the first episode of each environment, given the environments' seeds."""
        none = np.zeros(len(seeds), np.int32)
        self._start(Played(seeds, none, actions=(), step=none))
        self.pictures.clear()
        self._draw()

    def step(self, actions: PyTree) -> VectorStep:
        """Takes one step in all environments, and starts the next episode where one is over.

        Args:
            actions: Actions, environments first, which are clipped to the bounds of their space.

        Returns:
            The outcome.
        """
        played = self.played
        self._note(actions)
        self._played = None  # unknown if the step fails, as some environments may have taken it
        step = self._vector.step(fitting_actions(self._space, actions))
        self._played = played
        self._draw()
        played.step[:] += step.counts
        if not self._vector.starts_episodes:
            too_long = (played.step >= self.max_steps) & ~step.terminated
            step = step._replace(truncated=step.truncated | too_long)
        over = step.terminated | step.truncated
        if self._terminate_at_limits:
            step = step._replace(terminated=over, truncated=np.zeros_like(over))
        self.obs = step.obs
        self._start_next(over)
        return step._replace(obs=self.obs)

    def close(self) -> None:
        """Closes the environments."""
        self._vector.close()

    def _draw(self) -> None:
        if self._draws:
            self.pictures.append(self._vector.picture())

    def _note(self, actions: PyTree) -> None:
        """Records actions as long as there is room."""
        played = self.played

        def note(kept: np.ndarray, taken: np.ndarray) -> None:
            (has_room,) = np.nonzero(played.step < kept.shape[1])
            kept[has_room, played.step[has_room]] = taken[has_room]

        if jax.tree.leaves(played.actions):
            jax.tree.map(note, played.actions, actions)

    def _start(self, played: Played) -> None:
        """Starts the given episode in each environment."""
        _BEGUN_BY.update(dict.fromkeys(self._objects, self))
        none = np.zeros_like(played.step)
        self._played = jax.tree.map(np.array, played._replace(step=none))
        self._begin(np.ones(len(none), bool))

    def _start_next(self, where: Bool[np.ndarray, "environments"]) -> None:
        """Moves on to the next episode in some environments."""
        self.played.number[where] += 1
        self.played.step[where] = 0
        if not self._vector.starts_episodes:
            self._begin(where)

    def _begin(self, where: Bool[np.ndarray, "environments"]) -> None:
        """Resets some environments to the start of their current episode."""
        if where.any():
            pairs = zip(self.played.seed.tolist(), self.played.number.tolist(), strict=True)
            seeds = [
                _seed_of_episode(*pair) if begins else None
                for begins, pair in zip(where, pairs, strict=True)
            ]
            self.obs = self._vector.reset(seeds, where)

    def _play_again(self, played: Played) -> Bool[np.ndarray, "environments"]:
        """Replays the actions of episodes; returns where that was possible.

        All environments step together. To finish at the same time, those with fewer steps first replay
        their own episode over and over, since other actions might not be allowed.
        """
        again = played.step <= min(leaf.shape[1] for leaf in jax.tree.leaves(played.actions))
        steps = np.where(again, played.step, 0)
        longest = int(steps.max())
        wait = longest - steps
        everywhere = np.arange(len(wait))
        self._start(played)
        for time in range(longest):
            position = np.where(time < wait, time, time - wait) % np.maximum(steps, 1)
            if time:
                self._begin(position == 0)
            rows = everywhere, position
            kept = jax.tree.map(lambda kept, rows=rows: kept[rows], played.actions)
            actions = _with_allowed(self._space, kept, self.obs, steps == 0)
            step = self._vector.step(fitting_actions(self._space, actions))
            self.obs = step.obs
            over = step.terminated | step.truncated
            again &= ~(over & (time >= wait))
            self._begin(over)
        if longest:
            self._begin(np.equal(longest, wait))
        self.played.step[:] = steps
        return again

    def _why_not(self, again: Bool[np.ndarray, "environments"]) -> str:
        where = np.flatnonzero(~again).tolist()
        if self._vector.starts_episodes:
            return (
                f"{_GOES_ON} {where}: this vector starts episodes by itself, so they cannot be "
                "played again. Make Gymnasium vectors with "
                "autoreset_mode=AutoresetMode.DISABLED to prevent this."
            )
        return (
            f"{_GOES_ON} {where}: with the same seeds and actions they went differently, or "
            "they were too long to be kept."
        )


def fitting_actions(space: Space, actions: PyTree) -> PyTree:
    """Converts actions to the bounds and the dtypes of their space.

    A single discrete action is an `int`.
    """

    def fitting(part: Space, x: PyTree) -> np.ndarray | int:
        x = np.clip(x, *box_bounds(part, part.dtype)) if is_box(part) else x
        return to_host(np.asarray(x, part.dtype))

    return map_spaces(fitting, space, actions)


def _with_allowed(
    space: Space, actions: PyTree, obs: PyTree, where: Bool[np.ndarray, "environments"]
) -> PyTree:
    """Replaces the actions of some environments by the first that their observations allow."""

    def first_allowed(x: np.ndarray, mask: PyTree) -> np.ndarray:
        return np.zeros_like(x) if mask is None else np.argmax(mask, axis=-1)

    def allowed(part: Space, x: np.ndarray, mask: PyTree) -> np.ndarray:
        if mask is not None and is_multi_discrete(part):
            components = zip(np.moveaxis(x, -1, 0), mask, strict=True)
            first = np.stack([first_allowed(*component) for component in components], axis=-1)
        else:
            first = first_allowed(x, mask)
        return np.where(where.reshape(-1, *[1] * (x.ndim - 1)), first, x)

    return map_spaces(allowed, space, actions, action_mask(obs)) if where.any() else actions


def _seed_of_episode(seed: int, number: int) -> int:
    """A seed of 31 bits, the range that emulators accept."""
    return int(np.random.SeedSequence((seed, number)).generate_state(1)[0] >> 1)


def _equal_rows(first: PyTree, second: PyTree) -> Bool[np.ndarray, "environments"]:
    """Compares two pytrees of arrays row by row, along their first axis."""

    def equal(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        return same.reshape(len(x), -1).all(axis=1)

    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return np.all([equal(np.asarray(x), np.asarray(y)) for x, y in pairs], axis=0)
