"""Independent PPO (de Witt et al., 2020) for environments of several actors.

All actors share one update: the networks emit the outputs of all of them, with a leading `n_actors`
axis, and losses are averaged over samples and actors. Learning is independent: each
actor's advantages and ratios are its own. `IPPO` is complete; `IPPOBase` leaves the policy to a
subclass.
"""

from jaxagents.agents.collect import Transition
from jaxagents.agents.ready_made import ReadyMadePolicy
from jaxagents.agents.runners import Runner
from jaxagents.core.metrics import MetricStats
from jaxagents.learners.optimizer import OptimizerParams
from jaxagents.ppo import AgentConfig, HyperParameters, PPOBase, TrainState

__all__ = [
    "IPPO",
    "AgentConfig",
    "HyperParameters",
    "IPPOBase",
    "MetricStats",
    "OptimizerParams",
    "Runner",
    "TrainState",
    "Transition",
]


class IPPOBase(PPOBase):
    """IPPO whose policy a subclass gives, with the hooks of [`PPOBase`][jaxagents.ppo.PPOBase].

    Hooks are given one joint observation. Actions, log-probabilities, entropies and values have a
    leading `n_actors` axis.
    """

    @property
    def _actors_shape(self) -> tuple[int, ...]:
        return (self.n_actors,)


class IPPO(ReadyMadePolicy[AgentConfig, HyperParameters], IPPOBase):
    """IPPO, complete for actors with discrete or box actions.

    `env.action_space` is the space of one actor. By default every actor has networks of its own; it
    sees its own row of the observations if all of these have a leading `n_actors` axis (and at
    least one more), and everything otherwise.
    """
