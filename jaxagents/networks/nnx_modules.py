"""Modules of flax.nnx, which are given as modules of flax.linen by flax's own bridge."""


def is_nnx(choice: object) -> bool:
    """Whether something is a module of flax.nnx, or a class of such, without importing flax.nnx."""
    kind = choice if isinstance(choice, type) else type(choice)
    return any(
        base.__name__ == "Module" and base.__module__.startswith("flax.nnx")
        for base in kind.__mro__
    )


def check_not_nnx(choice: object, field: str) -> None:
    """Raises if a module of flax.nnx is given where one of flax.linen is needed.

    Args:
        choice: What is given.
        field: Name of the field that it is given as.

    Raises:
        TypeError: It is.
    """
    if not is_nnx(choice):
        return
    kind = choice if isinstance(choice, type) else type(choice)
    raise TypeError(
        f"{field} must be a flax.linen module, and {kind.__name__} is one of flax.nnx, which holds its "
        f"parameters: give flax.nnx.bridge.to_linen({kind.__name__}, ...), with the arguments of its "
        "constructor but for rngs."
    )
