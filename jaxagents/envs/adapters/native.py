"""The base of the adapters of suites, and the choice of one."""

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
    """A state with the time, for suites that do not distinguish limits from other ends.

    Attributes:
        native: The state, as the suite has it.
        time: Number of steps taken in the episode.
    """

    native: PyTree
    time: Int[Array, ""]


class Native(Environment):
    """An environment of a suite.

    Attributes:
        env: The environment, as the suite made it, without wrappers that reset it by themselves.
        takes_params: Whether environments of the suite have parameters beside them.
    """

    takes_params: ClassVar[bool] = False

    def __init__(self, env: Any) -> None:
        """Holds an environment, as the suite made it."""
        self.env = env

    @classmethod
    @abc.abstractmethod
    def named(cls, name: str, **options: Any) -> Environment:
        """Makes an environment of the suite.

        Args:
            name: One of `names()`.
            **options: Passed on to the suite, but for the adapter's own options.

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
    """The adapter of a suite, by the suite's name.

    Raises:
        ImportError: The suite is not installed; the message says how to install it.
    """
    check_installed(suite)
    module = importlib.import_module(f"jaxagents.envs.adapters.{suite}")
    return getattr(module, SUITES[suite].adapter)


def adapter_of(env: Any) -> type[Native] | None:
    """The adapter of the suite that an object comes from; `None` if it comes from none of them."""
    bases = {f"{base.__module__}.{base.__qualname__}" for base in type(env).__mro__}
    for name, suite in SUITES.items():
        if bases & set(suite.bases):
            return adapter_named(name)
    return None


def copied(tree: PyTree) -> PyTree:
    """The same pytree in new containers, for steps that write into the dicts that they are given."""
    return jax.tree.map(lambda x: x, tree)


def flag(x: ArrayLike) -> Bool[Array, ""]:
    """A flag that a suite gives in some other form, such as a float, as one boolean."""
    return jnp.asarray(x).astype(bool).reshape(())


def space_like(obs: PyTree) -> Space:
    """A space of all observations of these shapes, for suites that declare none, or wrong ones."""
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
    """The first observation and the state of an environment, as shapes."""
    return jax.eval_shape(env.reset, jax.random.key(0))
