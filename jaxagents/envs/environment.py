"""The one type of environment that agents see, whichever suite it comes from."""

import abc
from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Key, PyTree, UInt8

from jaxagents.core.arrays import check_size, shape_and_dtype
from jaxagents.envs.spaces import Space


class Step(NamedTuple):
    """Outcome of one step of an environment.

    Attributes:
        obs: The true successor: the observation after the action, also at the end of an episode.
        state: State that belongs to `obs`.
        reward: Reward, one number; with several actors one for each, shaped `(n_actors,)`.
        terminated: Whether the environment ended the episode, so that nothing follows `obs`.
        truncated: Whether the environment cut an episode that could have gone on from `obs`. A step that
            is both counts as terminated.
        info: Further values, by name; may be empty.
    """

    obs: PyTree
    state: PyTree
    reward: Float[Array, "*actors"]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    info: dict[str, PyTree]


class Moment(NamedTuple):
    """The moment of a run at which an environment is played: the arguments of `at_update`.

    Attributes:
        update_step: Number of updates made before.
        params: Parameters given by hyperparameters, by name.
    """

    update_step: ArrayLike
    params: Mapping[str, ArrayLike]


class Wording(NamedTuple):
    """The names of an environment and its methods in messages.

    Attributes:
        environment: The class that its author wrote.
        reset: The method that starts an episode.
        step: The method that takes a step.
    """

    environment: str
    reset: str
    step: str


class Environment(abc.ABC):
    """An environment whose episodes are played inside of compiled programs.

    A subclass gives `reset` and `step`, two pure functions of arrays, for one environment: agents map
    them over many. It need not count steps, and never resets itself: both are left to
    [`Episodes`][jaxagents.envs.Episodes], which truncates after `max_steps` steps, or earlier if an
    agent is so configured, and calls `reset` where an episode is over.

    Environments are values: two are equal if their class and attributes are. Attributes are set in the
    constructor and stay as they are; an agent whose environment has changed warns of it.

    Attributes:
        n_actors: Number of actors, for which actions and rewards have a leading axis; `None` if there
            is one actor and no such axis.
        action_space: Space of the actions (of one actor), such as one of gymnax; `None` if it is not
            declared, which leaves the policy to a subclass of an agent.
        observation_space: Space of the observations, which are checked against it; `None` if it is not
            declared.
        max_steps: Longest episode, in steps, if the environment has a limit of its own.
        params: Description of the environment in checkpoints, besides its name.
        render_fps: Steps a second at which videos of episodes play.
        on_host: Whether it is stepped on the host, so that compiled programs know its shapes alone.
    """

    n_actors: int | None = None
    action_space: Space = None
    observation_space: Space = None
    max_steps: int | None = None
    params: PyTree = None
    render_fps: float | int = 30
    on_host: bool = False

    @abc.abstractmethod
    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts an episode.

        Args:
            key: Random key.

        Returns:
            The first observation and the state, pytrees of any structure.
        """

    @abc.abstractmethod
    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Takes one step, and does not start a new episode.

        Args:
            key: Random key.
            state: State, as `reset` or the step before returned it.
            action: Action, within the bounds of a box; with several actors one for each, along a leading
                axis.

        Returns:
            The outcome, whose observation and state are structured, shaped and typed as from `reset`.
        """

    def action_mask(self, state: PyTree) -> PyTree[Bool[Array, "*actors n_actions"]] | None:
        """The actions that a state allows; override it unless all always are.

        Agents then observe a dict of the environment's own observation, as `"observation"`, and of this
        mask, as `"action_mask"`. An environment may also return such dicts itself.

        Args:
            state: State, as `reset` or `step` returned it.

        Returns:
            Whether each discrete action is allowed (for each actor); `None` if all are.
        """
        return None

    def critic_state(self, state: PyTree) -> PyTree:
        """The input of a centralised critic, such as the positions of all actors.

        Only [`MAPPO`][jaxagents.mappo.MAPPO] asks for it. An environment may also return it in
        observations that are dicts, as `"critic_state"`.

        Args:
            state: State, as `reset` or `step` returned it.

        Returns:
            A pytree of arrays; `None` if there is nothing beyond the observations of all actors.
        """
        return None

    def actor_mask(self, state: PyTree) -> Bool[Array, "actors"] | None:
        """The actors that still play in a state; override it if actors leave before the others.

        Steps of actors that have left have no weight in on-policy losses, but these actors are asked for
        actions until the episode ends for all, and their later rewards count for their earlier steps. An
        environment may also return this in observations that are dicts, as `"actor_mask"`.

        Args:
            state: State, as `reset` or `step` returned it.

        Returns:
            Whether each actor still plays; `None` if all do.
        """
        return None

    def at_update(self, update_step: ArrayLike, params: Mapping[str, ArrayLike]) -> "Environment":
        """The environment as it is played at an update; override it if it changes during a run.

        Args:
            update_step: Number of updates made before, which may be traced.
            params: Parameters given by hyperparameters, which replace the environment's own, by name;
                they may be traced.

        Returns:
            The environment; itself if it stays the same.

        Raises:
            TypeError: Hyperparameters give parameters that it does not have.
        """
        if params:
            raise TypeError(
                f"HyperParameters.env_params names {sorted(params)}, but {self.name} has no "
                "parameters beside it, as environments of gymnax have: give what varies to its "
                "constructor, or draw it in its reset and keep it in its state."
            )
        return self

    def render(self, state: PyTree) -> UInt8[np.ndarray, "height width 3"]:
        """Draws a state; override it for videos of episodes.

        It is called on the host, outside of compiled programs, and may use any library.

        Args:
            state: State, as `reset` or `step` returned it, as NumPy arrays.

        Returns:
            The picture: red, green and blue as bytes.

        Raises:
            NotImplementedError: The environment does not draw.
        """
        raise NotImplementedError(f"{self.name} does not draw.")

    def check_compiled(self) -> None:
        """Raises if it is not played inside of compiled programs.

        Raises:
            NotImplementedError: It is stepped on the host.
        """
        if self.on_host:
            raise NotImplementedError(
                f"{self.name} runs on the host, where no compiled program can step it: call train, "
                "resume and eval plainly, without vmap, jit, a mesh, sweep, env_reset or env_step. "
                "Train one seed after another."
            )

    @property
    def can_draw(self) -> bool:
        """Whether `render` draws states."""
        return type(self).render is not Environment.render

    @property
    def name(self) -> str:
        """The name shown, and stored with checkpoints: the class's name unless overridden."""
        return type(self).__name__

    @property
    def wording(self) -> Wording:
        """How messages name the environment and its methods; adapters give the names of their suite."""
        return Wording(type(self).__name__, "reset", "step")


def check_flag(x: PyTree, what: str) -> None:
    """Raises `ValueError` unless this is one truth value: no float, which may mean anything."""
    check_size(x, (), what)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        raise ValueError(
            f"{what} must be a boolean, got {shape_and_dtype(x)}: give one, such as done > 0.5."
        )
