"""The base class of learners, which learn from batches of transitions."""

import functools
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Int, Key, PyTree

from jaxagents import ops
from jaxagents.core import numbers
from jaxagents.core.arrays import as_key, without_weak_types, written_in_jax
from jaxagents.core.compilation import Jitted, forget_users_own, is_tracing, jit_by_structure
from jaxagents.core.describe import name_of
from jaxagents.core.fingerprint import users_own
from jaxagents.core.hook_names import check_hook_forms, check_hook_names, check_pair
from jaxagents.core.hyperparameters import (
    Hyperparameters,
    Traced,
    check_known_fields,
    field_names,
    has_schedules,
)
from jaxagents.core.names import about_arguments
from jaxagents.core.observed import Remembered, network_input
from jaxagents.core.pickling import PicklableNode
from jaxagents.envs.spaces import Space
from jaxagents.exporting import export_policy
from jaxagents.learners.batches import check_batch, check_example
from jaxagents.learners.config import Example, LearnerConfig
from jaxagents.learners.optimizer import optimized, with_learning_rate
from jaxagents.learners.train_state import Info, TrainState
from jaxagents.networks import Torso, WithMemory, preprocessed
from jaxagents.networks.initialisation import initialise
from jaxagents.networks.preprocessing import Part
from jaxagents.networks.wrappers import OBSERVED

_RATE = "_learning_rate"

Batch = Mapping[str, PyTree]

ConfigT = TypeVar("ConfigT", bound=LearnerConfig)
HyperparametersT = TypeVar("HyperparametersT", bound=Hyperparameters)
LearnerT = TypeVar("LearnerT", bound="Learner")


class _MadeByCreate(type):
    """Suggests `create` if a learner's constructor is called with wrong arguments."""

    # No return type, or type checkers would lose the class of the instance.
    def __call__(cls, *args: Any, **kwargs: Any):
        """Creates a learner from its fields."""
        try:
            return super().__call__(*args, **kwargs)
        except TypeError as error:
            fault = about_arguments(error)
            if not fault:
                raise
            name = cls.__name__
            raise TypeError(
                f"{name}() {fault}. Call {name}.create(seed, observations, actions, ...) with examples "
                f"of both or their spaces, as in {name}.create(0, env.observation_space, "
                "env.action_space)."
            ) from None


class Learner(PicklableNode, Generic[ConfigT, HyperparametersT], metaclass=_MadeByCreate):
    """Networks and their update rule, as a pytree.

    ```python
    learner = SACLearner.create(0, observations, actions, gamma=0.98)
    learner, info = learner.update(batch)
    actions = learner.sample_actions(observations, seed=jax.random.key(1))
    ```

    A subclass defines `_initial`, `_update` and `_policy`, the keys of its batches, and the classes of
    its configuration and hyperparameters, which an agent's classes inherit from. If a network `critic`
    is [`optimized`][jaxagents.learners.optimizer.optimized], its learning rate is the hyperparameter
    `critic_learning_rate`, if there is one; likewise for other networks.

    Attributes:
        config: Static configuration; in an agent, the agent's.
        hyperparams: Hyperparameters, possibly traced. In hooks they are numbers, without schedules.
        rng: Random key for future updates.
        n_actions: Number of discrete actions, if known (static).
        learner_type: Class of the learner (static), so that compiled programs tell learners apart.
        n_updates: Number of updates so far, at which schedules are evaluated; `None` if no
            hyperparameter is a schedule. In an agent, it counts the agent's update steps.
    """

    config: ConfigT = struct.field(pytree_node=False)
    hyperparams: HyperparametersT
    rng: Key[Array, ""]
    n_actions: int | None = struct.field(pytree_node=False, default=None, kw_only=True)
    learner_type: "type[Learner] | None" = struct.field(
        pytree_node=False, default=None, kw_only=True, repr=False
    )
    n_updates: Int[Array, ""] | None = struct.field(default=None, kw_only=True)

    _config_type: ClassVar[type[LearnerConfig]]
    _hyperparams_type: ClassVar[type[Hyperparameters]]
    batch_keys: ClassVar[tuple[str, ...]]
    discrete_actions: ClassVar[bool] = False
    acting_network: ClassVar[str] = "actor"
    """The network that chooses actions."""
    _layer_norm: ClassVar[bool] = False
    """Whether the default networks use layer normalisation."""
    hooks: ClassVar[tuple[str, ...]] = ()
    """Methods to override. Agents must not define methods with these names: they would be ignored."""

    def __post_init__(self) -> None:
        """Stores the class, which JAX ignores when it compares the structures of dataclasses."""
        object.__setattr__(self, "learner_type", type(self))

    @classmethod
    def create(
        cls, seed: ArrayLike, observations: PyTree, actions: ArrayLike | Space, **kwargs: Any
    ) -> Self:
        """Creates a learner.

        Args:
            seed: A 32-bit integer (64-bit with `jax_enable_x64`), or a random key.
            observations: An example observation, a batch of them, or their space.
            actions: An example action, a batch of them, or their space (from -1 to 1 if continuous).
            **kwargs: Fields of the learner's configuration and hyperparameters; if `actions` is an
                example of discrete actions, also `n_actions`, their number.

        Returns:
            The learner.

        Raises:
            TypeError: A keyword is not a field, or the seed, the actions or a network have the wrong
                type.
            ValueError: A number is out of range, observations, actions and networks do not match, or
                learners do not support the action space.
        """
        static, traced = field_names(cls._config_type), field_names(cls._hyperparams_type)
        of_actions = ["n_actions"] if cls.discrete_actions else []
        check_known_fields(cls, kwargs, [*of_actions, *static, *traced])
        config = cls._config_type(**{k: v for k, v in kwargs.items() if k in static})
        hyperparams = cls._hyperparams_type(**{k: v for k, v in kwargs.items() if k in traced})
        hyperparams.check_ranges(single=True)
        kind = cls.__name__, cls.discrete_actions
        example = Example.of(observations, actions, kwargs.get("n_actions"), *kind)
        return cls.from_config(config, hyperparams, seed, example)

    @classmethod
    def from_config(
        cls, config: LearnerConfig, hyperparams: Hyperparameters, seed: ArrayLike, example: Example
    ) -> Self:
        """Creates a learner from its configuration and hyperparameters, as agents do.

        Args:
            config: The learner's configuration, or an agent's, which inherits from it.
            hyperparams: The learner's hyperparameters, or an agent's.
            seed: A 32-bit integer (64-bit with `jax_enable_x64`), or a random key.
            example: Example data.

        Returns:
            The learner.

        Raises:
            TypeError: The configuration, the hyperparameters, the actions or a network have the wrong
                type.
            ValueError: The number of actions is out of range, or observations, actions and networks do
                not match.
        """
        cls.check_kinds(config, hyperparams)
        hooks = [*cls.hooks, "_initial", "_update", "_policy"]
        check_hook_names(cls, hooks)
        check_hook_forms(cls, hooks)
        if example.n_actions is not None:
            n_actions = numbers.positive(f"{cls.__name__}: n_actions", example.n_actions)
            example = example.replace(n_actions=n_actions)
        check_example(
            network_input(example.observations),
            example.actions,
            cls.discrete_actions,
            example.n_actions,
            needs_vectors=config.has_default_networks,
        )
        hyperparams = cls._with_defaults(cast(HyperparametersT, hyperparams), example)
        is_of_library = not users_own((cls, config))
        create = (_creation if is_of_library else _creation.__wrapped__)(cls, config)
        if not (is_of_library or is_tracing(())):
            forget_users_own()
        return create(hyperparams, as_key(seed), example)

    @classmethod
    def check_kinds(cls, config: object, hyperparams: object) -> None:
        """Raises unless a configuration and hyperparameters are of the learner's classes.

        Args:
            config: Any configuration.
            hyperparams: Any hyperparameters.

        Raises:
            TypeError: One of them does not inherit from the learner's class.
        """
        kinds = {cls._config_type: config, cls._hyperparams_type: hyperparams}
        for expected, given in kinds.items():
            if not isinstance(given, expected):
                raise TypeError(
                    f"{cls.__name__} needs the fields of {name_of(expected)}, got a "
                    f"{name_of(type(given))}, which does not inherit from it."
                )

    @jit_by_structure
    def update(self, batch: Batch) -> tuple[Self, Info]:
        """Learns from one batch.

        Args:
            batch: Arrays with a leading sample axis, under the learner's `batch_keys`.

        Returns:
            The learner after the update, and scalar metrics.

        Raises:
            KeyError: The batch lacks a key.
            TypeError: Discrete actions are not integers.
            ValueError: The shapes of the arrays do not match each other or the learner.
        """
        check_batch(batch, self.batch_keys, ["batch"], self.discrete_actions)
        self._at_present()._check_policy(batch["observations"], batch["actions"])
        return self._make_update(batch)

    @jit_by_structure
    def update_many(self, batches: Batch) -> tuple[Self, Info]:
        """Learns from several batches in sequence, in one compiled call.

        Args:
            batches: Arrays with leading batch and sample axes.

        Returns:
            The learner after the last update, and arrays of each update's metrics.

        Raises:
            KeyError: The batches lack a key.
            TypeError: Discrete actions are not integers.
            ValueError: The shapes of the arrays do not match each other or the learner.
        """
        check_batch(batches, self.batch_keys, ["n", "batch"], self.discrete_actions)
        first = jax.tree.map(lambda x: x[0], (batches["observations"], batches["actions"]))
        self._at_present()._check_policy(*first)
        return jax.lax.scan(lambda learner, batch: learner._make_update(batch), self, dict(batches))

    @jit_by_structure
    def sample_actions(
        self,
        observations: PyTree,
        *,
        seed: Key[Array, ""] | None = None,
        temperature: ArrayLike = 1.0,
    ) -> Array:
        """Samples actions for one observation or a batch.

        Args:
            observations: The observations.
            seed: Random key; without one, the result is the mode of the distribution.
            temperature: 0 gives the mode, 1 the learned policy.

        Returns:
            Actions, in [-1, 1] if they are continuous.
        """
        learner = self._at_present()
        if seed is None:
            actions = learner._policy(observations, temperature).mode()
        else:
            explorer = learner.with_noise(as_key(seed), temperature)
            actions = explorer._policy(observations, temperature).sample(as_key(seed))
        return actions if self.discrete_actions else jnp.clip(actions, -1.0, 1.0)

    def export_policy(self, path: str | os.PathLike, observation: PyTree) -> None:
        """Writes the policy to a self-contained file.

        Read it with [`load_policy`][jaxagents.load_policy]. It acts like `sample_actions` at
        temperature 1: continuous actions are in [-1, 1].

        Args:
            path: The file, such as `policy.safetensors`.
            observation: One example observation.

        Raises:
            ValueError: The file has an extension other than `.safetensors`, or there are several
                observations.
            FileExistsError: The file exists.
            FileNotFoundError: Its folder does not exist.
            ImportError: safetensors is not installed.
        """
        seen = jax.eval_shape(lambda x: x, observation)
        actions = jax.eval_shape(type(self).sample_actions, self, seen)
        if actions.ndim != (0 if self.discrete_actions else 1):
            shapes = jax.tree.map(lambda x: x.shape, seen)
            raise ValueError(
                f"export_policy takes an example of one observation, got shape {shapes}, for "
                f"which actions have shape {actions.shape}: pass one of the batch, such as "
                "observations[0]."
            )

        def act(learner: Self, carry: PyTree, obs: PyTree, *rng: Key[Array, ""]) -> tuple:
            return carry, learner.sample_actions(obs, seed=rng[0] if rng else None)

        export_policy(path, act, jax.device_get(self), (), seen, {"learner": type(self).__name__})

    @jit_by_structure
    def observe(self, observations: PyTree) -> Self:
        """Updates the networks' running statistics of observations, if there are any (`observes`).

        Call it after `update`, as agents and the host training loops do.

        Args:
            observations: Observations with leading axes, or the
                [`Moments`][jaxagents.ops.Moments] of each array.

        Returns:
            The updated learner; target networks get the same statistics.
        """

        def after(x: PyTree) -> PyTree:
            return x.observe(observations) if isinstance(x, TrainState) else x

        return jax.tree.map(after, self, is_leaf=lambda x: isinstance(x, TrainState))

    @property
    def observes(self) -> bool:
        """Whether the networks have running statistics of observations."""
        states = jax.tree.leaves(self, is_leaf=lambda x: isinstance(x, TrainState))
        return any(isinstance(x, TrainState) and OBSERVED in x.extra_variables for x in states)

    def with_noise(self, rng: Key[Array, ""], scale: ArrayLike = 1.0) -> Self:
        """Returns the learner with noise in its noisy layers, if it has any.

        Args:
            rng: Random key, which may be used for other draws too.
            scale: Factor that multiplies the noise.

        Returns:
            The learner.
        """
        return self

    def memory_after(self, seen: PyTree, actions: PyTree = None) -> PyTree:
        """Computes the memories after observations.

        Args:
            seen: Observations, as [`Remembered`][jaxagents.networks.Remembered] if there are memories.
            actions: The actions taken there, for networks that take them as inputs.

        Returns:
            The new memory of each network with a memory in the observations; `()` if there is none.
        """
        if not isinstance(seen, Remembered):
            return ()
        return {
            name: getattr(self, name)(*self._inputs_of(name, seen, actions), method="after")
            for name in seen.carry
        }

    @classmethod
    def default_networks(cls, config: ConfigT, example: Example) -> dict[str, nn.Module]:
        """The default networks for vector observations, by configuration field.

        Args:
            config: The learner's configuration.
            example: Example data.

        Returns:
            The networks.
        """
        return {}

    @classmethod
    def _create_actor(
        cls, config: ConfigT, learning_rate: Traced, key: Key[Array, ""], example: Example
    ) -> TrainState:
        """Creates the network of a policy."""
        network = config.actor_network or cls.default_networks(config, example)["actor_network"]
        network = config.policy_of(network, example.observations)
        optimizer = config.actor_optimizer or config.optimizer
        return create_network(network, optimizer, learning_rate, key, example.observations)

    @classmethod
    def networks_with_memory(
        cls,
        config: ConfigT,
        cell: nn.RNNCellBase,
        example: Example,
        n_categories: int | None = None,
        parts: Sequence[Part] = (),
    ) -> dict[str, WithMemory]:
        """The default networks with a memory after the first layer.

        Args:
            config: The learner's configuration.
            cell: The memory.
            example: Example data.
            n_categories: Number of values of a single-integer observation.
            parts: How to read the arrays of an observation; see
                [`Preprocessed`][jaxagents.networks.Preprocessed].

        Returns:
            The networks, for the configuration fields that are `None`.
        """
        behind = config.replace(features=config.features[1:])
        torso = Torso(config.features[:1], nn.relu, n_categories, cls._layer_norm)
        torso = preprocessed(torso, parts)
        return {
            field: WithMemory(network, cell, torso)
            for field, network in cls.default_networks(behind, example).items()
            if getattr(config, field) is None
        }

    @classmethod
    def _inputs_of(cls, network: str, observations: PyTree, actions: PyTree) -> tuple[PyTree, ...]:
        return (observations,)

    @classmethod
    def _with_defaults(cls, hyperparams: HyperparametersT, example: Example) -> HyperparametersT:
        """Replaces each `None` that stands for a default with a number."""
        return hyperparams

    @classmethod
    @abstractmethod
    def _initial(
        cls, config: ConfigT, hyperparams: HyperparametersT, rng: Key[Array, ""], example: Example
    ) -> Self:
        """Creates the learner."""

    @abstractmethod
    def _update(self, batch: Batch) -> tuple[Self, Info]:
        """Performs one update; see [`update`][jaxagents.learners.learner.Learner.update]."""

    def _make_update(self, batch: Batch) -> tuple[Self, Info]:
        """Performs one update, keeping the schedules; also returns metrics."""
        present = self._at_present()
        with written_in_jax(f"The learner {type(self).__name__}"):
            outcome = present._with_learning_rates()._update(batch)
        must = (
            f"{type(self).__name__}._update must return the learner after the update and a dict of "
            "scalars, which may be empty"
        )
        learner, info = check_pair(outcome, (Learner, dict), must)
        if self.n_updates is not None:
            schedules = {"hyperparams": self.hyperparams, "n_updates": self.n_updates + 1}
            learner = learner.replace(**schedules)
        return learner, info

    @abstractmethod
    def _policy(self, observations: PyTree, temperature: ArrayLike) -> ops.Distribution:
        """The distribution of actions."""

    def discounts(self, batch: Batch) -> Traced:
        """The discounts of the successors' values.

        Args:
            batch: Transitions.

        Returns:
            `batch["discounts"]` for n-step transitions, else the hyperparameter `gamma`.
        """
        hyperparams: Any = self.hyperparams
        return batch.get("discounts", hyperparams.gamma)

    def _at_present(self) -> Self:
        """Evaluates the schedules for the next update."""
        if self.n_updates is None:
            return self
        return self.replace(hyperparams=self.hyperparams.at(self.n_updates), n_updates=None)

    def _with_learning_rates(self) -> Self:
        """Sets the optimizers' learning rates from the hyperparameters."""
        fields = [name for name in field_names(self.hyperparams) if name.endswith(_RATE)]
        networks = {name: getattr(self, name.removesuffix(_RATE), None) for name in fields}
        changed = {
            name.removesuffix(_RATE): with_learning_rate(network, getattr(self.hyperparams, name))
            for name, network in networks.items()
            if network is not None
        }
        return self.replace(**changed)

    def _check_networks(self, example: Example) -> None:
        """Raises a `ValueError` if the networks do not match the example."""
        self._check_policy(example.observations, example.actions)
        if self.discrete_actions and self.n_actions is not None:
            policy = jax.eval_shape(
                lambda learner, x: learner._policy(x, 1.0), self, example.observations
            )
            logits = getattr(policy, "logits", None)
            if logits is not None and logits.shape[-1:] != (self.n_actions,):
                raise ValueError(
                    f"The actor_network of {type(self).__name__} must output {self.n_actions} "
                    f"logits, one for each action, got shape {tuple(logits.shape)}."
                )

    def _check_policy(self, observations: PyTree, actions: ArrayLike) -> None:
        given = jax.eval_shape(
            lambda learner, x: learner._policy(x, 1.0).mode(), self, observations
        )
        if given.shape != jnp.shape(actions):
            shapes = jax.tree.map(jnp.shape, observations)
            raise ValueError(
                f"For observations of shape {shapes} the policy returns actions of shape "
                f"{given.shape}, but the batch has actions of shape {jnp.shape(actions)}."
            )


def create_network(
    network: nn.Module,
    optimizer: Callable[..., optax.GradientTransformation],
    learning_rate: Traced,
    key: Key[Array, ""],
    *inputs: PyTree,
) -> TrainState:
    """Initialises a network and its optimizer.

    Args:
        network: The network.
        optimizer: Function that creates an optimizer from a learning rate.
        learning_rate: The learning rate.
        key: Random key for the parameters.
        *inputs: Example inputs of the network.

    Returns:
        The train state.
    """
    return optimized(network, initialise(network, key, *inputs), optimizer, learning_rate)


@functools.lru_cache(maxsize=16)
def _creation(cls: type[Learner], config: LearnerConfig) -> Jitted:
    """The compiled program that creates learners of a configuration."""

    @jax.jit
    def create(hyperparams: Hyperparameters, rng: Key[Array, ""], example: Example) -> Learner:
        one = example.first if config.normalise_observations else example
        learner = cls._initial(config, hyperparams.at(0), rng, one)
        learner = learner.replace(n_actions=example.n_actions)
        learner._check_networks(example)
        if has_schedules(hyperparams):
            learner = learner.replace(hyperparams=hyperparams, n_updates=jnp.zeros((), jnp.int32))
        return without_weak_types(learner)

    return create
