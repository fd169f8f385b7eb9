"""Checks of the networks of on-policy agents."""

from collections.abc import Iterable

from flax import linen as nn

from jaxagents.agents.config import OnPolicyConfig
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import Normalised, remembers


def check_memory(agent: str, config: OnPolicyConfig, **networks: nn.Module) -> None:
    """Raises if a configuration does not fit networks with or without a memory.

    Args:
        agent: Name of the agent.
        config: The configuration.
        **networks: The networks, by their fields of the configuration.

    Raises:
        TypeError: The configuration asks for a memory that a default network does not have.
        ValueError: Groups of environments cannot share the sequences of a minibatch equally.
    """
    has_memory = {name: remembers(network) for name, network in networks.items()}
    forgetful = [name for name in networks if not has_memory[name] and not getattr(config, name)]
    if config.memory is not None and forgetful:
        raise TypeError(
            f"{agent}._{forgetful[0]} makes a network without a memory, although "
            f"config.memory={config.memory!r}: make one with a memory, such as a WithMemory, and leave "
            "config.memory alone."
        )
    if not any(has_memory.values()):
        return
    n_sequences, left = divmod(config.batch_size, config.n_minibatches)
    if left:
        raise ValueError(
            "With a network with a memory, minibatches hold whole environments: minibatches_per_epoch "
            f"must divide batch_size ({config.batch_size}), got {config.n_minibatches}."
        )
    if n_sequences % config.n_groups:
        raise ValueError(
            f"With a network with a memory, n_groups must divide the {n_sequences} environments of a "
            f"minibatch, got {config.n_groups}."
        )


def check_behind_trunk(agent: str, **networks: nn.Module) -> None:
    """Raises if a network that sees what a trunk makes of observations has what belongs into the trunk.

    Args:
        agent: Name of the agent.
        **networks: The networks behind the trunk, by their fields of the configuration.

    Raises:
        TypeError: One of them has a memory, or statistics of observations.
    """
    normalised = [name for name, network in networks.items() if isinstance(network, Normalised)]
    if normalised:
        raise TypeError(
            f"{agent}: with config.trunk, {normalised[0]} sees no observations: put Normalised around "
            "the trunk instead, or set normalise_observations=True."
        )
    remembering = [name for name, network in networks.items() if remembers(network)]
    if remembering:
        raise TypeError(
            f"{agent}: with config.trunk, the memory of {remembering[0]} belongs into the trunk, which "
            "alone sees observations in their order."
        )


def check_variables_are_kept(
    agent: str, own: Iterable[TrainState], made: Iterable[TrainState]
) -> None:
    """Raises if a hook has replaced the variables of networks, where it meant to add some.

    Args:
        agent: Name of the agent.
        own: Actor and critic as the base makes them.
        made: Actor and critic as the hook makes them.

    Raises:
        ValueError: Variables are missing that a network of the base has.
    """
    for what, before, after in zip(("actor", "critic"), own, made, strict=True):
        lost = sorted(before.extra_variables.keys() - after.extra_variables.keys())
        if lost and before.model_def == after.model_def:
            raise ValueError(
                f"{agent}._create_networks drops {lost} from the extra_variables of the {what}, which "
                f"its network needs: keep them, as in {{**{what}.extra_variables, 'mine': ...}}."
            )
