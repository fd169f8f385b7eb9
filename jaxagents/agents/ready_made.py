"""A policy and default networks for discrete and box actions."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import PyTree

from jaxagents import ops
from jaxagents.agents.actor_outputs import check_logits, check_moments
from jaxagents.agents.hooks import OnPolicyConfigT, OnPolicyHyperparametersT
from jaxagents.agents.on_policy import OnPolicyBase
from jaxagents.core.action_masks import action_mask, without_action_mask
from jaxagents.envs.checks import check_action_mask
from jaxagents.envs.spaces import box_bounds, is_bounded, is_box, is_discrete
from jaxagents.networks import (
    CategoricalActor,
    GaussianActor,
    PerActor,
    StateCritic,
    WithoutActionMask,
    mask_actions,
)


class ReadyMadePolicy(OnPolicyBase[OnPolicyConfigT, OnPolicyHyperparametersT]):
    """Mixin that gives an agent's policy, with default networks, for discrete and box actions.

    The actor emits logits for discrete actions, and a mean and a logarithm of the standard
    deviation for box actions, both in units of half the box where its bounds are finite.
    """

    def _distribution_of(self, output: PyTree) -> ops.Distribution:
        """The distribution of actions: categorical, or Gaussian clipped or squashed into the box."""
        space = self.episodes.action_space
        if is_discrete(space):
            check_logits(output, int(space.n), type(self.env).__name__)
            return ops.Categorical(output)
        check_moments(output, tuple(space.shape), type(self.env).__name__)
        mean, log_std = output
        log_std = jnp.broadcast_to(log_std, mean.shape)
        event_ndim = len(space.shape)
        if not is_bounded(space):
            return ops.Gaussian(mean, log_std, event_ndim)
        low, high = box_bounds(space)
        if self.config.squash_actions:
            return ops.TanhGaussian(ops.Gaussian(mean, log_std, event_ndim), low, high)
        centre, half = 0.5 * (low + high), 0.5 * (high - low)
        return ops.Gaussian(centre + half * mean, np.log(half) + log_std, event_ndim)

    def _actor_network(self) -> nn.Module:
        """The default actor."""
        space = self.episodes.action_space
        n_categories = self._observed_categories()
        if is_discrete(space):
            return self._lift(CategoricalActor(int(space.n), n_categories=n_categories))
        return self._lift(GaussianActor(tuple(space.shape), n_categories=n_categories))

    def _critic_network(self) -> nn.Module:
        """The default critic."""
        return self._lift(StateCritic(n_categories=self._observed_categories()))

    def _network_of_actor(self) -> nn.Module:
        network = super()._network_of_actor()
        return mask_actions(network) if self._has_mask else network

    def _network_of_critic(self) -> nn.Module:
        network = super()._network_of_critic()
        return WithoutActionMask(network) if self._has_mask else network

    @property
    def _has_mask(self) -> bool:
        """Whether observations say which actions are allowed."""
        return action_mask(self._observation) is not None

    def _lift(self, network: nn.Module) -> nn.Module:
        if not self._actors_shape:
            return network
        return PerActor(network, self.n_actors, own_observations=self._own_observations())

    def _own_observations(self) -> bool:
        """Whether observations have a leading axis of actors."""
        seen = without_action_mask(self._observation)
        shapes = [leaf.shape for leaf in jax.tree.leaves(seen)]
        return all(len(shape) > 1 and shape[0] == self.n_actors for shape in shapes)

    def _observed_categories(self) -> int | None:
        space = self.episodes.observation_space
        return int(space.n) if is_discrete(space) else None

    def _validate(self) -> None:
        self._check_action_space()
        super()._validate()

    def _check_action_space(self) -> None:
        """Raises unless the policy can act in the environment's action space."""
        name, env_name = type(self).__name__, type(self.env).__name__
        space = self.episodes.action_space
        if space is None:
            raise ValueError(
                f"{name} needs {env_name}.action_space; without it, subclass {name}Base and "
                "give the policy."
            )
        check_action_mask(self.episodes)
        if is_discrete(space):
            return
        if not is_box(space):
            raise ValueError(
                f"{name} acts in discrete and box spaces, but {env_name}.action_space is {space!r}. "
                f"Subclass {name}Base and give the policy."
            )
        if self.config.squash_actions and not is_bounded(space):
            raise ValueError(
                f"squash_actions needs finite bounds, but {env_name}.action_space is {space!r}."
            )
        if math.prod(space.shape) == 0:
            raise ValueError(f"{env_name}.action_space is empty: {space!r}.")
