"""Networks of observations that say which actions are allowed."""

from collections.abc import Mapping
from typing import Any

from flax import linen as nn
from jaxtyping import Array, Bool, PyTree

from jaxagents import ops
from jaxagents.core.action_masks import action_mask, without_action_mask
from jaxagents.networks.recurrent import Recurrent


class WithoutActionMask(nn.Module):
    """A network that does not see the mask of actions in its observations.

    Attributes:
        network: Takes observations without their entry `"action_mask"`, or, if only an entry
            `"observation"` is left then, that entry.
    """

    network: nn.Module

    def __call__(self, obs: PyTree, *args: Any, **kwargs: Any) -> PyTree:
        """The output of the network; further arguments are passed on to it."""
        return self.network(without_action_mask(obs), *args, **kwargs)


class Masked(WithoutActionMask):
    """The network of a policy in which actions that are not allowed have no probability.

    ```python
    actor = Masked(CategoricalActor(n_actions=9))
    logits = actor.apply(
        variables, {"observation": board, "action_mask": board == 0}
    )
    ```

    Attributes:
        network: Gives logits, or an [`ops.Categorical`][jaxagents.ops.Categorical], of observations
            without their entry `"action_mask"`.
    """

    def __call__(self, obs: PyTree, *args: Any, **kwargs: Any) -> PyTree:
        """The output of the network, with logits of minus infinity for actions that are not allowed.

        Raises:
            TypeError: The output is neither.
            ValueError: There is not one logit for each action.
        """
        return _masked(super().__call__(obs, *args, **kwargs), action_mask(obs))


class WithoutActionMaskWithMemory(Recurrent):
    """A network with a memory that does not see the mask of actions in its observations.

    Attributes:
        network: The network; see [`WithoutActionMask`][jaxagents.networks.WithoutActionMask].
    """

    network: Recurrent

    @nn.nowrap
    def initial(self) -> PyTree:
        """The memory of the network at the start of an episode."""
        return self.network.initial()

    def __call__(self, carry: PyTree, obs: PyTree) -> tuple[Any, Any]:
        """Takes one step; see `Recurrent`."""
        return self.network(carry, without_action_mask(obs))

    def unroll(self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"]) -> tuple[Any, Any]:
        """Takes the steps of a sequence; see `Recurrent`."""
        return self.network.unroll(carry, without_action_mask(obs), first)


class MaskedWithMemory(WithoutActionMaskWithMemory):
    """A network with a memory in which actions that are not allowed have no probability.

    Attributes:
        network: A network with a memory; see [`Masked`][jaxagents.networks.Masked].
    """

    def __call__(self, carry: PyTree, obs: PyTree) -> tuple[Any, Any]:
        """Takes one step; see `Recurrent`."""
        carry, output = super().__call__(carry, obs)
        return carry, _masked(output, action_mask(obs))

    def unroll(self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"]) -> tuple[Any, Any]:
        """Takes the steps of a sequence; see `Recurrent`."""
        carries, outputs = super().unroll(carry, obs, first)
        return carries, _masked(outputs, action_mask(obs))


def mask_actions(network: nn.Module) -> nn.Module:
    """The network of a policy, with or without a memory, in which only allowed actions are likely.

    Args:
        network: The network.

    Returns:
        It, behind [`Masked`][jaxagents.networks.Masked] or its like with a memory.
    """
    is_recurrent = isinstance(network, Recurrent)
    return MaskedWithMemory(network) if is_recurrent else Masked(network)


def without_mask(network: nn.Module) -> nn.Module:
    """A network, with or without a memory, that does not see the mask of actions.

    Args:
        network: The network.

    Returns:
        It, behind [`WithoutActionMask`][jaxagents.networks.WithoutActionMask] or its like with a
        memory.
    """
    if isinstance(network, Recurrent):
        return WithoutActionMaskWithMemory(network)
    return WithoutActionMask(network)


def _masked(output: Any, mask: Any) -> Any:
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
            "A mask of actions needs a network that gives logits, one for each action, or an "
            f"ops.Categorical, got {type(output).__name__}."
        )
    if output.shape[-1:] != mask.shape[-1:]:
        raise ValueError(
            f"The mask has {mask.shape[-1]} actions, but the network gives logits of shape "
            f"{output.shape}: it must give one for each action."
        )
    return ops.among_allowed(output, mask)
