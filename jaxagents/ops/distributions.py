"""Action distributions: pytrees with `sample`, `log_prob`, `entropy` and `mode`."""

from abc import abstractmethod
from typing import Any, ClassVar

from flax import struct
from jaxtyping import Array, Float, Key, PyTree


class Distribution(struct.PyTreeNode):
    """A distribution over actions, possibly batched over leading axes (actors)."""

    @abstractmethod
    def sample(self, key: Key[Array, ""]) -> PyTree:
        """Draws one action."""

    @abstractmethod
    def log_prob(self, action: PyTree) -> Float[Array, "*batch"]:
        """Log-probability (or log-density) of an action, in nats."""

    def sample_and_log_prob(self, key: Key[Array, ""]) -> tuple[PyTree, Float[Array, "*batch"]]:
        """Draws one action, and gives its log-probability (or log-density) in nats."""
        action = self.sample(key)
        return action, self.log_prob(action)

    @abstractmethod
    def entropy(self) -> Float[Array, "*batch"]:
        """Entropy, in nats."""

    @abstractmethod
    def mode(self) -> PyTree:
        """The greedy action."""


class Reparametrised(Distribution):
    """A distribution whose action is a function of its parameters and of noise independent of them.

    Rollouts draw the noise of many steps at once. A subclass gives `noise` and `sample_from` in place of
    `sample`. If it gives `sample` itself, that is used.

    Attributes:
        draws_noise: Whether actions are drawn by `noise` and `sample_from`.
    """

    draws_noise: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Notes which of the two a subclass gives."""
        super().__init_subclass__(**kwargs)
        if "sample_from" in vars(cls):
            cls.draws_noise = True
        elif "sample" in vars(cls):
            cls.draws_noise = False

    @abstractmethod
    def noise(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> PyTree:
        """Draws the random numbers of actions.

        It may use only the shapes and types of the parameters: a rollout does not have their values
        yet.

        Args:
            key: Random key.
            shape: Shape of an array of independent draws; `()` for a single one.

        Returns:
            An array of the numbers, or a pytree of arrays, with the axes of `shape` first.
        """

    @abstractmethod
    def sample_from(self, noise: PyTree) -> PyTree:
        """The action made from the noise of one draw."""

    def sample(self, key: Key[Array, ""]) -> PyTree:
        """Draws one action."""
        return self.sample_from(self.noise(key))
