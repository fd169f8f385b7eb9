"""Pickling of pytrees whose static fields hold closures, such as optimizers and networks."""

import copy
import dataclasses
import functools
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Self

import cloudpickle
import jax
from flax import struct

from jaxagents.core.summary import Summarised

nonpytree_field = functools.partial(struct.field, pytree_node=False)

_MOST_SHARED = 256
_shared: OrderedDict[tuple[bytes, int], Any] = OrderedDict()
"""Static objects that were pickled or unpickled most recently."""
_lock = threading.RLock()  # unpickling may pickle


class PicklableNode(Summarised, struct.PyTreeNode):
    """A pytree node that can be pickled and copied, whatever its static fields hold.

    Within a process, unpickled nodes and copies have the same static objects as the original, and so
    share its compiled programs (unless hundreds of others have been pickled since). In another process,
    unpickled nodes share them with each other, but not with nodes created there.

    As with every pickle, only load files that you trust, with the same versions of Python and libraries.
    For long-term storage, use checkpoints.
    """

    def __getstate__(self) -> dict[str, Any]:
        state = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return state | {name: _packed(state[name]) for name in _static_fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = state | {name: _unpacked(state[name]) for name in _static_fields(self)}
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __copy__(self) -> Self:
        return self.replace()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return jax.tree.map(lambda leaf: copy.deepcopy(leaf, memo), self)


def _static_fields(node: PicklableNode) -> list[str]:
    return [f.name for f in dataclasses.fields(node) if not f.metadata.get("pytree_node", True)]


def _packed(value: object) -> tuple[bytes, int]:
    """The pickled value, and its number among different objects with the same pickle."""
    content = cloudpickle.dumps(value)
    number = next(n for n in itertools.count() if _share((content, n), lambda: value) is value)
    return content, number


def _unpacked(packed: tuple[bytes, int]) -> object:
    return _share(packed, lambda: cloudpickle.loads(packed[0]))


def _share(key: tuple[bytes, int], make: Callable[[], Any]) -> object:
    """The object shared under a key, made if there is none."""
    with _lock:
        if key not in _shared:
            _shared[key] = make()
        _shared.move_to_end(key)
        if len(_shared) > _MOST_SHARED:
            _shared.popitem(last=False)
        return _shared[key]
