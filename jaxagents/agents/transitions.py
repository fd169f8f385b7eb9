"""The data of a rollout, and the inputs of returns and advantages."""

from typing import NamedTuple, cast

from jaxtyping import Array, PyTree

from jaxagents.core.hyperparameters import Traced

NOT_YET = cast(Array, None)
"""Stands for what is computed after the rollout."""


class Transition(NamedTuple):
    """One step of every environment, or a rollout of them with a leading time axis.

    Attributes:
        obs: Observation acted on.
        action: Action taken.
        value: Value of `obs`.
        log_prob: Log-probability of `action`.
        reward: Reward received.
        next_obs: True successor of `obs`, before any reset.
        terminated: Whether `next_obs` is terminal.
        truncated: Whether the episode was cut after this step.
        next_value: Value of `next_obs`.
        advantage: Advantage of `action`.
        target: Return that the critic is fitted to.
        carry: Memory of the policy before the step; `()` if it has none.
        critic_carry: Memory of the critic before the step, once values are known; `()` if it has none.
        info: The entries of the environment's info that the configuration names in `final_info` and
            `summed_info`.
        extra: Further arrays of a subclass, such as rewards of its own, by name.
    """

    obs: PyTree
    action: PyTree
    value: Array
    log_prob: Array
    reward: Array
    next_obs: PyTree
    terminated: Array
    truncated: Array
    next_value: Array = NOT_YET
    advantage: Array = NOT_YET
    target: Array = NOT_YET
    carry: PyTree = ()
    critic_carry: PyTree = ()
    info: PyTree = ()
    extra: PyTree = ()


class AdvantageInput(NamedTuple):
    """The inputs of `_trajectory_advantages` at each time step (arrays over environments).

    Attributes:
        reward: Reward received.
        value: Value of the observation acted on.
        next_value: Value of the true successor, before any reset.
        terminated: Whether the successor is terminal.
        gamma: Discount.
        gae_lambda: Weight of the trace.
    """

    reward: Array
    value: Array
    next_value: Array
    terminated: Array
    gamma: Traced
    gae_lambda: Traced


class ReturnInput(NamedTuple):
    """The inputs of `_trajectory_returns` at each time step (arrays over environments).

    Attributes:
        reward: Reward received.
        discount: Discount, zero where the successor is terminal.
        next_value: Value of the true successor, before any reset.
        gae_lambda: Weight of the trace.
    """

    reward: Array
    discount: Array
    next_value: Array
    gae_lambda: Traced
