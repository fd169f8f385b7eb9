"""Independent PPO (de Witt et al., 2020) for environments of several actors.

All actors share one update: the networks emit the outputs of all of them, with a leading `n_actors`
axis, and losses are averaged over samples and actors. Learning is independent: each
actor's advantages and ratios are its own. `IPPO` is complete; `IPPOBase` leaves the policy to a
subclass.
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
    """IPPO whose policy a subclass gives, with the hooks of [`PPOBase`][jaxagents.ppo.PPOBase].

    Hooks are given one joint observation. Actions, log-probabilities, entropies and values have a
    leading `n_actors` axis.
    """

    _is_of_actors = True


class IPPO(ReadyMadePolicy[AgentConfig, HyperParameters], IPPOBase):
    """IPPO, complete for actors with discrete or box actions.

    `env.action_space` is the space of one actor. By default every actor has networks of its own; it
    sees its own row of the observations if all of these have a leading `n_actors` axis (and at
    least one more), and everything otherwise.
    """
