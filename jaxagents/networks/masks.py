"""Networks of observations that say more than what is observed, such as which actions are allowed."""

from collections.abc import Mapping
from typing import Any

from jax.typing import ArrayLike
from jaxtyping import Array, Bool, PyTree

from jaxagents import ops
from jaxagents.core.observed import action_mask, critic_state, network_input
from jaxagents.networks.recurrent import NetworkWrapper


class ObservationOnly(NetworkWrapper):
    """A network that sees neither masks, of actions or actors, nor what centralised critics see.

    Attributes:
        network: Takes observations without their entries `"action_mask"`, `"actor_mask"` and
            `"critic_state"`, or, if only an entry `"observation"` is left then, that entry.
    """

    def view_of(self, obs: PyTree) -> PyTree:
        """The part of observations that the network sees."""
        return network_input(obs)


class Masked(ObservationOnly):
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

    def output_for(self, obs: PyTree, output: PyTree) -> PyTree:
        """The output of the network, with logits of minus infinity for actions that are not allowed.

        Raises:
            TypeError: The output is neither.
            ValueError: There is not one logit for each action.
        """
        return _masked(output, action_mask(obs))


class MaskedPolicy(Masked):
    """The same for a network that takes a temperature too, at which allowed actions are chosen.

    Attributes:
        network: Gives an [`ops.Categorical`][jaxagents.ops.Categorical] of observations without their
            entry `"action_mask"`, and of a temperature; any distribution if nothing is masked.
    """

    def __call__(self, *inputs: PyTree, temperature: ArrayLike = 1.0, **options: Any) -> PyTree:
        """Takes one step; see `NetworkWrapper`."""
        *carry, obs = inputs
        if action_mask(obs) is None:
            return super().__call__(*inputs, temperature=temperature, **options)
        # At a temperature of 0, the network's best action would be the only one, allowed or not.
        output = super().__call__(*inputs, temperature=1.0, **options)
        if carry:
            return output[0], output[1].tempered(temperature)
        return output.tempered(temperature)

    def unroll(
        self,
        carry: PyTree,
        obs: PyTree,
        first: Bool[Array, "time"],
        temperature: ArrayLike = 1.0,
        **options: Any,
    ) -> tuple[PyTree, PyTree]:
        """Takes the steps of a sequence; see `NetworkWrapper`."""
        masked = action_mask(obs) is not None
        inner = 1.0 if masked else temperature
        carries, outputs = super().unroll(carry, obs, first, temperature=inner, **options)
        return carries, outputs.tempered(temperature) if masked else outputs


class CriticView(ObservationOnly):
    """A centralised critic, which sees an environment's state or what all actors observe.

    Attributes:
        network: Takes the entry `"critic_state"` of observations, if they have one, and else what
            [`ObservationOnly`][jaxagents.networks.ObservationOnly] leaves of them.
    """

    def view_of(self, obs: PyTree) -> PyTree:
        """The part of observations that the network sees."""
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
            "A mask of actions needs a network that gives logits, one for each action, or an "
            f"ops.Categorical, got {type(output).__name__}."
        )
    if output.shape[-1:] != mask.shape[-1:]:
        raise ValueError(
            f"The mask has {mask.shape[-1]} actions, but the network gives logits of shape "
            f"{output.shape}: it must give one for each action."
        )
    return ops.among_allowed(output, mask)
