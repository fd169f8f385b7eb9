"""The base of agents whose learner gives the values of discrete actions."""

from typing import Generic, TypeVar

from jaxtyping import Array, Float, PyTree

from jaxagents.agents.checks.observations import naming_observations
from jaxagents.agents.learner_agent import LearnerAgent, LearnerConfigT, LearnerRunnerT
from jaxagents.core.observed import observation_of
from jaxagents.engine.program import HyperparametersT
from jaxagents.learners.q_learning import ValueLearner

ValueLearnerT = TypeVar("ValueLearnerT", bound=ValueLearner)


class ActionValues(
    LearnerAgent[LearnerConfigT, HyperparametersT, LearnerRunnerT],
    Generic[LearnerConfigT, HyperparametersT, LearnerRunnerT, ValueLearnerT],
):
    """An agent that acts by the values of discrete actions, with or without a memory."""

    _discrete_learner: type[ValueLearner]

    @property
    def learner(self) -> ValueLearnerT:
        """The trained learner.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self._last.usable_runner.learner

    def q(self, obs: PyTree) -> Float[Array, "*batch n_actions"]:
        """The values of all actions, as trained.

        Args:
            obs: One observation, or a batch of them.

        Returns:
            The values.

        Raises:
            RuntimeError: The agent has not been trained.
            TypeError: The learner has a memory.
            ValueError: The observation does not fit the environment.
        """
        learner, seen = self.learner, observation_of(obs)
        with naming_observations(seen, self._observation, batches=True, method="q"):
            return learner.q(obs)
