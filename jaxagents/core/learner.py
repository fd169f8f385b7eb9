"""What learns from batches of transitions, wherever these come from."""

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import struct
from jaxtyping import Array, Key

from jaxagents import ops
from jaxagents.core.arrays import without_weak_types
from jaxagents.core.checks import positive
from jaxagents.core.config import StaticConfig, check_known_fields, field_names
from jaxagents.core.keys import as_key
from jaxagents.core.pickling import PicklableNode
from jaxagents.core.types import Hyperparameters
from jaxagents.networks import WithEncoder

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
            gives the values of each along a first axis, as an ensemble does.
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
        widths = tuple(positive(f"{type(self).__name__}.features", n) for n in self.features)
        object.__setattr__(self, "features", widths)

    def encoded(self, network: nn.Module) -> nn.Module:
        """A network behind the encoder, if there is one."""
        return network if self.encoder is None else WithEncoder(self.encoder, network)


class Learner(PicklableNode):
    """Networks and the rule by which they learn from batches, as a pytree.

    ```python
    learner = SACLearner.create(0, observations, actions, gamma=0.98)
    learner, info = learner.update(batch)
    actions = learner.sample_actions(observations, seed=jax.random.key(1))
    ```

    A subclass gives `_initial`, `_update` and `_policy`, its batch's keys, and the classes of its
    configuration and hyperparameters.

    Attributes:
        config: What compiled programs depend on (static).
        hyperparams: Numbers, which may be traced.
        rng: Random key of the updates to come.
    """

    config: Any = struct.field(pytree_node=False)
    hyperparams: Any
    rng: Any

    _config_type: ClassVar[type[LearnerConfig]]
    _hyperparams_type: ClassVar[type[Hyperparameters]]
    batch_keys: ClassVar[tuple[str, ...]]
    discrete_actions: ClassVar[bool] = False

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
            TypeError: A keyword is no field, or the actions are of the wrong kind.
            ValueError: A number is out of range.
        """
        static, traced = field_names(cls._config_type), field_names(cls._hyperparams_type)
        check_known_fields(cls, kwargs, [*static, *traced])
        config = cls._config_type(**{k: v for k, v in kwargs.items() if k in static})
        hyperparams = cls._hyperparams_type(**{k: v for k, v in kwargs.items() if k in traced})
        hyperparams.check_ranges()
        cls._check_actions(actions)
        return _created(cls, config, hyperparams, _as_seed(seed), observations, actions)

    @jax.jit
    def update(self, batch: Batch) -> tuple[Self, Info]:
        """Learns from one batch.

        Args:
            batch: Arrays with a leading axis of samples, under the learner's `batch_keys`.

        Returns:
            The learner after the update, and scalars that describe it.

        Raises:
            KeyError: The batch lacks a key.
            ValueError: There is not one reward, mask or discrete action for each sample.
        """
        self._check_batch(batch, ["batch"])
        return self._update(batch)

    @jax.jit
    def update_many(self, batches: Batch) -> tuple[Self, Info]:
        """Learns from several batches, one after another, in one compiled call.

        Args:
            batches: Arrays with leading axes of batches and of samples.

        Returns:
            The learner after the last update, and arrays that describe each.

        Raises:
            KeyError: The batches lack a key.
            ValueError: There is not one reward, mask or discrete action for each sample.
        """
        self._check_batch(batches, ["n", "batch"])
        return jax.lax.scan(lambda learner, batch: learner._update(batch), self, dict(batches))

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
        """One update; see [`update`][jaxagents.core.learner.Learner.update]."""

    @abstractmethod
    def _policy(self, observations: Any, temperature: Any) -> ops.Distribution:
        """The distribution of actions."""

    def _discounts(self, batch: Batch) -> Any:
        """Discounts of the successors: those of n-step transitions, or one for all."""
        return batch.get("discounts", self.hyperparams.gamma)

    @classmethod
    def _check_batch(cls, batch: Batch, axes: list[str]) -> None:
        missing = [key for key in cls.batch_keys if key not in batch]
        if missing:
            raise KeyError(
                f"{cls.__name__} learns from {list(cls.batch_keys)}, but the batch lacks {missing}; "
                f"it has {sorted(batch)}."
            )
        numbers = ["rewards", "masks", "discounts", *(["actions"] if cls.discrete_actions else [])]
        for key in set(numbers) & set(batch):
            shape = jnp.shape(batch[key])
            if len(shape) != len(axes):
                raise ValueError(
                    f"{key!r} must have one number for each sample, shape ({', '.join(axes)}), got "
                    f"shape {shape}."
                )

    @classmethod
    def _check_actions(cls, actions: Any) -> None:
        kind = jnp.integer if cls.discrete_actions else jnp.floating
        dtype, ndim = jnp.result_type(actions), jnp.ndim(actions)
        if not jnp.issubdtype(dtype, kind):
            raise TypeError(
                f"{cls.__name__} takes {kind.__name__} actions, got an example of type {dtype}."
            )
        if not cls.discrete_actions and ndim == 0:
            raise ValueError(
                f"{cls.__name__} takes actions with a last axis of components, got a scalar: "
                "an environment's action has shape (action_dim,)."
            )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _created(
    cls: type[Learner], config: Any, hyperparams: Any, rng: Any, observations: Any, actions: Any
) -> Any:
    return without_weak_types(cls._initial(config, hyperparams, rng, observations, actions))


def _as_seed(seed: Any) -> Key[Array, ""]:
    is_number = jnp.ndim(seed) == 0 and jnp.issubdtype(jnp.result_type(seed), jnp.integer)
    return jax.random.key(seed) if is_number else as_key(seed)
