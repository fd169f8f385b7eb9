"""Networks for actors and critics (flax.linen)."""

from jaxagents.core.observed import Remembered
from jaxagents.networks.cells import MinGRUCell
from jaxagents.networks.dense import Dense, NoisyDense, with_noise
from jaxagents.networks.encoding import (
    DictEncoder,
    ObservationEncoder,
    WithEncoder,
    observation_encoder,
)
from jaxagents.networks.ensembles import Ensemble, PerActor, ensemblize
from jaxagents.networks.heads import (
    CategoricalActor,
    GaussianActor,
    JointActor,
    MultiCategoricalActor,
    StateCritic,
)
from jaxagents.networks.initialisation import default_init
from jaxagents.networks.learner_networks import (
    ActionCritic,
    CategoricalPolicy,
    Critic,
    DiscreteCritic,
    DuelingCritic,
    MLPHead,
    Policy,
    ValueCritic,
)
from jaxagents.networks.recurrent import NetworkWrapper, Recurrent, WithMemory, remembers
from jaxagents.networks.torsos import MLP, PatchConv, Torso
from jaxagents.networks.wrappers import CriticView, Masked, Normalised, ObservationOnly, normalised

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
    "NetworkWrapper",
    "NoisyDense",
    "Normalised",
    "ObservationEncoder",
    "ObservationOnly",
    "PatchConv",
    "PerActor",
    "Policy",
    "Recurrent",
    "Remembered",
    "StateCritic",
    "Torso",
    "ValueCritic",
    "WithEncoder",
    "WithMemory",
    "default_init",
    "ensemblize",
    "normalised",
    "observation_encoder",
    "remembers",
    "with_noise",
]

# Former names, from when networks with a memory had wrappers of their own.
NormalisedRecurrent = Normalised
PerActorWithMemory = for_each_actor = PerActor
mask_actions, observation_only, critic_view = Masked, ObservationOnly, CriticView
