"""Deep Q-networks (Mnih et al., 2015), and double Q-learning (van Hasselt et al., 2016)."""

import dataclasses
from typing import Literal

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxagents import ops
from jaxagents.agents.config import OffPolicyConfig
from jaxagents.agents.learner_agent import ActionValues
from jaxagents.agents.off_policy import OffPolicyBase, ReplayHyperparameters
from jaxagents.agents.runners import OffPolicyRunner
from jaxagents.core.config import checked, one_of
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.learners.learner import Batch, Info
from jaxagents.learners.q_learning import QConfig, QHyperparameters, QLearner, td_targets

Decay = Literal["linear", "exponential"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OffPolicyConfig, QConfig):
    """Static configuration of DQN and of the agents built on it.

    Attributes:
        exploration_decay: How epsilon decays: `"linear"` reaches the final value after `epsilon_steps`;
            `"exponential"` approaches it with that time constant.
    """

    exploration_decay: Decay = checked("linear", one_of(Decay))


class HyperParameters(QHyperparameters, ReplayHyperparameters):
    """Traced hyperparameters of the agent.

    Extends the hyperparameters of [Q-learning][jaxagents.learners.q_learning.QHyperparameters] and
    [prioritised replay][jaxagents.agents.off_policy.ReplayHyperparameters].

    Attributes:
        initial_epsilon: Probability of a random action when learning starts; it decays to `epsilon`.
        epsilon_steps: Number of environment steps that the decay takes, over all environments.
    """

    initial_epsilon: Traced = hyperparameter(1.0, 0.0, 1.0)
    epsilon_steps: Traced = hyperparameter(10_000.0, 0.0)


class DQNLearner(QLearner[QConfig, QHyperparameters]):
    """DQN's learner.

    Mnih et al., 2015, "Human-level control through deep reinforcement learning", algorithm 1, with the
    Huber loss instead of error clipping.

    Attributes:
        critic: The online network.
        target_critic: The target network.
    """

    def _q_target(self, batch: Batch) -> Float[Array, "batch"]:
        r"""The target $y = r + \gamma \max_a Q_{\theta'}(s', a)$."""
        next_values = self.allowed_q(self.target_critic.params, batch["next_observations"])
        return td_targets(self, batch, next_values.max(axis=-1))

    def _loss(
        self, params: PyTree, batch: Batch, targets: Float[Array, "batch"]
    ) -> tuple[Float[Array, "batch"], Info]:
        """The Huber loss of the temporal-difference error; the error sets the priority."""
        q = ops.values_of(self._q(params, batch["observations"]), batch["actions"])
        return optax.huber_loss(q, targets), {"q": q, "td_errors": jnp.abs(q - targets)}


class DDQNLearner(DQNLearner):
    """Double DQN's learner: the online network selects actions, the target network evaluates them.

    Van Hasselt et al., 2016, "Deep reinforcement learning with double Q-learning", equation 4.

    Attributes:
        critic: The online network.
        target_critic: The target network.
    """

    def _q_target(self, batch: Batch) -> Float[Array, "batch"]:
        r"""The target $y = r + \gamma \, Q_{\theta'}(s', \arg\max_a Q_\theta(s', a))$."""
        obs = batch["next_observations"]
        chosen = self.allowed_q(self.critic.params, obs).argmax(axis=-1)
        next_values = ops.values_of(self._q(self.target_critic.params, obs), chosen)
        return td_targets(self, batch, next_values)


class DQNBase(
    ActionValues[AgentConfig, HyperParameters, OffPolicyRunner, QLearner],
    OffPolicyBase[AgentConfig, HyperParameters],
):
    """Base class of agents with a Q-learner, a replay buffer and epsilon-greedy exploration.

    The hook `_epsilon` defines how epsilon decays. Values, targets and losses are hooks of the
    learner, whose class a subclass can replace:

    ```python
    class MyLearner(DQNLearner):
        def _q_target(self, batch): ...


    class MyDQN(DQN):
        _discrete_learner = MyLearner
    ```
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _discrete_learner: type[QLearner] = DQNLearner
    _hooks = (*OffPolicyBase._hooks, "_epsilon")

    def _epsilon(self, hyperparams: HyperParameters, n_steps: Float[Array, ""]) -> Float[Array, ""]:
        """The probability of a random action.

        Args:
            hyperparams: Hyperparameters.
            n_steps: Number of environment steps since learning started, over all environments.

        Returns:
            The probability.
        """
        linear = self.config.exploration_decay == "linear"
        decay = ops.linear_decay if linear else ops.exponential_decay
        return decay(
            n_steps, hyperparams.initial_epsilon, hyperparams.epsilon, hyperparams.epsilon_steps
        )

    def _explore(
        self, key: Key[Array, ""], learner: QLearner, obs: PyTree, n_steps: Float[Array, ""]
    ) -> Int[Array, "environments"]:
        epsilon = self._epsilon(learner.hyperparams, n_steps)
        return learner.with_noise(key).epsilon_greedy(obs, epsilon).sample(key)


class DQN(DQNBase):
    """Deep Q-networks for discrete actions.

    ```python
    env, env_params = gymnax.make("CartPole-v1")
    agent = DQN(env, env_params, AgentConfig(n_steps=20_000))
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    agent.q(obs), agent.policy(obs)
    ```
    """


class DDQN(DQNBase):
    """Double DQN for discrete actions; see [`DQN`][jaxagents.dqn.DQN]."""

    _discrete_learner = DDQNLearner
