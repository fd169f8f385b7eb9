"""What learners of a policy and of several critics with targets have in common."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from jaxagents import ops
from jaxagents.core.batches import check_ensemble
from jaxagents.core.learner import Learner
from jaxagents.core.optimizer import optimized
from jaxagents.core.train_state import TrainState
from jaxagents.networks import Critic, ensemblize
from jaxagents.networks.initialisation import initialise


class ActorCriticLearner(Learner):
    """A policy over continuous actions, and an ensemble of critics with slowly moving copies.

    Attributes:
        actor: The policy.
        critic: The critics.
        target_critic: Their slowly moving copies.
    """

    actor: TrainState
    critic: TrainState
    target_critic: TrainState

    batch_keys = ("observations", "actions", "rewards", "next_observations", "masks")

    @staticmethod
    def _critics(
        config: Any, hyperparams: Any, key: Key[Array, ""], observations: Any, actions: Any
    ) -> tuple[TrainState, TrainState]:
        """The critics before their first update, and their copies."""
        network = config.encoded(
            config.critic_network or ensemblize(Critic, config.n_critics)(config.features)
        )
        variables = initialise(network, key, observations, actions)
        rate = hyperparams.critic_learning_rate
        critic = optimized(network, variables, config.optimizer, rate)
        return critic, TrainState.from_variables(network, variables)

    def _policy(self, observations: Any, temperature: Any) -> ops.Distribution:
        return self.actor(observations, temperature=temperature)

    def _check_networks(self, observations: Any, actions: Any) -> None:
        super()._check_networks(observations, actions)
        values = jax.eval_shape(TrainState.__call__, self.critic, observations, actions)
        check_ensemble(values.shape, jnp.shape(actions))
