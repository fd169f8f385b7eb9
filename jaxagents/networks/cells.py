"""Recurrent cells: fast unrolling of Flax's gated cells, and a minimal GRU."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, PyTree

from jaxagents.core.arrays import atleast_nd, select
from jaxagents.networks.dense import Dense, matmul

_Gates = tuple[Float[Array, "*time features"], ...]
"""The contribution of the input, or of the memory, to a cell's gates before they are squashed."""
_Slopes = tuple[Float[Array, "*time features"], ...]
"""Partial derivatives of the memory after a step."""
_Pair = tuple[Array, Array]
"""The memory of an LSTM: cell and output."""


class _Kind(NamedTuple):
    """A kind of cell.

    Attributes:
        letters: Flax's names for the gates.
        step: Maps a memory, and the contributions of the input and of that memory to the gates, to the
            next memory and to residuals for `slopes`.
        slopes: Maps a memory and those residuals to the partial derivatives of the next memory with
            respect to both contributions.
        change: Maps derivatives, and the changes of a memory and of a contribution to the gates, to the
            change of the next memory; linear in the changes.
        output: The part of a memory that the gates see, which is also the cell's output.
    """

    letters: str
    step: Callable[[PyTree, _Gates, _Gates], tuple[PyTree, PyTree]]
    slopes: Callable[[PyTree, PyTree], tuple[_Slopes, _Slopes]]
    change: Callable[[_Slopes, PyTree, _Gates], PyTree]
    output: Callable[[PyTree], Array]


class _Layer(NamedTuple):
    """The weights of all gates, side by side."""

    kernel: Float[Array, "inputs gates"]
    bias: Float[Array, "gates"]


def unrolls_gates(cell: nn.RNNCellBase) -> bool:
    """Whether `unroll_gates` supports a cell."""
    if type(cell) not in _KINDS:
        return False
    return (cell.gate_fn, cell.activation_fn, cell.dtype) == (nn.sigmoid, nn.tanh, None)


def unroll_gates(
    cell: nn.RNNCellBase,
    initial: PyTree,
    carry: PyTree,
    inputs: Float[Array, "time inputs"],
    first: Bool[Array, "time"],
) -> tuple[PyTree, Float[Array, "time features"]]:
    """Unrolls a Flax cell over a sequence.

    The inputs' contribution to the gates is one product for all steps. So is the gradient of the memory
    weights, which would otherwise be a sum that is read and written at each step.

    Args:
        cell: A cell for which `unrolls_gates` is true, bound to its parameters.
        initial: The memory at the start of an episode.
        carry: The memory before the first step.
        inputs: The inputs.
        first: Whether each step starts a new episode, with a fresh memory.

    Returns:
        The memories after each step, and the outputs.
    """
    kind = _KINDS[type(cell)]
    by_inputs = _apply(_joint_layer(cell, "i", kind), inputs, kind)
    carries = _recur(kind, _joint_layer(cell, "h", kind), initial, carry, by_inputs, first)
    return carries, kind.output(carries)


def _joint_layer(cell: nn.RNNCellBase, source: str, kind: _Kind) -> _Layer:
    """The weights for the inputs (`"i"`) or for the memory (`"h"`)."""
    layers = [cell.variables["params"][source + letter] for letter in kind.letters]
    kernels = [layer["kernel"] for layer in layers]
    biases = [layer.get("bias", jnp.zeros_like(kernels[0][0])) for layer in layers]
    return _Layer(jnp.concatenate(kernels, axis=-1), jnp.concatenate(biases))


def _apply(layer: _Layer, x: Float[Array, "*time inputs"], kind: _Kind) -> _Gates:
    """The contribution of inputs, or of memories, to all gates before they are squashed."""
    rows = x[None] if x.ndim == 1 else x
    product = matmul(rows, layer.kernel).reshape(*x.shape[:-1], -1)
    given = product + atleast_nd(layer.bias, x.ndim)
    return tuple(jnp.split(given, len(kind.letters), axis=-1))


def _unroll(
    kind: _Kind, layer: _Layer, initial: PyTree, carry: PyTree, by_inputs: _Gates, first: Array
) -> tuple[PyTree, PyTree]:
    """The memories after each step, and residuals for the derivative."""

    def take(carry: PyTree, at_t: tuple[_Gates, Array]) -> tuple[PyTree, PyTree]:
        by_input, first = at_t
        before = select(first, initial, carry)
        after, kept = kind.step(before, by_input, _apply(layer, kind.output(before), kind))
        return after, (after, kept)

    return jax.lax.scan(take, carry, (by_inputs, first))[1]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _recur(kind: _Kind, *given: PyTree) -> PyTree:
    return _unroll(kind, *given)[0]


@_recur.defjvp
def _(kind: _Kind, primals: PyTree, tangents: PyTree) -> tuple[PyTree, PyTree]:
    """The memories and their tangents; tangents due to the weights are one product for all steps.

    Each step of the loop adds the tangent due to the previous memory to all other tangents, which are
    computed outside the loop: JAX would use a second loop for them. The weights are also transposed in
    memory outside, since XLA would do it at each step of the backward loop. Derivatives are written by
    hand: with `jax.linearize`, gradients for 64 environments take two to three times as long on CPU.
    """
    layer, initial, carry, _, first = primals
    d_layer, d_initial, d_carry, d_by_inputs, _ = tangents
    after, kept = _unroll(kind, *primals)
    before = jax.tree.map(lambda x, y: jnp.concatenate([x[None], y[:-1]]), carry, after)
    before = jax.vmap(select, (0, None, 0))(first, initial, before)
    by_input, by_memory = kind.slopes(before, kept)
    transposed = jax.lax.optimization_barrier(layer.kernel.T)

    def due_to_memory(slopes: _Slopes, d_before: PyTree) -> PyTree:
        linear = _Layer(transposed.T, jnp.zeros_like(layer.bias))
        return kind.change(slopes, d_before, _apply(linear, kind.output(d_before), kind))

    def take(d_carry: PyTree, at_t: tuple[_Slopes, PyTree]) -> tuple[PyTree, PyTree]:
        slopes, other_tangents = at_t
        d_after = jax.tree.map(jnp.add, other_tangents, due_to_memory(slopes, d_carry))
        return d_after, d_after

    unchanged = jax.tree.map(jnp.zeros_like, before)
    is_fresh = first[:, None]
    other_tangents = jax.tree.map(
        lambda *x: functools.reduce(jnp.add, x),
        kind.change(by_input, unchanged, d_by_inputs),
        kind.change(by_memory, unchanged, _apply(d_layer, kind.output(before), kind)),
        jax.vmap(due_to_memory, (0, None))(tuple(x * is_fresh for x in by_memory), d_initial),
    )
    within_episode = tuple(x * ~is_fresh for x in by_memory)
    return after, jax.lax.scan(take, d_carry, (within_episode, other_tangents))[1]


def _gru(h: Array, by_input: _Gates, by_memory: _Gates) -> tuple[Array, _Gates]:
    r, z = (nn.sigmoid(by_input[k] + by_memory[k]) for k in (0, 1))
    n = nn.tanh(by_input[2] + r * by_memory[2])
    return (1.0 - z) * n + z * h, (r, z, n, by_memory[2])


def _gru_slopes(h: Array, kept: _Gates) -> tuple[_Slopes, _Slopes]:
    r, z, n, n_h = kept
    by_n = (1.0 - z) * (1.0 - n**2)
    by_r, by_z = by_n * n_h * r * (1.0 - r), (h - n) * z * (1.0 - z)
    return (by_r, by_z, by_n, z), (by_r, by_z, by_n * r, z)


def _lstm(carry: _Pair, by_input: _Gates, by_memory: _Gates) -> tuple[_Pair, _Gates]:
    sums = [x + h for x, h in zip(by_input, by_memory, strict=True)]
    i, f, o = (nn.sigmoid(sums[k]) for k in (0, 1, 3))
    g = nn.tanh(sums[2])
    c = f * carry[0] + i * g
    shown = nn.tanh(c)
    return (c, o * shown), (i, f, g, o, shown)


def _lstm_slopes(carry: _Pair, kept: _Gates) -> tuple[_Slopes, _Slopes]:
    i, f, g, o, shown = kept
    of_cell = g * i * (1.0 - i), carry[0] * f * (1.0 - f), i * (1.0 - g**2), f
    slopes = *of_cell, shown * o * (1.0 - o), o * (1.0 - shown**2)
    return slopes, slopes


def _lstm_change(slopes: _Slopes, d_carry: _Pair, d_gates: _Gates) -> _Pair:
    dc = _weighted_sum(slopes[:4], (*d_gates[:3], d_carry[0]))
    return dc, _weighted_sum(slopes[4:], (d_gates[3], dc))


def _weighted_sum(weights: Sequence[Array], terms: Sequence[Array]) -> Array:
    products = (weight * term for weight, term in zip(weights, terms, strict=True))
    return functools.reduce(jnp.add, products)


_GRU = _Kind(
    "rzn", _gru, _gru_slopes, lambda by, dh, d: _weighted_sum(by, (*d, dh)), lambda carry: carry
)
_LSTM = _Kind("ifgo", _lstm, _lstm_slopes, _lstm_change, lambda carry: carry[1])
_KINDS: dict[type[nn.RNNCellBase], _Kind] = {
    nn.GRUCell: _GRU,
    nn.LSTMCell: _LSTM,
    nn.OptimizedLSTMCell: _LSTM,
}


class MinGRUCell(nn.RNNCellBase):
    r"""The minimal gated recurrent unit, which processes the steps of a sequence in parallel.

    $$h_t = (1 - z_t) \, h_{t-1} + z_t \, \tilde h_t, \quad z_t = \sigma(W_z x_t + b_z),
    \quad \tilde h_t = W_h x_t + b_h$$

    Each memory is linear in the previous one, so on parallel hardware the time grows only
    logarithmically with the length of the sequence.

    Feng et al., 2024, "Were RNNs all we needed?", section 3.1.

    Attributes:
        features: Size of the memory.
    """

    features: int

    def setup(self) -> None:
        """Creates the layer for the gate and the candidate."""
        self.layer = Dense(2 * self.features)

    def __call__(
        self, carry: Float[Array, "features"], inputs: Float[Array, "inputs"]
    ) -> tuple[Float[Array, "features"], Float[Array, "features"]]:
        """Takes one step; returns the new memory twice, as carry and as output."""
        kept, added = self._kept_and_added(inputs)
        carry = kept * carry + added
        return carry, carry

    def unroll(
        self,
        carry: Float[Array, "features"],
        inputs: Float[Array, "time inputs"],
        first: Bool[Array, "time"],
    ) -> tuple[Float[Array, "time features"], Float[Array, "time features"]]:
        """Processes a sequence; returns the memories twice, as carries and as outputs."""
        kept, added = self._kept_and_added(inputs)
        kept = jnp.where(first[:, None], 0.0, kept)
        added = added.at[0].add(kept[0] * carry)

        def composed(before: _Pair, after: _Pair) -> _Pair:
            """Composes two maps of the form `kept * carry + added`."""
            return after[0] * before[0], after[0] * before[1] + after[1]

        _, carries = jax.lax.associative_scan(composed, (kept, added))
        return carries, carries

    @nn.nowrap
    def initialize_carry(
        self, rng: Array, input_shape: tuple[int, ...]
    ) -> Float[Array, "*batch features"]:
        """Returns a memory of zeros for inputs of the given shape."""
        return jnp.zeros((*input_shape[:-1], self.features))

    @property
    def num_feature_axes(self) -> int:
        """Number of feature axes of an input."""
        return 1

    def _kept_and_added(self, inputs: Float[Array, "*time inputs"]) -> tuple[Array, Array]:
        """The fraction of the memory to keep, and what to add to it."""
        gate, candidate = jnp.split(self.layer(inputs), 2, axis=-1)
        return nn.sigmoid(-gate), nn.sigmoid(gate) * candidate
