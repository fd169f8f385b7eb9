"""Names that are given twice."""

from collections.abc import Collection, Iterable


def check_not_taken(what: str, names: Iterable[str], taken: Collection[str], whose: str) -> None:
    """Raises if something gives names that are taken.

    Args:
        what: What gives them, with its verb, such as "DQNLearner._loss reports".
        names: The names.
        taken: Those that are taken.
        whose: What these are, such as "which updates report themselves".

    Raises:
        ValueError: It does.
    """
    both = [name for name in names if name in taken]
    if both:
        raise ValueError(f"{what} {both}, {whose}: rename it.")
