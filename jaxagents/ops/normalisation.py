"""Normalisation of batches."""

from jaxtyping import Array, Float


def standardise(x: Float[Array, "samples ..."], eps: float = 1e-8) -> Float[Array, "samples ..."]:
    r"""Shifts and scales `x` to zero mean and unit deviation over its first axis.

    $$\hat x_i = \frac{x_i - \bar x}{\sigma_x + \epsilon}$$

    Args:
        x: Samples along the first axis; every further axis (actors) is treated on its own.
        eps: Added to the standard deviation, so that constant samples give zeros.

    Returns:
        The standardised samples, shaped as `x`.
    """
    x = x - x[0]  # the mean of constant samples need not be exact, unless they are zeros
    return (x - x.mean(axis=0)) / (x.std(axis=0) + eps)
