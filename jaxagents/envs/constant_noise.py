"""Random numbers that an environment draws on the host, which its compiled program would repeat."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.envs.environment import Environment


@contextlib.contextmanager
def without_constant_noise(env: Environment, action: PyTree) -> Iterator[None]:
    """A context in which an environment is traced.

    Args:
        env: The environment.
        action: An action, as shapes.

    Raises:
        ValueError: It drew numbers from `numpy.random` or `random`, and they are a part of its program.
    """
    before = _state()
    yield
    if _state() != before and _differs_from_trace_to_trace(env, action):
        name, reset, step = env.wording
        raise ValueError(
            f"{name}.{reset} or {name}.{step} draws random numbers with numpy.random or random: while "
            "it is compiled they become constants, the same in every episode. Draw with jax.random and "
            "the key that is given."
        )


def _state() -> Any:
    """The states of the host's global generators."""
    numbers: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), numbers[1].tobytes(), numbers[2:]


def _differs_from_trace_to_trace(env: Environment, action: PyTree) -> bool:
    def play(key: PyTree, action: PyTree) -> PyTree:
        obs, state = env.reset(key)
        return obs, env.step(key, state, action)

    # A new function each time, since JAX remembers what it has traced.
    key = jax.eval_shape(lambda: jax.random.key(0))
    first, second = (jax.make_jaxpr(lambda *args: play(*args))(key, action) for _ in range(2))
    if str(first) != str(second):
        return True
    return not all(map(np.array_equal, first.consts, second.consts))
