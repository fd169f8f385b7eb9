"""Reading policies from files."""

import contextlib
import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.tree_util import KeyPath
from jaxtyping import Array, ArrayLike, PyTree

from jaxagents.core.arrays import (
    AnyArray,
    RandomKey,
    as_key,
    is_on_host,
    is_traced,
    leaves_by_name,
    to_host,
)
from jaxagents.core.extras import require
from jaxagents.core.observed import CRITIC_STATE

FORMAT = "jaxagents policy 1"
"""Format of the files, in their metadata."""
ENTRIES = "entries"
"""Metadata key of the names of an observation's entries."""
EXTRA = "export"
"""The extra needed to read and write them."""

Program = Callable[..., PyTree]
"""Maps weights and batches of memories, observations and possibly keys to memories and actions."""


class ExportedPolicy:
    """A policy from a file, which needs neither its agent nor its environment.

    ```python
    policy = jaxagents.load_policy("policy.safetensors")
    action = policy(observation)
    ```

    You can call it inside `jax.jit`, `jax.vmap` and `jax.lax.scan`.

    Attributes:
        weights: The weights by name, as in the agent's networks.
        metadata: Strings: `agent` and `environment`, or `learner`, and the versions of `jaxagents` and
            `jax` that wrote the file.
    """

    def __init__(
        self,
        weights: dict[str, np.ndarray],
        carry: list[np.ndarray],
        programs: Mapping[str, export.Exported],
        metadata: dict[str, str],
        entries: list[str],
    ) -> None:
        """Takes the parts of a file, as read by `load_policy`."""
        self.weights = weights
        self.metadata = metadata
        self._carry = carry
        self._entries = entries
        self._calls = {name: _compiled(program.call) for name, program in programs.items()}
        self._words = programs["drawn"].in_avals[-1].shape[-1]
        inputs = programs["greedy"].in_avals[len(weights) :]
        one = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in inputs]
        self._remembered, self._observed = one[: len(carry)], one[len(carry) :]

    def __call__(self, observation: PyTree, rng: RandomKey | None = None) -> PyTree:
        """The action of a policy without a memory.

        Args:
            observation: One observation, or a batch of them along a first axis.
            rng: Random key to sample the action with; `None` takes the greedy action.

        Returns:
            One action, or a batch of them. For NumPy observations, actions are NumPy arrays, or an
                `int` for one discrete action, as Gymnasium's `env.step` expects.

        Raises:
            TypeError: The policy has a memory, or the observation has a different dtype.
            ValueError: The observation has a different shape, different entries, or integers out of
                range; or there are several random keys, or the key has a different implementation.
        """
        if self._carry:
            raise TypeError(
                "This policy has a memory: call carry, action = policy.act(carry, "
                "observation), first with policy.initial_carry()."
            )
        return self.act([], observation, rng)[1]

    def initial_carry(self, *batch: int) -> list[np.ndarray]:
        """The memory at the start of an episode.

        Args:
            *batch: Number of observations in a batch, if there is one.

        Returns:
            Arrays.
        """
        return [np.broadcast_to(x, (*batch, *x.shape)) for x in self._carry]

    def act(
        self, carry: PyTree, observation: PyTree, rng: RandomKey | None = None
    ) -> tuple[PyTree, PyTree]:
        """The action of a policy with or without a memory.

        Args:
            carry: The memory: `initial_carry()` at first, then the one that the last call returned.
                `None` or `()` for a policy without a memory.
            observation: One observation, or a batch of them along a first axis.
            rng: Random key to sample the action with; `None` takes the greedy action.

        Returns:
            The new memory, and one action, or one for each observation in the batch.

        Raises:
            TypeError: The observation has a different dtype.
            ValueError: The observation or the memory has a different shape, or the observation has
                different entries or integers out of range; or there are several random keys, or the key
                has a different implementation.
        """
        leaves = self._leaves_of(observation)
        batch = self._batch_of(leaves)
        pairs = zip(leaves, self._observed, strict=True)
        observed = [_cast(x, like.dtype, "an observation") for x, like in pairs]
        inputs = self._memory_of(carry, batch), observed
        name, key = "greedy", ()
        if rng is not None:
            name, key = "drawn", (_key_data(rng, batch, self._words),)
        carry, action = self._calls[name](bool(batch), self.weights, *inputs, *key)
        return carry, to_host(action) if is_on_host(observation) else action

    def _leaves_of(self, observation: PyTree) -> list[AnyArray]:
        """The arrays of an observation, which may also be lists of numbers."""
        names = self._entries if len(self._observed) > 1 else ["", *self._entries]

        def convert(path: KeyPath, x: PyTree) -> PyTree:
            if jax.tree_util.keystr(path, simple=True, separator="/") in names:
                with contextlib.suppress(ValueError, TypeError):  # ragged, or traced
                    return np.asarray(x) if isinstance(x, list) else x
            return x

        is_list = lambda x: isinstance(x, list)  # noqa: E731
        arrays = jax.tree_util.tree_map_with_path(convert, observation, is_leaf=is_list)
        named = leaves_by_name(arrays)
        if self._entries and "" not in named:
            missing = [name for name in self._entries if name not in named]
            others = [name for name in named if name not in self._entries]
            unknown = [name for name in others if name.split("/")[0] != CRITIC_STATE]
            if missing or unknown:  # entries only for critics are allowed
                faults = {"are missing": missing, "are unknown": unknown}
                found = " and ".join(f"{names} {what}" for what, names in faults.items() if names)
                raise ValueError(
                    f"This policy takes an observation with the entries {self._entries}, but in "
                    f"this one {found}."
                )
            return [_as_array(named[entry]) for entry in self._entries]
        return [_as_array(leaf) for leaf in named.values()]

    def _batch_of(self, leaves: list[AnyArray]) -> tuple[int, ...]:
        shapes, expected = [x.shape for x in leaves], [x.shape for x in self._observed]
        if shapes == expected:
            return ()
        if leaves and [shape[1:] for shape in shapes] == expected and all(shapes):
            sizes = {shape[0] for shape in shapes}
            if sizes == {0}:
                raise ValueError(
                    f"The batch of observations is empty, of shape {_short(shapes)}: give at least one."
                )
            if len(sizes) == 1:
                return (sizes.pop(),)
        raise ValueError(
            f"This policy takes an observation of shape {_short(expected)}, or a batch of them, got "
            f"shape {_short(shapes)}."
        )

    def _memory_of(self, carry: PyTree, batch: tuple[int, ...]) -> list[AnyArray]:
        leaves = [_as_array(x) for x in jax.tree.leaves(carry)]
        shapes, expected = [x.shape for x in leaves], [(*batch, *x.shape) for x in self._remembered]
        if shapes != expected:
            first = f"policy.initial_carry({', '.join(map(str, batch))})"
            whose = f"a batch of {batch[0]} observations" if batch else "one observation"
            needed = (
                f"a memory of shapes {expected}, as {first} gives it," if expected else "no memory"
            )
            raise ValueError(f"This policy takes {needed} with {whose}, got shapes {shapes}.")
        pairs = zip(leaves, self._remembered, strict=True)
        return [_cast(x, like.dtype, "a memory") for x, like in pairs]


def load_policy(path: str | os.PathLike) -> ExportedPolicy:
    """Reads a policy written by an agent's or a learner's `export_policy`.

    Args:
        path: The file.

    Returns:
        The policy, for any device.

    Raises:
        FileNotFoundError: The file does not exist.
        ImportError: safetensors or flatbuffers is not installed.
        ValueError: The file contains no policy, was written by a later version, or is damaged.
    """
    safetensors = require("safetensors", EXTRA)
    require("flatbuffers", EXTRA)
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}.") from error
    if metadata.get("format") != FORMAT:
        raise ValueError(
            f"{path} is not a policy that export_policy of this version wrote: its format is "
            f"{metadata.get('format')!r}."
        )
    return ExportedPolicy(
        _under("weights/", tensors),
        [array for _, array in sorted(_under("carry/", tensors).items())],
        _programs_of(path, tensors, metadata),
        {name: text for name, text in metadata.items() if name not in ("format", ENTRIES)},
        json.loads(metadata[ENTRIES]),
    )


def _programs_of(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> dict[str, export.Exported]:
    """The programs for greedy and for sampled actions."""
    programs = _under("program/", tensors)
    missing = [f"program/{name}" for name in ("greedy", "drawn") if name not in programs]
    if missing:
        raise ValueError(f"{path} lacks {missing}, which export_policy writes.")
    try:
        return {name: export.deserialize(bytearray(code)) for name, code in programs.items()}
    except Exception as error:  # damaged bytes may raise anything
        raise ValueError(
            f"JAX {jax.__version__} cannot read the programs of {path}, which JAX "
            f"{metadata.get('jax')} wrote ({type(error).__name__}: {error}): the file is "
            "damaged, or the versions are too far apart. Export the policy again, from a "
            "checkpoint."
        ) from error


def _compiled(call: Program) -> Program:
    """Compiles a program of batches, for a batch or a single observation."""
    mappable = _mappable(call)

    @functools.partial(jax.jit, static_argnums=0)
    def act(is_batch: bool, weights: dict[str, Array], *inputs: PyTree) -> PyTree:
        if is_batch:
            return mappable(weights, *inputs)
        found = mappable(weights, *jax.tree.map(lambda x: x[None], inputs))
        return jax.tree.map(lambda x: x[0], found)

    return act


def _mappable(call: Program) -> Program:
    """Supports `jax.vmap` of a program of batches, by joining them into one larger batch."""
    mappable = jax.custom_batching.custom_vmap(call)

    @mappable.def_vmap
    def of_many(
        size: int, is_mapped: Sequence[PyTree], weights: dict[str, Array], *inputs: PyTree
    ) -> tuple[PyTree, PyTree]:
        def joined(x: Array, is_mapped: bool) -> Array:
            each = x if is_mapped else jnp.broadcast_to(x, (size, *x.shape))
            return each.reshape(-1, *each.shape[2:])

        found = mappable(weights, *jax.tree.map(joined, inputs, tuple(is_mapped[1:])))
        parts = jax.tree.map(lambda x: x.reshape(size, -1, *x.shape[1:]), found)
        return parts, jax.tree.map(lambda _: True, parts)

    return mappable


def _key_data(rng: RandomKey, batch: tuple[int, ...], words: int) -> Array:
    """The data of a random key, split into one per observation of a batch."""
    key = as_key(rng)
    if key.ndim:
        raise ValueError(
            f"A policy takes one random key, even for a batch, got keys of shape {key.shape}: "
            "to act with each of them, use jax.vmap."
        )
    data = jax.random.key_data(jax.random.split(key, batch) if batch else key)
    if data.shape[-1] != words:
        impl = "threefry2x32" if words == 2 else "rbg"
        raise ValueError(
            f"This policy draws by a random key of {words} words, such as jax.random.key(0, "
            f"impl={impl!r}), got one of {data.shape[-1]}, of {jax.random.key_impl(key)}."
        )
    return data


def _as_array(x: ArrayLike) -> AnyArray:
    """Converts anything but JAX arrays, possibly traced, to a NumPy array."""
    return x if isinstance(x, Array) else np.asarray(x)


def _cast(x: AnyArray, dtype: np.dtype, what: str) -> AnyArray:
    """Casts numbers to the dtype that a program takes; raises if that would round or wrap them."""
    kinds, is_whole = [np.bool_, jnp.integer, jnp.floating], jnp.issubdtype(dtype, jnp.integer)
    if not any(jnp.issubdtype(x.dtype, kind) for kind in kinds[: 2 if is_whole else 3]):
        raise TypeError(
            f"This policy takes {what} of dtype {dtype}, got {x.dtype}: cast it first, as in "
            f"np.asarray(x, np.{dtype})."
        )
    if x.dtype == dtype:
        return x
    if dtype.kind == "b":
        return x != 0
    if is_whole and x.size and not is_traced(x):
        low, high = int(np.min(x)), int(np.max(x))
        if low < jnp.iinfo(dtype).min or high > jnp.iinfo(dtype).max:
            raise ValueError(
                f"This policy takes {what} of dtype {dtype}, which does not hold all numbers from {low} "
                f"to {high}: scale them as in training."
            )
    return x.astype(dtype)


def _under(prefix: str, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}


def _short(shapes: list[tuple[int, ...]]) -> str:
    return str(shapes[0] if len(shapes) == 1 else shapes)
