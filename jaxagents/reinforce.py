"""REINFORCE (Williams, 1992) with a critic as baseline.

`REINFORCE` is complete; `REINFORCEBase` leaves the policy to a subclass.
"""

import dataclasses
from typing import Any, ClassVar

from jaxtyping import Array, Float

from jaxagents import ops
from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.on_policy import OnPolicyBase
from jaxagents.agents.ready_made import ReadyMadePolicy
from jaxagents.agents.rollout import Transition
from jaxagents.agents.runners import Runner
from jaxagents.core.hyperparameters import Hyperparameters, Traced, hyperparameter
from jaxagents.core.metrics import MetricStats
from jaxagents.learners.losses import mean_over_samples
from jaxagents.learners.optimizer import OptimizerParams
from jaxagents.learners.train_state import TrainState

__all__ = [
    "REINFORCE",
    "AgentConfig",
    "HyperParameters",
    "MetricStats",
    "OptimizerParams",
    "REINFORCEBase",
    "Runner",
    "TrainState",
    "Transition",
]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OnPolicyConfig):
    """Static configuration of REINFORCE.

    One update step takes `rollout_length` steps in each of `batch_size` environments, and then
    makes one step of the actor, and `critic_epochs` steps of the critic, on all of them.

    Attributes:
        critic_epochs: Passes over the samples for the critic.
    """

    critic_epochs: int = 4
    actor_epochs: ClassVar[int] = 1
    n_minibatches: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive("critic_epochs")


class HyperParameters(Hyperparameters):
    """Traced hyperparameters of REINFORCE.

    Attributes:
        gamma: Discount.
        ent_coeff: Weight of the entropy in the actor's loss.
        actor_optimizer_params: Parameters of the actor's optimizer.
        critic_optimizer_params: Parameters of the critic's optimizer.
        vf_coeff: Weight of the critic's loss.
    """

    gamma: Traced = hyperparameter(0.99, 0.0, 1.0)
    ent_coeff: Traced = hyperparameter(0.0, 0.0)
    actor_optimizer_params: Traced = OptimizerParams()
    critic_optimizer_params: Traced = OptimizerParams()
    vf_coeff: Traced = hyperparameter(1.0, 0.0)


class REINFORCEBase(OnPolicyBase[AgentConfig, HyperParameters]):
    """REINFORCE whose policy a subclass gives, with the hooks of `OnPolicyBase`."""

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters

    @mean_over_samples
    def _actor_loss(
        self,
        training: TrainState,
        obs: Any,
        actions: Any,
        log_prob_old: Float[Array, "samples ..."],
        advantage: Float[Array, "samples ..."],
        hyperparams: Any,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        r"""The likelihood-ratio loss with a baseline and an entropy bonus.

        $$-\frac{1}{N} \sum_t \left(\log \pi(a_t | s_t) (G_t - V(s_t))
        + c\, H(\pi(\cdot | s_t))\right)$$

        Args:
            training: State of the actor's training; differentiated in its `params`.
            obs: Observations, samples first.
            actions: Their actions.
            log_prob_old: Their log-probabilities under the policy that took them.
            advantage: Their returns less the baseline.
            hyperparams: Hyperparameters.

        Returns:
            The loss and the mean KL divergence from the old policy (zero: they are the same).
        """
        log_prob, entropy = self._log_probs_and_entropies(training, obs, actions)
        objective = ops.policy_gradient(log_prob, advantage) + hyperparams.ent_coeff * entropy
        return -objective.mean(), ops.approximate_kl(log_prob, log_prob_old).mean()


class REINFORCE(ReadyMadePolicy, REINFORCEBase):
    """REINFORCE with a critic as baseline, complete for discrete and box actions.

    Returns are Monte-Carlo returns, bootstrapped with the critic where an episode or the rollout is
    cut. Without networks in the configuration it takes default ones of two layers of 64 units.
    """

    def _validate(self) -> None:
        self._check_action_space()
        super()._validate()
