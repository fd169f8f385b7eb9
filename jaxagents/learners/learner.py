"""What learns from batches of transitions, wherever these come from."""

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import struct
from jaxtyping import Array, Key

from jaxagents import ops
from jaxagents.core.arrays import without_weak_types
from jaxagents.core.config import StaticConfig, check_known_fields, field_names
from jaxagents.core.hyperparameters import Hyperparameters
from jaxagents.core.keys import as_key
from jaxagents.core.numbers import positive
from jaxagents.core.pickling import PicklableNode
from jaxagents.learners.batches import check_batch, check_example_actions, check_example_vectors
from jaxagents.learners.optimizer import with_learning_rate
from jaxagents.networks import WithEncoder

_RATE = "_learning_rate"

Batch = Mapping[str, Any]
Info = dict[str, Array]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LearnerConfig(StaticConfig):
    """What the configurations of all learners share.

    Attributes:
        features: Widths of the hidden layers of the default networks.
        encoder: Module that maps observations to vectors, for observations that are not vectors
            already. Every network gets an encoder of its own.
        actor_network: Module that maps observations and a temperature to a distribution of actions.
            `None` takes the default network.
        critic_network: Module in the place of the default critic. Where there are several critics, it
            gives the values of each along a first axis, as an
            [ensemble][jaxagents.networks.ensemblize] does.
        optimizer: Any function that makes an optax optimizer of a learning rate.
    """

    features: tuple[int, ...] = (256, 256)
    encoder: nn.Module | None = None
    actor_network: nn.Module | None = None
    critic_network: nn.Module | None = None
    optimizer: Callable[..., optax.GradientTransformation] = optax.adam

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_optimizer(self.optimizer)
        self._check_widths()
        self._check_modules()

    @property
    def has_default_networks(self) -> bool:
        """Whether observations must be vectors, since no network is the user's own."""
        return (self.encoder, self.actor_network, self.critic_network) == (None, None, None)

    def encoded(self, network: nn.Module) -> nn.Module:
        """A network behind the encoder, if there is one."""
        return network if self.encoder is None else WithEncoder(self.encoder, network)

    def _check_widths(self) -> None:
        name = f"{type(self).__name__}.features"
        if not isinstance(self.features, Sequence) or isinstance(self.features, str):
            raise TypeError(f"{name} must be the widths of the layers, got {self.features!r}.")
        widths = tuple(positive(name, width) for width in self.features)
        object.__setattr__(self, "features", widths)

    def _check_modules(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            is_network = field.name == "encoder" or field.name.endswith("_network")
            if is_network and not isinstance(value, nn.Module | None):
                raise TypeError(
                    f"{type(self).__name__}.{field.name} must be a flax.linen module, such as "
                    f"jaxagents.networks.MLP(), got {value!r}."
                )


class Learner(PicklableNode):
    """Networks and the rule by which they learn from batches, as a pytree.

    ```python
    learner = SACLearner.create(0, observations, actions, gamma=0.98)
    learner, info = learner.update(batch)
    actions = learner.sample_actions(observations, seed=jax.random.key(1))
    ```

    A subclass gives `_initial`, `_update` and `_policy`, its batch's keys, and the classes of its
    configuration and hyperparameters. The learning rate of a network `critic` that is
    [`optimized`][jaxagents.learners.optimizer.optimized] is the hyperparameter
    `critic_learning_rate`, if there is one, and so on.

    Attributes:
        config: What compiled programs depend on (static).
        hyperparams: Numbers, which may be traced.
        rng: Random key of the updates to come.
        learner_type: Its class (static), by which programs tell learners of several classes apart.
    """

    config: Any = struct.field(pytree_node=False)
    hyperparams: Any
    rng: Any
    learner_type: Any = struct.field(pytree_node=False, default=None, kw_only=True, repr=False)

    _config_type: ClassVar[type[LearnerConfig]]
    _hyperparams_type: ClassVar[type[Hyperparameters]]
    batch_keys: ClassVar[tuple[str, ...]]
    discrete_actions: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Notes the class, which JAX leaves out when it compares the structures of dataclasses."""
        object.__setattr__(self, "learner_type", type(self))

    @classmethod
    def create(cls, seed: Any, observations: Any, actions: Any, **kwargs: Any) -> Self:
        """A learner before its first update.

        Args:
            seed: An integer or a random key.
            observations: An example of one observation, or a batch of them.
            actions: An example of one action, or a batch of them.
            **kwargs: Fields of the learner's configuration and hyperparameters.

        Returns:
            The learner.

        Raises:
            TypeError: A keyword is no field, or the actions or a network are of the wrong kind.
            ValueError: A number is out of range, or observations, actions and networks do not fit each
                other.
        """
        static, traced = cls.fields()
        check_known_fields(cls, kwargs, [*static, *traced])
        config = cls._config_type(**{k: v for k, v in kwargs.items() if k in static})
        hyperparams = cls._hyperparams_type(**{k: v for k, v in kwargs.items() if k in traced})
        hyperparams.check_ranges()
        n_actions = getattr(config, "n_actions", None)
        check_example_actions(actions, cls.discrete_actions, n_actions)
        if config.has_default_networks:
            check_example_vectors(observations, actions, cls.discrete_actions)
        return _created(cls, config, hyperparams, _as_seed(seed), observations, actions)

    @classmethod
    def fields(cls) -> tuple[list[str], list[str]]:
        """Names of the keywords of `create`.

        Returns:
            Those of the configuration, and those of the hyperparameters.
        """
        return field_names(cls._config_type), field_names(cls._hyperparams_type)

    @jax.jit
    def update(self, batch: Batch) -> tuple[Self, Info]:
        """Learns from one batch.

        Args:
            batch: Arrays with a leading axis of samples, under the learner's `batch_keys`.

        Returns:
            The learner after the update, and scalars that describe it.

        Raises:
            KeyError: The batch lacks a key.
            TypeError: Discrete actions are no integers.
            ValueError: The arrays do not fit each other or the learner.
        """
        self._check_batch(batch, ["batch"])
        return self._with_learning_rates()._update(batch)

    @jax.jit
    def update_many(self, batches: Batch) -> tuple[Self, Info]:
        """Learns from several batches, one after another, in one compiled call.

        Args:
            batches: Arrays with leading axes of batches and of samples.

        Returns:
            The learner after the last update, and arrays that describe each.

        Raises:
            KeyError: The batches lack a key.
            TypeError: Discrete actions are no integers.
            ValueError: The arrays do not fit each other or the learner.
        """
        self._check_batch(batches, ["n", "batch"])
        first = self._with_learning_rates()
        return jax.lax.scan(lambda learner, batch: learner._update(batch), first, dict(batches))

    @jax.jit
    def sample_actions(
        self, observations: Any, *, seed: Key[Array, ""] | None = None, temperature: Any = 1.0
    ) -> Array:
        """Actions for one observation or for a batch of them.

        Args:
            observations: The observations.
            seed: Random key; without one, the mode of the distribution is taken.
            temperature: 0 gives the mode, 1 the policy that is learned.

        Returns:
            Actions, in [-1, 1] if they are continuous.
        """
        policy = self._policy(observations, temperature)
        actions = policy.mode() if seed is None else policy.sample(as_key(seed))
        return actions if self.discrete_actions else jnp.clip(actions, -1.0, 1.0)

    @classmethod
    @abstractmethod
    def _initial(
        cls, config: Any, hyperparams: Any, rng: Key[Array, ""], observations: Any, actions: Any
    ) -> Self:
        """The learner before its first update."""

    @abstractmethod
    def _update(self, batch: Batch) -> tuple[Self, Info]:
        """One update; see [`update`][jaxagents.learners.learner.Learner.update]."""

    @abstractmethod
    def _policy(self, observations: Any, temperature: Any) -> ops.Distribution:
        """The distribution of actions."""

    def discounts(self, batch: Batch) -> Any:
        """Discounts of the successors.

        Args:
            batch: Transitions.

        Returns:
            Those of n-step transitions, `batch["discounts"]`, or one for all.
        """
        return batch.get("discounts", self.hyperparams.gamma)

    def _with_learning_rates(self) -> Self:
        """With the learning rates of the hyperparameters in the optimizers."""
        rates = {
            name.removesuffix(_RATE): getattr(self.hyperparams, name)
            for name in field_names(self.hyperparams)
            if name.endswith(_RATE)
        }
        networks = {name: getattr(self, name, None) for name in rates}
        return self.replace(
            **{
                name: with_learning_rate(network, rates[name])
                for name, network in networks.items()
                if network is not None
            }
        )

    def _check_batch(self, batch: Batch, axes: list[str]) -> None:
        check_batch(batch, self.batch_keys, axes, self.discrete_actions)
        first = {
            key: jax.tree.map(lambda x: x[0], batch[key]) for key in ("observations", "actions")
        }
        example = batch if len(axes) == 1 else first
        self._check_policy(example["observations"], example["actions"])

    def _check_networks(self, observations: Any, actions: Any) -> None:
        """Raises if the networks do not fit examples.

        Raises:
            ValueError: They do not.
        """
        self._check_policy(observations, actions)

    def _check_policy(self, observations: Any, actions: Any) -> None:
        given = jax.eval_shape(
            lambda learner, x: learner._policy(x, 1.0).mode(), self, observations
        )
        if given.shape != jnp.shape(actions):
            shapes = jax.tree.map(jnp.shape, observations)
            raise ValueError(
                f"For observations of shape {shapes} the policy gives actions of shape {given.shape}, "
                f"but there are actions of shape {jnp.shape(actions)}."
            )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _created(
    cls: type[Learner], config: Any, hyperparams: Any, rng: Any, observations: Any, actions: Any
) -> Any:
    learner = cls._initial(config, hyperparams, rng, observations, actions)
    learner._check_networks(observations, actions)
    return without_weak_types(learner)


def _as_seed(seed: Any) -> Key[Array, ""]:
    is_number = jnp.ndim(seed) == 0 and jnp.issubdtype(jnp.result_type(seed), jnp.integer)
    return jax.random.key(seed) if is_number else as_key(seed)
