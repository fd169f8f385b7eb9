"""The names of leaves of pytrees, and checks of their structure, shapes and types."""

import jax
from jaxtyping import PyTree


def leaves_by_name(tree: PyTree) -> dict[str, PyTree]:
    """The leaves of a pytree by their paths, joined with slashes; a single leaf has the path `""`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def check_same_tree(
    first: PyTree, second: PyTree, what: str, first_name: str, second_name: str
) -> None:
    """Raises if two pytrees differ in structure, or in the shape or dtype of a leaf.

    Raises:
        ValueError: They differ; the first differing leaf is named.
    """
    check_same_structure(first, second, what, first_name, second_name)
    leaves = jax.tree_util.tree_leaves_with_path(first)
    for (path, a), b in zip(leaves, jax.tree.leaves(second), strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            leaf = jax.tree_util.keystr(path, simple=True, separator="/")
            raise ValueError(
                f"{what}{f' at {leaf}' if leaf else ''} is {shape_and_dtype(a)} from {first_name} but "
                f"{shape_and_dtype(b)} from {second_name}. Make both the same (for instance with "
                "jnp.asarray(x, dtype))."
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
    """Raises unless an output has as many elements as it should.

    Raises:
        ValueError: It is not one array of that size.
    """
    if not hasattr(x, "shape"):
        raise ValueError(f"{what} must be one array of shape {shape}, got {x}.")
    allowed = (shape, (*shape, 1)) if shape != () else ((), (1,))
    if x.shape not in allowed:
        raise ValueError(f"{what} must have shape {shape}, got {shape_and_dtype(x)}.")


def shape_and_dtype(x: PyTree) -> str:
    """The shape and dtype of an array, in words."""
    return f"shape {tuple(x.shape)} and dtype {x.dtype}"
