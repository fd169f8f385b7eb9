"""Statistics over several runs: the inter-quartile mean, and how sure it is.

As Agarwal et al. (2021), "Deep reinforcement learning at the edge of the statistical precipice", advise
for few runs.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxagents.core.extras import require

_CUT = 0.25
_N_RESAMPLES = 2_000
_NUMBERS_AT_ONCE = 10_000_000

CONFIDENCE = 0.95
"""Confidence of the intervals."""


class Estimate(NamedTuple):
    """An inter-quartile mean with its interval.

    Attributes:
        mean: The mean of the middle half of the runs; of fewer than four, that of all.
        low: Lower end of the interval.
        high: Upper end.
    """

    mean: Float[np.ndarray, "..."]
    low: Float[np.ndarray, "..."]
    high: Float[np.ndarray, "..."]


def middle_mean(values: Float[np.ndarray, "runs ..."]) -> Float[np.ndarray, "..."]:
    """The inter-quartile mean over runs by itself, which is NaN where a run is."""
    return require("scipy.stats", "jaxagents[plot]").trim_mean(values, _CUT, axis=0)


def inter_quartile_mean(values: Float[np.ndarray, "runs ..."]) -> Estimate:
    """The inter-quartile mean over runs, in its 95 % percentile bootstrap interval.

    It is the same whenever it is computed. The interval of a single run is that run alone.

    Args:
        values: One finite number of each run, or many.

    Returns:
        The estimate, without the axis of runs.
    """
    stats = require("scipy.stats", "jaxagents[plot]")
    mean = middle_mean(values)
    if len(values) == 1 or not values.size:
        return Estimate(mean, mean, mean)
    interval = stats.bootstrap(
        (values,),
        lambda x, axis: stats.trim_mean(x, _CUT, axis=axis),
        axis=0,
        vectorized=True,
        method="percentile",
        confidence_level=CONFIDENCE,
        n_resamples=_N_RESAMPLES,
        batch=max(1, _NUMBERS_AT_ONCE // values.size),
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Estimate(mean, interval.low, interval.high)
