"""Random bits of fewer operations than Threefry, which would be a fifth of what tests compile."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import Array, lax
from jax._src.interpreters.mlir import _platform_specific_lowerings
from jax.extend.core.primitives import threefry2x32_p
from jax.interpreters import mlir

_of_jax = _platform_specific_lowerings["cpu"][threefry2x32_p].rule


def _scramble(x: Array) -> Array:
    """Each number as another, all of whose bits depend on all of its (`lowbias32` of C. Wellons)."""
    x = (x ^ lax.shift_right_logical(x, np.uint32(16))) * np.uint32(0x7FEB352D)
    x = (x ^ lax.shift_right_logical(x, np.uint32(15))) * np.uint32(0x846CA68B)
    return x ^ lax.shift_right_logical(x, np.uint32(16))


def _hash(key1: Array, key2: Array, count1: Array, count2: Array) -> list[Array]:
    """Two numbers of a key and of a count of two numbers each.

    XLA holds a remainder to be expensive. It would copy all the rest into whatever reads the numbers.
    """
    first = _scramble(count1 * np.uint32(0x9E3779B9) + key1)
    second = _scramble((count2 ^ first) * np.uint32(0x85EBCA6B) + key2)
    numbers = _scramble(second + first + np.uint32(0xC2B2AE35)), second
    return [lax.rem(number, np.uint32(0xFFFFFFFB)) for number in numbers]


_quick = mlir.lower_fun(jax.jit(_hash, inline=True), multiple_results=True)


def choose(is_quick: Callable[[], bool]) -> None:
    """Has programs for a CPU draw these bits where `is_quick` says so when they are compiled."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        return (_quick if is_quick() else _of_jax)(*args, **kwargs)

    mlir.register_lowering(threefry2x32_p, rule, platform="cpu")
