"""Errors of networks, with a note of what they were given."""

import contextlib
from collections.abc import Iterator, Sequence

import jax
import numpy as np
from flax import linen as nn
from jaxtyping import PyTree

from jaxagents.networks.nnx_modules import name_of_network


def shapes_of(inputs: Sequence[PyTree]) -> str:
    """The shapes of a network's inputs, in words."""
    return ", ".join(str(jax.tree.map(np.shape, x)) for x in inputs)


@contextlib.contextmanager
def noting_inputs(network: nn.Module, inputs: Sequence[PyTree]) -> Iterator[None]:
    """Adds the shapes of a network's inputs to the errors that come of it.

    Args:
        network: The network.
        inputs: Its inputs.
    """
    try:
        yield
    except Exception as error:
        name = name_of_network(network)
        error.add_note(f"This happened in {name}, given inputs of shape {shapes_of(inputs)}.")
        raise
