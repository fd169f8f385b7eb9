"""Network wrappers: action masks, centralised critics and normalised observations."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.tree_util import KeyPath
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from jaxagents import ops
from jaxagents.core.observed import action_mask, actor_mask, critic_state, is_of_mask, network_input
from jaxagents.networks.recurrent import NetworkWrapper, remembers
from jaxagents.networks.torsos import IMAGE_NDIM


class ObservationOnly(NetworkWrapper):
    """Hides masks and the centralised critic's state from a network.

    Attributes:
        network: Takes observations without their entries `"action_mask"`, `"actor_mask"` and
            `"critic_state"`. If only an entry `"observation"` is left, it takes that entry.
    """

    def view_of(self, obs: PyTree) -> PyTree:
        """Returns the part of observations that the network sees."""
        return network_input(obs)


class Masked(ObservationOnly):
    """A policy that never takes forbidden actions.

    ```python
    actor = Masked(CategoricalActor(n_actions=9))
    logits = actor.apply(
        variables, {"observation": board, "action_mask": board == 0}
    )
    ```

    Attributes:
        network: Maps observations without their entry `"action_mask"` to logits or an
            [`ops.Categorical`][jaxagents.ops.Categorical].
    """

    def output_for(self, obs: PyTree, output: PyTree) -> PyTree:
        """Sets the logits of forbidden actions to minus infinity.

        Raises:
            TypeError: The output is neither logits nor an `ops.Categorical`.
            ValueError: The number of logits differs from the number of actions.
        """
        return _masked(output, action_mask(obs))


class MaskedPolicy(Masked):
    """Like `Masked`, for a network that also takes a temperature, applied after the mask.

    Attributes:
        network: Maps observations without their entry `"action_mask"`, and a temperature, to an
            [`ops.Categorical`][jaxagents.ops.Categorical]; to any distribution if nothing is masked.
    """

    def __call__(self, *inputs: PyTree, temperature: ArrayLike = 1.0, **options: Any) -> PyTree:
        """Takes one step; see `NetworkWrapper`."""
        masked = action_mask(inputs[-1]) is not None
        # At temperature 0 the network would only keep its best action, allowed or not.
        inner = 1.0 if masked else temperature
        output = super().__call__(*inputs, temperature=inner, **options)
        if not masked:
            return output
        *carry, actions = output if remembers(self) else (output,)
        return (*carry, actions.tempered(temperature)) if carry else actions.tempered(temperature)

    def unroll(
        self,
        carry: PyTree,
        obs: PyTree,
        first: Bool[Array, "time"],
        temperature: ArrayLike = 1.0,
        **options: Any,
    ) -> tuple[PyTree, PyTree]:
        """Unrolls the network over a sequence; see `NetworkWrapper`."""
        masked = action_mask(obs) is not None
        inner = 1.0 if masked else temperature
        carries, outputs = super().unroll(carry, obs, first, temperature=inner, **options)
        return carries, outputs.tempered(temperature) if masked else outputs


class CriticView(ObservationOnly):
    """A centralised critic, which sees the environment's state, or else all actors' observations.

    Attributes:
        network: Takes the entry `"critic_state"` of observations or, if they have none, the same input
            as in [`ObservationOnly`][jaxagents.networks.ObservationOnly].
    """

    def view_of(self, obs: PyTree) -> PyTree:
        """Returns the part of observations that the network sees."""
        state = critic_state(obs)
        return network_input(obs) if state is None else state


def _masked(output: PyTree, mask: PyTree) -> PyTree:
    if mask is None:
        return output
    if isinstance(mask, Mapping):
        return {name: _masked(part, mask.get(name)) for name, part in output.items()}
    if isinstance(mask, tuple | list):
        return tuple(_masked(*parts) for parts in zip(output, mask, strict=True))
    if isinstance(output, ops.Categorical):
        return output.masked(mask)
    if not hasattr(output, "dtype"):
        raise TypeError(
            "An action mask needs a network that outputs logits, one for each action, or an "
            f"ops.Categorical, got {type(output).__name__}."
        )
    if output.shape[-1:] != mask.shape[-1:]:
        raise ValueError(
            f"The mask has {mask.shape[-1]} actions, but the network outputs logits of shape "
            f"{output.shape}: it must output one for each action."
        )
    return ops.among_allowed(output, mask)


OBSERVED = "observed"
"""The collection of variables that observations update, not gradients."""
_MOMENTS = "moments"


class RunningNorm(nn.Module):
    """Normalises observations by running moments.

    Real-valued scalars, vectors and matrices are shifted, scaled and clipped elementwise. Images (three
    axes or more), masks and integers are left unchanged. The example used to initialise the network sets
    the shape of one observation; later ones may have leading axes. If observations have an entry
    `"actor_mask"`, actors that have left do not count.

    Attributes:
        clip: Largest absolute value of a normalised number.
    """

    clip: float = 10.0

    @nn.compact
    def __call__(self, observations: PyTree) -> PyTree:
        """Normalises observations; before any have been observed, it only clips them.

        Args:
            observations: One observation, or a batch of them.

        Returns:
            The normalised observations.
        """
        leaves, structure = jax.tree_util.tree_flatten_with_path(observations)
        parts = [(path, jnp.asarray(leaf)) for path, leaf in leaves]
        mask = actor_mask(observations)
        variable = self.variable(
            OBSERVED, _MOMENTS, lambda: tuple(_moments_for(*part, mask) for part in parts)
        )
        pairs = zip((x for _, x in parts), variable.value, strict=True)
        normalised = [x if m is None else ops.normalise(x, m, self.clip) for x, m in pairs]
        return jax.tree.unflatten(structure, normalised)

    def observe(self, observations: PyTree) -> None:
        """Updates the moments with observations.

        Args:
            observations: Observations with leading axes, or the moments of each array. Moments of
                arrays that are not normalised are ignored.
        """
        leaves = jax.tree.leaves(observations, is_leaf=lambda x: isinstance(x, ops.Moments))
        mask = actor_mask(observations)
        pairs = zip(leaves, self.get_variable(OBSERVED, _MOMENTS), strict=True)
        self.put_variable(OBSERVED, _MOMENTS, tuple(_after(*pair, mask) for pair in pairs))


class Normalised(NetworkWrapper):
    """A network that sees observations normalised by running statistics.

    ```python
    actor = Normalised(CategoricalActor(n_actions=2))
    state = TrainState.from_variables(actor, actor.init(key, observation))
    state = state.observe(observations)
    ```

    The moments are variables of the network in the collection `observed`. They are saved, copied and
    exported with its parameters, and only
    [`TrainState.observe`][jaxagents.learners.train_state.TrainState.observe] changes them. Put it
    around [`PerActor`][jaxagents.networks.PerActor] and encoders, not inside them.

    Attributes:
        network: The network, with or without memory, that takes normalised observations.
        clip: Largest absolute value of a normalised number.
    """

    clip: float = 10.0

    def setup(self) -> None:
        """Creates the statistics."""
        self.statistics = RunningNorm(self.clip)

    def view_of(self, obs: PyTree) -> PyTree:
        """Normalises observations."""
        return self.statistics(obs)

    def observe(self, observations: PyTree) -> None:
        """Updates the statistics with observations that have leading sample axes."""
        self.statistics.observe(observations)


def normalised(network: nn.Module) -> nn.Module:
    """Wraps a network, with or without memory, so that its observations are normalised.

    Args:
        network: The network.

    Returns:
        The wrapped network; the network itself if it is already `Normalised`.
    """
    return network if isinstance(network, Normalised) else Normalised(network)


def _moments_for(path: KeyPath, leaf: Array, mask: PyTree) -> ops.Moments | None:
    """The initial moments of a part of observations; `None` if it is not normalised."""
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
