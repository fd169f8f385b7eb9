"""The numbers by which on-policy agents describe their updates."""

from jaxtyping import Array, Float

from jaxagents import ops
from jaxagents.agents.playing import Weights
from jaxagents.core.arrays import in_32_bits
from jaxagents.learners.fit import OF_EVERY_FIT
from jaxagents.learners.losses import Info

_EXPLAINED = "explained_variance"

OF_EVERY_UPDATE = (*OF_EVERY_FIT, _EXPLAINED)
"""Names of what updates report beside what losses do."""


def info_of_update(actor: Info, critic: Info, explained: Float[Array, ""]) -> Info:
    """The numbers that describe an update, of both networks and the rollout.

    Args:
        actor: Those of the actor's fit.
        critic: Those of the critic's fit.
        explained: The explained variance of the rollout.

    Returns:
        The numbers by name.

    Raises:
        ValueError: Two of them have the same name.
    """
    parts = [*_with_names_of_networks(actor, critic), {_EXPLAINED: explained}]
    twice = [name for name in parts[0] if name in parts[1]]
    if twice:
        raise ValueError(f"_actor_loss and _critic_loss both report {twice}: rename one of each.")
    return in_32_bits({name: number for part in parts for name, number in part.items()})


def explained_variance(
    value: Float[Array, "time environments ..."],
    target: Float[Array, "time environments ..."],
    weights: Weights,
) -> Float[Array, ""]:
    """The explained variance of a rollout, as the mean over actors, those that have played.

    Args:
        value: Its values.
        target: Its returns.
        weights: Weights of actors, with the same axes.

    Returns:
        The mean.
    """
    explained = ops.explained_variance(value, target, weights)
    if weights is None:
        return explained.mean()
    axes = tuple(range(explained.ndim))
    return ops.weighted_mean(explained, weights.max(axis=(0, 1)), axes)


def _with_names_of_networks(actor: Info, critic: Info) -> tuple[Info, Info]:
    return _with_network_name("actor", actor), _with_network_name("critic", critic)


def _with_network_name(network: str, info: Info) -> Info:
    """The numbers that describe a fit; those of every fit get the name of their network."""
    return {f"{network}_{name}" if name in OF_EVERY_FIT else name: x for name, x in info.items()}
