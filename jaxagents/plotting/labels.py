"""Names of sets of hyperparameters: what they differ in."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float


def labels_of(sets: Mapping[str, Float[np.ndarray, "n_sets"]], n_sets: int) -> list[str]:
    """One label for each set, such as `learning_rate 0.001, ent_coeff 0.01`.

    Hyperparameters that have the same values in each set, such as two learning rates, are named once.

    Args:
        sets: Values by the full name of the hyperparameter; empty if they are not known.
        n_sets: Number of sets.

    Returns:
        The labels; numbers where the sets do not differ.
    """
    columns: dict[tuple[str, ...], list[str]] = {}
    for name, values in sets.items():
        texts = _texts(np.broadcast_to(values, n_sets))
        if len(set(texts)) > 1:
            columns.setdefault(texts, []).append(name)
    if not columns:
        return [f"set {number}" for number in range(n_sets)]
    titles = _titles(list(columns.values()))
    return [
        ", ".join(f"{title} {texts[number]}" for title, texts in zip(titles, columns, strict=True))
        for number in range(n_sets)
    ]


def _titles(groups: list[list[str]]) -> list[str]:
    """The last parts of names, if they tell the groups apart, or else the whole names."""
    short = [" and ".join(dict.fromkeys(name.split(".")[-1] for name in group)) for group in groups]
    if len(set(short)) == len(short):
        return short
    return [" and ".join(group) for group in groups]


def _texts(values: Float[np.ndarray, "n_sets"]) -> tuple[str, ...]:
    """Numbers with three digits if these tell them apart, or else all that they have."""
    numbers = [float(str(np.float32(value))) for value in values]
    short = tuple(f"{number:.3g}" for number in numbers)
    if len(set(short)) == len(set(numbers)):
        return short
    return tuple(f"{number:.9g}" for number in numbers)
