"""Proximal policy optimization (Schulman et al., 2017) for one actor.

`PPO` is ready to use; `PPOBase` leaves the policy to a subclass.
"""

import dataclasses
from typing import TYPE_CHECKING

from jaxtyping import Array, Float, PyTree

from jaxagents import ops
from jaxagents.agents.collect import AdvantageInput as AdvantageInput
from jaxagents.agents.collect import ReturnInput as ReturnInput
from jaxagents.agents.collect import Transition as Transition
from jaxagents.agents.collect import playing
from jaxagents.agents.config import OnPolicyConfig, OnPolicyHyperparameters
from jaxagents.agents.on_policy import OnPolicyBase
from jaxagents.agents.ready_made import ReadyMadePolicy
from jaxagents.agents.runners import Runner as Runner
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.metrics import MetricStats as MetricStats
from jaxagents.core.names import former_names
from jaxagents.learners.optimizer import OptimizerParams as OptimizerParams
from jaxagents.learners.train_state import Info
from jaxagents.learners.train_state import TrainState as TrainState

if not TYPE_CHECKING:  # a type checker would believe that any name exists
    __getattr__ = former_names(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OnPolicyConfig):
    """Static configuration of PPO.

    Each update collects `rollout_length` steps in each of `batch_size` environments, and then
    trains the actor for `actor_epochs` and the critic for `critic_epochs` passes over them, in
    `batch_size / minibatch_size` minibatches. Each epoch shuffles the samples of all environments and
    time steps.

    Attributes:
        minibatch_size: Number of environments per minibatch.
        actor_epochs: Passes over the samples for the actor.
        critic_epochs: Passes over the samples for the critic.
    """

    minibatch_size: int | None = 4
    actor_epochs: int = 4
    critic_epochs: int = 4


class HyperParameters(OnPolicyHyperparameters):
    """Traced hyperparameters of PPO.

    Extends the
    [hyperparameters of all on-policy agents][jaxagents.agents.config.OnPolicyHyperparameters].

    Attributes:
        gae_lambda: Trace decay of advantages and returns.
        eps_clip: Clip range: largest deviation of the probability ratio from 1 that is rewarded.
        ent_coeff: Weight of the entropy bonus in the actor's loss.
        kl_threshold: Mean KL divergence (in nats) above which the actor's epochs stop early.
    """

    gae_lambda: Traced = hyperparameter(0.95, 0.0, 1.0)
    eps_clip: Traced = hyperparameter(0.2, 0.0, infinite=True)
    ent_coeff: Traced = hyperparameter(0.0, 0.0)
    kl_threshold: Traced = hyperparameter(float("inf"), 0.0, infinite=True)


class PPOBase(OnPolicyBase[AgentConfig, HyperParameters]):
    """Base class of PPO agents with a custom policy.

    Define either the hooks `_sample_actions`, `_log_prob`, `_entropy` and `policy`, or `_distribution`,
    and set both networks in the configuration. You can also override losses, advantages and returns.
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters

    def _validate(self) -> None:
        super()._validate()
        config = self.config
        is_standardised = type(self)._actor_minibatch is PPOBase._actor_minibatch
        if is_standardised and config.samples_of_minibatch == 1:
            name = type(config).__name__
            raise ValueError(
                f"A minibatch of {type(self).__name__} must have several samples, since their "
                f"advantages are standardised, but {name}.batch_size ({config.batch_size}) * "
                f"rollout_length ({config.rollout_length}) in {config.n_minibatches} "
                "minibatches is 1: use fewer minibatches or a longer rollout."
            )

    def _actor_minibatch(
        self, obs: PyTree, actions: PyTree, log_prob_old: Array, advantage: Array, *others: PyTree
    ) -> tuple[PyTree, ...]:
        """Standardises the advantages of a minibatch."""
        advantage = ops.standardise(advantage, weights=playing(obs))
        return obs, actions, log_prob_old, advantage, *others

    def _actor_loss(
        self,
        training: TrainState,
        obs: PyTree,
        actions: PyTree,
        log_prob_old: Float[Array, "samples ..."],
        advantage: Float[Array, "samples ..."],
        hyperparams: HyperParameters,
    ) -> tuple[Float[Array, "samples ..."], Info]:
        r"""The clipped surrogate with an entropy bonus.

        $$-\left(L_t + c\, H(\pi(\cdot | s_t))\right)$$

        with $L_t$ from [`clipped_surrogate`][jaxagents.ops.clipped_surrogate].

        Args:
            training: Train state of the actor; the loss is differentiated with respect to its
                `params`.
            obs: Observations of a minibatch, samples first.
            actions: The actions taken.
            log_prob_old: Their log-probabilities under the policy that took them.
            advantage: Their standardised advantages.
            hyperparams: Hyperparameters.

        Returns:
            The loss of each sample, and a dict with the KL divergence from the old policy, the entropy,
            and whether the ratio is clipped.
        """
        log_prob, entropy = self._log_probs_and_entropies(training, obs, actions)
        objective = ops.clipped_surrogate(log_prob, log_prob_old, advantage, hyperparams.eps_clip)
        info = {
            "kl": ops.approximate_kl(log_prob, log_prob_old),
            "entropy": entropy,
            "clip_fraction": ops.is_clipped(log_prob, log_prob_old, hyperparams.eps_clip),
        }
        return -(objective + hyperparams.ent_coeff * entropy), info

    def _gae_lambda(self, hyperparams: HyperParameters) -> Traced:
        """Trace decay of returns and advantages."""
        return hyperparams.gae_lambda

    def _kl_threshold(self, hyperparams: HyperParameters) -> Traced | None:
        """Mean KL divergence above which the actor's epochs stop early."""
        return hyperparams.kl_threshold


class PPO(ReadyMadePolicy[AgentConfig, HyperParameters], PPOBase):
    """PPO for discrete and continuous actions.

    ```python
    env, env_params = gymnax.make("CartPole-v1")
    agent = PPO(env, env_params, AgentConfig(n_steps=200))
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```

    The default networks have two hidden layers of 64 units; the configuration can replace them.
    """
