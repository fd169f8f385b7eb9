"""Policies as files: weights as safetensors, beside the program that acts by them."""

import contextlib
import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jaxtyping import Array, Key, PyTree

from jaxagents.core.arrays import AnyArray, is_key
from jaxagents.core.extras import require
from jaxagents.core.keys import RandomKey, as_key
from jaxagents.core.observed import CRITIC_STATE, without_critic_state

_FORMAT = "1"
_PLATFORMS = ("cpu", "cuda", "tpu")
_EXTRA = "jaxagents[export]"
_ENDING = ".safetensors"

Act = Callable[..., tuple[PyTree, PyTree]]
"""Maps what acts, a memory, one observation and perhaps a random key to the memory and an action."""


class ExportedPolicy:
    """A policy that was read from a file, and needs neither its agent nor its environment.

    ```python
    policy = jaxagents.load_policy("policy.safetensors")
    action = policy(observation)
    ```

    Attributes:
        weights: The arrays that it acts by, by name, as in the networks of the agent.
        metadata: Texts about it: `agent`, `environment`, and the versions of `jaxagents` and `jax` that
            wrote it.
    """

    def __init__(
        self,
        weights: dict[str, np.ndarray],
        carry: list[np.ndarray],
        programs: Mapping[str, export.Exported],
        metadata: dict[str, str],
    ) -> None:
        """Takes the parts of a file, which `load_policy` reads."""
        self.weights = weights
        self.metadata = metadata
        self._carry = carry
        self._calls = {name: jax.jit(program.call) for name, program in programs.items()}
        inputs = programs["greedy"].in_avals[len(weights) :]
        one = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in inputs]
        self._remembered, self._observed = one[: len(carry)], one[len(carry) :]

    def __call__(self, observation: PyTree, rng: RandomKey | None = None) -> PyTree:
        """The action of a policy without a memory.

        Args:
            observation: One observation, or a batch of them along a first axis.
            rng: Random key of an action drawn from the policy; without one, it is the greedy one.

        Returns:
            One action, or a batch of them.

        Raises:
            TypeError: The policy has a memory, or the observation is of other numbers.
            ValueError: The observation is shaped otherwise.
        """
        if self._carry:
            raise TypeError(
                "This policy has a memory: call carry, action = policy.act(carry, observation), at "
                "first with policy.initial_carry()."
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
            carry: The memory: at first that of `initial_carry`, then what this gives. `None` or `()`
                serves a policy without one.
            observation: One observation, or a batch of them along a first axis.
            rng: Random key of an action drawn from the policy; without one, it is the greedy one.

        Returns:
            The memory afterwards, and one action, or a batch of them.

        Raises:
            TypeError: The observation is of other numbers.
            ValueError: The observation or the memory is shaped otherwise.
        """
        leaves = self._leaves_of(observation)
        batch = self._batch_of(leaves)
        pairs = zip(leaves, self._observed, strict=True)
        observed = [_cast(x, like.dtype, "an observation") for x, like in pairs]
        keys = [] if rng is None else [_key_data(as_key(rng), batch)]
        inputs = self._memory_of(carry, batch), observed, *keys
        if not batch:
            inputs = jax.tree.map(lambda x: x[None], inputs)
        found = self._calls["greedy" if rng is None else "drawn"](self.weights, *inputs)
        return found if batch else jax.tree.map(lambda x: x[0], found)

    def _leaves_of(self, observation: PyTree) -> list[np.ndarray]:
        """The arrays of an observation; for a policy of a single array, a list of numbers is one."""
        if len(self._observed) == 1 and isinstance(observation, list):
            with contextlib.suppress(ValueError):  # of lists of several lengths
                observation = np.asarray(observation)
        leaves = jax.tree.leaves(observation)
        if len(leaves) > len(self._observed):
            leaves = jax.tree.leaves(without_critic_state(observation))
        return [np.asarray(leaf) for leaf in leaves]

    def _batch_of(self, leaves: list[np.ndarray]) -> tuple[int, ...]:
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
        leaves = [x if isinstance(x, Array) else np.asarray(x) for x in jax.tree.leaves(carry)]
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
    """Reads a policy that `agent.export_policy` has written.

    Args:
        path: The file.

    Returns:
        The policy, on any device that JAX has here.

    Raises:
        FileNotFoundError: There is no such file.
        ImportError: safetensors or flatbuffers is not installed.
        ValueError: The file is none of a policy, or of a later version.
    """
    safetensors = require("safetensors", _EXTRA)
    require("flatbuffers", _EXTRA)
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is no file of safetensors: {error}.") from error
    if metadata.get("format") != f"jaxagents policy {_FORMAT}":
        raise ValueError(
            f"{path} is no policy that agent.export_policy of this version has written: its format is "
            f"{metadata.get('format')!r}."
        )
    programs = _under("program/", tensors)
    return ExportedPolicy(
        _under("weights/", tensors),
        [array for _, array in sorted(_under("carry/", tensors).items())],
        {name: export.deserialize(bytearray(code.tobytes())) for name, code in programs.items()},
        {name: text for name, text in metadata.items() if name != "format"},
    )


def export_policy(
    path: str | os.PathLike,
    act: Act,
    acting: PyTree,
    carry: PyTree,
    observation: PyTree[jax.ShapeDtypeStruct],
    metadata: Mapping[str, str],
) -> None:
    """Writes a policy to a file.

    Args:
        path: The file, which must not exist, and whose name ends in `.safetensors` or not at all.
        act: Maps what acts, a memory, one observation and perhaps a random key to the memory and an
            action.
        acting: What acts, such as a network with its parameters.
        carry: The memory at the start of an episode.
        observation: One observation, as shapes.
        metadata: Texts that are kept with it.

    Raises:
        ValueError: The name of the file has another ending.
        FileExistsError: The file exists.
        ImportError: safetensors is not installed.
    """
    if Path(path).suffix not in ("", _ENDING):
        raise ValueError(
            f"export_policy writes a file of safetensors, which jaxagents.load_policy reads, not one of "
            f"{Path(path).suffix}: let its name end in {_ENDING}, got {path}."
        )
    numpy_files = require("safetensors.numpy", _EXTRA)
    require("flatbuffers", _EXTRA)
    if Path(path).exists():
        raise FileExistsError(f"{path} exists already: choose another name.")
    weights, rebuild = _weights_of(acting)
    memory, of_memory = jax.tree.flatten(carry)
    shapes, of_observation = jax.tree.flatten(observation)

    def step(
        weights: dict[str, Array], memory: list[Array], leaves: list[Array], *keys: Array
    ) -> tuple[list[Array], PyTree]:
        obs = jax.tree.unflatten(of_observation, leaves)
        rngs = map(jax.random.wrap_key_data, keys)
        after, action = act(rebuild(weights), jax.tree.unflatten(of_memory, memory), obs, *rngs)
        return jax.tree.leaves(after), action

    key = jax.random.key_data(jax.random.key(0))
    read_weights, _, read_leaves, _ = _inputs_read(step, weights, memory, shapes, key)
    used = {name: x for name, x in weights.items() if read_weights[name]}
    given = _needs_giving(observation, read_leaves)

    def step_of_given(
        weights: dict[str, Array], memory: list[Array], leaves: list[Array], *keys: Array
    ) -> tuple[list[Array], PyTree]:
        return step(weights, memory, _with_zeros(leaves, shapes, given), *keys)

    seen = [x for x, is_given in zip(shapes, given, strict=True) if is_given]
    programs = {
        "greedy": _export_batched(step_of_given, used, memory, seen),
        "drawn": _export_batched(step_of_given, used, memory, seen, key),
    }
    tensors = {
        **{f"weights/{name}": np.asarray(array) for name, array in used.items()},
        **{f"carry/{i:04}": np.asarray(array) for i, array in enumerate(memory)},
        **{
            f"program/{name}": np.frombuffer(program.serialize(), np.uint8)
            for name, program in programs.items()
        },
    }
    versions = {"jaxagents": version("jaxagents"), "jax": jax.__version__}
    described = {**metadata, **versions, "format": f"jaxagents policy {_FORMAT}"}
    Path(path).write_bytes(numpy_files.save(tensors, metadata=described))


def _weights_of(acting: PyTree) -> tuple[dict[str, Array], Callable[[Mapping[str, Array]], PyTree]]:
    """The arrays of a pytree by name, and a function that puts others in their place.

    Arrays that it is not given are zeros; random keys stay as they are.
    """
    paths, structure = jax.tree_util.tree_flatten_with_path(acting)
    named = {jax.tree_util.keystr(path, simple=True, separator="/"): x for path, x in paths}

    def rebuild(weights: Mapping[str, Array]) -> PyTree:
        leaves = [
            leaf if is_key(leaf) else weights.get(name, jnp.zeros_like(leaf))
            for name, leaf in named.items()
        ]
        return jax.tree.unflatten(structure, leaves)

    return {name: x for name, x in named.items() if not is_key(x)}, rebuild


def _inputs_read(step: Callable[..., tuple[list[Array], PyTree]], *inputs: PyTree) -> PyTree:
    """Whether a program reads its inputs, for each of their arrays."""
    kept = export.export(jax.jit(step))(*inputs).module_kept_var_idx
    leaves, structure = jax.tree.flatten(inputs)
    return jax.tree.unflatten(structure, [i in kept for i in range(len(leaves))])


def _needs_giving(observation: PyTree, is_read: list[bool]) -> list[bool]:
    """Whether a policy is given the arrays of an observation: not those that a critic alone reads."""
    paths, _ = jax.tree_util.tree_flatten_with_path(observation)
    of_critic = [path[:1] == (jax.tree_util.DictKey(CRITIC_STATE),) for path, _ in paths]
    return [reads or not hides for reads, hides in zip(is_read, of_critic, strict=True)]


def _with_zeros(
    leaves: list[Array], shapes: list[jax.ShapeDtypeStruct], given: list[bool]
) -> list[Array]:
    """The arrays of an observation, of which zeros are those that are not given."""
    left, pairs = iter(leaves), zip(shapes, given, strict=True)
    return [next(left) if is_given else jnp.zeros(x.shape, x.dtype) for x, is_given in pairs]


def _export_batched(
    step: Callable[..., tuple[list[Array], PyTree]], weights: Mapping[str, Array], *inputs: PyTree
) -> export.Exported:
    """The program of a batch of any size."""
    (size,) = export.symbolic_shape("batch")

    def batched(weights: Mapping[str, Array], *inputs: PyTree) -> tuple[list[Array], PyTree]:
        # One after another: networks look at the size of a batch, which is not known yet.
        return jax.lax.map(lambda one: step(weights, *one), inputs)

    batches = jax.tree.map(lambda x: jax.ShapeDtypeStruct((size, *x.shape), x.dtype), inputs)
    return export.export(jax.jit(batched), platforms=_PLATFORMS)(dict(weights), *batches)


def _key_data(rng: Key[Array, ""], batch: tuple[int, ...]) -> np.ndarray:
    return np.asarray(jax.random.key_data(jax.random.split(rng, batch) if batch else rng))


def _cast(x: AnyArray, dtype: np.dtype, what: str) -> AnyArray:
    """Numbers in the dtype that a program takes; those that it would round are refused."""
    whole = np.bool_, jnp.integer
    kinds = whole if jnp.issubdtype(dtype, jnp.integer) else (*whole, jnp.floating)
    if not any(jnp.issubdtype(x.dtype, kind) for kind in kinds):
        raise TypeError(
            f"This policy takes {what} of dtype {dtype}, got {x.dtype}: cast it first, as by "
            f"np.asarray(x, np.{dtype})."
        )
    if x.dtype == dtype:
        return x
    return x != 0 if dtype.kind == "b" else x.astype(dtype)


def _under(prefix: str, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}


def _short(shapes: list[tuple[int, ...]]) -> str:
    return str(shapes[0] if len(shapes) == 1 else shapes)
