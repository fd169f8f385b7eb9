"""The adapter for Gymnasium: environments on the host, vector environments or single ones."""

import contextlib
import copy
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import gymnasium
import jax
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import HumanRendering, TimeLimit
from jaxtyping import PyTree

from jaxagents.envs.adapters.native import Native
from jaxagents.envs.episodes import LONGEST
from jaxagents.envs.on_host.arrays import (
    check_action_space,
    example_action,
    example_seen,
    own_space,
)
from jaxagents.envs.on_host.copying import copier_or_warning
from jaxagents.envs.on_host.environment import LONGEST_KEPT, HostEnvironment, Terms
from jaxagents.envs.on_host.vectors import Checked, Vector, autoreset_mode, spaces_of_one

MakeEnv = Callable[..., gymnasium.Env]
_VECTORS = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}
_OF_VECTORS = ("num_envs", "vectorization_mode", "vector_kwargs")
"""Entries of a vector's specification that concern the vector, not its environments."""


class Gymnasium(HostEnvironment, Native):
    """A Gymnasium environment, for training on the host.

    ```python
    env = gymnasium.make("HalfCheetah-v5")
    agent = PPO(env, None, ppo.AgentConfig(n_envs=8))
    ```

    An agent steps `config.n_envs` copies of the environment. Each episode has its own seed, so a resumed
    run continues as if it had never been interrupted. The copies are taken when the agent is created,
    and include modified attributes. An environment that renders to a window only does so with
    `n_envs=1`. A vector environment is used directly, and must have `n_envs` environments.

    Attributes:
        env: The environment, vector environment or function, as passed to the constructor.
    """

    def __init__(
        self,
        env: gymnasium.Env | VectorEnv | MakeEnv,
        *,
        eval_env: gymnasium.Env | MakeEnv | None = None,
        vectorization_mode: str = "sync",
    ) -> None:
        """Wraps an environment, which agents copy.

        Args:
            env: An environment, which is copied in its current state; a function that creates one; or a
                vector environment. Agents with `n_envs=1` use the environment itself.
            eval_env: The environment for evaluations, if not `env`. Required for evaluation if `env` is
                a vector environment that is wrapped as a whole, or an asynchronous one of unregistered
                environments.
            vectorization_mode: `"sync"` steps one copy after another, `"async"` each in its own process,
                which pays off if steps take longer than sending their results.

        Raises:
            TypeError: `env` or `eval_env` is none of the above.
            ValueError: The mode is unknown, actions or observations are not supported, or `eval_env` has
                different spaces.
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
        other = None if eval_env is None else _one_of(eval_env)
        if other is not None:
            seen, done = spaces_of_one(other)
            if done != action_space or _arrays_of(seen) != _arrays_of(observation_space):
                raise ValueError(
                    f"eval_env has observations of {seen} and actions of {done}, but env has "
                    f"{observation_space} and {action_space}: pass one with the same spaces, "
                    "for instance with the same wrappers."
                )
        self._example = example_seen(observation_space), example_action(action_space)
        self.observation_space = own_space(observation_space)
        self.action_space = own_space(action_space)
        limits = [_limit_of(it) for it in (first, other) if it is not None]
        if any(limits):  # both environments apply their own; ours must not come earlier
            self.max_steps = max(limit or LONGEST for limit in limits)
        spec = _specification_of(first)
        self.params = {} if spec is None else _options_of(spec)
        self._n_kept = (spec and _limit_of_specification(spec)) or LONGEST_KEPT
        self._name = _name_of(first)
        self.render_fps = first.metadata.get("render_fps", Native.render_fps)
        # Copies get a render mode for drawing; a function chooses its own.
        self._draws_anew = isinstance(self._evaluated, gymnasium.Env | VectorEnv)
        own = (first.render_mode,)
        modes = first.metadata.get("render_modes", ()) if self._draws_anew else own
        seen = str(self.observation_space), str(self.action_space)
        self._identity = _identity_of(env), _identity_of(eval_env), seen, vectorization_mode
        self._draws = self._make_eval is not None and "rgb_array" in modes

    @classmethod
    def named(
        cls,
        name: str,
        *,
        vectorization_mode: str = "sync",
        **options: Any,
    ) -> "Gymnasium":
        """Creates an environment registered with Gymnasium.

        Args:
            name: Name of the environment, such as `"HalfCheetah-v5"`, possibly prefixed with the
                package that registers it, as in `"ale_py:ALE/Pong-v5"`.
            vectorization_mode: See the constructor.
            **options: Passed to `gymnasium.make`.

        Returns:
            The environment.

        Raises:
            ImportError: A package that the environment needs is not installed.
            ValueError: The environment does not exist.
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
        """The names of all registered environments."""
        return sorted(gymnasium.registry)

    @property
    def plays_again(self) -> bool:
        """Whether each episode has its own seed: false if a vector environment resets itself."""
        is_vector = isinstance(self.env, VectorEnv)
        return not is_vector or autoreset_mode(self.env) == AutoresetMode.DISABLED

    def _why_no_more(self, evaluated: bool) -> str | None:
        return _why_no_more(self._evaluated if evaluated else self.env)

    def _given_copies(self, n_envs: int, terms: Terms) -> Vector | None:
        """The given vector, or a vector of the given environment; see `HostEnvironment`."""
        if isinstance(self.env, VectorEnv):
            return Vector(self.env, self.env.unwrapped, terms.info_names)
        if not isinstance(self.env, gymnasium.Env) or n_envs > 1:
            return None
        if self._vectorization_mode != "sync" and self._make is not None:
            return None
        vector = _vector_of([lambda: self.env])
        vector.closed = (
            True  # else some releases of Gymnasium close what is in it when it is deleted
        )
        return Vector(vector, self.env.unwrapped, terms.info_names)

    def _more_copies(self, purpose: str, n_envs: int, terms: Terms) -> Vector:
        """A vector of copies; see `HostEnvironment`."""
        mode, is_training = self._vectorization_mode, purpose == "training"
        make = self._make if is_training else self._maker_for_evaluation()
        assert make is not None
        if purpose == "film":
            options = {"render_mode": "rgb_array"} if self._draws_anew else {}
            make, mode = functools.partial(make, **options), "sync"
        return Vector(_vector_of([make] * n_envs, mode), info_names=terms.info_names)


def _vector_of(makers: Sequence[MakeEnv], mode: str = "sync") -> VectorEnv:
    """Creates a vector with `AutoresetMode.DISABLED`."""
    # JAX has threads, which do not survive a fork.
    options = {"context": "spawn"} if mode == "async" else {}
    return _VECTORS[mode](
        [lambda make=make: Checked(make()) for make in makers],
        copy=False,
        autoreset_mode=AutoresetMode.DISABLED,
        **options,
    )


# Making copies of a given environment.


def _maker_of(env: object) -> MakeEnv | None:
    """Returns a function that creates such environments; `None` if there is none."""
    if isinstance(env, gymnasium.Env | VectorEnv):
        spec, like, make = _specification_of(env), env, _made_from
        if isinstance(env, VectorEnv):
            if env.unwrapped is not env:  # its wrappers change the environments' outputs
                return None
            make = _one_of_vector
            like = env.envs[0] if isinstance(env, SyncVectorEnv) else None
        make = functools.partial(make, spec) if spec else None
        return make if like is None else copier_or_warning(like, _name_of(env), "Gymnasium", make)
    if callable(env):
        return cast(MakeEnv, env)
    raise TypeError(
        "Gymnasium takes an environment from gymnasium.make, a vector from gymnasium.make_vec, "
        f"or a function that makes an environment, got {env!r}."
    )


def _why_no_more(env: gymnasium.Env | VectorEnv) -> str:
    """Why an environment cannot be copied: the beginning of a sentence."""
    if isinstance(env, VectorEnv) and env.unwrapped is not env:
        return f"{_name_of(env)} is wrapped as a vector"
    if _specification_of(env) is None:
        return f"{_name_of(env)} is not registered with Gymnasium and cannot be pickled"
    return f"{_name_of(env)} cannot be made again from its specification, and cannot be pickled"


def _name_of(env: gymnasium.Env | VectorEnv) -> str:
    spec = _specification_of(env)
    return type(env.unwrapped).__qualname__ if spec is None else spec.id


def _without_windows(spec: EnvSpec) -> EnvSpec:
    """The same specification for environments that open no window."""
    spec = copy.deepcopy(spec)
    spec.additional_wrappers = tuple(
        each for each in spec.additional_wrappers if each.name != HumanRendering.class_name()
    )
    if spec.kwargs.get("render_mode") == "human":
        spec.kwargs["render_mode"] = None
    return spec


def _made_from(spec: EnvSpec, **options: Any) -> gymnasium.Env:
    """Creates an environment from a specification; it opens no window."""
    return gymnasium.make(_without_windows(spec), **options)


def _one_of_vector(vector: EnvSpec, **options: Any) -> gymnasium.Env:
    """Creates one environment from the specification of a vector."""
    spec = _without_windows(vector)
    for name in _OF_VECTORS:
        spec.kwargs.pop(name, None)
    spec.max_episode_steps = _limit_of_specification(spec)
    spec.kwargs.pop("max_episode_steps", None)
    wrappers = spec.kwargs.pop("wrappers", ())
    env = gymnasium.make(spec, **options)
    for wrap in wrappers:
        env = wrap(env)
    return env


def _one_of(env: gymnasium.Env | VectorEnv | MakeEnv) -> gymnasium.Env | VectorEnv:
    """The environment itself, or the one that a function creates."""
    if isinstance(env, gymnasium.Env | VectorEnv):
        return env
    made = env()
    if not isinstance(made, gymnasium.Env):
        raise TypeError(
            f"The function must return a Gymnasium environment, got {type(made).__name__}."
        )
    return made


def _arrays_of(space: spaces.Space) -> PyTree:
    """The shapes and dtypes of observations, as agents see them."""
    return jax.tree.map(lambda x: (x.shape, x.dtype.name), example_seen(space))


def _identity_of(env: object) -> Hashable:
    """The specification of an environment if it is complete, else the environment itself."""
    spec = _specification_of(env) if isinstance(env, gymnasium.Env) else None
    if spec and all(wrapper.kwargs is not None for wrapper in spec.additional_wrappers):
        with contextlib.suppress(ValueError, TypeError):
            return spec.to_json()
    return cast(Hashable, env)


def _specification_of(env: gymnasium.Env | VectorEnv) -> EnvSpec | None:
    """The specification for `gymnasium.make`; `None` for EnvPool's, which it does not accept."""
    return env.spec if isinstance(env.spec, EnvSpec) else None


def _limit_of(env: gymnasium.Env | VectorEnv) -> int | None:
    """The environment's time limit, in steps; `None` if unknown."""
    limits = []
    while isinstance(env, gymnasium.Wrapper):
        limits += [env._max_episode_steps] if isinstance(env, TimeLimit) else []
        env = env.env
    spec = _specification_of(env) if isinstance(env, VectorEnv) else None
    return _limit_of_specification(spec) if spec else min(limits, default=None)


def _options_of(spec: EnvSpec) -> dict[str, Any]:
    """The options that an environment was made with, except for rendering and vectorisation."""
    left_out = (*_OF_VECTORS, "render_mode", "max_episode_steps", "wrappers")
    return {name: x for name, x in spec.kwargs.items() if name not in left_out}


def _limit_of_specification(spec: EnvSpec) -> int | None:
    return spec.kwargs.get("max_episode_steps", spec.max_episode_steps)
