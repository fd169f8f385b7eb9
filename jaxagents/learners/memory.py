"""One way to use networks in training, whether or not they have a memory."""

from typing import Any

import jax
from flax import linen as nn
from jaxtyping import Array, Bool, PyTree

from jaxagents.learners.train_state import TrainState
from jaxagents.networks import Recurrent


def remembers(network: nn.Module) -> bool:
    """Whether a network has a memory."""
    return isinstance(network, Recurrent)


def initial_carry(network: Any) -> PyTree:
    """The memory at the start of an episode; `()` for none."""
    return network.initial() if remembers(network) else ()


def step(state: TrainState, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree]:
    """Takes one step of a network."""
    return state(carry, obs) if remembers(state.model_def) else (carry, state(obs))


def unroll(
    state: TrainState, carry: PyTree, obs: PyTree, first: Bool[Array, "time"]
) -> tuple[PyTree, PyTree]:
    """Takes the steps of a sequence."""
    if remembers(state.model_def):
        return state(carry, obs, first, method="unroll")
    return carry, jax.vmap(state)(obs)
