"""Small learners by name, with batches; the shared suite tests every learner listed here."""

from typing import NamedTuple

import numpy as np

from jaxagents.awac import AWACLearner
from jaxagents.bc import BCLearner, DiscreteBCLearner
from jaxagents.c51 import C51Learner
from jaxagents.cql import CQLLearner, DiscreteCQLLearner
from jaxagents.dqn import DDQNLearner, DQNLearner
from jaxagents.iql import IQLLearner
from jaxagents.learners.learner import Learner
from jaxagents.qrdqn import QRDQNLearner
from jaxagents.sac import DiscreteSACLearner, SACLearner
from jaxagents.td3 import TD3Learner
from jaxagents.td3bc import TD3BCLearner

OBS_DIM, ACTION_DIM, N_ACTIONS = 5, 2, 3


class Row(NamedTuple):
    """A learner under test.

    Attributes:
        learner: Its class.
        kwargs: Further keywords of `create`.
        traced: A hyperparameter that changes its updates.
        acting: Its network that acts.
    """

    learner: type[Learner]
    kwargs: dict = {}  # noqa: RUF012
    traced: str = "gamma"
    acting: str = "actor"

    def create(self, seed=0, observations=None, **kwargs):
        batch = self.batch()
        observations = batch["observations"] if observations is None else observations
        fields = {"features": (), **self.kwargs, **kwargs}
        return self.learner.create(seed, observations, batch["actions"], **fields)

    def batch(self, *lead, seed=0):
        return transitions(self.learner.discrete_actions, lead or (16,), seed)


def transitions(discrete_actions, lead, seed=0):
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.normal(size=(*lead, *shape)).astype(np.float32)  # noqa: E731
    box = np.tanh(normal(ACTION_DIM))
    return {
        "observations": normal(OBS_DIM),
        "actions": rng.integers(N_ACTIONS, size=lead) if discrete_actions else box,
        "rewards": normal(),
        "next_observations": normal(OBS_DIM),
        "masks": (rng.uniform(size=lead) > 0.3).astype(np.float32),
    }


RAINBOW = {"double": True, "dueling": True, "noisy": True}
_Q = {"n_actions": N_ACTIONS, "epsilon": 0.5}

LEARNERS = {
    "SAC": Row(SACLearner),
    "DiscreteSAC": Row(DiscreteSACLearner, {"n_actions": N_ACTIONS}),
    "TD3": Row(TD3Learner, acting="critic"),
    "TD3BC": Row(TD3BCLearner, acting="critic"),
    "AWAC": Row(AWACLearner),
    "IQL": Row(IQLLearner),
    "CQL": Row(CQLLearner, {"n_action_samples": 3, "target_action_gap": 1.0}),
    "DiscreteCQL": Row(DiscreteCQLLearner, {"n_actions": N_ACTIONS}, acting="critic"),
    "DQN": Row(DQNLearner, _Q, acting="critic"),
    "DDQN": Row(DDQNLearner, {**_Q, "dueling": True}, acting="critic"),
    "C51": Row(C51Learner, {**_Q, "n_atoms": 5, **RAINBOW}, acting="critic"),
    "QRDQN": Row(QRDQNLearner, {**_Q, "n_quantiles": 5}, acting="critic"),
    "BC": Row(BCLearner, traced="actor_learning_rate"),
    "DiscreteBC": Row(DiscreteBCLearner, {"n_actions": N_ACTIONS}, traced="actor_learning_rate"),
}
