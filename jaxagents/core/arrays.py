"""Arrays."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Int, PyTree

AnyArray = Array | np.ndarray
ArrayT = TypeVar("ArrayT", Array, np.ndarray)

_NARROW = {np.dtype(kind + "8"): np.dtype(kind + "4") for kind in "fiu"}
"""Types of 64 bits, and the types of 32 bits in their place."""


def without_weak_types(tree: PyTree) -> PyTree:
    """Strips the weak types of Python scalars from a pytree, which compile every program twice."""

    def strip(x: PyTree) -> PyTree:
        x = jnp.asarray(x)
        return x if is_key(x) else jax.lax.convert_element_type(x, x.dtype)

    return jax.tree.map(strip, tree)


def in_32_bits(tree: PyTree) -> PyTree:
    """Casts numbers of 64 bits in a pytree; unless JAX is set to have them, there are none."""
    return jax.tree.map(lambda x: x.astype(narrow(x.dtype)) if x.dtype in _NARROW else x, tree)


def in_single_precision(tree: PyTree) -> PyTree:
    """Casts numbers of half precision in a pytree."""

    def cast(x: Array) -> Array:
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        return x if x.dtype == dtype else x.astype(dtype)

    return jax.tree.map(cast, tree)


def with_widths_of(like: PyTree, tree: PyTree) -> PyTree:
    """Casts the numbers of a pytree that have 64 bits instead of 32, or 32 instead of 64.

    Args:
        like: A pytree with the dtypes to have, as arrays or shapes.
        tree: The pytree, which is left alone if it is structured differently.

    Returns:
        The pytree.
    """

    def cast(like: Array, x: Array) -> Array:
        differ_in_width = x.dtype != like.dtype and narrow(x.dtype) == narrow(like.dtype)
        return x.astype(like.dtype) if differ_in_width else x

    if jax.tree.structure(like) != jax.tree.structure(tree):
        return tree
    return jax.tree.map(cast, like, tree)


def narrow(dtype: np.dtype) -> np.dtype:
    """The dtype of 32 bits for one of 64, and any other as it is."""
    return _NARROW.get(dtype, dtype)


def is_traced(x: PyTree) -> bool:
    """Whether a value is traced by a JAX transformation."""
    return isinstance(x, Tracer)


def is_numeric(x: object) -> bool:
    """Whether something is an array or a number."""
    return hasattr(x, "dtype") or isinstance(x, bool | int | float)


def is_key(x: PyTree) -> bool:
    """Whether an array holds typed random keys."""
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def stack(trees: Sequence[Any]) -> PyTree:
    """Stacks pytrees along a new leading axis, without compiling a program for each number of them."""

    def stacked(*leaves: Array) -> PyTree:
        return rebuild_of(leaves[0])(jax.device_put(np.stack([portable(x) for x in leaves])))

    return jax.tree.map(stacked, *trees)


def unstack(tree: PyTree) -> list[PyTree]:
    """The pytrees of a stack, as copies, without compiling a program for each number of them.

    Args:
        tree: Arrays with a common leading axis.

    Returns:
        One pytree for each index.
    """
    leaves, structure = jax.tree.flatten(tree)
    rebuilds, arrays = [rebuild_of(leaf) for leaf in leaves], [portable(leaf) for leaf in leaves]

    def at(index: int) -> PyTree:
        pairs = zip(rebuilds, arrays, strict=True)
        return structure.unflatten([rebuild(jnp.array(array[index])) for rebuild, array in pairs])

    return [at(index) for index in range(len(leaves[0]))]


def atleast_nd(x: ArrayT, n_axes: int) -> ArrayT:
    """An array with axes of length 1 put before its own, so that it has as many as another.

    NumPy broadcasts so without being asked. JAX does not where `jax_numpy_rank_promotion` forbids it.

    Args:
        x: The array.
        n_axes: Number of axes to have at least.

    Returns:
        The array.
    """
    return x.reshape((1,) * (n_axes - x.ndim) + x.shape)


def beside(x: ArrayLike, *others: ArrayLike) -> list[Array]:
    """Arrays with at least as many axes as another, with which they are to be computed.

    Args:
        x: The other array, or a number.
        *others: The arrays, or numbers.

    Returns:
        The arrays.
    """
    return [atleast_nd(jnp.asarray(array), jnp.ndim(x)) for array in others]


def select(condition: Array, if_true: PyTree, if_false: PyTree) -> PyTree:
    """One of two pytrees of arrays.

    Args:
        condition: A single truth value.
        if_true: The pytree if it holds.
        if_false: The pytree if it does not.

    Returns:
        The pytree.
    """
    return jax.tree.map(functools.partial(jnp.where, condition), if_true, if_false)


def as_int32(number: ArrayLike) -> Int[Array, ""] | np.int32:
    """An integer, of the one type that programs are compiled for; weak types compile them again.

    Raises:
        TypeError: It is not an integer.
    """
    if isinstance(number, Array):
        return jax.lax.convert_element_type(number, jnp.int32)
    return np.int32(operator.index(number))  # pyright: ignore[reportArgumentType]


def in_float32(numbers: PyTree) -> PyTree:
    """Numbers of the one type that programs are compiled for, whether they are Python's or arrays.

    Args:
        numbers: A pytree of numbers. Traced ones are left alone.

    Returns:
        The pytree.
    """

    def cast(x: ArrayLike) -> ArrayLike:
        return x if isinstance(x, Array) else np.asarray(x, np.float32)

    return jax.tree.map(cast, numbers)


def portable(array: AnyArray) -> AnyArray:
    """An array that can be put on any devices: on the host, unless it is split over processes."""
    if not _is_here(array):
        return array
    return np.asarray(jax.random.key_data(array) if is_key(array) else array)


def of_this_process(array: AnyArray) -> np.ndarray:
    """An array, or this process's part of one that several processes share."""
    here = array if _is_here(array) else cast(Array, array).addressable_data(0)
    return np.asarray(portable(here))


def are_equal(one: PyTree, other: PyTree) -> bool:
    """Whether two pytrees of arrays are the same bit for bit, as far as they are in this process."""

    def equal(x: AnyArray, y: AnyArray) -> bool:
        x, y = of_this_process(x), of_this_process(y)
        return (x.shape, x.dtype) == (y.shape, y.dtype) and x.tobytes() == y.tobytes()

    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    return all(map(equal, jax.tree.leaves(one), jax.tree.leaves(other)))


def rebuild_of(array: AnyArray) -> Callable[[Array], Array]:
    """The function that turns a portable array back into the array, random keys included."""
    if not (_is_here(array) and is_key(array)):
        return lambda portable: portable
    return functools.partial(jax.random.wrap_key_data, impl=jax.random.key_impl(array))


def _is_here(array: AnyArray) -> bool:
    """Whether all of an array is in this process."""
    return getattr(array, "is_fully_addressable", True)
