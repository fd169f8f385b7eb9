"""Checks of the metrics of an evaluation."""

import jax.numpy as jnp

from jaxagents.core.arrays import is_numeric
from jaxagents.core.clashes import check_not_taken
from jaxagents.envs.play import NAMES_OF_METRICS

_OF_EVALUATIONS = ("terminated", "truncated", "final_rewards", "returns")
"""Names that `_eval_metrics` gives by itself."""


def check_metrics(metrics: object, n_episodes: int, agent: str) -> None:
    """Raises if what `_eval_metrics` returns cannot be the metrics of an evaluation.

    Args:
        metrics: What it returns.
        n_episodes: Number of episodes.
        agent: Name of the agent.

    Raises:
        TypeError: It is no dict of arrays.
        ValueError: There are no returns, or not one for each episode, or a name is taken.
    """
    what = f"{agent}._eval_metrics"
    if not isinstance(metrics, dict):
        raise TypeError(
            f"{what} must return a dict of arrays, got a {type(metrics).__name__}: add entries to that "
            "of super()._eval_metrics(...), and return it."
        )
    for name, entry in metrics.items():
        if not isinstance(name, str) or not is_numeric(entry):
            raise TypeError(
                f"{what} must return a dict of arrays by name, but gives {entry!r} for {name!r}: give "
                "an array or a number."
            )
    added = [name for name in metrics if name not in _OF_EVALUATIONS]
    check_not_taken(f"{what} gives", added, NAMES_OF_METRICS, "which names another metric")
    if "returns" not in metrics:
        raise ValueError(
            f"{what} must give 'returns', by which the best checkpoint is found, but gives "
            f"{sorted(metrics)}: add entries to those of super()._eval_metrics(...)."
        )
    shape = jnp.shape(metrics["returns"])
    if shape[:1] != (n_episodes,):
        raise ValueError(
            f"{what} must give 'returns' of each of the {n_episodes} episodes, got shape {shape}: leave "
            "those of super()._eval_metrics(...) as they are, and give others under a name of their own."
        )
