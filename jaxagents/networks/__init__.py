"""Networks for actors and critics (flax.linen)."""

from jaxagents.core.remembered import Remembered
from jaxagents.networks.convolution import PatchConv
from jaxagents.networks.critics import (
    ActionCritic,
    Critic,
    DiscreteCritic,
    DuelingCritic,
    MLPHead,
    ValueCritic,
)
from jaxagents.networks.dense import Dense
from jaxagents.networks.encoding import DictEncoder, WithEncoder
from jaxagents.networks.ensembles import Ensemble, ensemblize
from jaxagents.networks.heads import (
    CategoricalActor,
    GaussianActor,
    JointActor,
    MultiCategoricalActor,
    StateCritic,
)
from jaxagents.networks.initialisation import default_init
from jaxagents.networks.masks import (
    CriticView,
    Masked,
    ObservationOnly,
    critic_view,
    mask_actions,
    observation_only,
)
from jaxagents.networks.noisy import NoisyDense, with_noise
from jaxagents.networks.normalised import Normalised, NormalisedRecurrent, normalised
from jaxagents.networks.observations import ObservationEncoder, observation_encoder
from jaxagents.networks.per_actor import PerActor, PerActorWithMemory, for_each_actor
from jaxagents.networks.policies import CategoricalPolicy, Policy
from jaxagents.networks.recurrent import MinGRUCell, Recurrent, WithMemory
from jaxagents.networks.torsos import MLP, Torso

__all__ = [
    "MLP",
    "ActionCritic",
    "CategoricalActor",
    "CategoricalPolicy",
    "Critic",
    "CriticView",
    "Dense",
    "DictEncoder",
    "DiscreteCritic",
    "DuelingCritic",
    "Ensemble",
    "GaussianActor",
    "JointActor",
    "MLPHead",
    "Masked",
    "MinGRUCell",
    "MultiCategoricalActor",
    "NoisyDense",
    "Normalised",
    "NormalisedRecurrent",
    "ObservationEncoder",
    "ObservationOnly",
    "PatchConv",
    "PerActor",
    "PerActorWithMemory",
    "Policy",
    "Recurrent",
    "Remembered",
    "StateCritic",
    "Torso",
    "ValueCritic",
    "WithEncoder",
    "WithMemory",
    "critic_view",
    "default_init",
    "ensemblize",
    "for_each_actor",
    "mask_actions",
    "normalised",
    "observation_encoder",
    "observation_only",
    "with_noise",
]
