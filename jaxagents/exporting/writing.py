"""Policies that are written to files."""

import json
import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jaxtyping import Array, PyTree

from jaxagents.core.arrays import is_key
from jaxagents.core.extras import require
from jaxagents.core.folders import new_file
from jaxagents.core.observed import CRITIC_STATE
from jaxagents.core.trees import leaves_by_name
from jaxagents.exporting.policy import ENTRIES, EXTRA, FORMAT

_PLATFORMS = ("cpu", "cuda", "tpu")
_ENDING = ".safetensors"

Act = Callable[..., tuple[PyTree, PyTree]]
"""Maps what acts, a memory, one observation and perhaps a random key to the memory and an action."""


@jax.disable_jit(False)  # programs are written, which only compilation makes
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
        FileNotFoundError: Its folder does not exist.
        ImportError: safetensors is not installed.
    """
    path = Path(path).expanduser()
    if path.suffix not in ("", _ENDING):
        raise ValueError(
            f"export_policy writes a file of safetensors, which jaxagents.load_policy reads, not one of "
            f"{path.suffix}: let its name end in {_ENDING}, got {path}."
        )
    numpy_files = require("safetensors.numpy", EXTRA)
    require("flatbuffers", EXTRA)
    path = new_file(path)
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
        # safetensors takes other orders of memory for C's.
        **{f"weights/{name}": np.asarray(array, order="C") for name, array in used.items()},
        **{f"carry/{i:04}": np.asarray(array, order="C") for i, array in enumerate(memory)},
        **{
            f"program/{name}": np.frombuffer(program.serialize(), np.uint8)
            for name, program in programs.items()
        },
    }
    versions = {"jaxagents": version("jaxagents"), "jax": jax.__version__}
    named = zip(leaves_by_name(observation), given, strict=True)
    entries = json.dumps([name for name, is_given in named if is_given and name])
    described = {**metadata, **versions, "format": FORMAT, ENTRIES: entries}
    _write(path, numpy_files.save(tensors, metadata=described))


def _write(path: Path, contents: bytes) -> None:
    """Writes a file that does not exist, of which nothing stays where the disk is full."""
    with path.open("xb") as file:
        try:
            file.write(contents)
            file.flush()
        except BaseException:
            path.unlink()
            raise


def _weights_of(acting: PyTree) -> tuple[dict[str, Array], Callable[[Mapping[str, Array]], PyTree]]:
    """The arrays of a pytree by name, and a function that puts others in their place.

    Arrays that it is not given are zeros; random keys stay as they are.
    """
    named, structure = leaves_by_name(acting), jax.tree.structure(acting)

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
