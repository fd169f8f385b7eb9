"""Action distributions: pytrees with `sample`, `log_prob`, `entropy` and `mode`; and joint ones."""

import functools
from abc import abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
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


class Joint(Reparametrised):
    r"""An action of independent parts, $\log \pi(a) = \sum_i \log \pi_i(a_i)$.

    ```python
    moves = ops.Joint(
        {"turn": ops.Categorical(logits), "speed": ops.Gaussian(mean, log_std)}
    )
    action = moves.sample(key)  # {"turn": ..., "speed": ...}
    ```

    Attributes:
        parts: Distributions in a dict or a tuple, which may be nested. Actions have its structure.
        stacked: Whether the parts of an action are stacked along a last axis of one array (static), as
            in a `MultiDiscrete` space.
    """

    parts: PyTree
    stacked: bool = struct.field(pytree_node=False, default=False)

    def noise(self, key: Key[Array, ""], shape: tuple[int, ...] = ()) -> PyTree:
        """Draws the random numbers of actions; for a part that has no noise, random keys."""
        parts, treedef = jax.tree.flatten(self.parts, is_leaf=_is_distribution)
        keys = jax.random.split(key, len(parts))
        drawn = [_noise(part, key, shape) for part, key in zip(parts, keys, strict=True)]
        return treedef.unflatten(drawn)

    def sample_from(self, noise: PyTree) -> PyTree:
        """The action made from the noise of one draw."""
        return self._stack(_map(_sample_from, self.parts, noise))

    def log_prob(self, action: PyTree) -> Float[Array, "*batch"]:
        """Log-probability (or log-density) of an action, in nats."""
        if self.stacked:
            action = self._split(action)
        return _sum(_map(lambda part, a: part.log_prob(a), self.parts, action))

    def entropy(self) -> Float[Array, "*batch"]:
        """Entropy, in nats."""
        return _sum(_map(lambda part: part.entropy(), self.parts))

    def mode(self) -> PyTree:
        """The greedy action of every part."""
        return self._stack(_map(lambda part: part.mode(), self.parts))

    def _stack(self, actions: PyTree) -> PyTree:
        return jnp.stack(jax.tree.leaves(actions), axis=-1) if self.stacked else actions

    def _split(self, action: Array) -> PyTree:
        treedef = jax.tree.structure(self.parts, is_leaf=_is_distribution)
        return treedef.unflatten([action[..., i] for i in range(treedef.num_leaves)])


def _noise(part: Distribution, key: Key[Array, ""], shape: tuple[int, ...]) -> PyTree:
    if isinstance(part, Reparametrised) and part.draws_noise:
        return part.noise(key, shape)
    return jax.random.split(key, shape)


def _sample_from(part: Distribution, noise: PyTree) -> PyTree:
    if isinstance(part, Reparametrised) and part.draws_noise:
        return part.sample_from(noise)
    return part.sample(noise)


def _map(function: Any, parts: PyTree, *trees: PyTree) -> PyTree:
    return jax.tree.map(function, parts, *trees, is_leaf=_is_distribution)


def _is_distribution(x: object) -> bool:
    return isinstance(x, Distribution)


def _sum(terms: PyTree) -> Float[Array, "*batch"]:
    return functools.reduce(jnp.add, jax.tree.leaves(terms))
