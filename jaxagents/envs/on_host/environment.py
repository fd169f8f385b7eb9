"""Environments stepped on the host; compiled programs only know their shapes."""

import abc
import contextlib
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, NoReturn, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree, Shaped, UInt8, UInt32

from jaxagents.envs.environment import Environment, Wording
from jaxagents.envs.episodes import InfoNames
from jaxagents.envs.on_host.episodes import (
    Copies,
    HostEpisodes,
    Played,
    check_distinct,
    fitting_actions,
)

LONGEST_KEPT = 10_000
"""Maximum number of an episode's actions to record for replay on resuming, unless the environment's
specification sets a time limit."""


class HostState(NamedTuple):
    """A record of an episode, sufficient to replay it.

    Attributes:
        seed: Seed of all episodes of the environment.
        number: Number of the episode.
        actions: The actions taken so far, padded with zeros.
    """

    seed: UInt32[Array | np.ndarray, "*environments"]
    number: Int[Array | np.ndarray, "*environments"]
    actions: PyTree[Shaped[Array | np.ndarray, "..."]]


class Terms(NamedTuple):
    """An agent's settings for playing episodes.

    Attributes:
        max_steps: Time limit, in steps.
        shows_critic_state: Whether observations include the input of a centralised critic.
        info_names: Names of the info entries to keep.
        terminate_at_limits: Whether truncated episodes count as terminated.
    """

    max_steps: int
    shows_critic_state: bool = False
    info_names: InfoNames = InfoNames()
    terminate_at_limits: bool = False


class _MadeCopies:
    """All copies of an environment that one agent plays in, in use or not."""

    def __init__(self) -> None:
        self._made: list[tuple[tuple[str, int, Terms], HostEpisodes]] = []

    def of(self, *key: Any) -> list[HostEpisodes]:
        return [episodes for other, episodes in self._made if other == key]

    def environments(self, but: str) -> list[object]:
        return [env for key, each in [*self._made] if key[0] != but for env in each.environments]

    def add(self, purpose: str, n_envs: int, terms: Terms, episodes: HostEpisodes) -> None:
        self._made.append(((purpose, n_envs, terms), episodes))

    def close(self) -> None:
        while self._made:
            self._made.pop()[1].close()


class HostEnvironment(Environment):
    """An environment that is stepped on the host, outside compiled programs.

    Agents collect experience in many copies, and learn from it with the same programs as for compiled
    environments. Two environments are equal if their `identity` is.
    """

    on_host = True

    def __init__(self, env: Any) -> None:
        """Stores the user's environment, or the source of one; adapters set the rest."""
        self.env = env
        self._copies = _MadeCopies()
        self._all_copies = weakref.WeakSet([self._copies])
        self._name = ""
        self._identity: Hashable = None
        self._example: tuple[PyTree, PyTree] = (), ()
        self._draws = False
        self._n_kept = LONGEST_KEPT
        self._n_given: int | None = None  # if several environments were passed
        self._make: Callable[..., Any] | None = None
        self._make_eval: Callable[..., Any] | None = None

    @property
    def identity(self) -> Hashable:
        """A value that identifies the environment, such as its specification."""
        return self._identity

    @property
    def name(self) -> str:
        """The environment's registered name, or its own."""
        return self._name

    @property
    def wording(self) -> Wording:
        """The environment's name and methods."""
        return Wording(self._name, "reset", "step")

    @property
    def plays_again(self) -> bool:
        """Whether each episode has its own seed, so that it can be replayed."""
        return True

    @property
    def can_draw(self) -> bool:
        """Whether the environment can make videos."""
        return self._draws

    def check(self, n_envs: int | None, evaluates: bool) -> None:
        """Raises unless there can be enough copies for an agent.

        Args:
            n_envs: Number of copies; `None` for an agent that does not play while it learns.
            evaluates: Whether the agent also needs copies for evaluation.

        Raises:
            ValueError: The environment cannot be copied, or the number of given environments differs.
        """
        kind, n_given = type(self).__name__, self._n_given
        if None not in (n_envs, n_given) and n_given != n_envs:
            raise ValueError(
                f"There are {n_given} environments, but the configuration says n_envs={n_envs}: set "
                f"n_envs={n_given}."
            )
        if n_given is None and self._make is None and (n_envs or 1) > 1:
            raise ValueError(
                f"{self._why_no_more(False)}, so it cannot be copied, but n_envs is {n_envs}. "
                f"Pass a function that makes it, as in Agent(jaxagents.envs.{kind}(lambda: "
                "MyEnv()), None, config), or set n_envs=1."
            )
        if evaluates:
            self._maker_for_evaluation()

    def _maker_for_evaluation(self) -> Callable[..., Any]:
        if self._make_eval is None:
            raise ValueError(
                f"{self._why_no_more(True)}, so it cannot be copied for evaluations. Pass "
                f"another one, as in jaxagents.envs.{type(self).__name__}(env, eval_env=lambda: "
                "MyEnv()), or make the agent with eval_during_training=False."
            )
        return self._make_eval

    @abc.abstractmethod
    def _why_no_more(self, evaluated: bool) -> str | None:
        """Why the environment, or `eval_env`, cannot be copied: the beginning of a sentence."""

    @abc.abstractmethod
    def _given_copies(self, n_envs: int, terms: Terms) -> Copies | None:
        """The given environments, for training; `None` if copies are needed."""

    @abc.abstractmethod
    def _more_copies(self, purpose: str, n_envs: int, terms: Terms) -> Copies:
        """Creates copies; see `playing`."""

    def to_agent(self, obs: PyTree, like: PyTree) -> PyTree:
        """Converts an observation of the user's environment for agents.

        Args:
            obs: Observation returned by its `reset` or `step`.
            like: Shapes and dtypes of an observation, as agents see it.

        Returns:
            The observation; unchanged if its structure differs.
        """
        if jax.tree.structure(obs) != jax.tree.structure(like):
            return obs
        return jax.tree.map(lambda like, x: np.asarray(x, like.dtype), like, obs)

    def from_agent(self, obs: PyTree, action: PyTree) -> PyTree:
        """Converts an action for `step` of the user's environment.

        Args:
            obs: The observation acted on, as passed to `to_agent`.
            action: The action, as agents choose it.

        Returns:
            The action.
        """
        return fitting_actions(self.action_space, action)

    def for_agent(self) -> "HostEnvironment":
        """Returns the same environment for an agent with its own copies."""
        twin, copies = object.__new__(type(self)), _MadeCopies()
        vars(twin).update(vars(self), _copies=copies, _all_copies=weakref.WeakSet([copies]))
        self._all_copies.add(copies)
        return twin

    @contextlib.contextmanager
    def playing(
        self, purpose: str, n_envs: int, terms: Terms, played: Played | None = None
    ) -> Iterator[HostEpisodes]:
        """Reserves copies of the environment within a context.

        Args:
            purpose: `"training"`, which uses the given environments if possible; `"evaluation"`; or
                `"film"`, which makes new copies that draw.
            n_envs: Number of copies.
            terms: How to play them.
            played: The episodes to continue; copies that are already at that point are preferred.

        Yields:
            The episodes in the copies, which keep their state until they are reserved again.

        Raises:
            ValueError: An environment is already in use.
        """
        episodes = self._acquire(purpose, n_envs, terms, played)
        try:
            yield episodes
        finally:
            episodes.give_back()
            if purpose == "film":
                episodes.close()

    def _acquire(
        self, purpose: str, n_envs: int, terms: Terms, played: Played | None
    ) -> HostEpisodes:
        made, draws = self._copies.of(purpose, n_envs, terms), purpose == "film"
        made.sort(key=lambda episodes: played is None or not episodes.are_at(played))
        for episodes in made:
            if episodes.take():
                return episodes

        def acquire(copies: Copies) -> HostEpisodes | None:
            others = self._copies.environments(but=purpose)
            check_distinct(copies.environments, others)
            episodes = HostEpisodes(copies, terms.max_steps, terms.terminate_at_limits, draws)
            if not episodes.take():
                return None
            if not draws:
                self._copies.add(purpose, n_envs, terms, episodes)
            return episodes

        given = self._given_copies(n_envs, terms) if purpose == "training" else None
        if given is not None and (episodes := acquire(given)):
            return episodes
        more = given is None or (self._make is not None and self._n_given is None)
        if more and (episodes := acquire(self._more_copies(purpose, n_envs, terms))):
            return episodes
        kind = type(self).__name__
        raise ValueError(
            f"{self._name} is already in use, perhaps by a run in another thread: give each run "
            "its own environment or vector, or a function that makes a new one each time, as "
            f"in Agent(jaxagents.envs.{kind}(lambda: MyEnv()), None, config)."
        )

    def close(self) -> None:
        """Closes all copies, for instance to end their processes.

        Agents make new ones if needed. Closing one agent's environment does not affect others' copies.
        """
        for copies in [*self._all_copies]:
            copies.close()

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, HostState]:
        """Returns an example observation, and the state of an episode that has not begun."""
        obs, action = jax.tree.map(jnp.asarray, self._example)
        longest = self._n_kept if self.plays_again else 0
        actions = jax.tree.map(lambda x: jnp.zeros((longest, *x.shape), x.dtype), action)
        seed = jax.random.bits(key, (), jnp.uint32)
        return obs, HostState(seed, jnp.zeros((), jnp.int32), actions)

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> NoReturn:
        """Raises `NotImplementedError`: compiled programs cannot take steps on the host."""
        self.check_compiled()
        raise AssertionError

    def render(self, state: PyTree) -> UInt8[np.ndarray, "height width 3"]:
        """Returns the state, which is an image drawn at the step itself."""
        return state

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the copies, which are recreated if needed."""
        from jaxagents.envs.on_host.copying import PickledEnvironment  # imports Gymnasium

        left_out = {"_copies", "_all_copies"}
        if isinstance(self._make, PickledEnvironment) and self._n_given is None:
            left_out.add("env")  # pickling it directly might lose attributes set by the user
        return {name: x for name, x in vars(self).items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "env" not in state:
            self.env = cast(Callable[[], Any], self._make)()
        self._copies = _MadeCopies()
        self._all_copies = weakref.WeakSet([self._copies])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostEnvironment) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)
