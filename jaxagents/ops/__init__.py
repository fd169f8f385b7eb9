"""The mathematics of the agents as small pure functions, time first."""

from jaxagents.ops.distributions import Categorical, Distribution, Gaussian, TanhGaussian
from jaxagents.ops.losses import (
    approximate_kl,
    clipped_surrogate,
    clipped_value_loss,
    policy_gradient,
    value_loss,
)
from jaxagents.ops.minibatches import minibatch_indices, random_bijection, take_minibatch
from jaxagents.ops.normalisation import standardise
from jaxagents.ops.offline import advantage_weights, conservative_penalty, expectile_loss
from jaxagents.ops.returns import (
    gae_step,
    generalised_advantages,
    lambda_return_step,
    lambda_returns,
    scan_backwards,
)
from jaxagents.ops.targets import soft_value, td_target

__all__ = [
    "Categorical",
    "Distribution",
    "Gaussian",
    "TanhGaussian",
    "advantage_weights",
    "approximate_kl",
    "clipped_surrogate",
    "clipped_value_loss",
    "conservative_penalty",
    "expectile_loss",
    "gae_step",
    "generalised_advantages",
    "lambda_return_step",
    "lambda_returns",
    "minibatch_indices",
    "policy_gradient",
    "random_bijection",
    "scan_backwards",
    "soft_value",
    "standardise",
    "take_minibatch",
    "td_target",
    "value_loss",
]
