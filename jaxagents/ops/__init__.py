"""The mathematics of the agents as small pure functions, time first."""

from jaxagents.ops.discrete import Categorical, EpsilonGreedy
from jaxagents.ops.distributional import (
    categorical_projection,
    quantile_huber_loss,
    quantile_midpoints,
)
from jaxagents.ops.distributions import Distribution, Reparametrised
from jaxagents.ops.exploration import (
    exponential_decay,
    factorised_noise,
    linear_decay,
    random_actions,
)
from jaxagents.ops.gaussian import Gaussian, TanhGaussian
from jaxagents.ops.joint import Joint
from jaxagents.ops.losses import (
    approximate_kl,
    clipped_surrogate,
    clipped_value_loss,
    explained_variance,
    is_clipped,
    policy_gradient,
    value_loss,
)
from jaxagents.ops.masks import allowed_actions, among_allowed
from jaxagents.ops.minibatches import (
    minibatch_indices,
    random_bijection,
    random_indices,
    take_minibatch,
)
from jaxagents.ops.moments import (
    MOST_SAMPLES,
    Moments,
    denormalise,
    merge_moments,
    moments_of,
    no_moments,
    normalise,
    running_returns,
    scale_rewards,
)
from jaxagents.ops.normalisation import standardise, weighted_mean
from jaxagents.ops.offline import advantage_weights, conservative_penalty, expectile_loss
from jaxagents.ops.returns import (
    SeveralSteps,
    gae_step,
    generalised_advantages,
    lambda_return_step,
    lambda_returns,
    scan_backwards,
    several_steps,
    vtrace,
)
from jaxagents.ops.targets import soft_value, td_target, values_of

__all__ = [
    "MOST_SAMPLES",
    "Categorical",
    "Distribution",
    "EpsilonGreedy",
    "Gaussian",
    "Joint",
    "Moments",
    "Reparametrised",
    "SeveralSteps",
    "TanhGaussian",
    "advantage_weights",
    "allowed_actions",
    "among_allowed",
    "approximate_kl",
    "categorical_projection",
    "clipped_surrogate",
    "clipped_value_loss",
    "conservative_penalty",
    "denormalise",
    "expectile_loss",
    "explained_variance",
    "exponential_decay",
    "factorised_noise",
    "gae_step",
    "generalised_advantages",
    "is_clipped",
    "lambda_return_step",
    "lambda_returns",
    "linear_decay",
    "merge_moments",
    "minibatch_indices",
    "moments_of",
    "no_moments",
    "normalise",
    "policy_gradient",
    "quantile_huber_loss",
    "quantile_midpoints",
    "random_actions",
    "random_bijection",
    "random_indices",
    "running_returns",
    "scale_rewards",
    "scan_backwards",
    "several_steps",
    "soft_value",
    "standardise",
    "take_minibatch",
    "td_target",
    "value_loss",
    "values_of",
    "vtrace",
    "weighted_mean",
]
