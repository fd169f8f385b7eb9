"""Independent PPO (de Witt et al., 2020) for multi-agent environments.

All actors share one update: the networks return the outputs of all actors, with a leading `n_actors`
axis, and losses are averaged over samples and actors. Learning is independent, since each actor has
its own advantages and ratios. `IPPO` is ready to use; `IPPOBase` leaves the policy to a subclass.
"""

from jaxagents.agents.collect import Transition as Transition
from jaxagents.agents.ready_made import ReadyMadePolicy
from jaxagents.agents.runners import Runner as Runner
from jaxagents.core.metrics import MetricStats as MetricStats
from jaxagents.learners.optimizer import OptimizerParams as OptimizerParams
from jaxagents.ppo import AgentConfig as AgentConfig
from jaxagents.ppo import HyperParameters as HyperParameters
from jaxagents.ppo import PPOBase
from jaxagents.ppo import TrainState as TrainState


class IPPOBase(PPOBase):
    """Base class of IPPO agents with a custom policy; see [`PPOBase`][jaxagents.ppo.PPOBase].

    Hooks receive one joint observation. Actions, log-probabilities, entropies and values have a leading
    `n_actors` axis.
    """

    _is_of_actors = True


class IPPO(ReadyMadePolicy[AgentConfig, HyperParameters], IPPOBase):
    """IPPO for actors with discrete or continuous actions.

    `env.action_space` is the space of one actor. By default, each actor has its own networks. An
    actor sees its own row of the observation if every array in it has a leading `n_actors` axis and at
    least one more axis; otherwise it sees everything.
    """
