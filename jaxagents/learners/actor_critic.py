"""The base of learners of a policy and of several critics with targets."""

import dataclasses
from typing import TypeVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.core.config import checked
from jaxagents.core.hyperparameters import Traced
from jaxagents.core.numbers import positive
from jaxagents.learners.batches import check_ensemble, weighted_mean
from jaxagents.learners.config import Example, LearnerConfig
from jaxagents.learners.learner import Batch, HyperparametersT, Info, Learner
from jaxagents.learners.optimizer import optimized
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import Critic, ensemblize
from jaxagents.networks.initialisation import initialise


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ActorCriticConfig(LearnerConfig):
    """Static fields of learners of a policy and of several critics.

    Attributes:
        n_critics: Number of critics; the smallest of their values counts (2 in the papers).
    """

    n_critics: int = checked(2, positive)


ActorCriticConfigT = TypeVar("ActorCriticConfigT", bound=ActorCriticConfig)


class ActorCriticLearner(Learner[ActorCriticConfigT, HyperparametersT]):
    """A policy, and an ensemble of critics with slowly moving copies.

    Attributes:
        actor: The policy.
        critic: The critics.
        target_critic: Their slowly moving copies.
    """

    actor: TrainState
    critic: TrainState
    target_critic: TrainState

    batch_keys = ("observations", "actions", "rewards", "next_observations", "masks")

    @classmethod
    def _critics(
        cls,
        config: ActorCriticConfigT,
        learning_rate: Traced,
        key: Key[Array, ""],
        example: Example,
    ) -> tuple[TrainState, TrainState]:
        """The critics before their first update, and their copies."""
        network = config.critic_of(
            config.critic_network or cls.default_networks(config, example)["critic_network"],
            example.observations,
            samples_axis=1,
        )
        inputs = cls._critic_inputs(example.observations, example.actions)
        variables = initialise(network, key, *inputs)
        critic = optimized(network, variables, config.optimizer, learning_rate)
        return critic, TrainState.from_variables(network, variables)

    @classmethod
    def default_networks(cls, config: ActorCriticConfigT, example: Example) -> dict[str, nn.Module]:
        """The default networks, of vectors, by the fields of the configuration; see `Learner`."""
        return {"critic_network": ensemblize(Critic, config.n_critics)(config.features)}

    @classmethod
    def _inputs_of(cls, network: str, observations: PyTree, actions: PyTree) -> tuple[PyTree, ...]:
        takes_actions = network == "critic"
        return cls._critic_inputs(observations, actions) if takes_actions else (observations,)

    @staticmethod
    def _critic_inputs(observations: PyTree, actions: ArrayLike) -> tuple[PyTree, ...]:
        """The inputs by which critics value actions."""
        return observations, actions

    def _policy(self, observations: PyTree, temperature: ArrayLike) -> ops.Distribution:
        return self.actor(observations, temperature=temperature)

    def _check_networks(self, example: Example) -> None:
        super()._check_networks(example)
        inputs = self._critic_inputs(example.observations, example.actions)
        values = jax.eval_shape(TrainState.__call__, self.critic, *inputs)
        shape = jnp.shape(example.actions)
        expected = (*shape, example.action_size) if self.discrete_actions else shape[:-1]
        check_ensemble(values.shape, expected)


def squared_error(
    values: Float[Array, "critics batch"], targets: Float[Array, "batch"], batch: Batch
) -> tuple[Float[Array, ""], Info]:
    """The mean squared error of critics, summed over them.

    Args:
        values: Their values of the batch's actions.
        targets: Targets of these values.
        batch: The batch; its `weights`, if it has any, weigh the samples.

    Returns:
        The loss and the mean value `q`. With `weights` there are also `td_errors`, the mean absolute
        error of the critics for each sample.
    """
    errors = values - targets[None]
    info = {"q": values.mean()}
    if "weights" in batch:
        info["td_errors"] = jnp.abs(errors).mean(axis=0)
    return weighted_mean(jnp.square(errors), batch).sum(), info
