"""Domain randomisation: environment parameters that vary between episodes."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Key, PyTree

from jaxagents.core.arrays import check_same_structure, check_same_tree
from jaxagents.envs.adapters import as_environment
from jaxagents.envs.adapters.functional import Functional
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.wrappers import Wrapper, WrapperState

_PARAMETERS = "RandomParams: the parameters"
"""The name of the drawn parameters in messages."""


class RandomParams(Wrapper):
    """Draws new environment parameters for each episode (domain randomisation).

    ```python
    def draw(key, params):
        return params.replace(
            gravity=jax.random.uniform(key, minval=5.0, maxval=15.0)
        )


    env, env_params = gymnax.make("Pendulum-v1")
    agent = PPO(RandomParams(env, draw, env_params), None, config)
    ```

    A function of three arguments also receives the number of updates before the episode began, for a
    curriculum:

    ```python
    def draw(key, params, update_step):
        longest = jnp.minimum(1.0 + 0.01 * update_step, 2.0)
        return params.replace(
            length=jax.random.uniform(key, minval=0.5, maxval=longest)
        )
    ```

    Spaces and the time limit come from the given parameters.

    Attributes:
        draw: Draws the parameters.
        update_step: Number of updates so far; 0 outside runs.
    """

    update_step: ArrayLike = 0

    def __init__(self, env: Any, draw: Callable[..., PyTree], params: PyTree = None) -> None:
        """Wraps an environment.

        Args:
            env: An environment with separate parameters: from gymnax, or an object with `reset_env` and
                `step_env`.
            draw: Maps a random key, `params` and, if it takes three arguments, the update step to the
                parameters of an episode, which must have the same structure, shapes and dtypes.
            params: The environment's parameters; `None` uses `env.default_params`.

        Raises:
            TypeError: The environment has no separate parameters.
            ValueError: The drawn parameters have a different structure.
        """
        inside = as_environment(env, params)
        if not isinstance(inside, Functional) or inside.params is None:
            name, around = inside.wording.environment, type(inside).__name__
            advice = (
                f"put {around} around it, as in {around}(RandomParams(env, draw, params))."
                if isinstance(inside, Wrapper)
                else f"{name} holds its own: draw them in its reset, and keep them in its state."
            )
            raise TypeError(
                "RandomParams needs an environment with separate parameters, such as one from "
                f"gymnax; {advice}"
            )
        super().__init__(inside)
        self.env: Functional = inside
        self.draw = draw
        self._is_curriculum = _takes_update_step(draw)
        self.observation_space = inside.observation_space
        own = jax.tree.map(jnp.asarray, inside.params)
        drawn = jax.eval_shape(self._draw_params, jax.random.key(0))
        check_same_tree(own, drawn, _PARAMETERS, "params", "draw")

    @property
    def name(self) -> str:
        """The name of the wrapped environment, marked as randomised."""
        return f"{self.env.name}, random parameters"

    def at_update(self, update_step: ArrayLike, params: Mapping[str, ArrayLike]) -> Environment:
        """Returns the environment that draws for a given update; see `Environment`."""
        inside = self.env.at_update(update_step, params)
        if inside is self.env and not self._is_curriculum:
            return self
        now = self._around(inside)
        now.update_step = update_step
        return now

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, WrapperState]:
        """Draws parameters and starts an episode; see `Environment`."""
        draw_key, key = jax.random.split(key)
        params = self._draw_params(draw_key)
        obs, envstate = self.env.with_params(params).reset(key)
        return obs, WrapperState(envstate, params)

    def step(self, key: Key[Array, ""], state: WrapperState, action: PyTree) -> Step:
        """Takes one step; see `Environment`."""
        step = self._env_of(state).step(key, state.envstate, action)
        return step._replace(state=WrapperState(step.state, state.past))

    def _env_of(self, state: WrapperState) -> Environment:
        return self.env.with_params(state.past)

    def _draw_params(self, key: Key[Array, ""]) -> PyTree:
        step = (jnp.asarray(self.update_step, jnp.int32),) if self._is_curriculum else ()
        drawn = self.draw(key, self.params, *step)
        check_same_structure(self.params, drawn, _PARAMETERS, "params", "draw")
        return jax.tree_util.tree_map_with_path(_as_given, self.params, drawn)


def _as_given(path: jax.tree_util.KeyPath, given: ArrayLike, drawn: ArrayLike) -> Array:
    """Converts a drawn parameter to the dtype of the given one.

    Raises:
        ValueError: The conversion would cut off the fraction.
    """
    kind, own = jnp.result_type(drawn), jnp.result_type(given)
    if not jnp.can_cast(kind, own, "same_kind"):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        raise ValueError(
            f"{_PARAMETERS} at {name} are of dtype {own}, but draw returns {kind}, which would "
            "be cut. Pass RandomParams a float there, or let draw return integers, as "
            "jax.random.randint does."
        )
    return jnp.asarray(drawn, own)


def _takes_update_step(draw: Callable[..., PyTree]) -> bool:
    """Whether a function takes three arguments; two are assumed if it has no signature."""
    try:
        parameters = inspect.signature(draw).parameters.values()
    except (TypeError, ValueError):
        return False
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [x for x in parameters if x.kind in by_place and x.default is inspect.Parameter.empty]
    return len(needed) == len(("key", "params", "update_step"))
