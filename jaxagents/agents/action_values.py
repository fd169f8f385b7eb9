"""The base of agents whose learner gives the values of discrete actions."""

from typing import Generic, TypeVar

from jaxtyping import Array, Float, PyTree

from jaxagents.agents.learner_agent import LearnerAgent, LearnerConfigT, LearnerRunnerT
from jaxagents.agents.program import HyperparametersT
from jaxagents.learners.q_learning import ValueLearner

ValueLearnerT = TypeVar("ValueLearnerT", bound=ValueLearner)


class ActionValues(
    LearnerAgent[LearnerConfigT, HyperparametersT, LearnerRunnerT],
    Generic[LearnerConfigT, HyperparametersT, LearnerRunnerT, ValueLearnerT],
):
    """An agent that acts by the values of discrete actions."""

    @property
    def learner(self) -> ValueLearnerT:
        """The trained learner.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self._trained_runner().learner

    def q(self, obs: PyTree) -> Float[Array, "*batch n_actions"]:
        """The values of all actions, as trained.

        Args:
            obs: One observation, or a batch of them.

        Returns:
            The values.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self.learner.q(obs)
