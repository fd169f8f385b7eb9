"""Rollouts in environments that are stepped on the host, and what an agent provides for them."""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, PyTree

from jaxagents.core.report import Report


class HostRollout(NamedTuple):
    """A rollout, shaped `(time, environments, ...)`, or one step of it without the time axis.

    Attributes:
        obs: Observations acted on.
        action: Actions taken.
        log_prob: Their log-probabilities; `()` for agents that need none.
        reward: Rewards received.
        next_obs: True successors of `obs`, before any reset.
        terminated: Whether `next_obs` is terminal.
        truncated: Whether the episode was truncated after the step.
        carry: Memories of the policy before the step; `()` if it has none.
        info: Entries of infos named in the configuration; `()` if it names none.
    """

    obs: PyTree
    action: PyTree
    log_prob: PyTree
    reward: Array | np.ndarray
    next_obs: PyTree
    terminated: Bool[Array | np.ndarray, "time environments"]
    truncated: Bool[Array | np.ndarray, "time environments"]
    carry: PyTree
    info: PyTree = ()


class HostStorage(NamedTuple):
    """How an agent that learns from earlier rollouts stores them, for environments on the host.

    Attributes:
        n_first: Number of steps that fresh runners take in each environment with `act_first`.
        act_first: Like `HostCollection.act`, for these steps.
        read: Maps a runner to the part of it that `store` reads, without its `buffer`.
        store: Maps a buffer, that part of its runner, and a rollout or the first steps, to the changed
            fields of the runner, and a report of environments with non-finite numbers.
        interrupt: Maps a runner and flags of environments to the runner after a rollout that leaves out
            the next steps of the flagged environments; not compiled.
        empty: Makes an empty buffer.
        batches: Maps a buffer, a random key, hyperparameters and the number of earlier updates to the
            batches of an update, for `learn`; the buffer is then on the host, which runs everything but
            `learn` and acting. `None` if `learn` takes the buffer itself.
    """

    n_first: int
    act_first: Callable[..., tuple[PyTree, PyTree, PyTree]]
    read: Callable[[Any], Any]
    store: Callable[[PyTree, Any, HostRollout], tuple[dict[str, PyTree], Report]]
    interrupt: Callable[[Any, Bool[np.ndarray, "environments"]], Any]
    empty: Callable[[], PyTree]
    batches: Callable[..., PyTree] | None = None

    @property
    def near(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which programs run where the buffer is."""
        if self.batches is None:
            return contextlib.nullcontext()
        return jax.default_device(jax.local_devices(backend="cpu")[0])


class HostCollection(NamedTuple):
    """The parts of an update between steps of environments on the host.

    All but `begin` are compiled. They take runners without observations and environment states. The
    acting part is the one returned by `Behaviour._acting`.

    Attributes:
        initial: Maps the acting part to the memories at the start of an episode.
        draw: Maps a runner and a block number to the random numbers of one update's steps, time first;
            each block has its own.
        act: Maps the acting part and, for all environments, memories, observations and the random
            numbers of one step to new memories, actions and their log-probabilities.
        begin: Maps a runner and flags of environments to the runner before a rollout that begins with
            new episodes in the flagged environments.
        learn: Maps a runner and a rollout to the runner after an update, and its report. With a
            `storage`, it takes only a runner, or a runner and batches, and learns from what was stored
            before the rollout.
        storage: How rollouts are stored; `None` for agents that learn from each rollout once.
    """

    initial: Callable[[Any], PyTree]
    draw: Callable[[Any, Any], PyTree]
    act: Callable[..., tuple[PyTree, PyTree, PyTree]]
    begin: Callable[[Any, Bool[np.ndarray, "environments"]], Any]
    learn: Callable[..., tuple[Any, Report]]
    storage: HostStorage | None = None


class Rows:
    """Collects the steps of a rollout, which some environments may complete earlier than others.

    Environments that reset themselves spend a step on it, which is not part of the rollout. The rollout
    is complete once the last environment has taken its steps; further steps of others are left out.

    Attributes:
        begins: Environments whose first step in the rollout is the first of an episode.
        left_out: Environments whose further steps were left out.
    """

    def __init__(self, n_steps: int, n_envs: int) -> None:
        """Starts an empty rollout."""
        self._n_steps = n_steps
        self._taken = np.zeros(n_envs, int)
        self.begins, self.left_out = np.zeros((2, n_envs), bool)
        self._rollout: HostRollout | None = None

    def add(
        self,
        step: HostRollout,
        counts: Bool[np.ndarray, "environments"],
        begins: Bool[np.ndarray, "environments"],
    ) -> None:
        """Adds a step of the environments where it counts; `begins` flags the starts of episodes."""
        self.begins |= counts & (self._taken == 0) & begins
        arrays = [np.asarray(x) for x in jax.tree.leaves(step)]
        if self._rollout is None:
            rows = [np.empty((self._n_steps, *x.shape), x.dtype) for x in arrays]
            self._rollout = jax.tree.unflatten(jax.tree.structure(step), rows)
        self.left_out |= counts & (self._taken == self._n_steps)
        (where,) = np.nonzero(counts & (self._taken < self._n_steps))
        at = self._taken[where], where
        for rows, x in zip(jax.tree.leaves(self._rollout), arrays, strict=True):
            rows[at] = x[where]
        self._taken[where] += 1

    @property
    def are_complete(self) -> bool:
        """Whether every environment has taken its steps."""
        return bool((self._taken == self._n_steps).all())

    def rollout(self) -> HostRollout:
        """The rollout, once it is complete."""
        assert self._rollout is not None
        return self._rollout
