"""The learners that can be trained on the host."""

from typing import Protocol, Self, TypeGuard, TypeVar

from jaxtyping import Array, Key, PyTree

from jaxagents.learners.learner import Batch, Info, Learner


class LearnerLike(Protocol):
    """A pytree that learns and acts, such as a [`Learner`][jaxagents.learners.learner.Learner]."""

    def update_many(self, batches: Batch, /) -> tuple[Self, Info]:
        """Learns from several batches, one after another.

        Args:
            batches: Arrays with leading axes of batches and of transitions.

        Returns:
            The learner afterwards, and arrays with one number for each update.
        """
        ...

    def sample_actions(
        self, observations: PyTree, /, *, seed: Key[Array, ""] | None = None
    ) -> Array:
        """The action for one observation.

        Args:
            observations: The observation.
            seed: Random key; without one, the mode of the distribution is taken.

        Returns:
            The action; in [-1, 1] if it is continuous.
        """
        ...


LearnerT = TypeVar("LearnerT", bound=LearnerLike)


def observes(learner: object) -> TypeGuard[Learner]:
    """Whether a learner has running statistics of its observations."""
    return isinstance(learner, Learner) and learner.observes
