"""Advantage actor-critic, the synchronous version of A3C (Mnih et al., 2016).

`A2C` is ready to use; `A2CBase` leaves the policy to a subclass.
"""

import dataclasses

from jaxtyping import Array, Float, PyTree

from jaxagents import ops
from jaxagents.agents.config import OnPolicyConfig, OnPolicyHyperparameters
from jaxagents.agents.on_policy import OnPolicyBase
from jaxagents.agents.ready_made import ReadyMadePolicy
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.learners.optimizer import OptimizerParams as OptimizerParams
from jaxagents.learners.train_state import Info, TrainState


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OnPolicyConfig):
    """Static configuration of A2C, which takes one gradient step per short rollout."""

    rollout_length: int = 5


class HyperParameters(OnPolicyHyperparameters):
    """Traced hyperparameters of A2C.

    Extends the
    [hyperparameters of all on-policy agents][jaxagents.agents.config.OnPolicyHyperparameters].

    Attributes:
        gae_lambda: Trace decay of advantages and returns; 1 uses all rewards of the rollout.
        ent_coeff: Weight of the entropy bonus in the actor's loss.
    """

    gae_lambda: Traced = hyperparameter(1.0, 0.0, 1.0)
    ent_coeff: Traced = hyperparameter(0.01, 0.0)


class A2CBase(OnPolicyBase[AgentConfig, HyperParameters]):
    """Base class of A2C agents with a custom policy, defined by the hooks of `OnPolicyBase`."""

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
        r"""The policy gradient with an entropy bonus.

        $$-\left(\log \pi(a_t | s_t) A_t + c\, H(\pi(\cdot | s_t))\right)$$

        Mnih et al., 2016, "Asynchronous methods for deep reinforcement learning", algorithm S3.
        """
        log_prob, entropy = self._log_probs_and_entropies(training, obs, actions)
        objective = ops.policy_gradient(log_prob, advantage) + hyperparams.ent_coeff * entropy
        return -objective, {"entropy": entropy}

    def _gae_lambda(self, hyperparams: HyperParameters) -> Traced:
        """Trace decay of returns and advantages."""
        return hyperparams.gae_lambda


class A2C(ReadyMadePolicy[AgentConfig, HyperParameters], A2CBase):
    """A2C for discrete and continuous actions.

    ```python
    env, env_params = gymnax.make("CartPole-v1")
    agent = A2C(env, env_params, AgentConfig(n_steps=2_000))
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    ```

    The default networks have two hidden layers of 64 units; the configuration can replace them.
    """
