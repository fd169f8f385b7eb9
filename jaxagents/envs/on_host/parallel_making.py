"""Making more parallel environments of PettingZoo like one that is given."""

import dataclasses
import functools
import importlib
import importlib.util
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast

import cloudpickle
import pettingzoo
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.env_registry.exceptions import FailedToImport

MakeParallel = Callable[..., ParallelEnv]

_PARTICLES = "mpe"
"""The family of environments that `mpe2` has, which does not register them."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Makes an environment by its name.

    Attributes:
        name: The name, as `pettingzoo.make` takes it.
        options: Passed on to what makes it.
    """

    name: str
    options: dict[str, Any]

    def __call__(self, **more: Any) -> ParallelEnv:
        """Makes an environment, with more options.

        Raises:
            ImportError: What it needs is not installed.
        """
        options = self.options | more
        family, _, name = self.name.partition("/")
        if family != _PARTICLES:
            try:
                return pettingzoo.make("parallel", self.name, **options)
            except FailedToImport as error:
                raise ImportError(str(error)) from error
        module = importlib.import_module(f"mpe2.{name.replace('-v', '_v')}")
        return module.parallel_env(**options)

    def __hash__(self) -> int:
        return hash(self.name)


def names_of_particles() -> list[str]:
    """The names of the particle environments, if `mpe2` is installed."""
    if importlib.util.find_spec("mpe2") is None:
        return []
    modules = importlib.import_module("mpe2.all_modules").mpe_environments
    return [name.replace("_v", "-v") for name in modules]


def maker_of(env: object) -> MakeParallel | None:
    """A function that makes environments like one that was given.

    Args:
        env: A parallel environment, a function that makes one, or several environments.

    Returns:
        The function; `None` if the environment cannot be pickled.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(env, Sequence) and not isinstance(env, str) and env:
        for each in env:
            check_parallel(each)
        env = env[0]
    if isinstance(env, ParallelEnv | AECEnv) or not callable(env):
        check_parallel(env)
        return _copier(env)
    return cast(MakeParallel, env)


def _copier(env: object) -> MakeParallel | None:
    """A function that copies an environment; `None` if it cannot be pickled."""
    try:
        pickled = cloudpickle.dumps(env)
    except Exception:  # of as many kinds as there are things in environments
        return None
    return functools.partial(cloudpickle.loads, pickled)


def given_among(env: object) -> tuple[ParallelEnv, ...]:
    """The environments that were given, be it one or several.

    Args:
        env: A parallel environment, a function that makes one, or several environments.

    Returns:
        The environments; none of a function.
    """
    if isinstance(env, Sequence):
        return tuple(env)
    return (env,) if isinstance(env, ParallelEnv) else ()


def made_by(make: MakeParallel | None) -> ParallelEnv:
    """An environment that a function makes.

    Args:
        make: The function.

    Returns:
        The environment.

    Raises:
        TypeError: It makes something else.
    """
    env = make() if make else None
    check_parallel(env)
    return cast(ParallelEnv, env)


def identity_of(env: object, make: MakeParallel | None) -> Hashable:
    """The part of an environment that is equal for those that are made alike.

    Args:
        env: What was given.
        make: What makes more of it.

    Returns:
        What it was pickled to, or itself.
    """
    if isinstance(make, functools.partial) and isinstance(env, ParallelEnv):
        return make.args
    return tuple(env) if isinstance(env, Sequence) else cast(Hashable, env)


def check_parallel(env: object) -> None:
    """Raises unless this is a parallel environment.

    Args:
        env: Anything.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(env, AECEnv):
        raise TypeError(
            f"{env} has its agents take turns, but actors act at the same time: give its parallel form, "
            "parallel_env() of its module, or pettingzoo.utils.conversions.aec_to_parallel(env) where "
            "its metadata say that it is parallelizable."
        )
    if not isinstance(env, ParallelEnv):
        raise TypeError(
            "PettingZoo takes a parallel environment, a function that makes one, or a sequence of them, "
            f"got {env!r}."
        )


def check_alike(first: ParallelEnv, others: Mapping[str, ParallelEnv]) -> None:
    """Raises unless environments have the same agents with the same spaces.

    Args:
        first: An environment.
        others: Others, by what messages call them.

    Raises:
        ValueError: They do not.
    """

    def spaces_of(env: ParallelEnv) -> list[tuple[Any, ...]]:
        agents = env.possible_agents
        return [(agent, env.observation_space(agent), env.action_space(agent)) for agent in agents]

    for name, env in others.items():
        if spaces_of(env) != spaces_of(first):
            raise ValueError(
                f"{name} has the agents and spaces {spaces_of(env)}, but the first has "
                f"{spaces_of(first)}: all must have the same."
            )
