"""The static configuration of learners, and the example data that they are created from."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import PyTree

from jaxagents.core.config import StaticConfig, checked, optimizer_function
from jaxagents.core.numbers import positive
from jaxagents.core.observed import Remembered, has_extra_entries, observation_of
from jaxagents.core.pickling import nonpytree_field
from jaxagents.data.units import box_of
from jaxagents.envs.spaces import (
    Space,
    check_components,
    is_box,
    is_discrete,
    is_space,
    map_spaces,
)
from jaxagents.learners.memory import FromMemory
from jaxagents.networks import (
    NetworkWrapper,
    ObservationOnly,
    WithEncoder,
    normalised,
    remembers,
)
from jaxagents.networks.initialisation import check_not_nnx
from jaxagents.networks.wrappers import MaskedPolicy


def _widths(name: str, given: object) -> tuple[int, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(
            f"{name} must be the widths of the layers, such as (64, 64), got {given!r}."
        )
    return tuple(positive(name, width) for width in given)


def flax_module(name: str, given: object) -> nn.Module:
    """Checks that a field holds a flax.linen module.

    Raises:
        TypeError: It holds anything else, such as a module class.
    """
    check_not_nnx(given, name)
    if not isinstance(given, nn.Module):
        hint = f": pass {given.__name__}(...)" if isinstance(given, type) else ""
        raise TypeError(
            f"{name} must be a flax.linen module, such as jaxagents.networks.MLP(), got {given!r}{hint}."
        )
    return given


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LearnerConfig(StaticConfig):
    """Static configuration of all learners, inherited by their agents' configurations.

    Attributes:
        features: Widths of the hidden layers of the default networks.
        encoder: Module that maps observations to vectors, if they are not vectors already. Each network
            has its own encoder.
        actor_network: Module that maps observations and a temperature to a distribution of actions.
            `None` uses the default network.
        critic_network: Module that replaces the default critic. Several critics return their values
            along a first axis, like an [ensemble][jaxagents.networks.ensemblize].
        optimizer: A function that creates an optax optimizer from a learning rate.
        normalise_observations: Whether to normalise observations to zero mean and unit variance with
            running statistics, which are saved with the parameters. Images are left unchanged.
    """

    actor_optimizer: ClassVar[None] = None

    features: tuple[int, ...] = checked((256, 256), _widths)
    encoder: nn.Module | None = checked(None, flax_module)
    actor_network: nn.Module | None = checked(None, flax_module)
    critic_network: nn.Module | None = checked(None, flax_module)
    optimizer: Callable[..., optax.GradientTransformation] = checked(optax.adam, optimizer_function)
    normalise_observations: bool = False

    @property
    def has_default_networks(self) -> bool:
        """Whether all networks are the default ones, which need vectors as observations."""
        return (self.encoder, self.actor_network, self.critic_network) == (None, None, None)

    def critic_of(
        self,
        network: nn.Module,
        observations: PyTree,
        name: str = "critic",
        samples_axis: int = 0,
    ) -> nn.Module:
        """Wraps a network that does not see action masks.

        Args:
            network: Takes encoded observations.
            observations: Example input of the wrapped network.
            name: Name of the network in the learner.
            samples_axis: The sample axis of its outputs; 1 for several critics.

        Returns:
            The network with the encoder and normalisation, if configured.

        Raises:
            TypeError: The network has a memory, but observations come without one.
        """
        return self._whole(network, observations, ObservationOnly, name, samples_axis)

    def policy_of(self, network: nn.Module, observations: PyTree) -> nn.Module:
        """Wraps the network of a policy, so that it only takes allowed actions.

        Args:
            network: Takes encoded observations.
            observations: Example input of the wrapped network.

        Returns:
            The network with the encoder and normalisation, if configured.
        """
        return self._whole(network, observations, MaskedPolicy, "actor")

    def _whole(
        self,
        network: nn.Module,
        observations: PyTree,
        view: type[NetworkWrapper],
        name: str,
        samples_axis: int = 0,
    ) -> nn.Module:
        come_with_memory = isinstance(observations, Remembered)
        if remembers(network) and not come_with_memory:
            raise TypeError(
                f"{type(network).__name__} has a memory, which this learner does not carry from "
                "step to step. Use it in the configuration of an agent, which does."
            )
        if self.encoder is not None and not remembers(network):
            network = WithEncoder(self.encoder, network)
        if has_extra_entries(observation_of(observations)):
            network = view(network)
        if self.normalise_observations:
            network = normalised(network)
        return FromMemory(network, name, samples_axis) if come_with_memory else network


class Example(struct.PyTreeNode):
    """Example data to create a learner from.

    Attributes:
        observations: One observation, or a batch of them.
        actions: One action, or one per observation.
        n_actions: Number of discrete actions, if known (static).
    """

    observations: PyTree
    actions: ArrayLike
    n_actions: int | None = nonpytree_field(default=None)

    @classmethod
    def of(
        cls,
        observations: PyTree,
        actions: ArrayLike | Space,
        n_actions: int | None,
        learner: str,
        takes_discrete: bool,
    ) -> "Example":
        """Creates an example from arrays or spaces; spaces become zeros.

        Args:
            observations: One observation, a batch of them, or their space.
            actions: One action, one per observation, or their space.
            n_actions: Number of discrete actions; by default taken from the space.
            learner: Name of the learner, for messages.
            takes_discrete: Whether the learner takes discrete actions.

        Returns:
            The example.

        Raises:
            ValueError: The learner does not support the action space.
        """
        if is_space(actions):
            space: Any = actions
            kind, fits = ("discrete", is_discrete) if takes_discrete else ("continuous", is_box)
            if not fits(space):
                raise ValueError(
                    f"{learner} takes {kind} actions, but the space of actions is {space!r}."
                )
            check_components(space, "The space of actions")
            if takes_discrete and n_actions is None:
                n_actions = int(space.n)
            if not takes_discrete and box_of(space) != box_of((-1.0, 1.0), tuple(space.shape)):
                raise ValueError(
                    f"{learner} acts in [-1, 1], but the space of actions is {space!r}: give the one of "
                    "jaxagents.host.rescale_actions(env), or of a dataset's rescale_actions()."
                )
        return cls(_zeros(observations), _zeros(actions), n_actions)

    @property
    def first(self) -> "Example":
        """One observation and one action, without batch axes."""
        is_discrete = jnp.issubdtype(jnp.result_type(self.actions), jnp.integer)
        index = (0,) * (jnp.ndim(self.actions) - (not is_discrete))
        first = jax.tree.map(lambda x: jnp.asarray(x)[index], (self.observations, self.actions))
        return Example(*first, n_actions=self.n_actions)

    @property
    def action_size(self) -> int:
        """Number of discrete actions, or of action components.

        Raises:
            TypeError: The number of discrete actions is unknown.
        """
        if not jnp.issubdtype(jnp.result_type(self.actions), jnp.integer):
            return jnp.shape(self.actions)[-1]
        if self.n_actions is None:
            raise TypeError(
                "The number of discrete actions is missing: create the learner with n_actions, "
                "such as n_actions=env.action_space.n."
            )
        return self.n_actions


def _zeros(tree: PyTree) -> PyTree:
    """Replaces spaces in a pytree by zeros."""

    def zeros(x: Any) -> PyTree:
        return map_spaces(lambda part: np.zeros(part.shape, part.dtype), x) if is_space(x) else x

    return jax.tree.map(zeros, tree)
