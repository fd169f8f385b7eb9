"""Environments that are stepped on the host: what an agent gives for it, and rollouts, step by step."""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, PyTree

from jaxagents.core.report import Report


class HostRollout(NamedTuple):
    """A rollout, shaped `(time, environments, ...)`, or one step of it without the axis of time.

    Attributes:
        obs: Observations acted on.
        action: Actions taken.
        log_prob: Their log-probabilities; `()` for agents that need none.
        reward: Rewards received.
        next_obs: The true successors of `obs`, before any reset.
        terminated: Whether they are terminal.
        truncated: Whether the episode was cut after the step.
        carry: Memories of the policy before the step; `()` if it has none.
        info: The entries of infos that the configuration names; `()` if it names none.
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
    """How rollouts in environments on the host are stored, by an agent that learns from earlier ones.

    Attributes:
        n_first: Number of steps that fresh runners take by `act_first` in each environment.
        act_first: As `HostCollection.act`, for these.
        read: Maps a runner to the part of it that `store` reads, without its `buffer`.
        store: Maps a buffer, that part of its runner, and a rollout or those first steps, to the fields
            of the runner once they are stored, as far as these change, and a report of which
            environments gave non-finite numbers.
        interrupt: Maps a runner, and flags of environments, to the runner after a rollout that leaves
            out the steps that those environments take next; not compiled.
        empty: Makes an empty buffer.
        batches: Maps a buffer, a random key, hyperparameters and the number of updates before to the
            batches of an update, which `learn` is given in place of a buffer; `None` where it is given
            the buffer. Then the buffer lies on the host, where all but `learn` and acting is computed.
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
        """A context in which programs are called where the buffer lies."""
        if self.batches is None:
            return contextlib.nullcontext()
        return jax.default_device(jax.local_devices(backend="cpu")[0])


class HostCollection(NamedTuple):
    """The parts of an update between which environments are stepped on the host.

    All but `begin` are compiled. The runners that they are given have neither observations nor states of
    environments.

    Attributes:
        initial: Maps what acts to the memories at the start of an episode.
        draw: Maps a runner and a number to the random numbers of as many steps as an update has, time
            first; further numbers give further ones.
        act: Maps what acts, memories, observations and the random numbers of one step, of all
            environments, to the memories afterwards, the actions and their log-probabilities.
        begin: Maps a runner, and flags of environments, to the runner before a rollout that begins with
            new episodes there.
        learn: Maps a runner and a rollout to the runner after an update, and its report. Where there is
            a `storage`, it is given a runner alone, or with batches, and learns from what was stored
            before the rollout.
        storage: How rollouts are stored; `None` for agents that learn from each as it comes.
    """

    initial: Callable[[Any], PyTree]
    draw: Callable[[Any, Any], PyTree]
    act: Callable[..., tuple[PyTree, PyTree, PyTree]]
    begin: Callable[[Any, Bool[np.ndarray, "environments"]], Any]
    learn: Callable[..., tuple[Any, Report]]
    storage: HostStorage | None = None


class Rows:
    """Collects steps, which some environments may take earlier than others.

    Environments that start episodes by themselves take a step to do so, which is no part of a rollout.
    It is complete once the last of them has taken its steps; what others do meanwhile is left out.

    Attributes:
        begins: Where the first step of the rollout is the first of an episode.
        left_out: Where further steps were left out.
    """

    def __init__(self, n_steps: int, n_envs: int) -> None:
        """Begins an empty rollout."""
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
        """Adds a step of the environments in which it counts; `begins` says where an episode begins."""
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
