"""The adapter of Gymnasium: environments that run on the host, one or a vector of them."""

import contextlib
import copy
import functools
from collections.abc import Callable, Hashable
from typing import Any, cast

import gymnasium
import jax
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from jaxtyping import PyTree

from jaxagents.envs.adapters.native import Native
from jaxagents.envs.on_host.arrays import (
    check_action_space,
    example_action,
    example_seen,
    own_space,
)
from jaxagents.envs.on_host.environment import HostEnvironment, Terms
from jaxagents.envs.on_host.vectors import Checked, Vector, autoreset_mode, spaces_of_one

MakeEnv = Callable[..., gymnasium.Env]
_VECTORS = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}
_OF_VECTORS = ("num_envs", "vectorization_mode", "vector_kwargs")
"""The entries of a vector's specification that are of it, not of its environments."""


class Gymnasium(HostEnvironment, Native):
    """An environment of Gymnasium, in which agents train on the host.

    ```python
    env = gymnasium.make("HalfCheetah-v5")
    agent = PPO(env, None, ppo.AgentConfig(n_envs=8))
    ```

    An agent plays in `config.n_envs` copies of the environment, each in episodes with seeds of their
    own, so that a run that is resumed goes on as if it had never been interrupted. A vector of
    environments is taken as it is, and must have as many.

    Attributes:
        env: The environment, vector or function that was given.
    """

    def __init__(
        self,
        env: gymnasium.Env | VectorEnv | MakeEnv,
        *,
        eval_env: gymnasium.Env | MakeEnv | None = None,
        vectorization_mode: str = "sync",
    ) -> None:
        """Takes an environment; agents have more made of it.

        Args:
            env: An environment as `gymnasium.make` gives it, whose specification says how to make more;
                a function that makes one; or a vector.
            eval_env: The environment of evaluations, if other than `env`; see there. Vectors with
                wrappers of their own, and vectors of environments that are not registered, need one
                if they are to be evaluated.
            vectorization_mode: `"sync"` steps one copy after another, `"async"` each in a process of its
                own, which pays if a step takes longer than it takes to send its outcome.

        Raises:
            TypeError: An environment is something else.
            ValueError: The mode is another, actions or observations are such as no agent takes, or
                `eval_env` has other ones.
        """
        if vectorization_mode not in _VECTORS:
            raise ValueError(
                f"vectorization_mode must be one of {[*_VECTORS]}, got {vectorization_mode!r}."
            )
        super().__init__(env)
        self._vectorization_mode = vectorization_mode
        self._make = _maker_of(env)
        self._n_given = Vector(env).n_envs if isinstance(env, VectorEnv) else None
        self._evaluated: Any = env if eval_env is None else eval_env
        self._make_eval = self._make if eval_env is None else _maker_of(eval_env)
        first = _one_of(env)
        observation_space, action_space = spaces_of_one(first)
        check_action_space(action_space)
        if eval_env is not None:
            seen, done = spaces_of_one(_one_of(eval_env))
            if done != action_space or _arrays_of(seen) != _arrays_of(observation_space):
                raise ValueError(
                    f"eval_env has observations of {seen} and actions of {done}, but env has "
                    f"{observation_space} and {action_space}: give one with the same spaces, such as "
                    "with the same wrappers."
                )
        self._example = example_seen(observation_space), example_action(action_space)
        self.observation_space = own_space(observation_space)
        self.action_space = own_space(action_space)
        spec = _specification_of(first)
        self.max_steps = _limit_of(spec)
        self._name = type(first.unwrapped).__qualname__ if spec is None else spec.id
        self.render_fps = first.metadata.get("render_fps", Native.render_fps)
        # More are made with a render mode where there is a specification; a function has chosen its own.
        self._is_specified = isinstance(self._evaluated, gymnasium.Env | VectorEnv)
        own = (first.render_mode,)
        modes = first.metadata.get("render_modes", ()) if self._is_specified else own
        self._identity = (
            _identity_of(env, self._make),
            _identity_of(eval_env, self._make_eval),
            vectorization_mode,
        )
        self._draws = self._make_eval is not None and "rgb_array" in modes

    @classmethod
    def named(
        cls,
        name: str,
        *,
        vectorization_mode: str = "sync",
        **options: Any,
    ) -> "Gymnasium":
        """Makes an environment that is registered with Gymnasium.

        Args:
            name: Its name, such as `"HalfCheetah-v5"`, or the name of a package and of an environment
                that it registers, such as `"ale_py:ALE/Pong-v5"`.
            vectorization_mode: See the constructor.
            **options: Passed on to `gymnasium.make`.

        Returns:
            The environment.

        Raises:
            ImportError: The package, or what the environment needs, is not installed.
            ValueError: There is no such environment.
        """
        try:
            env = gymnasium.make(name, **options)
        except gymnasium.error.DependencyNotInstalled as error:
            raise ImportError(str(error)) from error
        except gymnasium.error.Error as error:
            raise ValueError(str(error)) from error
        return cls(env, vectorization_mode=vectorization_mode)

    @classmethod
    def names(cls) -> list[str]:
        """The names of all environments that are registered."""
        return sorted(gymnasium.registry)

    @property
    def plays_again(self) -> bool:
        """Whether each episode has a seed of its own: unless a vector that was given starts them."""
        is_vector = isinstance(self.env, VectorEnv)
        return not is_vector or autoreset_mode(self.env) == AutoresetMode.DISABLED

    def _why_no_more(self, evaluated: bool) -> str | None:
        return _why_no_more(self._evaluated if evaluated else self.env)

    def _copies(self, purpose: str, n_envs: int, terms: Terms) -> Vector:
        """A vector of environments; see `HostEnvironment`."""
        names = terms.info_names
        if purpose == "training" and isinstance(self.env, VectorEnv):
            return Vector(self.env, self.env.unwrapped, names)
        mode, make = self._vectorization_mode, self._make
        if purpose != "training":
            make = self._maker_for_evaluation()
            if purpose == "film":
                mode, options = "sync", {"render_mode": "rgb_array"} if self._is_specified else {}
                make = functools.partial(make, **options)
        make_each = make or (lambda: self.env)
        given = self.env.unwrapped if make is None and mode == "sync" else None
        # JAX has threads, which no fork survives.
        options = {"context": "spawn"} if mode == "async" else {}
        vector = _VECTORS[mode](
            [lambda: Checked(make_each())] * n_envs,
            copy=False,
            autoreset_mode=AutoresetMode.DISABLED,
            **options,
        )
        return Vector(vector, given, names)


# Making more environments like one that is given.


def _maker_of(env: object) -> MakeEnv | None:
    """A function that makes environments like the given one, or is given; `None` if there is none."""
    if isinstance(env, gymnasium.Env | VectorEnv):
        make = _one_of_vector if isinstance(env, VectorEnv) else gymnasium.make
        return None if _why_no_more(env) else functools.partial(make, env.spec)
    if callable(env):
        return cast(MakeEnv, env)
    raise TypeError(
        "Gymnasium takes an environment as gymnasium.make gives it, a vector as gymnasium.make_vec "
        f"gives it, or a function that makes an environment, got {env!r}."
    )


def _why_no_more(env: gymnasium.Env | VectorEnv) -> str | None:
    """Why no more environments can be made like one: the beginning of a sentence; `None` if they can.

    Wrappers whose arguments Gymnasium does not know may be part of the environment as it is registered.
    Where there are such, one is made, to see whether that works.
    """
    spec = _specification_of(env)
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


def _one_of_vector(vector: EnvSpec, **options: Any) -> gymnasium.Env:
    """One environment, made as the specification of a vector describes."""
    spec = copy.deepcopy(vector)
    for name in _OF_VECTORS:
        spec.kwargs.pop(name, None)
    spec.max_episode_steps = _limit_of(spec)
    spec.kwargs.pop("max_episode_steps", None)
    wrappers = spec.kwargs.pop("wrappers", ())
    env = gymnasium.make(spec, **options)
    for wrap in wrappers:
        env = wrap(env)
    return env


def _one_of(env: gymnasium.Env | VectorEnv | MakeEnv) -> gymnasium.Env | VectorEnv:
    """An environment, or the one that a function makes."""
    if isinstance(env, gymnasium.Env | VectorEnv):
        return env
    made = env()
    if not isinstance(made, gymnasium.Env):
        raise TypeError(
            f"The function must return an environment of Gymnasium, got {type(made).__name__}."
        )
    return made


def _arrays_of(space: spaces.Space) -> PyTree:
    """The shapes and types of observations, as agents see them."""
    return jax.tree.map(lambda x: (x.shape, x.dtype.name), example_seen(space))


def _identity_of(env: object, make: MakeEnv | None) -> Hashable:
    """The specification of an environment, if more are made by it, or itself."""
    if isinstance(env, gymnasium.Env) and make and (spec := _specification_of(env)):
        with contextlib.suppress(ValueError, TypeError):
            return spec.to_json()
    return env


def _specification_of(env: gymnasium.Env | VectorEnv) -> EnvSpec | None:
    """The specification that Gymnasium makes more by; the specifications of EnvPool make none."""
    return env.spec if isinstance(env.spec, EnvSpec) else None


def _limit_of(spec: EnvSpec | None) -> int | None:
    """The number of steps after which episodes are truncated; `None` if there is no limit."""
    return None if spec is None else spec.kwargs.get("max_episode_steps", spec.max_episode_steps)
