"""Writing policies to files."""

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

from jaxagents.core.arrays import is_key, leaves_by_name
from jaxagents.core.extras import require
from jaxagents.core.files import new_file
from jaxagents.core.observed import CRITIC_STATE
from jaxagents.exporting.policy import ENTRIES, EXTRA, FORMAT

_PLATFORMS = ("cpu", "cuda", "tpu")
_ENDING = ".safetensors"

_Named = Mapping[str, Array]
_Outputs = tuple[list[Array], PyTree]
"""The new memory, and the action."""
Act = Callable[..., tuple[PyTree, PyTree]]
"""Maps an actor, its memory, one observation and possibly a random key to new memory and action."""


@jax.disable_jit(False)  # exporting needs compilation
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
        path: The file, which must not exist yet, with the extension `.safetensors` or none.
        act: Maps an actor, its memory, one observation and possibly a random key to the new memory and
            an action.
        acting: The actor, such as a network with its parameters.
        carry: The memory at the start of an episode.
        observation: One observation, as shapes.
        metadata: Strings to store in the file.

    Raises:
        ValueError: The file has another extension.
        FileExistsError: The file exists.
        FileNotFoundError: The folder does not exist.
        ImportError: safetensors is not installed.
    """
    path = Path(path).expanduser()
    if path.suffix not in ("", _ENDING):
        raise ValueError(
            "export_policy writes safetensors files, which jaxagents.load_policy reads, not "
            f"{path.suffix}: use a name that ends in {_ENDING}, got {path}."
        )
    numpy_files = require("safetensors.numpy", EXTRA)
    require("flatbuffers", EXTRA)
    path = new_file(path)
    weights = {name: x for name, x in leaves_by_name(acting).items() if not is_key(x)}
    memory, of_memory = jax.tree.flatten(carry)
    shapes = leaves_by_name(observation)

    def step(weights: _Named, memory: list[Array], observed: _Named, *keys: Array) -> _Outputs:
        remembered, obs = jax.tree.unflatten(of_memory, memory), _filled(observation, observed)
        rngs = map(jax.random.wrap_key_data, keys)
        after, action = act(_filled(acting, weights), remembered, obs, *rngs)
        return jax.tree.leaves(after), action

    key = jax.random.key_data(jax.random.key(0))
    reads_weight, _, reads, _ = _inputs_read(step, weights, memory, shapes, key)
    used = {name: x for name, x in weights.items() if reads_weight[name]}
    # The policy takes the whole observation, except entries that only a critic reads.
    given = [name for name in shapes if reads[name] or name.split("/")[0] != CRITIC_STATE]

    def of_list(
        weights: _Named, memory: list[Array], leaves: list[Array], *keys: Array
    ) -> _Outputs:
        return step(weights, memory, dict(zip(given, leaves, strict=True)), *keys)

    inputs = used, memory, [shapes[name] for name in given]
    codes = {
        name: _export_batched(of_list, *inputs, *keys).serialize()
        for name, keys in (("greedy", ()), ("drawn", (key,)))
    }
    tensors = {
        # safetensors would misread arrays in another memory order.
        **{f"weights/{name}": np.asarray(array, order="C") for name, array in used.items()},
        **{f"carry/{i:04}": np.asarray(array, order="C") for i, array in enumerate(memory)},
        **{f"program/{name}": np.frombuffer(code, np.uint8) for name, code in codes.items()},
    }
    versions = {"jaxagents": version("jaxagents"), "jax": jax.__version__, "format": FORMAT}
    entries = json.dumps([name for name in given if name])
    contents = numpy_files.save(tensors, metadata={**metadata, **versions, ENTRIES: entries})
    with path.open("xb") as file:
        try:
            file.write(contents)
            file.flush()
        except BaseException:  # a full disk
            path.unlink()
            raise


def _filled(tree: PyTree, values: _Named) -> PyTree:
    """Fills a pytree with arrays by name, and zeros for the others; keeps random keys."""
    leaves = [
        x if is_key(x) else values[name] if name in values else jnp.zeros(x.shape, x.dtype)
        for name, x in leaves_by_name(tree).items()
    ]
    return jax.tree.unflatten(jax.tree.structure(tree), leaves)


def _inputs_read(step: Callable[..., _Outputs], *inputs: PyTree) -> PyTree:
    """Whether a program reads each array of its inputs."""
    kept = export.export(jax.jit(step))(*inputs).module_kept_var_idx
    leaves, structure = jax.tree.flatten(inputs)
    return jax.tree.unflatten(structure, [i in kept for i in range(len(leaves))])


def _export_batched(
    step: Callable[..., _Outputs], weights: _Named, *inputs: PyTree
) -> export.Exported:
    """The program for a batch of any size."""
    (size,) = export.symbolic_shape("batch")

    def batched(weights: _Named, *inputs: PyTree) -> _Outputs:
        # One by one: networks may depend on the size of a batch, which is not known yet.
        return jax.lax.map(lambda one: step(weights, *one), inputs)

    batches = jax.tree.map(lambda x: jax.ShapeDtypeStruct((size, *x.shape), x.dtype), inputs)
    return export.export(jax.jit(batched), platforms=_PLATFORMS)(dict(weights), *batches)
