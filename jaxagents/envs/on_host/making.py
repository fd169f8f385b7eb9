"""Making more environments of Gymnasium like one that is given."""

import contextlib
import copy
import functools
from collections.abc import Callable, Hashable
from typing import Any, cast

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from jaxagents.envs.on_host.checked import Checked

MakeEnv = Callable[..., gymnasium.Env]

VECTORS = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}
"""The kinds of vectors by their names."""
_OF_VECTORS = ("num_envs", "vectorization_mode", "vector_kwargs")
"""The entries of a vector's specification that are of it, not of its environments."""


def vector_of(make: MakeEnv, n_envs: int, mode: str) -> VectorEnv:
    """A vector whose caller starts the episodes.

    Args:
        make: Makes an environment.
        n_envs: Number of environments.
        mode: One of `VECTORS`.

    Returns:
        The vector.
    """
    options = (
        {"context": "spawn"} if mode == "async" else {}
    )  # JAX has threads, which no fork survives
    return VECTORS[mode](
        [functools.partial(checked, make)] * n_envs,
        copy=False,
        autoreset_mode=AutoresetMode.DISABLED,
        **options,
    )


def checked(make: MakeEnv) -> gymnasium.Env:
    """An environment that says what is wrong with what it returns.

    Args:
        make: Makes it.

    Returns:
        The environment.
    """
    return Checked(make())


def maker_of(env: object) -> MakeEnv | None:
    """A function that makes environments like one that was given.

    Args:
        env: An environment, a vector, or a function.

    Returns:
        The function; `None` if there is no way.

    Raises:
        TypeError: It is no environment, vector, or function.
    """
    if isinstance(env, gymnasium.Env | VectorEnv):
        make = _one_of if isinstance(env, VectorEnv) else gymnasium.make
        return None if why_no_more(env) else functools.partial(make, env.spec)
    if callable(env):
        return cast(MakeEnv, env)
    raise TypeError(
        "Gymnasium takes an environment as gymnasium.make gives it, a vector as gymnasium.make_vec "
        f"gives it, or a function that makes an environment, got {env!r}."
    )


def why_no_more(env: gymnasium.Env | VectorEnv) -> str | None:
    """Why no more environments can be made like one that was given; `None` if they can.

    Wrappers whose arguments Gymnasium does not know may be those that the environment has as it is
    registered. Where there are such, one is made, to see whether that works.

    Args:
        env: An environment, or a vector.

    Returns:
        The reason, as the beginning of a sentence.
    """
    spec = specification_of(env)
    if spec is None:
        return f"{type(env.unwrapped).__qualname__} is not registered with Gymnasium"
    if isinstance(env, VectorEnv):
        return None if env.unwrapped is env else f"{spec.id} is wrapped as a vector"
    if any(wrapper.kwargs is None for wrapper in spec.additional_wrappers):
        try:
            gymnasium.make(spec).close()
        except ValueError as error:
            return f"{spec.id} has wrappers that Gymnasium cannot make ({str(error).rstrip('.')})"
    return None


def _one_of(vector: EnvSpec, **options: Any) -> gymnasium.Env:
    """One environment of those that the specification of a vector describes."""
    spec = copy.deepcopy(vector)
    for name in _OF_VECTORS:
        spec.kwargs.pop(name, None)
    spec.max_episode_steps = limit_of(spec)
    spec.kwargs.pop("max_episode_steps", None)
    wrappers = spec.kwargs.pop("wrappers", ())
    env = gymnasium.make(spec, **options)
    for wrap in wrappers:
        env = wrap(env)
    return env


def made_by(make: MakeEnv) -> gymnasium.Env:
    """An environment that a user's function makes.

    Args:
        make: The function.

    Returns:
        The environment.

    Raises:
        TypeError: It makes something else.
    """
    env = make()
    if not isinstance(env, gymnasium.Env):
        raise TypeError(
            f"The function must return an environment of Gymnasium, got {type(env).__name__}."
        )
    return env


def identity_of(env: object, make: MakeEnv | None) -> Hashable:
    """The part of an environment that is equal for those that are made alike.

    Args:
        env: An environment, a vector, or a function.
        make: What makes more of it.

    Returns:
        Its specification, if more are made by that, or itself.
    """
    if isinstance(env, gymnasium.Env) and make and (spec := specification_of(env)):
        with contextlib.suppress(ValueError, TypeError):
            return spec.to_json()
    return env


def specification_of(env: gymnasium.Env | VectorEnv) -> EnvSpec | None:
    """The specification by which Gymnasium makes more of an environment; EnvPool's own kind makes none.

    Args:
        env: An environment or a vector.

    Returns:
        The specification, if there is one.
    """
    return env.spec if isinstance(env.spec, EnvSpec) else None


def limit_of(spec: EnvSpec | None) -> int | None:
    """The number of steps after which episodes are truncated.

    Args:
        spec: The specification of an environment, or of a vector, if there is one.

    Returns:
        The number; `None` if there is no limit, or nothing is said.
    """
    return None if spec is None else spec.kwargs.get("max_episode_steps", spec.max_episode_steps)
