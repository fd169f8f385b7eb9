"""What learners of a policy and of several critics with targets have in common."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Key

from jaxagents import ops
from jaxagents.learners.batches import check_ensemble, weighted_mean
from jaxagents.learners.config import Example
from jaxagents.learners.learner import Batch, Info, Learner
from jaxagents.learners.optimizer import optimized
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import Critic, ensemblize
from jaxagents.networks.initialisation import initialise


class ActorCriticLearner(Learner):
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
        cls, config: Any, hyperparams: Any, key: Key[Array, ""], example: Example
    ) -> tuple[TrainState, TrainState]:
        """The critics before their first update, and their copies."""
        network = config.encoded(config.critic_network or cls._default_critics(config, example))
        inputs = cls._critic_inputs(example.observations, example.actions)
        variables = initialise(network, key, *inputs)
        rate = hyperparams.critic_learning_rate
        critic = optimized(network, variables, config.optimizer, rate)
        return critic, TrainState.from_variables(network, variables)

    @staticmethod
    def _default_critics(config: Any, example: Example) -> nn.Module:
        return ensemblize(Critic, config.n_critics)(config.features)

    @staticmethod
    def _critic_inputs(observations: Any, actions: Any) -> tuple[Any, ...]:
        """What critics are given to value actions."""
        return observations, actions

    def _policy(self, observations: Any, temperature: Any) -> ops.Distribution:
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
        values: Values that they give to the batch's actions.
        targets: What these are fitted to.
        batch: The batch, of which `weights` weigh the samples.

    Returns:
        The loss, and what describes the values: with `weights` also `td_errors`, the mean absolute
        error of the critics at each sample.
    """
    errors = values - targets
    info = {"q": values.mean()}
    if "weights" in batch:
        info["td_errors"] = jnp.abs(errors).mean(axis=0)
    return weighted_mean(jnp.square(errors), batch).sum(), info
