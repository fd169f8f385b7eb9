"""The base class of learners with a policy, and critics with target networks."""

import dataclasses
from typing import Any, ClassVar, Self, TypeVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.core.config import checked
from jaxagents.core.hyperparameters import Hyperparameters, Traced, hyperparameter
from jaxagents.core.numbers import positive
from jaxagents.learners.batches import check_targets, weighted_mean
from jaxagents.learners.config import Example, LearnerConfig
from jaxagents.learners.learner import Batch, Info, Learner, create_network
from jaxagents.learners.train_state import TrainState, check_mean_loss, target_of
from jaxagents.networks import Critic, ensemblize


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ActorCriticConfig(LearnerConfig):
    """Static configuration of actor-critic learners.

    Attributes:
        n_critics: Number of critics (2 in the papers); their minimum is used.
    """

    n_critics: int = checked(2, positive)


class ActorCriticHyperparameters(Hyperparameters):
    """Traced hyperparameters of actor-critic learners.

    Attributes:
        gamma: Discount.
        tau: Soft-update coefficient of the target networks.
        actor_learning_rate: Learning rate of the policy.
        critic_learning_rate: Learning rate of the critics.
    """

    gamma: Traced = hyperparameter(0.99, 0.0, 1.0)
    tau: Traced = hyperparameter(0.005, 0.0, 1.0)
    actor_learning_rate: Traced = hyperparameter(3e-4, 0.0)
    critic_learning_rate: Traced = hyperparameter(3e-4, 0.0)


ActorCriticConfigT = TypeVar("ActorCriticConfigT", bound=ActorCriticConfig)
ActorCriticHyperparametersT = TypeVar(
    "ActorCriticHyperparametersT", bound=ActorCriticHyperparameters
)


class ActorCriticLearner(Learner[ActorCriticConfigT, ActorCriticHyperparametersT]):
    """Base class of learners with a policy and an ensemble of critics with target networks.

    Attributes:
        actor: The policy.
        critic: The critics.
        target_critic: The target networks of the critics.
    """

    actor: TrainState
    critic: TrainState
    target_critic: TrainState

    batch_keys = ("observations", "actions", "rewards", "next_observations", "masks")
    _with_targets: ClassVar[tuple[str, ...]] = ("critic",)
    """Networks with a target network, in a field `target_...`."""

    @classmethod
    def _initial(
        cls,
        config: ActorCriticConfigT,
        hyperparams: ActorCriticHyperparametersT,
        rng: Key[Array, ""],
        example: Example,
    ) -> Self:
        rng, actor_key, critic_key, key = jax.random.split(rng, 4)
        critic = config.critic_of(
            config.critic_network or cls.default_networks(config, example)["critic_network"],
            example.observations,
            samples_axis=1,
        )
        inputs = cls._critic_inputs(example.observations, example.actions)
        rate = hyperparams.critic_learning_rate
        networks: dict[str, Any] = {
            "actor": cls._create_actor(config, hyperparams.actor_learning_rate, actor_key, example),
            "critic": create_network(critic, config.optimizer, rate, critic_key, *inputs),
        }
        networks |= {f"target_{name}": target_of(networks[name]) for name in cls._with_targets}
        networks |= cls._further_networks(config, hyperparams, key, example)
        return cls(config=config, hyperparams=hyperparams, rng=rng, **networks)

    @classmethod
    def _further_networks(
        cls,
        config: ActorCriticConfigT,
        hyperparams: ActorCriticHyperparametersT,
        key: Key[Array, ""],
        example: Example,
    ) -> dict[str, TrainState]:
        """Networks besides the policy and the critics, by name."""
        return {}

    @classmethod
    def default_networks(cls, config: ActorCriticConfigT, example: Example) -> dict[str, nn.Module]:
        """The default networks for vector observations, by configuration field; see `Learner`."""
        return {"critic_network": ensemblize(Critic, config.n_critics)(config.features)}

    @classmethod
    def _inputs_of(cls, network: str, observations: PyTree, actions: PyTree) -> tuple[PyTree, ...]:
        takes_actions = network == "critic"
        return cls._critic_inputs(observations, actions) if takes_actions else (observations,)

    @staticmethod
    def _critic_inputs(observations: PyTree, actions: ArrayLike) -> tuple[PyTree, ...]:
        return observations, actions

    def _policy(self, observations: PyTree, temperature: ArrayLike) -> ops.Distribution:
        return self.actor(observations, temperature=temperature)

    def _fit_critics(
        self, targets: Float[Array, "batch"], batch: Batch, **kwargs: Any
    ) -> tuple[TrainState, Info]:
        """Takes a gradient step on the critics' loss; passes additional arguments to the critics."""
        check_targets(f"{type(self).__name__}._targets", jnp.shape(targets), batch)

        def loss_fn(params: PyTree) -> tuple[Array, Info]:
            return self._loss_of_critics(self._values(params, batch, **kwargs), targets, batch)

        return self.critic.apply_loss_fn(loss_fn=loss_fn, has_aux=True)

    def _values(self, params: PyTree, batch: Batch, **kwargs: Any) -> Float[Array, "critics batch"]:
        """The critics' values of the batch's actions."""
        return self.critic(batch["observations"], batch["actions"], params=params, **kwargs)

    def _loss_of_critics(
        self, values: Float[Array, "critics batch"], targets: Float[Array, "batch"], batch: Batch
    ) -> tuple[Float[Array, ""], Info]:
        output = self._critic_loss(values, targets, batch)
        check_mean_loss(f"{type(self).__name__}._critic_loss", output)
        return output

    @staticmethod
    def _critic_loss(
        values: Float[Array, "critics batch"], targets: Float[Array, "batch"], batch: Batch
    ) -> tuple[Float[Array, ""], Info]:
        """The mean squared error, summed over the critics."""
        loss, info = squared_error(values, targets, batch)
        return loss, {"critic_loss": loss, **info}

    def _check_networks(self, example: Example) -> None:
        super()._check_networks(example)
        inputs = self._critic_inputs(example.observations, example.actions)
        values = jax.eval_shape(TrainState.__call__, self.critic, *inputs)
        shape = jnp.shape(example.actions)
        expected = (*shape, example.action_size) if self.discrete_actions else shape[:-1]
        if values.shape[1:] != expected or not values.shape:
            axes = ", ".join(["critics", *map(str, expected)])
            raise ValueError(
                f"critic_network must output values of shape ({axes}), got {values.shape}: make "
                "several critics with jaxagents.networks.ensemblize(Critic, 2)()."
            )


def squared_error(
    values: Float[Array, "critics batch"], targets: Float[Array, "batch"], batch: Batch
) -> tuple[Float[Array, ""], Info]:
    """The mean squared error, summed over the critics.

    Args:
        values: The critics' values of the batch's actions.
        targets: Targets for these values.
        batch: The batch; samples are weighted by its `weights`, if it has any.

    Returns:
        The loss and the mean value `q`; with `weights` also `td_errors`, the mean absolute error of the
        critics for each sample.
    """
    errors = values - targets[None]
    info = {"q": values.mean()}
    if "weights" in batch:
        info["td_errors"] = jnp.abs(errors).mean(axis=0)
    return weighted_mean(jnp.square(errors), batch).sum(), info
