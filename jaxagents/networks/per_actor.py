"""Lifting a single-actor network to several actors."""

from typing import Any

from flax import linen as nn


class PerActor(nn.Module):
    """Runs one network for each actor, and stacks the outputs along a leading `n_actors` axis.

    Attributes:
        network: The network of one actor.
        n_actors: Number of actors.
        shared_params: Whether all actors share the same parameters; otherwise each has its own.
        own_observations: Whether observations have a leading `n_actors` axis; otherwise every actor
            sees the whole observation.
    """

    network: nn.Module
    n_actors: int
    shared_params: bool = False
    own_observations: bool = True

    @nn.compact
    def __call__(self, obs: Any) -> Any:
        """Outputs of all actors, each with a leading `n_actors` axis."""
        lifted = nn.vmap(
            lambda network, x: network(x),
            in_axes=0 if self.own_observations else None,  # pyright: ignore[reportArgumentType]
            axis_size=self.n_actors,
            variable_axes={"params": None if self.shared_params else 0},
            split_rngs={"params": not self.shared_params},
        )
        return lifted(self.network, obs)
