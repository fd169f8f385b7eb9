"""Deep Q-networks (Mnih et al., 2015), and double Q-learning (van Hasselt et al., 2016)."""

import dataclasses
from typing import Any, Literal, get_args

import jax
from jaxtyping import Array, Float, Key

from jaxagents import ops
from jaxagents.agents.config import OffPolicyConfig
from jaxagents.agents.off_policy import OffPolicyBase, ReplayHyperparameters
from jaxagents.core.compilation import compiled
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.trees import check_size
from jaxagents.learners.q_learning import (
    DoubleQLearning,
    QConfig,
    QHyperparameters,
    QLearner,
    QLearnerConfig,
    QLearning,
)

Decay = Literal["linear", "exponential"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class AgentConfig(OffPolicyConfig, QConfig):
    """Static configuration of DQN and of what is built on it.

    Attributes:
        exploration_decay: How the probability of a random action falls: `"linear"` reaches its final
            value after `epsilon_steps`; `"exponential"` nears it with that time constant.
    """

    exploration_decay: Decay = "linear"

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        if self.exploration_decay not in get_args(Decay):
            raise ValueError(
                f"{type(self).__name__}.exploration_decay must be one of {get_args(Decay)}, got "
                f"{self.exploration_decay!r}."
            )


class HyperParameters(QHyperparameters, ReplayHyperparameters):
    """Traced hyperparameters of the agent.

    Beside those of [Q-learning][jaxagents.learners.q_learning.QHyperparameters] and of
    [prioritised replay][jaxagents.agents.off_policy.ReplayHyperparameters]:

    Attributes:
        initial_epsilon: Probability of a random action when learning starts; `epsilon` is the final one.
        epsilon_steps: Number of environment steps, all environments together, in which it falls.
    """

    initial_epsilon: Traced = hyperparameter(1.0, 0.0, 1.0)
    epsilon_steps: Traced = hyperparameter(10_000.0, 0.0)


class DQNLearner(QLearner):
    """Deep Q-networks for batches.

    Mnih et al., 2015, "Human-level control through deep reinforcement learning", with the Huber loss for
    the clipped error. It learns by the hooks of [`QLearning`][jaxagents.learners.q_learning.QLearning].

    Attributes:
        critic: The network.
        target_critic: Its slowly moving copy.
    """


class DDQNLearner(DoubleQLearning, DQNLearner):
    """Double Q-learning for batches.

    It learns by the hooks of [`DoubleQLearning`][jaxagents.learners.q_learning.DoubleQLearning].

    Attributes:
        critic: The network.
        target_critic: Its slowly moving copy.
    """


class DQNBase(QLearning, OffPolicyBase[AgentConfig, HyperParameters]):
    """Q-learning from a replay buffer, exploring with random actions that become rarer.

    Override the hooks `_q`, `_q_target`, `_loss` and `_epsilon`. Its learner asks the agent for them,
    wherever it goes.
    """

    _config_type = AgentConfig
    _hyperparams_type = HyperParameters
    _discrete_learner = QLearner

    def q(self, obs: Any) -> Float[Array, "*batch n_actions"]:
        """The values of all actions, as trained.

        Args:
            obs: One observation, or a batch of them.

        Returns:
            The values.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self._values(self.learner, obs)

    @compiled
    def _values(self, learner: Any, obs: Any) -> Float[Array, "*batch n_actions"]:
        return self._q(learner, learner.critic.params, obs)

    def _epsilon(self, hyperparams: Any, n_steps: Any) -> Float[Array, ""]:
        """The probability of a random action.

        Args:
            hyperparams: Hyperparameters.
            n_steps: Number of environment steps made before, all environments together, without those
                before learning started.

        Returns:
            The probability.
        """
        linear = self.config.exploration_decay == "linear"
        decay = ops.linear_decay if linear else ops.exponential_decay
        return decay(
            n_steps, hyperparams.initial_epsilon, hyperparams.epsilon, hyperparams.epsilon_steps
        )

    def _explore(self, key: Key[Array, ""], learner: Any, obs: Any, n_steps: Any) -> Array:
        epsilon = self._epsilon(learner.hyperparams, n_steps)
        return self.exploring(learner, obs, epsilon).sample(key)

    def _static_fields(self) -> dict[str, Any]:
        return {**super()._static_fields(), "rule": self.behaviour}

    def _validate(self) -> None:
        super()._validate()
        key = jax.eval_shape(lambda: jax.random.key(0))
        learner = jax.eval_shape(self._create_learner, key, self._hyperparams_type())
        values = jax.eval_shape(self._values, learner, self._observation)
        n_actions = int(self.episodes.action_space.n)
        check_size(values, (n_actions,), f"{type(self).__name__}: _q")


class DQN(DQNBase):
    """Deep Q-networks, complete for discrete actions.

    ```python
    env, env_params = gymnax.make("CartPole-v1")
    agent = DQN(env, env_params, AgentConfig(n_steps=20_000))
    runner, metrics = agent.train(jax.random.key(0), HyperParameters())
    agent.q(obs), agent.policy(obs)
    ```
    """

    _discrete_learner = DQNLearner


class DDQN(DoubleQLearning, DQNBase):
    """Double Q-learning, complete for discrete actions; see [`DQN`][jaxagents.dqn.DQN]."""

    _discrete_learner = DDQNLearner


__all__ = [
    "DDQN",
    "DQN",
    "AgentConfig",
    "DDQNLearner",
    "DQNBase",
    "DQNLearner",
    "HyperParameters",
    "QLearnerConfig",
]
