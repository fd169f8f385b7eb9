"""A policy and default networks for actions of many kinds."""

import functools
from collections.abc import Callable

import jax
from flax import linen as nn
from jaxtyping import PyTree

from jaxagents import ops
from jaxagents.agents.action_distributions import (
    check_action_space,
    default_actor,
    distribution_of,
)
from jaxagents.agents.chosen_network import make_network
from jaxagents.agents.on_policy import (
    OnPolicyBase,
    OnPolicyConfigT,
    OnPolicyHyperparametersT,
)
from jaxagents.agents.on_policy_checks import check_actors
from jaxagents.core.observed import is_observed_beside, network_input
from jaxagents.envs.checks import check_action_mask
from jaxagents.networks import (
    Masked,
    Normalised,
    ObservationOnly,
    PerActor,
    StateCritic,
    Torso,
    WithMemory,
)
from jaxagents.networks.recurrent import memory_cell

_WIDTH = 64
"""Units of each layer before and after a memory."""


class ReadyMadePolicy(OnPolicyBase[OnPolicyConfigT, OnPolicyHyperparametersT]):
    """Mixin that gives an agent's policy, with default networks, for spaces of actions of many kinds.

    The actor emits logits for discrete actions, a tuple of logits for several of them, and a mean and a
    logarithm of the standard deviation for box actions, both in units of half the box where its bounds
    are finite. Where actions are dicts or tuples, so is what it emits. With `config.memory`, default
    networks have a memory.
    """

    def _distribution_of(self, output: PyTree) -> ops.Distribution:
        """The distribution of actions: categorical, Gaussian within the box, or a joint one."""
        space, env = self.episodes.action_space, type(self.env).__name__
        return distribution_of(space, output, self.config.squash_actions, env)

    def _actor_network(self) -> nn.Module:
        """The default actor."""
        make = functools.partial(default_actor, self.episodes.action_space)
        return _networks_of_actors(self, make)

    def _critic_network(self) -> nn.Module:
        """The default critic."""
        return _networks_of_actors(self, StateCritic)

    def _for_observation(self, field: str, network: nn.Module) -> nn.Module:
        if not is_observed_beside(self._observation):
            return network
        return Masked(network) if field == "actor_network" else ObservationOnly(network)

    def _validate(self) -> None:
        name, env_name = type(self).__name__, self.episodes.env.wording.environment
        space, sharing = self.episodes.action_space, self.config.network_sharing
        if space is None:
            raise ValueError(
                f"{name} needs {env_name}.action_space; without it, subclass {name}Base and "
                "give the policy."
            )
        check_actors(self)
        check_action_mask(self.episodes)
        check_action_space(space, self.config.squash_actions, name, env_name)
        if sharing != "separate" and not self._actors_shape:
            raise ValueError(
                f"{name} has one actor, so that config.network_sharing={sharing!r} means nothing: leave "
                "it out, or train several actors with IPPO or MAPPO."
            )
        super()._validate()


def default_network(
    agent: OnPolicyBase, make: Callable[..., nn.Module], n_categories: int | None
) -> nn.Module:
    """A default network of one actor: a layer behind a trunk, or layers that may have a memory.

    Args:
        agent: The agent.
        make: Makes the network of the fields `features` and `n_categories`.
        n_categories: See [`Torso`][jaxagents.networks.Torso].

    Returns:
        The network.
    """
    config = agent.config
    if config.trunk is not None:
        return make(features=())
    if config.memory is None:
        return make(n_categories=n_categories)
    cell = memory_cell(config.memory, config.memory_size)
    torso = Torso(features=(_WIDTH,), n_categories=n_categories)
    return WithMemory(make(features=(_WIDTH,)), cell, torso)


def _networks_of_actors(agent: OnPolicyBase, make: Callable[..., nn.Module]) -> nn.Module:
    """The default networks of all actors, with the parameters in common that they are to have."""
    n_categories, sharing = agent.episodes.n_categories, agent.config.network_sharing
    if not agent._actors_shape:
        return default_network(agent, make, n_categories)
    own, n_actors = _own_observations(agent), agent.n_actors
    if sharing != "torso":
        network = default_network(agent, make, n_categories)
        return PerActor(network, n_actors, sharing == "shared", own)
    torso = PerActor(Torso(n_categories=n_categories), n_actors, True, own)
    return nn.Sequential((torso, PerActor(make(features=()), n_actors)))


def _own_observations(agent: OnPolicyBase) -> bool:
    """Whether observations, or a trunk's features, have a leading axis of actors."""
    if agent.config.trunk is not None:
        trunk = make_network("trunk", None, agent.config)
        while isinstance(trunk, Normalised):
            trunk = trunk.network
        return isinstance(trunk, PerActor)
    shapes = [leaf.shape for leaf in jax.tree.leaves(network_input(agent._observation))]
    return all(len(shape) > 1 and shape[0] == agent.n_actors for shape in shapes)
