"""Multi-agent PPO (Yu et al., 2022): each actor sees its own observation, the critic sees everything.

It only differs from [IPPO](ippo.md) in the critic, which only training needs: its input is the
environment's state or, if the environment provides none, the observations of all actors.
"""

import functools

from flax import linen as nn

from jaxagents.agents.ready_made import ReadyMadePolicy, as_declared, default_network
from jaxagents.core.observed import critic_state, has_extra_entries
from jaxagents.envs.observations import preprocessing
from jaxagents.ippo import IPPOBase
from jaxagents.learners.optimizer import OptimizerParams as OptimizerParams
from jaxagents.networks import CriticView, StateCritic, preprocessed
from jaxagents.ppo import AgentConfig as AgentConfig
from jaxagents.ppo import HyperParameters as HyperParameters
from jaxagents.ppo import TrainState as TrainState


class MAPPO(ReadyMadePolicy[AgentConfig, HyperParameters], IPPOBase):
    """MAPPO for actors with discrete or continuous actions.

    The actors are the same as in [`IPPO`][jaxagents.ippo.IPPO]. The critic outputs a value per actor.
    Its input is `env.critic_state(state)`, or the entry `"critic_state"` of observations, or else the
    observations of all actors.
    """

    _shows_critic_state = True

    def _critic_network(self) -> nn.Module:
        """The default critic, one network with one value per actor."""
        make = functools.partial(StateCritic, n_values=self.n_actors)
        state = critic_state(self._observation)
        if state is None:
            network = default_network(self, make, self.episodes.n_categories)
            return as_declared(self, network)
        first = self.config.channels_first
        declared = preprocessing(self.episodes.critic_space, state, channels_first=first)
        return preprocessed(default_network(self, make, None), declared)

    def _validate(self) -> None:
        if self.config.trunk is not None:
            raise ValueError(
                "The critic of MAPPO sees other things than the actors, so they share no trunk: leave "
                "config.trunk out, or train the actors with IPPO."
            )
        super()._validate()

    def _for_observation(self, field: str, network: nn.Module) -> nn.Module:
        if field == "critic_network" and has_extra_entries(self._observation):
            return CriticView(network)
        return super()._for_observation(field, network)
