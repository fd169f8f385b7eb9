"""Saving and loading of network weights."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import serialization, traverse_util
from jaxtyping import PyTree

from jaxagents.core.extras import require
from jaxagents.core.files import with_ending

_SUFFIXES = (".safetensors", ".msgpack")
_MOST_NAMES = 5


def save_pretrained(variables: Mapping[str, PyTree], path: str | os.PathLike) -> None:
    """Writes parameters, or collections of variables, to a file.

    Args:
        variables: Nested dict of arrays.
        path: A new file. Its suffix, `.safetensors` (needs the `vision` extra) or `.msgpack`, decides
            the format. In `.safetensors`, nested names are joined with slashes.

    Raises:
        FileExistsError: The file exists.
        ValueError: The suffix is neither of the two.
    """
    path = with_ending(path, _SUFFIXES)
    if path.suffix == ".safetensors":
        arrays = {name: np.asarray(x, order="C") for name, x in _flatten(variables).items()}
        content = _safetensors().save(arrays)  # would mistake other memory orders for this one
    else:
        content = serialization.to_bytes(variables)
    with path.open("xb") as file:
        file.write(content)


def load_pretrained(variables: Mapping[str, PyTree], path: str | os.PathLike) -> dict[str, PyTree]:
    """Reads parameters, or collections of variables, from a file that matches a network.

    Args:
        variables: Nested dict of arrays, or of their shapes (`jax.eval_shape`): all of a network's
            variables or a subtree.
        path: A file in the format of [`save_pretrained`][jaxagents.networks.vision.save_pretrained].

    Returns:
        A dict like `variables` with the file's arrays, cast to the dtypes of `variables`.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The suffix is unknown, the content does not match it or holds anything but arrays, or
            names or shapes differ. The error lists missing and unexpected names, or the first array
            that differs.
    """
    path = with_ending(path, _SUFFIXES)
    return _fit(str(path), variables, _read(path))


def from_torch_resnet(
    variables: Mapping[str, PyTree], tensors: Mapping[str, PyTree]
) -> dict[str, PyTree]:
    """Converts PyTorch ResNet weights to variables of a `ResNetV1` with batch normalisation.

    ```python
    encoder = make_encoder("resnet-18", norm="batch", scaling="imagenet")
    shapes = jax.eval_shape(encoder.init, jax.random.key(0), images)
    weights = safetensors.flax.load_file("resnet18.safetensors")
    variables = from_torch_resnet(shapes, weights)
    features = encoder.apply(variables, images)
    ```

    Args:
        variables: The network's variables, or their shapes (`jax.eval_shape`).
        tensors: Arrays under their torchvision or timm names. The classifier is left out.

    Returns:
        The collections `params` and `batch_stats`, cast to the dtypes of `variables`.

    Raises:
        ValueError: A name does not belong to a ResNet, or names or shapes differ from the network's, as
            with a ResNet-34's weights for a ResNet-18.
    """
    arrays = {}
    for name, tensor in tensors.items():
        if name.startswith("fc.") or name.endswith(".num_batches_tracked"):
            continue
        module, _, leaf = _flax_name(name).rpartition("/")
        array = jnp.asarray(tensor)
        if leaf == "weight":
            leaf = "kernel" if array.ndim == 4 else "scale"
            array = jnp.transpose(array, (2, 3, 1, 0)) if array.ndim == 4 else array
        collection = "batch_stats" if leaf in ("mean", "var") else "params"
        arrays[f"{collection}/{module}/{leaf}"] = array
    return _fit("The network of the tensors", variables, arrays)


_TORCH_NAME = re.compile(
    r"(?:layer(?P<stage>\d)\.(?P<block>\d+)\.)?"
    r"(?:conv(?P<conv>[123])|bn(?P<norm>[123])|downsample\.(?P<shortcut>[01]))"
    r"\.(?P<leaf>weight|bias|running_mean|running_var)"
)


def _flax_name(name: str) -> str:
    match = _TORCH_NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is not an array of a residual network of torchvision or timm.")
    part = match.groupdict()
    leaf = part["leaf"].removeprefix("running_")
    if part["shortcut"]:
        module = "shortcut" if part["shortcut"] == "0" else "shortcut_norm"
    elif part["stage"] is None:
        module = "stem" if part["conv"] else "stem_norm"
    else:
        module = f"conv{part['conv']}" if part["conv"] else f"norm{part['norm']}"
    if part["stage"] is None:
        return f"{module}/{leaf}"
    return f"stage{part['stage']}_block{int(part['block']) + 1}/{module}/{leaf}"


def _flatten(variables: Mapping[str, PyTree]) -> dict[str, PyTree]:
    return traverse_util.flatten_dict(dict(variables), sep="/")


def _read(path: Path) -> dict[str, PyTree]:
    """The arrays of a file by name, nested names joined with slashes."""
    parse = _safetensors().load_file if path.suffix == ".safetensors" else _msgpack_arrays
    try:
        return parse(path)
    except OSError:
        raise
    except Exception as error:
        kind = path.suffix.removeprefix(".")
        raise ValueError(f"{path} cannot be read as arrays in {kind}: {error}") from error


def _msgpack_arrays(path: Path) -> dict[str, PyTree]:
    tree: Any = serialization.msgpack_restore(path.read_bytes())
    return {name: np.asarray(leaf) for name, leaf in _flatten(tree).items()}


def _fit(
    source: str, variables: Mapping[str, PyTree], found: Mapping[str, PyTree]
) -> dict[str, PyTree]:
    """Arrays by joined name as a nested dict like `variables`, whose shapes they must have."""
    expected = _flatten(variables)
    missing, others = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    if missing or others:
        raise ValueError(
            f"{source} does not fit: it lacks {missing[:_MOST_NAMES]}, and has "
            f"{others[:_MOST_NAMES]}, which the network lacks."
        )
    for name, leaf in expected.items():
        if leaf.shape != found[name].shape:
            raise ValueError(
                f"{source} does not fit: {name!r} has the shape {found[name].shape}, but the network "
                f"{leaf.shape}."
            )
    fitted = {name: jnp.asarray(found[name], leaf.dtype) for name, leaf in expected.items()}
    return traverse_util.unflatten_dict(fitted, sep="/")


def _safetensors() -> Any:
    return require("safetensors.flax", "vision")
