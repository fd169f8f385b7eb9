"""The data of a rollout, and the inputs of returns and advantages."""

from typing import Any, NamedTuple


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
    """

    obs: Any
    action: Any
    value: Any
    log_prob: Any
    reward: Any
    next_obs: Any
    terminated: Any
    truncated: Any
    next_value: Any = None
    advantage: Any = None
    target: Any = None
    carry: Any = ()


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

    reward: Any
    value: Any
    next_value: Any
    terminated: Any
    gamma: Any
    gae_lambda: Any


class ReturnInput(NamedTuple):
    """The inputs of `_trajectory_returns` at each time step (arrays over environments).

    Attributes:
        reward: Reward received.
        discount: Discount, zero where the successor is terminal.
        next_value: Value of the true successor, before any reset.
        gae_lambda: Weight of the trace.
    """

    reward: Any
    discount: Any
    next_value: Any
    gae_lambda: Any
