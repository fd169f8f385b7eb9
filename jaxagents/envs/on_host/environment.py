"""Environments that are stepped on the host: compiled programs know their shapes alone."""

import abc
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree, Shaped, UInt8, UInt32

from jaxagents.envs.environment import Environment, Wording
from jaxagents.envs.episodes import InfoNames
from jaxagents.envs.on_host.episodes import Copies, HostEpisodes, check_distinct

LONGEST_KEPT = 10_000
"""The most actions that are kept of an episode without a limit, to be taken again on resuming."""


class HostState(NamedTuple):
    """A record of an episode, enough to play it again as far as it was.

    Attributes:
        seed: Seed of all episodes of the environment.
        number: Number of the episode.
        actions: The actions taken in it so far, and zeros where others will follow.
    """

    seed: UInt32[Array | np.ndarray, "*environments"]
    number: Int[Array | np.ndarray, "*environments"]
    actions: PyTree[Shaped[Array | np.ndarray, "..."]]


class Terms(NamedTuple):
    """How an agent has episodes played.

    Attributes:
        max_steps: Longest episode, in steps.
        shows_critic_state: Whether observations hold the input of a centralised critic.
        info_names: Names of the entries of infos that are kept.
        terminate_at_limits: Whether truncated episodes count as terminated.
    """

    max_steps: int
    shows_critic_state: bool = False
    info_names: InfoNames = InfoNames()
    terminate_at_limits: bool = False


class HostEnvironment(Environment):
    """An environment that is stepped on the host, outside of compiled programs.

    Agents collect their experience in many copies of it, and learn from it in the programs that they
    have for compiled environments. Two of them are equal if `identity` is.
    """

    on_host = True

    def __init__(self, env: Any) -> None:
        """Holds an environment, or anything else that a user made; adapters set the rest."""
        self.env = env
        self._live: dict[tuple[str, int, Terms], HostEpisodes] = {}
        self._name = ""
        self._identity: Hashable = None
        self._example: tuple[PyTree, PyTree] = (), ()
        self._draws = False
        self._n_given: int | None = None  # where several were given to be played in
        self._make: Callable[..., Any] | None = None
        self._make_eval: Callable[..., Any] | None = None

    @property
    def identity(self) -> Hashable:
        """A value that tells it apart from others, such as a specification of the environment."""
        return self._identity

    @property
    def name(self) -> str:
        """The name under which the environment is registered, or that it gives itself."""
        return self._name

    @property
    def wording(self) -> Wording:
        """The environment's name and methods."""
        return Wording(self._name, "reset", "step")

    @property
    def plays_again(self) -> bool:
        """Whether episodes have seeds of their own, so that they can be played again."""
        return True

    @property
    def can_draw(self) -> bool:
        """Whether videos can be made."""
        return self._draws

    def check(self, n_envs: int | None, evaluates: bool) -> None:
        """Raises unless an agent can play in so many copies, and be evaluated if it is to be.

        Args:
            n_envs: Number of copies; `None` for an agent that does not play while it learns.
            evaluates: Whether the agent is evaluated.

        Raises:
            ValueError: It cannot.
        """
        kind, n_given = type(self).__name__, self._n_given
        if None not in (n_envs, n_given) and n_given != n_envs:
            raise ValueError(
                f"There are {n_given} environments, but the configuration says n_envs={n_envs}: set "
                f"n_envs={n_given}."
            )
        if n_given is None and self._make is None and (n_envs or 1) > 1:
            raise ValueError(
                f"{self._why_no_more(False)}, so that no more can be made of it, but n_envs is "
                f"{n_envs}. Pass a function that makes one, as in Agent({kind}(lambda: MyEnv()), None, "
                f"config) with jaxagents.envs.{kind}, or set n_envs=1."
            )
        if evaluates:
            self._maker_for_evaluation()

    def _maker_for_evaluation(self) -> Callable[..., Any]:
        if self._make_eval is None:
            raise ValueError(
                f"{self._why_no_more(True)}, so that none can be made for evaluations. Give one, as in "
                f"jaxagents.envs.{type(self).__name__}(env, eval_env=lambda: MyEnv()), or make the "
                "agent with eval_during_training=False."
            )
        return self._make_eval

    @abc.abstractmethod
    def _why_no_more(self, evaluated: bool) -> str | None:
        """Why no more can be made of the environment, or of `eval_env`: the beginning of a sentence."""

    @abc.abstractmethod
    def _copies(self, purpose: str, n_envs: int, terms: Terms) -> Copies:
        """Makes copies of it; see `episodes`."""

    def episodes(self, purpose: str, n_envs: int, terms: Terms) -> HostEpisodes:
        """The episodes that are played in copies of it, which are not shared with other purposes.

        Args:
            purpose: `"training"` or `"evaluation"`, which always have the same object; or `"film"`,
                which makes new copies that draw.
            n_envs: Number of copies.
            terms: How they are played.

        Returns:
            The episodes.

        Raises:
            ValueError: An environment would be played in twice at once.
        """
        key, draws = (purpose, n_envs, terms), purpose == "film"
        if key in self._live:
            return self._live[key]
        copies = self._copies(purpose, n_envs, terms)
        others = [episodes for key, episodes in self._live.items() if key[0] != purpose]
        check_distinct(copies.environments, [env for each in others for env in each.environments])
        episodes = HostEpisodes(copies, terms.max_steps, terms.terminate_at_limits, draws)
        if not draws:
            self._live[key] = episodes
        return episodes

    def close(self) -> None:
        """Closes the copies that were made, such as to end their processes; agents make new ones."""
        for episodes in self._live.values():
            episodes.close()
        self._live.clear()

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, HostState]:
        """The shapes of a first observation, and the state of an episode that is yet to begin."""
        obs, action = jax.tree.map(jnp.asarray, self._example)
        longest = (self.max_steps or LONGEST_KEPT) if self.plays_again else 0
        actions = jax.tree.map(lambda x: jnp.zeros((longest, *x.shape), x.dtype), action)
        seed = jax.random.bits(key, (), jnp.uint32)
        return obs, HostState(seed, jnp.zeros((), jnp.int32), actions)

    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> NoReturn:
        """Raises `NotImplementedError`: no compiled program can take a step on the host."""
        self.check_compiled()
        raise AssertionError

    def render(self, state: PyTree) -> UInt8[np.ndarray, "height width 3"]:
        """The picture itself, which was taken when the step was."""
        return state

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the copies in which episodes are being played; others are made of it."""
        return vars(self) | {"_live": {}}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostEnvironment) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)
