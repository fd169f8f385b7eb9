"""The built-in policy and default networks, for many action spaces."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import PyTree

from jaxagents import ops
from jaxagents.agents.actor_and_critic import own_network
from jaxagents.agents.on_policy import (
    OnPolicyBase,
    OnPolicyConfigT,
    OnPolicyHyperparametersT,
)
from jaxagents.core.arrays import atleast_nd
from jaxagents.core.hook_names import is_own
from jaxagents.core.observed import has_extra_entries, network_input
from jaxagents.envs.checks import check_n_actors
from jaxagents.envs.observations import check_channels_first, preprocessing
from jaxagents.envs.spaces import (
    Space,
    box_bounds,
    check_components,
    is_bounded,
    is_box,
    is_discrete,
    is_multi_discrete,
    leaves,
    map_spaces,
    parts,
)
from jaxagents.networks import (
    CategoricalActor,
    GaussianActor,
    JointActor,
    Masked,
    MultiCategoricalActor,
    Normalised,
    ObservationOnly,
    PerActor,
    StateCritic,
    Torso,
    WithMemory,
    preprocessed,
)
from jaxagents.networks.recurrent import memory_cell

_WIDTH = 64
"""Width of the layers before and after a memory."""


class ReadyMadePolicy(OnPolicyBase[OnPolicyConfigT, OnPolicyHyperparametersT]):
    """Mixin with a policy and default networks for many action spaces.

    The actor outputs logits for discrete actions, a tuple of logits for multi-discrete ones, and a mean
    and log standard deviation for continuous ones, in units of half the action range if that is finite.
    For dicts or tuples of actions, it outputs dicts or tuples. With `config.memory`, default networks
    have a memory.
    """

    def _distribution_of(self, output: PyTree) -> ops.Distribution:
        """The distribution of actions: categorical, Gaussian, or a joint distribution.

        Args:
            output: Logits, a tuple of logits, a mean and log standard deviation, or a dict or tuple of
                these. Mean and standard deviation are in units of half the action range if its bounds
                are finite.

        Returns:
            The distribution.

        Raises:
            ValueError: The output does not fit the action space.
        """
        space, env = self.episodes.action_space, type(self.env).__name__
        of_one = functools.partial(
            _of_one_space, squash_actions=self.config.squash_actions, env=env
        )
        if parts(space) is None:
            return of_one(space, output)
        _check_parts(output, space, env)
        return ops.Joint(map_spaces(of_one, space, output))

    def _actor_network(self) -> nn.Module:
        """The default actor network."""
        make = functools.partial(default_actor, self.episodes.action_space)
        return _networks_of_actors(self, make)

    def _critic_network(self) -> nn.Module:
        """The default critic network."""
        return _networks_of_actors(self, StateCritic)

    def _for_observation(self, field: str, network: nn.Module) -> nn.Module:
        if not has_extra_entries(self._observation):
            return network
        return Masked(network) if field == "actor_network" else ObservationOnly(network)

    def _validate(self) -> None:
        name, env_name = type(self).__name__, self.episodes.env.wording.environment
        space, sharing = self.episodes.action_space, self.config.network_sharing
        if space is None:
            raise ValueError(
                f"{name} needs {env_name}.action_space; without it, subclass {name}Base and "
                "define the policy."
            )
        check_n_actors(self.episodes.env, name, self._is_of_actors)
        _check_axes_of_images(self, env_name)
        check_components(space, f"{env_name}.action_space")
        for part in leaves(space):
            if is_discrete(part) or is_multi_discrete(part):
                continue
            if not is_box(part):
                raise ValueError(
                    f"{name} supports discrete and continuous actions, and dicts and tuples of "
                    f"them, but {env_name}.action_space is {space!r}. Subclass {name}Base and "
                    "define the policy."
                )
            if self.config.squash_actions and not is_bounded(part):
                raise ValueError(
                    f"squash_actions needs finite bounds, but {env_name}.action_space is {space!r}."
                )
            if math.prod(part.shape) == 0:
                raise ValueError(f"{env_name}.action_space is empty: {space!r}.")
        if sharing != "separate" and not self.episodes.actors_shape:
            raise ValueError(
                f"{name} has one actor, so config.network_sharing={sharing!r} has no effect: "
                "leave it out, or train several actors with IPPO or MAPPO."
            )
        super()._validate()


def _check_axes_of_images(agent: OnPolicyBase, env: str) -> None:
    """Raises or warns if default networks would read the wrong axis of images as channels."""
    fields = [name for name in vars(agent.config) if name.endswith("_network")]
    is_heeded = agent.config.trunk is None and any(
        getattr(agent.config, field) is None and not is_own(type(agent), f"_{field}")
        for field in fields
    )
    n_leading = int(bool(agent.episodes.actors_shape) and _own_observations(agent))
    obs = network_input(agent._observation)
    check_channels_first(agent.config, obs, env, is_heeded=is_heeded, n_leading=n_leading)


def as_declared(agent: OnPolicyBase, network: nn.Module, n_leading: int = 0) -> nn.Module:
    """Wraps a default network in the preprocessing that the observation space needs.

    Args:
        agent: The agent.
        network: The network. It one-hot encodes a single integer itself.
        n_leading: Number of leading axes that the network of one actor does not see.

    Returns:
        The network, with preprocessing if needed.
    """
    episodes, obs = agent.episodes, network_input(agent._observation)
    if episodes.n_categories is not None:
        return network
    first = agent.config.channels_first
    declared = preprocessing(
        episodes.observation_space, obs, n_leading=n_leading, channels_first=first
    )
    return preprocessed(network, declared)


def default_network(
    agent: OnPolicyBase, make: Callable[..., nn.Module], n_categories: int | None
) -> nn.Module:
    """A default network for one actor: one layer on top of a trunk, or else a possibly recurrent one.

    Args:
        agent: The agent.
        make: Creates the network from the fields `features` and `n_categories`.
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
    """Default networks of all actors; `config.network_sharing` decides which parameters they share."""
    n_categories, sharing = agent.episodes.n_categories, agent.config.network_sharing
    network = default_network(agent, make, n_categories)
    own = False
    if agent.episodes.actors_shape:
        own, n_actors = _own_observations(agent), agent.n_actors
        if sharing == "torso":
            torso = PerActor(Torso(n_categories=n_categories), n_actors, True, own)
            network = nn.Sequential((torso, PerActor(make(features=()), n_actors)))
        else:
            network = PerActor(network, n_actors, sharing == "shared", own)
    return network if agent.config.trunk is not None else as_declared(agent, network, int(own))


def _own_observations(agent: OnPolicyBase) -> bool:
    """Whether observations, or a trunk's features, have a leading axis of actors."""
    if agent.config.trunk is not None:
        trunk = own_network(agent, "trunk")
        while isinstance(trunk, Normalised | ObservationOnly):
            trunk = trunk.network
        return isinstance(trunk, PerActor)
    shapes = [leaf.shape for leaf in jax.tree.leaves(network_input(agent._observation))]
    return all(len(shape) > 1 and shape[0] == agent.n_actors for shape in shapes)


def _of_one_space(space: Space, output: PyTree, squash_actions: bool, env: str) -> ops.Distribution:
    if is_multi_discrete(space):
        n_actions = [*map(int, space.nvec)]
        if not isinstance(output, tuple | list) or len(output) != len(n_actions):
            wanted = (
                f"a tuple of {len(n_actions)} arrays of logits, one for each of the actions that"
            )
            raise _misfit(f"{wanted} {env} takes at once", output)
        each = [_categorical(*pair, env) for pair in zip(output, n_actions, strict=True)]
        return ops.Joint(tuple(each), stacked=True)
    if is_discrete(space):
        return _categorical(output, int(space.n), env)
    shape = tuple(space.shape)
    is_pair = isinstance(output, tuple | list) and len(output) == 2
    if not is_pair or not _ends_in(output[0], shape) or not _broadcasts(output[1], output[0]):
        wanted = "a mean and a log standard deviation, both of shape"
        raise _misfit(f"{wanted} {shape} for {env}", output)
    mean, log_std = output
    log_std = jnp.broadcast_to(log_std, mean.shape)
    if not is_bounded(space):
        return ops.Gaussian(mean, log_std, len(shape))
    low, high = box_bounds(space)
    if squash_actions:
        return ops.TanhGaussian(ops.Gaussian(mean, log_std, len(shape)), low, high)
    low, high = atleast_nd(low, mean.ndim), atleast_nd(high, mean.ndim)
    centre, half = 0.5 * (low + high), 0.5 * (high - low)
    return ops.Gaussian(centre + half * mean, np.log(half) + log_std, len(shape))


def _categorical(logits: PyTree, n_actions: int, env: str) -> ops.Categorical:
    if getattr(logits, "shape", ())[-1:] != (n_actions,):
        raise _misfit(f"{n_actions} logits, one for each action of {env}", logits)
    return ops.Categorical(logits)


def default_actor(space: Space, **fields: Any) -> nn.Module:
    """The default policy network of one actor.

    Args:
        space: The action space.
        **fields: Fields that all such networks have, such as `n_categories`.

    Returns:
        The network.
    """
    children = parts(space)
    if children is not None:
        actors = {name: default_actor(child, features=()) for name, child in children.items()}
        named = isinstance(space.spaces, Mapping)
        return JointActor(actors if named else tuple(actors.values()), **fields)
    if is_multi_discrete(space):
        return MultiCategoricalActor(tuple(map(int, space.nvec)), **fields)
    if is_discrete(space):
        return CategoricalActor(int(space.n), **fields)
    return GaussianActor(tuple(space.shape), **fields)


def _check_parts(output: PyTree, space: Space, env: str) -> None:
    """Raises unless an actor network has an output for every part of an action."""
    children = parts(space)
    if children is None:
        return
    is_named = isinstance(space.spaces, Mapping)
    names = sorted(children) if is_named else len(children)
    if isinstance(output, Mapping) and is_named:
        found = sorted(output)
    else:
        found = len(output) if isinstance(output, tuple | list) and not is_named else None
    if found != names:
        wanted = f"a dict with {names}" if is_named else f"a tuple of {names}"
        raise _misfit(f"{wanted}, one output for each part of an action of {env}", output)
    for name, child in children.items():
        _check_parts(output[name], child, env)


def _ends_in(x: PyTree, shape: tuple[int, ...]) -> bool:
    return hasattr(x, "shape") and x.shape[x.ndim - len(shape) :] == shape and x.ndim >= len(shape)


def _broadcasts(x: PyTree, mean: jax.Array) -> bool:
    """Whether an array or number can be broadcast to the shape of the mean."""
    shape = getattr(x, "shape", ())
    pairs = zip(reversed(shape), reversed(mean.shape), strict=False)
    return len(shape) <= mean.ndim and all(own in (1, other) for own, other in pairs)


def _misfit(wanted: str, output: PyTree) -> ValueError:
    """The error for an actor network whose output does not fit the action space."""
    shapes = [f"shape {tuple(getattr(leaf, 'shape', ()))}" for leaf in jax.tree.leaves(output)]
    found = " and ".join(shapes) or "nothing"
    found = found if hasattr(output, "shape") else f"a {type(output).__name__} of {found}"
    return ValueError(f"config.actor_network must output {wanted}, got {found}.")
