"""The base class of suite adapters, and their lookup."""

import abc
import importlib
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int, PyTree

from jaxagents.core.extras import SUITES, check_installed
from jaxagents.envs.environment import Environment, Wording
from jaxagents.envs.spaces import Box, Composite, Space


class TimedState(NamedTuple):
    """A state with the time, for suites that do not distinguish truncation from termination.

    Attributes:
        native: The suite's own state.
        time: Number of steps taken in the episode.
    """

    native: PyTree
    time: Int[Array, ""]


class Native(Environment):
    """Base class of adapters for the environments of a suite.

    Attributes:
        env: The suite's environment, without autoreset wrappers.
        takes_params: Whether the suite's environments have separate parameters.
    """

    takes_params: ClassVar[bool] = False

    def __init__(self, env: Any) -> None:
        """Stores the suite's environment."""
        self.env = env

    @classmethod
    @abc.abstractmethod
    def named(cls, name: str, **options: Any) -> Environment:
        """Creates an environment by name.

        Args:
            name: One of `names()`.
            **options: Options of the adapter; others are passed to the suite.

        Returns:
            The environment.
        """

    @classmethod
    @abc.abstractmethod
    def names(cls) -> list[str]:
        """The names of the suite's environments."""

    @property
    def name(self) -> str:
        """The name of the environment's class."""
        return type(self.env).__name__

    @property
    def wording(self) -> Wording:
        """The environment's class and methods."""
        return Wording(type(self.env).__name__, "reset", "step")


def adapter_named(suite: str) -> type[Native]:
    """Returns the adapter of a suite by the suite's name.

    Raises:
        ImportError: The suite is not installed; the message says how to install it.
    """
    check_installed(suite)
    module = importlib.import_module(f"jaxagents.envs.adapters.{suite}")
    return getattr(module, SUITES[suite].adapter)


def adapter_of(env: Any) -> type[Native] | None:
    """Returns the adapter of the suite that an object comes from; `None` if there is none."""
    bases = {f"{base.__module__}.{base.__qualname__}" for base in type(env).__mro__}
    for name, suite in SUITES.items():
        if bases & set(suite.bases):
            return adapter_named(name)
    return None


def copy_containers(tree: PyTree) -> PyTree:
    """Copies the containers of a pytree, for steps that write to dicts in their arguments."""
    return jax.tree.map(lambda x: x, tree)


def flag(x: ArrayLike) -> Bool[Array, ""]:
    """Converts a suite's flag, which may be a float, to one boolean."""
    return jnp.asarray(x).astype(bool).reshape(())


def space_like(obs: PyTree) -> Space:
    """A space of all observations of these shapes, for suites without a correct space."""
    if isinstance(obs, Mapping):
        return Composite({name: space_like(part) for name, part in obs.items()})
    if isinstance(obs, tuple):
        return Composite(tuple(map(space_like, obs)))
    low, high = -np.inf, np.inf
    if obs.dtype == bool:
        low, high = 0, 1
    elif jnp.issubdtype(obs.dtype, jnp.integer):
        info = jnp.iinfo(obs.dtype)
        low, high = float(info.min), float(info.max)
    return Box(low, high, tuple(obs.shape), obs.dtype)


def reset_shapes(env: Environment) -> tuple[PyTree, PyTree]:
    """The shapes of the first observation and the state of an environment."""
    return jax.eval_shape(env.reset, jax.random.key(0))
