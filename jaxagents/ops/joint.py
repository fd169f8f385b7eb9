"""Distributions of actions that are made of parts."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Key, PyTree

from jaxagents.ops.distributions import Distribution, Reparametrised


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
            those of a space of several discrete actions are.
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
