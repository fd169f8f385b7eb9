"""The networks and the environment of a run, as JSON."""

import dataclasses
import functools
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, cast

import jax
import numpy as np
from jaxtyping import PyTree

from jaxagents.core.arrays import is_key
from jaxagents.core.describe import to_json
from jaxagents.envs.adapters import Functional
from jaxagents.envs.environment import Environment
from jaxagents.learners.train_state import TrainState

_CLASS = "class"
_LARGEST = 64
"""Arrays up to this size are kept; larger ones are replaced by a digest."""
_OF_BOUND_MODULES = ("parent", "name")
_INITIAL = "_init"
"""Suffix of initialisers' names; trained networks do not depend on them."""
_TOLD_OTHERWISE = ("params", "render_fps")
"""Attributes of environments that are described separately, or only matter for videos."""
_OF_POLICIES = ("squash_actions",)
"""Configuration fields that change how a policy uses the outputs of its network."""


def makeup_of(agent: Any, runner: PyTree) -> dict[str, Any]:
    """Describes the networks and the environment of an agent's run.

    Args:
        agent: The agent.
        runner: Its runner, or the shapes of one.

    Returns:
        By name, the networks with their classes and fields, the environment with its parameters and
            attributes, and how outputs become actions.
    """

    def is_network(x: PyTree) -> bool:
        return isinstance(x, TrainState)

    states, _ = jax.tree_util.tree_flatten_with_path(runner, is_leaf=is_network)
    networks = {
        jax.tree_util.keystr(path, simple=True, separator="/"): _described(state.model_def)
        for path, state in states
        if is_network(state)
    }
    fields = {name: vars(agent.config).get(name) for name in _OF_POLICIES}
    env, params = agent.episodes.env, _described(agent.env_params)
    return {
        **networks,
        "environment parameters": params,
        **({} if env.on_host else {"environment": _described(env)}),
        **{name: x for name, x in fields.items() if x is not None},
    }


def differences(saved: Any, own: Any, name: str = "") -> Iterator[str]:
    """The differences between two descriptions, in words; parts that only one of them has are ignored.

    Args:
        saved: The saved description.
        own: The current description.
        name: Name of the part that is compared.

    Yields:
        Texts such as `"actor_training: activation was tanh, is relu"`.
    """
    if isinstance(saved, Mapping) and isinstance(own, Mapping):
        names = [_CLASS] if saved.get(_CLASS) != own.get(_CLASS) else saved.keys() & own.keys()
        for part in sorted(names):
            where = f"{name}: {part}" if name else part
            yield from differences(saved.get(part), own.get(part), where)
    elif saved != own:
        yield f"{name} was {saved}, is {own}"


def _described(x: Any) -> Any:
    """Converts an object to JSON values that are the same in every process."""
    if isinstance(x, functools.partial):
        arguments = {str(i): argument for i, argument in enumerate(x.args)} | x.keywords
        return {_CLASS: _described(x.func), **_described(arguments)}
    if isinstance(x, Mapping):
        return {str(key): _described(value) for key, value in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return _described(dict(zip(cast(Any, x)._fields, x, strict=True)))
    if isinstance(x, list | tuple):
        return [_described(item) for item in x]
    if isinstance(x, jax.Array | np.ndarray) and not (isinstance(x, jax.Array) and is_key(x)):
        array = np.asarray(x)
        if array.size <= _LARGEST:
            return to_json(array)
        return [str(array.shape), zlib.crc32(array.tobytes())]
    if isinstance(x, Environment):
        held = {} if isinstance(x, Functional) else vars(x)
        names = [name for name in held if name not in _TOLD_OTHERWISE and not name.startswith("_")]
        return {_CLASS: type(x).__qualname__, **_described({name: held[name] for name in names})}
    if (name := getattr(x, "__qualname__", None)) is not None:
        return name
    if dataclasses.is_dataclass(x):
        fields = [field.name for field in dataclasses.fields(x)]
        kept = [n for n in fields if n not in _OF_BOUND_MODULES and not n.endswith(_INITIAL)]
        return {_CLASS: type(x).__qualname__, **_described({n: getattr(x, n) for n in kept})}
    plain = x is None or isinstance(x, bool | int | float | str | np.generic | jax.Array)
    return to_json(x) if plain else type(x).__qualname__
