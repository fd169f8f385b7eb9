"""The report of an update: the numbers that describe it, and what was not finite."""

from typing import NamedTuple

from jaxtyping import Array, Bool


class Report(NamedTuple):
    """The outcome of an update, beside the runner after it.

    Attributes:
        numbers: Scalars that describe the update, such as losses and gradient norms, by name.
        nonfinite: Whether what each environment gave was not finite, by `"rewards"` and
            `"observations"`; empty for agents that do not play.
    """

    numbers: dict[str, Array]
    nonfinite: dict[str, Bool[Array, "environments"]] = {}

    def then(self, later: "Report") -> "Report":
        """The report of two updates that are made as one.

        Args:
            later: The report of the second.

        Returns:
            The numbers of both, the second's where both have one, and what was not finite in either.
        """
        nonfinite = dict(self.nonfinite)
        for name, flags in later.nonfinite.items():
            nonfinite[name] = flags | nonfinite[name] if name in nonfinite else flags
        return Report({**self.numbers, **later.numbers}, nonfinite)
