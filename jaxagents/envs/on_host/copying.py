"""Copying of environments that a user created, and may have modified since."""

import contextlib
import copyreg
import io
import pickle
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import cloudpickle
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import EzPickle
from gymnasium.wrappers import HumanRendering

MakeCopy = Callable[..., Any]
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_OPAQUE = (type, FunctionType, MethodType, ModuleType)
_POINTERS = r"client(_?id)?$|socket$"
_ELSEWHERE = re.compile(_POINTERS, re.IGNORECASE)
"""Names of attributes that may point to an external simulation, which pickled copies would share."""
_NOT_COMPARED = re.compile(
    r"spec$|metadata$|_np_random|_ezpickle_|^render_mode$|^isopen$|^checked_|^close_called$|"
    rf"^episode_(count|start_time)$|(return|length|time)_queue$|{_POINTERS}",
    re.IGNORECASE,
)
"""Names of attributes that do not affect how an environment behaves. Some belong to Gymnasium's
wrappers, which record episodes."""


class Copier(NamedTuple):
    """A way to copy an environment.

    Attributes:
        make: Creates a copy that opens no window, with an optional `render_mode`; `None` if the
            environment cannot be copied.
        differing: Names of the attributes that differ between copies and the environment.
    """

    make: MakeCopy | None
    differing: list[str]

    @property
    def is_equal(self) -> bool:
        """Whether copies equal the environment."""
        return self.make is not None and not self.differing


class PickledEnvironment(NamedTuple):
    """Creates copies of an environment from its pickled bytes."""

    pickled: bytes

    def __call__(self, render_mode: str | None = None) -> Any:
        """Creates a copy."""
        return _with_render_mode(pickle.loads(self.pickled), render_mode)


class _ByAttributes(cloudpickle.Pickler):
    """Pickles environments by their attributes, even `EzPickle` ones, which pickle their arguments."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, EzPickle):
            return copyreg.__newobj__, (type(obj),), vars(obj), None, None, _set_attributes  # pyright: ignore
        if type(obj).__module__.partition(".")[0] == "pygame":
            return type(None), ()  # windows and surfaces are created on drawing
        return super().reducer_override(obj)


def _set_attributes(x: Any, attributes: dict[str, Any]) -> None:
    vars(x).update(attributes)


def copier_of(env: Any, from_specification: MakeCopy | None = None) -> Copier:
    """Finds the way of copying an environment that gives the most similar copies.

    A copy can come from the specification, from constructor arguments, or from the attributes: the first
    that is equal in every comparable attribute wins. If none is, both are reset with the same seed and
    compared again, since the environment may have been played.

    Args:
        env: The Gymnasium or PettingZoo environment.
        from_specification: Creates an environment from the specification, if there is one.

    Returns:
        The way to copy it.
    """
    makers, best = [], Copier(None, [])
    for make in _makers(env, from_specification):
        makers.append(make)
        best = _better(best, make, env)
        if best.is_equal:
            return best
    for make in makers:
        best = _better(best, make, env, resets=True)
    return best


def _makers(env: Any, from_specification: MakeCopy | None) -> Iterator[MakeCopy]:
    if from_specification is not None:
        yield from_specification
    if any(_ELSEWHERE.search(name) and x is not None for name, x in _attributes(env)):
        return
    for pickler in (cloudpickle.Pickler, _ByAttributes):
        file = io.BytesIO()
        try:
            pickler(file).dump(env)
        except Exception:  # environments can hold anything, which can raise anything
            continue
        yield PickledEnvironment(file.getvalue())


def _better(best: Copier, make: MakeCopy, env: Any, resets: bool = False) -> Copier:
    """The better of two ways to copy an environment."""
    try:
        made = make()
        if resets:
            env.reset(seed=0)
            made.reset(seed=0)
    except Exception:  # as above
        return best
    differing = differences(env, made)
    fewer = best.make is None or len(differing) < len(best.differing)
    return Copier(make, differing) if fewer else best


def copier_or_warning(
    env: Any, name: str, adapter: str, from_specification: MakeCopy | None = None
) -> MakeCopy | None:
    """Returns how to copy an environment, `None` if impossible; warns if copies differ from it."""
    make, differing = copier_of(env, from_specification)
    if differing:
        warnings.warn(
            f"{name} cannot be copied as it is: the copies in which agents play differ in "
            f"{differing}. Pass a function that makes one with these set, as in "
            f"Agent(jaxagents.envs.{adapter}(lambda: MyEnv()), None, config).",
            stacklevel=3,
        )
    return make


def _with_render_mode(env: Any, render_mode: str | None) -> Any:
    """Sets the render mode of an environment, which then opens no window."""
    outer = env = without_windows(env)
    while isinstance(outer, gymnasium.Wrapper):
        outer.env = without_windows(outer.env)
        outer = outer.env
    if render_mode or getattr(env.unwrapped, "render_mode", None) == "human":
        env.unwrapped.render_mode = render_mode
    return env


# Comparison.


def differences(env: Any, other: Any) -> list[str]:
    """Names of the attributes that differ between two environments, such as `"PendulumEnv.g"`.

    Numbers, strings, arrays, spaces, MuJoCo models, and containers and objects of these are compared;
    random generators, functions and renderers are not.
    """
    todo: list[tuple[Any, Any, str]] = [(env, other, "")]
    found: dict[str, None] = {}
    seen: set[int] = set()
    while todo:
        x, y, name = todo.pop()
        x, y = without_windows(x), without_windows(y)
        if id(x) in seen:
            continue
        parts = _parts(x, y, name)
        if parts is not None:
            seen.add(id(x))
            todo += parts
        else:
            with contextlib.suppress(Exception):  # for values that cannot be compared
                found |= {name: None} if _differ(x, y) else {}
    return sorted(found)


def without_windows(env: Any) -> Any:
    """Removes the outermost wrappers that show an environment in a window."""
    while isinstance(env, HumanRendering):
        env = env.env
    return env


def _parts(x: Any, y: Any, name: str) -> list[tuple[Any, Any, str]] | None:
    """Pairs of parts of two similar objects or containers, with the name of each; `None` for values."""
    if isinstance(x, Mapping) and isinstance(y, Mapping) and x.keys() == y.keys():
        return [(x[key], y[key], name) for key in x]
    if _is_sequence(x) and _is_sequence(y) and len(x) == len(y):
        return [(*pair, name) for pair in zip(x, y, strict=True)]
    is_one = _is_array(x) or isinstance(x, spaces.Space)
    if is_one or not (_is_object(x) and _is_object(y)) or type(x).__name__ != type(y).__name__:
        return None
    first, second = vars(x), vars(y)
    names = [each for each in {**first, **second} if not _NOT_COMPARED.search(each)]
    owner = type(x).__qualname__
    return [(first.get(each), second.get(each), f"{owner}.{each}") for each in names]


def _differ(x: Any, y: Any) -> bool:
    """Whether two values differ; values that cannot be compared, such as windows, do not."""
    if type(x).__name__ == type(y).__name__ == "MjModel":
        return pickle.dumps(x) != pickle.dumps(y)
    if not (_is_value(x) and _is_value(y)):
        return False
    if _is_array(x) and _is_array(y):
        first, second = np.asarray(x), np.asarray(y)
        are_real = first.dtype.kind in "fc" and second.dtype.kind in "fc"
        return not np.array_equal(first, second, equal_nan=are_real)
    if _is_array(x) or _is_array(y) or type(x).__name__ != type(y).__name__:
        return not np.array_equal(x, y) if np.isscalar(x) and np.isscalar(y) else True
    return bool(x != y) and not (x != x and y != y)


def _is_value(x: Any) -> bool:
    """Whether an object can be compared by value."""
    if isinstance(x, (*_PLAIN, spaces.Space)):
        return True
    if _is_array(x):
        return np.asarray(x).dtype != object
    if isinstance(x, Mapping | set | frozenset) or _is_sequence(x):
        return all(map(_is_value, x))
    return False


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic) or (
        hasattr(x, "__array__") and not isinstance(x, type)
    )


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence | deque) and not isinstance(x, str | bytes)


def _is_object(x: Any) -> bool:
    return hasattr(x, "__dict__") and not isinstance(x, _OPAQUE)


def state_of(env: Any) -> list[bytes]:
    """The visible state of an environment, to detect whether someone else has played in it."""
    held = [x for name, x in _attributes(env) if not _NOT_COMPARED.search(name)]
    values = [x for x in held if _is_value(x) and not isinstance(x, spaces.Space)]
    generators = [x for _, x in _attributes(env) if isinstance(x, np.random.Generator)]
    return [pickle.dumps(x) for x in [*values, *(x.bit_generator.state for x in generators)]]


def _attributes(env: Any) -> Iterator[tuple[str, Any]]:
    """Yields the attributes of an environment and of the objects inside it."""
    todo, seen = [env], set()
    while todo:
        x = todo.pop()
        if id(x) in seen or isinstance(x, (*_PLAIN, spaces.Space)) or _is_array(x):
            continue
        seen.add(id(x))
        if isinstance(x, Mapping):
            todo += x.values()
        elif _is_sequence(x):
            todo += x
        elif _is_object(x):
            yield from vars(x).items()
            todo += [part for name, part in vars(x).items() if not _NOT_COMPARED.search(name)]
