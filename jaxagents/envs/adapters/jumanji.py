"""The adapter for jumanji."""

import copy
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt8

from jaxagents.core.extras import require
from jaxagents.core.observed import ACTION_MASK
from jaxagents.envs.adapters.native import Native, TimedState, reset_shapes, space_like
from jaxagents.envs.drawings import as_picture
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.spaces import Box, Discrete, MultiDiscrete, Space

_MOST_ACTIONS = 10_000
"""Maximum number of combinations of several discrete actions to enumerate."""
_SPECS = {"action_spec", "observation_spec", "reward_spec", "discount_spec"}
_OTHER_MASK = "allowed"


class Jumanji(Native):
    """A jumanji environment.

    Observations become dicts, keyed by jumanji's field names. If an action has several discrete parts
    and the mask covers all their combinations, as in Minesweeper, the combinations are enumerated, so
    that the mask applies. A mask that covers neither the combinations nor each part stays in the
    observation as `"allowed"`, and restricts nothing.

    Jumanji terminates most episodes, even at `time_limit`; here, an episode that ends at that step is
    truncated. Multiple rewards are summed.
    """

    def __init__(self, env: Any) -> None:
        """Wraps an environment.

        Args:
            env: The environment.

        Raises:
            TypeError: `env` is a vectorised environment, or its actions are not supported.
        """
        super().__init__(_without_wrappers(env))
        spec = self.env.action_spec
        self.max_steps = _limit(self.env)
        mask = jax.eval_shape(lambda key: self._mask(self.env.reset(key)[1]), jax.random.key(0))
        mask_shape = None if mask is None else mask.shape
        space = _space(spec)
        self._action_dtype = spec.dtype
        self._combined: tuple[int, ...] = ()
        if isinstance(space, MultiDiscrete) and mask_shape == space.nvec:
            n_actions = math.prod(space.nvec)
            if n_actions <= _MOST_ACTIONS:
                self._combined, space = space.nvec, Discrete(n_actions)
        self._is_masked = isinstance(space, Discrete) and mask is not None
        self._masks_numbers = (
            isinstance(space, MultiDiscrete)
            and mask is not None
            and ([mask.shape[1:]] * mask.shape[0] == [(n,) for n in space.nvec])
        )
        self.action_space = space
        self.env = _without_cached_specs(self.env)
        self.observation_space = space_like(reset_shapes(self)[0])

    @classmethod
    def named(cls, name: str, **options: Any) -> Environment:
        """Creates an environment by name.

        Args:
            name: One of `names()`.
            **options: Passed to `jumanji.make`.

        Returns:
            The environment.
        """
        return cls(_jumanji().make(name, **options))

    @classmethod
    def names(cls) -> list[str]:
        """The names of the suite's environments."""
        return sorted(_jumanji().registered_environments())

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts an episode; see `Environment`."""
        state, first = self.env.reset(key)
        return self._observation(first), TimedState(state, jnp.int32(0))

    def step(self, key: Key[Array, ""], state: TimedState, action: PyTree) -> Step:
        """Takes one step; see `Environment`. The `info` holds jumanji's extras."""
        if self._combined:
            action = jnp.stack(jnp.unravel_index(action, self._combined))
        action = jnp.asarray(action).astype(self._action_dtype)
        native, timestep = self.env.step(state.native, action)
        time, last = state.time + 1, timestep.last()
        terminated = last & jnp.all(timestep.discount == 0)
        if self.max_steps is not None:
            terminated &= time < self.max_steps
        return Step(
            self._observation(timestep),
            TimedState(native, time),
            jnp.sum(timestep.reward),
            terminated,
            last & ~terminated,
            dict(timestep.extras),
        )

    def render(self, state: TimedState) -> UInt8[np.ndarray, "height width 3"]:
        """Draws a state with jumanji."""
        figures: list[Any] = []
        env = copy.copy(self.env)
        env._viewer = copy.copy(self.env._viewer)
        env._viewer._display = figures.append  # instead of showing a window

        native = jax.tree.map(jnp.asarray, state.native)  # some viewers update them with `at`

        def draw() -> Any:
            env.render(native)
            return figures.pop()

        return as_picture(draw)

    def _mask(self, timestep: PyTree) -> PyTree:
        return getattr(timestep.observation, ACTION_MASK, None)

    def _observation(self, timestep: PyTree) -> PyTree:
        """The observation as a dict, with the mask in the form that agents expect."""
        obs, mask = _by_name(timestep.observation), self._mask(timestep)
        if mask is None:
            return obs
        obs = {name: part for name, part in obs.items() if name != ACTION_MASK}
        if self._is_masked:
            return {**obs, ACTION_MASK: mask.astype(bool).reshape(-1)}
        if self._masks_numbers:
            return {**obs, ACTION_MASK: tuple(mask.astype(bool))}
        return {**obs, _OTHER_MASK: mask}


def _jumanji() -> Any:
    return require("jumanji", "jumanji")


def _without_wrappers(env: Any) -> Any:
    """Removes autoreset wrappers.

    Raises:
        TypeError: `env` is a vectorised environment.
    """
    wrappers = require("jumanji.wrappers", "jumanji")
    if isinstance(env, wrappers.VmapWrapper | wrappers.VmapAutoResetWrapper):
        raise TypeError(
            f"{type(env).__name__} makes one environment into many: pass env.unwrapped, since "
            "agents map over environments themselves."
        )
    return env.unwrapped if isinstance(env, wrappers.AutoResetWrapper) else env


def _without_cached_specs(env: Any) -> Any:
    """Copies an environment without its cached specifications, which are not hashable."""
    env = copy.copy(env)
    for name in _SPECS & set(vars(env)):
        delattr(env, name)
    return env


def _limit(env: Any) -> int | None:
    limit = getattr(env, "time_limit", None)
    return None if limit is None else int(limit)


def _space(spec: Any) -> Space:
    """Converts an action specification to a space.

    Raises:
        TypeError: Actions of this kind are not supported.
    """
    specs = require("jumanji.specs", "jumanji")
    if isinstance(spec, specs.DiscreteArray):
        return Discrete(int(spec.num_values))
    if isinstance(spec, specs.BoundedArray) and jnp.issubdtype(spec.dtype, jnp.integer):
        largest = np.broadcast_to(spec.maximum, spec.shape)
        if largest.ndim == 1 and np.all(np.asarray(spec.minimum) == 0):
            return MultiDiscrete(tuple(int(x) + 1 for x in largest))
    elif isinstance(spec, specs.BoundedArray):
        return Box(np.asarray(spec.minimum), np.asarray(spec.maximum), tuple(spec.shape))
    raise TypeError(f"Agents do not support the actions of this environment: {spec}.")


def _by_name(obs: PyTree) -> PyTree:
    """Converts named tuples and dataclasses in a jumanji observation to dicts."""
    if dataclasses.is_dataclass(obs):
        fields = {field.name: getattr(obs, field.name) for field in dataclasses.fields(obs)}
    elif hasattr(obs, "_asdict"):
        fields = obs._asdict()
    else:
        return obs
    return {name: _by_name(part) for name, part in fields.items()}
