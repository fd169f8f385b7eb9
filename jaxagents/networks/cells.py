"""Sequences of the gated cells of Flax, in fewer and larger products than one step after the other."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, PyTree

from jaxagents.core.arrays import select
from jaxagents.networks.dense import matmul

_Sums = tuple[Float[Array, "*time features"], ...]
"""What the nonlinearities of a cell are given, or what the input or the memory adds to that."""


class _Kind(NamedTuple):
    """A kind of cell.

    Attributes:
        letters: How Flax calls its gates.
        sums: Maps what its gates are given by the input, and by the memory, to sums.
        step: Maps a memory and sums to the memory afterwards, and numbers that `change` needs.
        change: The derivative of the memory afterwards: maps the memory before, those numbers, and the
            changes of the memory and of the sums to that of the memory afterwards.
        output: The part of a memory that the gates see, which is also the cell's output.
    """

    letters: str
    sums: Callable[[_Sums, _Sums], _Sums]
    step: Callable[[PyTree, _Sums], tuple[PyTree, PyTree]]
    change: Callable[[PyTree, PyTree, PyTree, _Sums], PyTree]
    output: Callable[[PyTree], Array]


class _Layer(NamedTuple):
    """The weights of all gates, side by side."""

    kernel: Float[Array, "inputs gates"]
    bias: Float[Array, "gates"]


def unrolls_gates(cell: nn.RNNCellBase) -> bool:
    """Whether `unroll_gates` has the equations of a cell."""
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
    """Takes the steps of a sequence by a cell of Flax.

    What the gates are given by the inputs is one product for all steps, and so is the gradient of the
    weights of the memory, instead of a sum that is read and written at each step.

    Args:
        cell: A cell that `unrolls_gates`, bound to its parameters.
        initial: The memory at the start of an episode.
        carry: The memory before the first step.
        inputs: The inputs.
        first: Whether a new episode, with a fresh memory, starts at a step.

    Returns:
        The memories after each step, and the outputs.
    """
    kind = _KINDS[type(cell)]
    by_inputs = _apply(_joined(cell, "i", kind), inputs, kind)
    carries = _recur(kind, _joined(cell, "h", kind), initial, carry, by_inputs, first)
    return carries, kind.output(carries)


def _joined(cell: nn.RNNCellBase, source: str, kind: _Kind) -> _Layer:
    """The weights for the inputs (`"i"`) or for the memory (`"h"`)."""
    layers = [cell.variables["params"][source + letter] for letter in kind.letters]
    kernels = [layer["kernel"] for layer in layers]
    biases = [layer.get("bias", jnp.zeros_like(kernels[0][0])) for layer in layers]
    return _Layer(jnp.concatenate(kernels, axis=-1), jnp.concatenate(biases))


def _apply(layer: _Layer, x: Float[Array, "*time inputs"], kind: _Kind) -> _Sums:
    """What all gates are given by inputs or memories."""
    rows = x[None] if x.ndim == 1 else x
    product = matmul(rows, layer.kernel).reshape(*x.shape[:-1], -1)
    return tuple(jnp.split(product + layer.bias, len(kind.letters), axis=-1))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _recur(
    kind: _Kind,
    layer: _Layer,
    initial: PyTree,
    carry: PyTree,
    by_inputs: _Sums,
    first: Bool[Array, "time"],
) -> PyTree:
    """The memories after each step."""
    return _in_turn(kind, layer, initial, carry, by_inputs, first)[0]


def _in_turn(
    kind: _Kind,
    layer: _Layer,
    initial: PyTree,
    carry: PyTree,
    by_inputs: _Sums,
    first: Bool[Array, "time"],
) -> tuple[PyTree, PyTree]:
    """The memories after each step, and what the derivative needs."""

    def take(carry: PyTree, at_t: tuple[_Sums, Array]) -> tuple[PyTree, PyTree]:
        by_input, first = at_t
        before = select(first, initial, carry)
        sums = kind.sums(by_input, _apply(layer, kind.output(before), kind))
        after, kept = kind.step(before, sums)
        return after, (after, kept)

    return jax.lax.scan(take, carry, (by_inputs, first))[1]


@_recur.defjvp
def _(kind: _Kind, primals: PyTree, tangents: PyTree) -> tuple[PyTree, PyTree]:
    """The memories, and their change, of which that by the weights is one product for all steps."""
    layer, initial, carry, _, first = primals
    d_layer, d_initial, d_carry, d_by_inputs, _ = tangents
    after, kept = _in_turn(kind, *primals)
    before = jax.tree.map(lambda x, y: jnp.concatenate([x[None], y[:-1]]), carry, after)
    before = jax.vmap(select, (0, None, 0))(first, initial, before)
    d_sums = kind.sums(d_by_inputs, _apply(d_layer, kind.output(before), kind))
    linear = layer._replace(bias=jnp.zeros_like(layer.bias))
    no_inputs = jax.tree.map(lambda x: jnp.zeros_like(x[0]), d_by_inputs)

    def take(d_carry: PyTree, at_t: PyTree) -> tuple[PyTree, PyTree]:
        first, before, kept, d_sums = at_t
        d_before = select(first, d_initial, d_carry)
        by_memory = kind.sums(no_inputs, _apply(linear, kind.output(d_before), kind))
        d_sums = jax.tree.map(jnp.add, d_sums, by_memory)
        d_after = kind.change(before, kept, d_before, d_sums)
        return d_after, d_after

    return after, jax.lax.scan(take, d_carry, (first, before, kept, d_sums))[1]


def _gru_sums(by_input: _Sums, by_memory: _Sums) -> _Sums:
    (r_x, z_x, n_x), (r_h, z_h, n_h) = by_input, by_memory
    return r_x + r_h, z_x + z_h, n_x, n_h


def _gru(h: Array, sums: _Sums) -> tuple[Array, _Sums]:
    r, z = nn.sigmoid(sums[0]), nn.sigmoid(sums[1])
    n = nn.tanh(sums[2] + r * sums[3])
    return (1.0 - z) * n + z * h, (r, z, n, sums[3])


def _gru_change(h: Array, kept: _Sums, dh: Array, d_sums: _Sums) -> Array:
    r, z, n, n_h = kept
    dr, dz = r * (1.0 - r) * d_sums[0], z * (1.0 - z) * d_sums[1]
    dn = (1.0 - n**2) * (d_sums[2] + r * d_sums[3] + n_h * dr)
    return (1.0 - z) * dn + (h - n) * dz + z * dh


def _lstm_sums(by_input: _Sums, by_memory: _Sums) -> _Sums:
    return tuple(x + h for x, h in zip(by_input, by_memory, strict=True))


def _lstm(carry: tuple[Array, Array], sums: _Sums) -> tuple[tuple[Array, Array], _Sums]:
    i, f, o = (nn.sigmoid(sums[k]) for k in (0, 1, 3))
    g = nn.tanh(sums[2])
    c = f * carry[0] + i * g
    shown = nn.tanh(c)
    return (c, o * shown), (i, f, g, o, shown)


def _lstm_change(
    carry: tuple[Array, Array], kept: _Sums, d_carry: tuple[Array, Array], d_sums: _Sums
) -> tuple[Array, Array]:
    i, f, g, o, shown = kept
    di, df, do = (y * (1.0 - y) * d_sums[k] for k, y in ((0, i), (1, f), (3, o)))
    dg = (1.0 - g**2) * d_sums[2]
    dc = f * d_carry[0] + df * carry[0] + i * dg + di * g
    return dc, do * shown + o * (1.0 - shown**2) * dc


_LSTM = _Kind("ifgo", _lstm_sums, _lstm, _lstm_change, lambda carry: carry[1])
_KINDS: dict[type[nn.RNNCellBase], _Kind] = {
    nn.GRUCell: _Kind("rzn", _gru_sums, _gru, _gru_change, lambda carry: carry),
    nn.LSTMCell: _LSTM,
    nn.OptimizedLSTMCell: _LSTM,
}
