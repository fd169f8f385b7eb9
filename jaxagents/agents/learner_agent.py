"""Base classes of agents with a learner, including value-based ones."""

import math
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.tree_util import KeyPath
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import sharding
from jaxagents.agents.agent import Agent
from jaxagents.agents.checks import check_hooks_of_others, check_observation_on_error
from jaxagents.agents.config import LearnerAgentConfig
from jaxagents.agents.runners import LearnerRunner
from jaxagents.core.hyperparameters import has_schedules, is_schedule
from jaxagents.core.observed import Remembered, network_input, observation_of
from jaxagents.data import units
from jaxagents.engine.checks import check_same_arrays
from jaxagents.engine.program import HyperparametersT
from jaxagents.envs.checks import check_environment, check_masks, check_n_actors
from jaxagents.envs.observations import check_channels_first, preprocessing
from jaxagents.envs.spaces import (
    Space,
    check_components,
    is_bounded,
    is_box,
    is_discrete,
)
from jaxagents.learners.config import Example, LearnerConfig
from jaxagents.learners.learner import Batch, Info, Learner, LearnerT
from jaxagents.learners.memory import initial_carry
from jaxagents.learners.q_learning import ValueLearner
from jaxagents.networks import (
    DictEncoder,
    ObservationEncoder,
    Pixels,
    observation_encoder,
    preprocess,
    preprocessed,
    remembers,
)
from jaxagents.networks.preprocessing import Part
from jaxagents.networks.recurrent import memory_cell
from jaxagents.networks.vision.encoder import Encoder

LearnerConfigT = TypeVar("LearnerConfigT", bound=LearnerAgentConfig)
LearnerRunnerT = TypeVar("LearnerRunnerT", bound=LearnerRunner)
ValueLearnerT = TypeVar("ValueLearnerT", bound=ValueLearner)


class Units(NamedTuple):
    r"""Conversion between an environment's actions and a learner's: discrete, or in $[-1, 1]^n$.

    Attributes:
        space: The environment's action space.
    """

    space: Space

    @property
    def is_discrete(self) -> bool:
        """Whether actions are discrete."""
        return is_discrete(self.space)

    @property
    def n_actions(self) -> int | None:
        """Number of discrete actions; `None` if actions are continuous."""
        return int(self.space.n) if self.is_discrete else None

    @property
    def zero(self) -> Array:
        """The learner's zero action."""
        if self.is_discrete:
            return jnp.zeros((), jnp.int32)
        return jnp.zeros(math.prod(self.space.shape), jnp.float32)

    def to_environment(self, actions: Array) -> Array:
        """Converts the learner's actions to the environment's."""
        if self.is_discrete:
            return actions
        actions = actions.reshape(*actions.shape[:-1], *self.space.shape)
        return units.from_unit(actions, self.space)

    def to_learner(self, actions: Array) -> Array:
        """Converts the environment's actions to the learner's."""
        if self.is_discrete:
            return actions
        batch = actions.shape[: actions.ndim - len(self.space.shape)]
        return units.to_unit(actions, self.space).reshape(*batch, -1)

    def within_bounds(self, actions: Array) -> Array:
        """The learner's actions, clipped to [-1, 1] if they are continuous."""
        return actions if self.is_discrete else jnp.clip(actions, -1.0, 1.0)


class LearnerAgent(Agent[LearnerConfigT, HyperparametersT, LearnerRunnerT]):
    r"""An agent whose networks and update rule are a [`Learner`][jaxagents.learners.learner.Learner].

    A learner's actions are discrete, or lie in $[-1, 1]^n$ and are rescaled to the environment's bounds.

    A subclass sets `_continuous_learner`, `_discrete_learner`, or both. Its base class provides the
    batches. Its configuration and hyperparameters inherit from the learner's, and are passed to the
    learner unchanged. Hooks of the update rule are methods of the learner, not of the agent.
    """

    _config_type = LearnerAgentConfig
    _continuous_learner: type[Learner] | None = None
    _discrete_learner: type[Learner] | None = None
    _hooks = (*Agent._hooks, "_continuous_learner", "_discrete_learner")

    @property
    def learner(self) -> Learner:
        """The trained learner.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self._last.usable_runner.learner

    def policy(self, training: PyTree, obs: PyTree = None) -> Array:
        """The greedy action: `policy(obs)` of the trained learner, or `policy(learner, obs)`.

        Args:
            training: The learner; the observation, if that is the only argument.
            obs: One observation, or a batch of them.

        Returns:
            One action, or a batch of them. For a NumPy observation, such as Gymnasium returns,
                `policy(obs)` gives an action for `env.step`: a NumPy array within the space, or an
                `int`.

        Raises:
            RuntimeError: No learner is given, and the agent has not been trained.
            TypeError: The learner has a memory.
            ValueError: The observation does not fit the environment.
        """
        if obs is None:
            return self._action_as_trained(training)
        with check_observation_on_error(observation_of(obs), self._observation, batches=True):
            return self._units.to_environment(training.sample_actions(obs))

    def initial_carry(self, training: Learner) -> PyTree:
        """The memory of the learner at the start of an episode; `()` if it has none.

        Args:
            training: The learner.

        Returns:
            The memory.
        """
        memories = self._initial_memories()
        name = training.acting_network
        return {name: memories[name]} if name in memories else ()

    def act(
        self, training: Learner, carry: PyTree, obs: PyTree, rng: Key[Array, ""] | None = None
    ) -> tuple[PyTree, Array]:
        """The policy's action; see `Behaviour`.

        Sampled actions come from the learner's `sample_actions`; in DQN and its variants they are
        epsilon-greedy.
        """
        with check_observation_on_error(obs, self._observation, batches=True):
            seen = self._seen(carry, obs)
            if rng is None:
                action = self.policy(training, seen)
            else:
                action = self._units.to_environment(training.sample_actions(seen, seed=rng))
            return training.memory_after(seen), action

    def vital_arrays(self, runner: LearnerRunnerT) -> dict[str, PyTree]:
        """The learner's networks and optimizers; see `Behaviour`."""
        networks = runner.learner.replace(hyperparams=None, rng=None, n_updates=None)
        return {"the networks of the learner": networks}

    def _acting(self, runner: LearnerRunnerT) -> Learner:
        return runner.learner

    def _with_hyperparams(
        self, runner: LearnerRunnerT, hyperparams: HyperparametersT
    ) -> LearnerRunnerT:
        learner = self._with_schedules(runner, hyperparams).learner
        return runner.replace(learner=learner.replace(n_updates=None))

    def _with_schedules(
        self, runner: LearnerRunnerT, hyperparams: HyperparametersT
    ) -> LearnerRunnerT:
        learner = runner.learner
        kept = jax.tree.map(
            lambda new, old: old if new is None else new,
            hyperparams,
            learner.hyperparams,
            is_leaf=lambda x: x is None or isinstance(x, Mapping) or is_schedule(x),
        )
        n_updates = runner.update_step if has_schedules(kept) else None
        return runner.replace(learner=learner.replace(hyperparams=kept, n_updates=n_updates))

    # The learner.

    @property
    def _learner_type(self) -> type[Learner]:
        learner = self._discrete_learner if self._units.is_discrete else self._continuous_learner
        assert learner is not None
        return learner

    @property
    def _units(self) -> Units:
        return Units(self.episodes.action_space)

    def _create_learner(self, rng: Key[Array, ""], hyperparams: HyperparametersT) -> Learner:
        """The learner before its first update."""
        learner = self._learner_type
        learner.check_kinds(self.config, hyperparams)
        config, example = self._learner_config(), self._example()
        seen = self._seen(self._initial_memories(), example.observations)
        return learner.from_config(config, hyperparams, rng, example.replace(observations=seen))

    def _example(self) -> Example:
        """Example data for creating the learner, without memories."""
        obs = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), self._observation)
        return Example(obs, self._units.zero, n_actions=self._units.n_actions)

    def _learner_config(self) -> LearnerConfig:
        """The agent's configuration, with default networks and encoders for its observations."""
        config: Any = self.config.updates()  # inherits from the learner's configuration too
        if config.memory is not None:
            cell = memory_cell(config.memory, config.memory_size)
            networks = self._learner_type.networks_with_memory(
                config, cell, self._example(), self.episodes.n_categories, self._preprocessing()
            )
            return config.replace(memory=None, **networks)
        if config.encoder is None and not config.has_default_networks:
            return config
        return config.replace(encoder=self._encoder(config.encoder))

    def _preprocessing(self) -> tuple[Part, ...]:
        """Preprocessing of each array of an observation; networks encode a single integer themselves."""
        episodes, obs = self.episodes, network_input(self._observation)
        if episodes.n_categories is not None:
            return (None,)
        first = self.config.channels_first
        return preprocessing(episodes.observation_space, obs, channels_first=first)

    def _encoder(self, given: nn.Module | None) -> nn.Module | None:
        """The encoder, behind the preprocessing that observations need; `None` if none is needed.

        Custom encoders handle categories and the range of pixels themselves.
        """
        obs, parts = network_input(self._observation), self._preprocessing()
        if given is not None:
            paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(obs)]
            heeded = [_preprocessing_for(given, *pair) for pair in zip(paths, parts, strict=True)]
            return preprocessed(given, heeded)
        if not any(part is not None for part in parts):
            return observation_encoder(obs, self.episodes.n_categories)
        encoder = observation_encoder(jax.eval_shape(lambda obs: preprocess(obs, parts), obs))
        return preprocessed(encoder or ObservationEncoder((1,)), parts)

    def _initial_memories(self) -> PyTree:
        """Memories at the start of an episode, by network; `()` if no network has one."""
        if not self.config.has_memory:
            return ()
        networks = {
            field.removesuffix("_network"): network
            for field, network in vars(self._learner_config()).items()
            if field.endswith("_network") and network is not None
        }
        return {name: initial_carry(x) for name, x in networks.items() if remembers(x)}

    def _seen(self, carry: PyTree, obs: PyTree) -> PyTree:
        """Observations as the learner expects them: with memories, if it has any."""
        return Remembered(carry, obs) if self.config.has_memory else obs

    # Checks.

    def _validate(self) -> None:
        check_n_actors(self.episodes.env, type(self).__name__, several=False)
        self._check_action_space()
        self._check_axes_of_images()
        check_hooks_of_others(type(self), self._learner_type)
        key, hyperparams = jax.eval_shape(lambda: jax.random.key(0)), self._hyperparams_type()
        learner = jax.eval_shape(self._create_learner, key, hyperparams)
        _, action = jax.eval_shape(
            lambda learner, obs: self.act(learner, self.initial_carry(learner), obs),
            learner,
            self._observation,
        )
        if not self.episodes.env.on_host:
            check_environment(self.episodes, action)

    def _check_axes_of_images(self) -> None:
        """Raises or warns if built-in networks would read the wrong axis of images as channels."""
        config: Any = self.config
        is_default = config.has_default_networks or config.memory is not None
        check_channels_first(
            config,
            network_input(self._observation),
            self.episodes.env.wording.environment,
            is_heeded=is_default or config.encoder is not None,
            is_ours=is_default or isinstance(config.encoder, Encoder | ObservationEncoder),
        )

    def _check_action_space(self) -> None:
        """Raises unless one of the learners supports the environment's actions."""
        agent, environment = type(self).__name__, self.episodes.env.wording.environment
        space = self.episodes.action_space
        if space is None:
            raise ValueError(f"{agent} needs {environment}.action_space, which it lacks.")
        check_masks(self.episodes)
        learners = {"discrete": self._discrete_learner, "continuous": self._continuous_learner}
        kind = "discrete" if is_discrete(space) else "continuous" if is_box(space) else "other"
        if learners.get(kind) is None:
            acts_in = " and ".join(
                kind for kind, learner in learners.items() if learner is not None
            )
            raise ValueError(
                f"{agent} supports {acts_in} actions, but {environment}.action_space is {space!r}."
            )
        check_components(space, f"{environment}.action_space")
        if kind == "continuous" and not (is_bounded(space) and math.prod(space.shape)):
            raise ValueError(
                f"{agent} needs continuous actions with finite bounds, but "
                f"{environment}.action_space is {space!r}."
            )


class ActionValues(
    LearnerAgent[LearnerConfigT, HyperparametersT, LearnerRunnerT],
    Generic[LearnerConfigT, HyperparametersT, LearnerRunnerT, ValueLearnerT],
):
    """A value-based agent for discrete actions, with or without a memory."""

    _discrete_learner: type[ValueLearner]

    @property
    def learner(self) -> ValueLearnerT:
        """The trained learner.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self._last.usable_runner.learner

    def q(self, obs: PyTree) -> Float[Array, "*batch n_actions"]:
        """The trained learner's values of all actions.

        Args:
            obs: One observation, or a batch of them.

        Returns:
            The values.

        Raises:
            RuntimeError: The agent has not been trained.
            TypeError: The learner has a memory.
            ValueError: The observation does not fit the environment.
        """
        learner, seen = self.learner, observation_of(obs)
        with check_observation_on_error(seen, self._observation, batches=True, method="q"):
            return learner.q(obs)


def _preprocessing_for(encoder: nn.Module, path: KeyPath, part: Part) -> Part:
    """The preprocessing that a custom encoder leaves to the agent, for one part of an observation."""
    if isinstance(encoder, DictEncoder):
        name: Any = getattr(path[0], "key", None)
        if name not in encoder.encoders:
            return part
        encoder = encoder.encoders[name]
    if not isinstance(part, Pixels):
        return None
    knows_range = isinstance(encoder, Encoder | ObservationEncoder)
    return part if knows_range else part._replace(high=None)


def update_on(config: LearnerAgentConfig, learner: LearnerT, batch: Batch) -> tuple[LearnerT, Info]:
    """Updates a learner; with `replicated_updates`, every device computes the whole update.

    Args:
        config: Configuration of the agent.
        learner: The learner.
        batch: A batch.

    Returns:
        The updated learner, and metrics of the update.

    Raises:
        ValueError: The update adds or drops arrays of the learner.
    """
    replicated = config.replicated_updates
    after, info = learner.update(sharding.whole(batch) if replicated else batch)
    name = type(learner).__name__
    check_same_arrays(after, learner, f"{name}._update", f"{name}._initial")
    return sharding.whole((after, info)) if replicated else (after, info)
