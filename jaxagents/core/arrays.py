"""Helpers for arrays, pytrees and random keys."""

import contextlib
import functools
import operator
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, ArrayLike, Bool, Int, Key, PyTree, UInt32

from jaxagents.core import numbers

AnyArray = Array | np.ndarray
ArrayT = TypeVar("ArrayT", Array, np.ndarray)

_NEED_VALUES = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
"""Errors of Python code that needs the values of arrays while JAX traces it."""
_LIBRARIES = {"jaxagents", "jax", "flax", "optax", "numpy", "contextlib", "functools"}
"""Packages whose functions are not a user's own."""
_NARROW = {np.dtype(kind + "8"): np.dtype(kind + "4") for kind in "fiu"}
"""64-bit dtypes, and their 32-bit replacements."""


def without_weak_types(tree: PyTree) -> PyTree:
    """Strips the weak types of Python scalars from a pytree; they would compile every program twice."""

    def strip(x: PyTree) -> PyTree:
        x = jnp.asarray(x)
        return x if is_key(x) else jax.lax.convert_element_type(x, x.dtype)

    return jax.tree.map(strip, tree)


def in_32_bits(tree: PyTree) -> PyTree:
    """Casts 64-bit arrays in a pytree to 32 bits; they only exist if JAX has them enabled."""
    return jax.tree.map(lambda x: x.astype(narrow(x.dtype)) if x.dtype in _NARROW else x, tree)


def in_single_precision(tree: PyTree) -> PyTree:
    """Casts half-precision arrays in a pytree to single precision."""

    def cast(x: Array) -> Array:
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        return x if x.dtype == dtype else x.astype(dtype)

    return jax.tree.map(cast, tree)


def with_widths_of(like: PyTree, tree: PyTree) -> PyTree:
    """Casts arrays in a pytree from 64 to 32 bits, or from 32 to 64.

    Args:
        like: A pytree with the target dtypes, as arrays or shapes.
        tree: The pytree; returned unchanged if its structure differs.

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
    """The 32-bit version of a 64-bit dtype; other dtypes unchanged."""
    return _NARROW.get(dtype, dtype)


def is_traced(x: PyTree) -> bool:
    """Whether a value is traced by a JAX transformation."""
    return isinstance(x, Tracer)


def is_on_host(tree: PyTree) -> bool:
    """Whether all leaves of a pytree are NumPy arrays or Python numbers."""
    return all(isinstance(x, np.ndarray | np.generic | int | float) for x in jax.tree.leaves(tree))


def to_host(tree: PyTree) -> PyTree:
    """Converts arrays to NumPy, and a single integer to an `int`, unless they are traced."""

    def convert(x: AnyArray) -> AnyArray | int:
        if is_traced(x):
            return x
        array = np.asarray(x)
        return int(array) if array.dtype.kind in "iu" and array.ndim == 0 else array

    return jax.tree.map(convert, tree)


def is_used_up(tree: PyTree) -> bool:
    """Whether any array of a pytree has been donated to a program."""
    arrays = [x for x in jax.tree.leaves(tree) if isinstance(x, Array) and not is_traced(x)]
    return any(x.is_deleted() for x in arrays)


def is_numeric(x: object) -> bool:
    """Whether an object is an array or a number."""
    return hasattr(x, "dtype") or isinstance(x, bool | int | float)


def is_key(x: PyTree) -> bool:
    """Whether an array holds typed random keys."""
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def stack(trees: Sequence[Any]) -> PyTree:
    """Stacks pytrees along a new leading axis, without compiling a program for every stack size."""

    def stacked(*leaves: Array) -> PyTree:
        return rebuild_of(leaves[0])(jax.device_put(np.stack([portable(x) for x in leaves])))

    return jax.tree.map(stacked, *trees)


def unstack(tree: PyTree) -> list[PyTree]:
    """Unstacks a pytree into copies, without compiling a program for every stack size.

    Args:
        tree: Arrays with a common leading axis.

    Returns:
        One pytree per index.
    """
    leaves, structure = jax.tree.flatten(tree)
    rebuilds, arrays = [rebuild_of(leaf) for leaf in leaves], [portable(leaf) for leaf in leaves]

    def at(index: int) -> PyTree:
        pairs = zip(rebuilds, arrays, strict=True)
        return structure.unflatten([rebuild(jnp.array(array[index])) for rebuild, array in pairs])

    return [at(index) for index in range(len(leaves[0]))]


def repeated(tree: PyTree, n: int) -> PyTree:
    """Repeats the arrays of a pytree `n` times, along a new first axis."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (n, *jnp.shape(x))), tree)


def atleast_nd(x: ArrayT, n_axes: int) -> ArrayT:
    """Adds leading axes of length 1 to an array.

    NumPy broadcasts like this implicitly; JAX does not if `jax_numpy_rank_promotion` forbids it.

    Args:
        x: The array.
        n_axes: Minimum number of axes.

    Returns:
        The array.
    """
    return x.reshape((1,) * (n_axes - x.ndim) + x.shape)


def beside(x: ArrayLike, *others: ArrayLike) -> list[Array]:
    """Adds leading axes to arrays so that they broadcast with another array.

    Args:
        x: The other array, or a number.
        *others: The arrays, or numbers.

    Returns:
        The arrays.
    """
    return [atleast_nd(jnp.asarray(array), jnp.ndim(x)) for array in others]


def select(condition: Array, if_true: PyTree, if_false: PyTree) -> PyTree:
    """Selects one of two pytrees of arrays.

    Args:
        condition: A boolean scalar.
        if_true: The pytree if it is true.
        if_false: The pytree if it is false.

    Returns:
        The selected pytree.
    """
    return jax.tree.map(functools.partial(jnp.where, condition), if_true, if_false)


def replace_rows(
    where: Bool[Array, "rows"],
    rows: PyTree,
    replacements: Callable[[Int[Array, "some"]], PyTree],
    at_once: int,
) -> PyTree:
    """Replaces some rows, a few at a time, so that a CPU does not compute replacements for all.

    Args:
        where: Which rows to replace.
        rows: Pytree of arrays with a leading axis.
        replacements: Maps row indices to their replacements. Out-of-range indices are padding.
        at_once: Number of indices per call.

    Returns:
        The pytree.
    """

    def replace(state: tuple[Array, PyTree]) -> tuple[Array, PyTree]:
        where, _ = state
        (some,) = jnp.nonzero(where, size=at_once, fill_value=len(where))
        new = False, replacements(some)
        return jax.tree.map(lambda x, y: x.at[some].set(y, mode="drop"), state, new)

    return jax.lax.while_loop(lambda state: state[0].any(), replace, (where, rows))[1]


def as_int32(number: ArrayLike) -> Int[Array, ""] | np.int32:
    """Converts to the only integer dtype that programs are compiled for; weak types would recompile.

    Raises:
        TypeError: It is not an integer.
    """
    if isinstance(number, Array):
        return jax.lax.convert_element_type(number, jnp.int32)
    return np.int32(operator.index(number))  # pyright: ignore[reportArgumentType]


def portable(array: AnyArray) -> AnyArray:
    """An array that can move to any device: a host array, unless it is split over processes."""
    if not _is_here(array):
        return array
    return np.asarray(jax.random.key_data(array) if is_key(array) else array)


def of_this_process(array: AnyArray) -> np.ndarray:
    """An array, or this process's part of an array that several processes share."""
    here = array if _is_here(array) else cast(Array, array).addressable_data(0)
    return np.asarray(portable(here))


def are_equal(one: PyTree, other: PyTree) -> bool:
    """Whether two pytrees of arrays are bit-for-bit identical, in this process's part of them."""

    def equal(x: AnyArray, y: AnyArray) -> bool:
        x, y = of_this_process(x), of_this_process(y)
        return (x.shape, x.dtype) == (y.shape, y.dtype) and x.tobytes() == y.tobytes()

    if jax.tree.structure(one) != jax.tree.structure(other):
        return False
    return all(map(equal, jax.tree.leaves(one), jax.tree.leaves(other)))


def rebuild_of(array: AnyArray) -> Callable[[Array], Array]:
    """The inverse of `portable` for an array, which also restores random keys."""
    if not (_is_here(array) and is_key(array)):
        return lambda portable: portable
    return functools.partial(jax.random.wrap_key_data, impl=jax.random.key_impl(array))


def _is_here(array: AnyArray) -> bool:
    """Whether the whole array is in this process."""
    return getattr(array, "is_fully_addressable", True)


def leaves_by_name(
    tree: PyTree, separator: str = "/", is_leaf: Callable[[Any], bool] | None = None
) -> dict[str, PyTree]:
    """The leaves of a pytree by path, joined with slashes; a single leaf has the path `""`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_leaf)
    return {jax.tree_util.keystr(path, simple=True, separator=separator): x for path, x in leaves}


def check_same_tree(
    first: PyTree, second: PyTree, what: str, first_name: str, second_name: str
) -> None:
    """Raises if two pytrees differ in structure, or in the shape or dtype of a leaf.

    Raises:
        ValueError: They differ; the error names the first differing leaf.
    """
    check_same_structure(first, second, what, first_name, second_name)
    for (leaf, a), b in zip(leaves_by_name(first).items(), jax.tree.leaves(second), strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError(
                f"{what}{f' at {leaf}' if leaf else ''} has {shape_and_dtype(a)} from "
                f"{first_name} but {shape_and_dtype(b)} from {second_name}. Make both the same "
                "(for instance with jnp.asarray(x, dtype))."
            )


def check_same_structure(
    first: PyTree, second: PyTree, what: str, first_name: str, second_name: str
) -> None:
    """Raises if two pytrees differ in structure.

    Raises:
        ValueError: They differ.
    """
    structures = jax.tree.structure(first), jax.tree.structure(second)
    if structures[0] != structures[1]:
        raise ValueError(
            f"{what} of {first_name} and {second_name} differ in structure: "
            f"{structures[0]} and {structures[1]}."
        )


def check_size(x: PyTree, shape: tuple[int, ...], what: str) -> None:
    """Raises unless an output is an array of the given shape, or with an extra axis of length 1.

    Raises:
        ValueError: It is not.
    """
    if not hasattr(x, "shape"):
        raise ValueError(f"{what} must be one array of shape {shape}, got {x}.")
    allowed = (shape, (*shape, 1)) if shape != () else ((), (1,))
    if x.shape not in allowed:
        raise ValueError(f"{what} must have shape {shape}, got {shape_and_dtype(x)}.")


def shape_and_dtype(x: PyTree) -> str:
    """The shape and dtype of an array, as text."""
    return f"shape {tuple(x.shape)} and dtype {x.dtype}"


RandomKey = Key[Array, "..."] | UInt32[Array, "... 2"]
"""Random keys, typed (`jax.random.key`) or raw (`jax.random.PRNGKey`)."""

Seed = RandomKey | int
"""A random key, or an integer seed for `jax.random.key`."""


def as_key(rng: Any, example: str = "jax.random.key(0), or a seed such as 0") -> Key[Array, "..."]:
    """Converts a typed key, a raw `jax.random.PRNGKey` or an integer to a typed random key.

    Args:
        rng: Typed keys of any shape, raw keys with a trailing axis of two words, or a 32-bit integer
            (64-bit with `jax_enable_x64`).
        example: A valid argument, for the error.

    Returns:
        The typed keys.

    Raises:
        TypeError: `rng` is none of these.
        ValueError: The integer has more bits.
    """
    dtype = getattr(rng, "dtype", None)
    if dtype is not None and is_key(rng):
        return rng
    if dtype == jnp.uint32 and jnp.ndim(rng) > 0:
        return jax.random.wrap_key_data(jnp.asarray(rng))
    if jnp.issubdtype(dtype or type(rng), jnp.integer) and jnp.ndim(rng) == 0:
        keeps_64_bits = jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]
        return jax.random.key(rng if is_traced(rng) or keeps_64_bits else numbers.seed("seed", rng))
    given = f"a value of {shape_and_dtype(rng)}" if is_traced(rng) else repr(rng)
    raise TypeError(f"Expected a random key such as {example}, got {given}.")


def as_keys(rngs: Any) -> Key[Array, "..."]:
    """Converts keys or integer seeds to typed random keys.

    Args:
        rngs: Keys, as for `as_key`, or a sequence of integers.

    Returns:
        The typed keys.

    Raises:
        TypeError: `rngs` is neither.
        ValueError: An integer has too many bits for a seed.
    """
    is_array = hasattr(rngs, "dtype")  # unsigned integers are a raw key
    are_seeds = is_array and jnp.issubdtype(rngs.dtype, jnp.signedinteger) and rngs.ndim == 1
    if (are_seeds or isinstance(rngs, Sequence)) and len(rngs):
        return jnp.stack([as_key(rng) for rng in rngs])
    return as_key(rngs, "jax.random.split(jax.random.key(0), 4), one for each seed")


def implementation_of(key: Any) -> Any:
    """The implementation of typed random keys, for `jax.random.key`.

    Args:
        key: The keys; a shape and dtype are enough.

    Returns:
        Its name, such as `"rbg"`, or an object if JAX has no name for it.
    """
    return jax.random.key_impl(jnp.empty((), key.dtype))


def single_key(rng: Any, what: str) -> Key[Array, ""]:
    """Converts one key or integer seed to a typed random key.

    Args:
        rng: The key, typed or raw, or an integer.
        what: Name of the function that takes it.

    Returns:
        The typed key.

    Raises:
        TypeError: It is not a random key.
        ValueError: There are several keys, or the integer has too many bits for a seed.
    """
    key = as_key(rng)
    if key.ndim:
        raise ValueError(
            f"{what} takes one random key, got keys of shape {key.shape}: for one run with each, use "
            "agent.sweep or jax.vmap."
        )
    return key


@contextlib.contextmanager
def written_in_jax(what: str, advice: str = "") -> Iterator[None]:
    """Explains errors of code that needs the values of arrays while it is traced.

    Args:
        what: The traced code. The message also names the user's own function that failed.
        advice: An additional sentence of the message.

    Raises:
        TypeError: The code has an `if` on an array, or the like.
    """
    try:
        yield
    except _NEED_VALUES as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        names = [
            frame.f_code.co_qualname.rpartition("<locals>.")[2]
            for frame in frames
            if frame.f_globals["__name__"].partition(".")[0] not in _LIBRARIES
        ]
        named = [name for name in names[-1:] if name != what and not name.startswith("<")]
        raise TypeError(
            f"{what} cannot be compiled: {named[0] if named else 'it'} reads the value "
            "of an array, in an if, float(), int(), bool() or a NumPy function, but arrays have no "
            "values while JAX compiles. Use jax.numpy functions, and jnp.where(condition, a, b) or "
            f"jax.lax.cond instead of if. {advice}".rstrip()
        ) from error
