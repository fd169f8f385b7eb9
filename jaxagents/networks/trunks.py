"""Networks behind another one, the trunk, which several of them may have in common."""

from flax import linen as nn
from jaxtyping import Array, Bool, PyTree

from jaxagents.core.observed import entries_beside, observed_beside
from jaxagents.networks.recurrent import Recurrent, at_each_step


class _Behind(nn.Module):
    """A trunk and a network.

    Attributes:
        trunk: Maps an observation to features.
        network: Maps features to the output of the whole. Where an observation has entries beside what
            is observed, such as a mask of actions, so have the features.
    """

    trunk: nn.Module
    network: nn.Module

    def observe(self, observations: PyTree) -> None:
        """Adds observations, with leading axes, to the running statistics of the trunk."""
        self.trunk.observe(observations)


class BehindTrunk(_Behind):
    """A network behind a trunk: the network sees what the trunk makes of an observation."""

    def __call__(self, obs: PyTree) -> PyTree:
        """The network's output for one observation."""
        return self.network(features_beside(obs, self.trunk(obs)))


class BehindRecurrentTrunk(_Behind, Recurrent):
    """A network behind a trunk with a memory."""

    trunk: Recurrent

    @nn.nowrap
    def initial(self) -> PyTree:
        """The memory of the trunk at the start of an episode; see `Recurrent`."""
        return self.trunk.initial()

    def __call__(self, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree]:
        """Takes one step; see `Recurrent`."""
        carry, features = self.trunk(carry, obs)
        return carry, self.network(features_beside(obs, features))

    def unroll(
        self, carry: PyTree, obs: PyTree, first: Bool[Array, "time"]
    ) -> tuple[PyTree, PyTree]:
        """Takes the steps of a sequence; see `Recurrent`."""
        carries, features = self.trunk.unroll(carry, obs, first)
        seen = features_beside(obs, features)
        return carries, at_each_step(self, lambda behind: behind.network, seen)


def behind_trunk(trunk: nn.Module, network: nn.Module) -> BehindTrunk | BehindRecurrentTrunk:
    """A network behind a trunk, which may have a memory.

    Args:
        trunk: Maps an observation to features.
        network: Maps features to the output of the whole.

    Returns:
        Both as one network.
    """
    if isinstance(trunk, Recurrent):
        return BehindRecurrentTrunk(trunk, network)
    return BehindTrunk(trunk, network)


def features_beside(obs: PyTree, features: PyTree) -> PyTree:
    """The input of a network behind a trunk: features, with all that an observation says beside.

    Args:
        obs: One observation, or a batch of them.
        features: What a trunk has made of it.

    Returns:
        The features, or a dict of them and of such entries.
    """
    return observed_beside(features, **entries_beside(obs))
