"""The common interface of all environments, whichever suite they come from."""

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
        obs: The true successor: the observation after the action, even at the end of an episode.
        state: The state at `obs`.
        reward: Scalar reward; with several actors, one per actor, shaped `(n_actors,)`.
        terminated: Whether `obs` is terminal.
        truncated: Whether the environment cut off an episode that could have continued from `obs`. A
            step that is both counts as terminated.
        info: Additional values by name; may be empty.
    """

    obs: PyTree
    state: PyTree
    reward: Float[Array, "*actors"]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    info: dict[str, PyTree]


class Moment(NamedTuple):
    """The point of a run at which an environment is used: the arguments of `at_update`.

    Attributes:
        update_step: Number of updates so far.
        params: Environment parameters from the hyperparameters, by name.
    """

    update_step: ArrayLike
    params: Mapping[str, ArrayLike]


class Wording(NamedTuple):
    """Names of an environment and its methods in messages.

    Attributes:
        environment: The class that the environment's author wrote.
        reset: The method that starts an episode.
        step: The method that takes a step.
    """

    environment: str
    reset: str
    step: str


class Environment(abc.ABC):
    """Base class of environments, which run inside compiled programs.

    A subclass defines `reset` and `step`, two pure functions of arrays, for a single environment; agents
    vmap them over many. An environment neither counts steps nor resets itself:
    [`Episodes`][jaxagents.envs.Episodes] truncates after `max_steps` steps, or earlier if the agent's
    configuration says so, and calls `reset` when an episode is over.

    Environments are values: two are equal if their class and attributes are equal. Set attributes in the
    constructor and do not change them later; an agent warns if its environment has changed.

    Attributes:
        n_actors: Number of actors, which is the size of the leading axis of actions and rewards; `None`
            for a single actor, without that axis.
        action_space: Action space (of one actor), such as a gymnax space; `None` if undeclared: the
            agent then needs a custom policy.
        observation_space: Observation space, which observations are checked against; `None` if
            undeclared.
        max_steps: The environment's own time limit, in steps per episode, if it has one.
        params: Parameters that describe the environment in checkpoints, in addition to its name.
        render_fps: Steps per second in videos of episodes.
        on_host: Whether it is stepped on the host; compiled programs then only know its shapes.
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
            The first observation and the state, as pytrees of any structure.
        """

    @abc.abstractmethod
    def step(self, key: Key[Array, ""], state: PyTree, action: PyTree) -> Step:
        """Takes one step, without starting a new episode.

        Args:
            key: Random key.
            state: State returned by `reset` or by the previous step.
            action: Action, within the bounds of its space; with several actors, one per actor along a
                leading axis.

        Returns:
            The outcome. Its observation and state match `reset`'s in structure, shapes and dtypes.
        """

    def action_mask(self, state: PyTree) -> PyTree[Bool[Array, "*actors n_actions"]] | None:
        """The actions allowed in a state; override it if some are forbidden.

        Agents then observe a dict with the environment's own observation under `"observation"` and this
        mask under `"action_mask"`. An environment may also return such dicts itself.

        Args:
            state: State returned by `reset` or `step`.

        Returns:
            Whether each discrete action is allowed (per actor); `None` if all are.
        """
        return None

    def critic_state(self, state: PyTree) -> PyTree:
        """The input of a centralised critic, such as the positions of all actors.

        Only [`MAPPO`][jaxagents.mappo.MAPPO] uses it. An environment may also return it in dict
        observations, under `"critic_state"`.

        Args:
            state: State returned by `reset` or `step`.

        Returns:
            A pytree of arrays; `None` if there is nothing beyond the observations of all actors.
        """
        return None

    def actor_mask(self, state: PyTree) -> Bool[Array, "actors"] | None:
        """The actors still playing in a state; override it if some leave before the others.

        Steps of actors that have left are masked out of on-policy losses. These actors still choose
        actions until the episode ends for all, and their later rewards count towards their earlier
        steps. An environment may also return the mask in dict observations, under `"actor_mask"`.

        Args:
            state: State returned by `reset` or `step`.

        Returns:
            Whether each actor is still playing; `None` if all are.
        """
        return None

    def at_update(self, update_step: ArrayLike, params: Mapping[str, ArrayLike]) -> "Environment":
        """Returns the environment at a given update; override it if it changes during a run.

        Args:
            update_step: Number of updates so far; may be traced.
            params: Parameters from the hyperparameters, by name, which override the environment's
                own; may be traced.

        Returns:
            The environment; the same object if nothing changes.

        Raises:
            TypeError: The environment does not have these parameters.
        """
        if params:
            raise TypeError(
                f"HyperParameters.env_params names {sorted(params)}, but {self.name} has no "
                "separate parameters, as gymnax environments have: pass what varies to its "
                "constructor, or draw it in its reset and keep it in its state."
            )
        return self

    def render(self, state: PyTree) -> UInt8[np.ndarray, "height width 3"]:
        """Draws a state; override it to record videos.

        It is called on the host, outside compiled programs, and may use any library.

        Args:
            state: State returned by `reset` or `step`, as NumPy arrays.

        Returns:
            An RGB image.

        Raises:
            NotImplementedError: The environment cannot draw.
        """
        raise NotImplementedError(f"{self.name} does not draw.")

    def check_compiled(self) -> None:
        """Raises if compiled programs cannot step the environment.

        Raises:
            NotImplementedError: The environment is stepped on the host.
        """
        if self.on_host:
            raise NotImplementedError(
                f"{self.name} runs on the host, where compiled programs cannot step it: call "
                "train, resume and eval without vmap, jit, a mesh, sweep, env_reset or "
                "env_step. Train one seed after another."
            )

    @property
    def can_draw(self) -> bool:
        """Whether the environment implements `render`."""
        return type(self).render is not Environment.render

    @property
    def name(self) -> str:
        """The name in messages and checkpoints: the class name unless overridden."""
        return type(self).__name__

    @property
    def wording(self) -> Wording:
        """How messages name the environment and its methods; adapters use their suite's names."""
        return Wording(type(self).__name__, "reset", "step")


def check_flag(x: PyTree, what: str) -> None:
    """Raises `ValueError` unless this is one boolean or integer; floats are too ambiguous."""
    check_size(x, (), what)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        raise ValueError(
            f"{what} must be a boolean, got {shape_and_dtype(x)}: return one, such as done > 0.5."
        )
