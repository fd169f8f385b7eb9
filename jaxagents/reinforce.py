"""REINFORCE (Williams, 1992) with a critic as baseline.

`REINFORCE` is ready to use; `REINFORCEBase` leaves the policy to a subclass.
"""

import dataclasses
from typing import ClassVar

from jaxtyping import Array, Float, PyTree

from jaxagents import ops
from jaxagents.agents.collect import Transition as Transition
from jaxagents.agents.config import OnPolicyConfig, OnPolicyHyperparameters
from jaxagents.agents.on_policy import OnPolicyBase
from jaxagents.agents.ready_made import ReadyMadePolicy
from jaxagents.agents.runners import Runner as Runner
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.metrics import MetricStats as MetricStats
from jaxagents.learners.optimizer import OptimizerParams as OptimizerParams
from jaxagents.learners.train_state import Info
from jaxagents.learners.train_state import TrainState as TrainState


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OnPolicyConfig):
    """Static configuration of REINFORCE.

    Each update collects `rollout_length` steps in each of `batch_size` environments, and then takes one
    gradient step on the actor and `critic_epochs` steps on the critic, each on all samples.

    Attributes:
        critic_epochs: Passes over the samples for the critic.
    """

    critic_epochs: int = 4
    actor_epochs: ClassVar[int] = 1
    minibatch_size: ClassVar[None] = None
    minibatches_per_epoch: ClassVar[None] = None


class HyperParameters(OnPolicyHyperparameters):
    """Traced hyperparameters of REINFORCE.

    Extends the
    [hyperparameters of all on-policy agents][jaxagents.agents.config.OnPolicyHyperparameters].

    Attributes:
        ent_coeff: Weight of the entropy bonus in the actor's loss.
    """

    ent_coeff: Traced = hyperparameter(0.0, 0.0)


class REINFORCEBase(OnPolicyBase[AgentConfig, HyperParameters]):
    """Base class of REINFORCE agents with a custom policy, defined by the hooks of `OnPolicyBase`."""

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters

    def _actor_loss(
        self,
        training: TrainState,
        obs: PyTree,
        actions: PyTree,
        log_prob_old: Float[Array, "samples ..."],
        advantage: Float[Array, "samples ..."],
        hyperparams: HyperParameters,
    ) -> tuple[Float[Array, "samples ..."], Info]:
        r"""The policy gradient loss with a baseline and an entropy bonus.

        $$-\left(\log \pi(a_t | s_t) (G_t - V(s_t)) + c\, H(\pi(\cdot | s_t))\right)$$

        Args:
            training: Train state of the actor; the loss is differentiated with respect to its
                `params`.
            obs: Observations, samples first.
            actions: The actions taken.
            log_prob_old: Their log-probabilities under the policy that took them.
            advantage: Returns minus the baseline.
            hyperparams: Hyperparameters.

        Returns:
            The loss of each sample, and a dict with the entropy.
        """
        log_prob, entropy = self._log_probs_and_entropies(training, obs, actions)
        objective = ops.policy_gradient(log_prob, advantage) + hyperparams.ent_coeff * entropy
        return -objective, {"entropy": entropy}


class REINFORCE(ReadyMadePolicy[AgentConfig, HyperParameters], REINFORCEBase):
    """REINFORCE with a critic as baseline, for discrete and continuous actions.

    Monte Carlo returns are bootstrapped with the critic where an episode is truncated or the rollout
    ends. The default networks have two hidden layers of 64 units; the configuration can replace them.
    """
