"""Networks whose observations are normalised by running statistics."""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.tree_util import KeyPath
from jaxtyping import Array, PyTree

from jaxagents import ops
from jaxagents.core.observed import actor_mask, is_of_mask
from jaxagents.networks.recurrent import NetworkWrapper
from jaxagents.networks.torsos import IMAGE_NDIM

OBSERVED = "observed"
"""The collection of variables that change with observations, not by gradients."""
_MOMENTS = "moments"


class RunningNorm(nn.Module):
    """Normalises observations by running moments.

    Real numbers, vectors and tables are shifted, scaled and clipped, each of their numbers by itself.
    Images (three axes or more), masks and integers are left alone. The example with which the network is
    initialised sets the shape of one observation; later ones may have leading axes. If observations have
    an entry `"actor_mask"`, actors that have left are not counted.

    Attributes:
        clip: Largest absolute value.
    """

    clip: float = 10.0

    @nn.compact
    def __call__(self, observations: PyTree) -> PyTree:
        """Normalises observations; nothing is changed before some have been observed, but for the clip.

        Args:
            observations: One observation, or a batch of them.

        Returns:
            The observations, normalised.
        """
        leaves, structure = jax.tree_util.tree_flatten_with_path(observations)
        parts = [(path, jnp.asarray(leaf)) for path, leaf in leaves]
        mask = actor_mask(observations)
        variable = self.variable(
            OBSERVED, _MOMENTS, lambda: tuple(_moments_for(*part, mask) for part in parts)
        )
        pairs = zip((x for _, x in parts), variable.value, strict=True)
        return jax.tree.unflatten(structure, [self._normalised(*pair) for pair in pairs])

    def observe(self, observations: PyTree) -> None:
        """Adds observations to the moments.

        Args:
            observations: Observations with leading axes, or the moments of each of their arrays; the
                moments of arrays that are left alone are ignored.
        """
        leaves = jax.tree.leaves(observations, is_leaf=lambda x: isinstance(x, ops.Moments))
        mask = actor_mask(observations)
        pairs = zip(leaves, self.get_variable(OBSERVED, _MOMENTS), strict=True)
        self.put_variable(OBSERVED, _MOMENTS, tuple(_after(*pair, mask) for pair in pairs))

    def _normalised(self, x: Array, moments: ops.Moments | None) -> Array:
        return x if moments is None else ops.normalise(x, moments, self.clip)


class Normalised(NetworkWrapper):
    """A network whose observations are normalised by running statistics.

    ```python
    actor = Normalised(CategoricalActor(n_actions=2))
    state = TrainState.from_variables(actor, actor.init(key, observation))
    state = state.observe(observations)
    ```

    The moments are variables of the network, in the collection `observed`: they are saved, copied and
    exported with its parameters, and only
    [`TrainState.observe`][jaxagents.learners.train_state.TrainState.observe] changes them. It goes
    around [`PerActor`][jaxagents.networks.PerActor] and encoders.

    Attributes:
        network: The network, with or without a memory, which takes normalised observations.
        clip: Largest absolute value of a normalised number.
    """

    clip: float = 10.0

    def setup(self) -> None:
        """Makes the statistics."""
        self.statistics = RunningNorm(self.clip)

    def view_of(self, obs: PyTree) -> PyTree:
        """The observations, normalised."""
        return self.statistics(obs)

    def observe(self, observations: PyTree) -> None:
        """Adds observations, with leading axes, to the statistics."""
        self.statistics.observe(observations)


def normalised(network: nn.Module) -> nn.Module:
    """A network, with or without a memory, whose observations are normalised.

    Args:
        network: The network.

    Returns:
        The network around it; the network itself, if it is one already.
    """
    return network if isinstance(network, Normalised) else Normalised(network)


def _moments_for(path: KeyPath, leaf: Array, mask: PyTree) -> ops.Moments | None:
    """The moments of a part of observations before any; `None` if it is left alone."""
    is_real = jnp.issubdtype(leaf.dtype, jnp.floating)
    if not is_real or is_of_mask(path) or leaf.ndim >= IMAGE_NDIM:
        return None
    if mask is None or leaf.ndim == 1 or leaf.shape[:1] != mask.shape:
        return ops.no_moments(leaf.shape)
    return ops.no_moments(leaf.shape, (*mask.shape, 1))


def _after(
    seen: Array | ops.Moments, moments: ops.Moments | None, mask: PyTree
) -> ops.Moments | None:
    if moments is None:
        return None
    if not isinstance(seen, ops.Moments):
        weights = mask[..., None].astype(jnp.float32) if moments.count.ndim else None
        n_axes = jnp.ndim(seen) - moments.mean.ndim
        seen = ops.moments_of(jnp.asarray(seen), n_axes, weights)
    return ops.merge_moments(moments, seen)
