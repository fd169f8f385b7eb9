"""The networks that a configuration chooses, or else the hooks of an agent."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flax import linen as nn
from jaxtyping import Array, Key, PyTree

from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.shared_trunk import features_at
from jaxagents.learners.memory import initial_carry
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import normalised, remembers
from jaxagents.networks.encoding import BehindTrunk
from jaxagents.networks.initialisation import check_not_nnx, initialise

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

_NUMBERS = ("int", "float", "bool", "str", "tuple", "Sequence", "list")
"""The first words of annotations of fields that cannot take a configuration."""


def network_of(agent: "OnPolicyBase", field: str) -> nn.Module:
    """The whole network of a field of the configuration, behind the trunk if there is one."""

    def seeing(network: nn.Module) -> nn.Module:
        return normalised(network) if agent.config.normalise_observations else network

    network = own_network(agent, field)
    if agent.config.trunk is None:
        return seeing(network)
    return BehindTrunk(network, seeing(own_network(agent, "trunk")))


def own_network(agent: "OnPolicyBase", field: str) -> nn.Module:
    """The network of a field of the configuration by itself, or of the hook that has its name."""
    default = None if field == "trunk" else getattr(agent, f"_{field}")
    return agent._for_observation(field, make_network(field, default, agent.config))


def create_networks(
    agent: "OnPolicyBase", actor_rng: Key[Array, ""], critic_rng: Key[Array, ""], obs: PyTree
) -> tuple[TrainState, TrainState]:
    """Actor and critic with fresh parameters, without optimizers."""

    def with_parameters(network: nn.Module, rng: Key[Array, ""], obs: PyTree) -> TrainState:
        inputs = (initial_carry(network), obs) if remembers(network) else (obs,)
        return TrainState.from_variables(network, initialise(network, rng, *inputs))

    actor = with_parameters(network_of(agent, "actor_network"), actor_rng, obs)
    if agent.config.trunk is None:
        return actor, with_parameters(network_of(agent, "critic_network"), critic_rng, obs)
    features = features_at(actor, obs)
    return actor, with_parameters(own_network(agent, "critic_network"), critic_rng, features)


def make_network(
    field: str, default: Callable[[], nn.Module] | None, config: OnPolicyConfig
) -> nn.Module:
    """Makes the network that a field of a configuration names.

    Args:
        field: Name of the field.
        default: Makes the network if the field is `None`; `None` where it never is.
        config: The configuration.

    Returns:
        The network.

    Raises:
        TypeError: The field is neither a module nor a function that makes one of the configuration, or
            the default is no module.
    """
    choice = getattr(config, field)
    if choice is None and default is not None:
        return _default_of(field, default)
    if isinstance(choice, nn.Module):
        return choice
    check_not_nnx(choice, f"{type(config).__name__}.{field}")
    if not callable(choice):
        raise TypeError(
            f"{type(config).__name__}.{field} must be a flax.linen module, or a function that makes one "
            f"of the configuration, got {choice!r}."
        )
    _check_takes_configuration(choice, config, field)
    network = choice(config)
    if not isinstance(network, nn.Module):
        raise TypeError(
            "A network must be a flax.linen module, or be called with the configuration to make one; "
            f"{choice!r} gave {network!r}."
        )
    return network


def _default_of(field: str, default: Callable[[], nn.Module]) -> nn.Module:
    """The network that the hook of a field makes."""
    network = default()
    check_not_nnx(network, f"What _{field} returns")
    if not isinstance(network, nn.Module):
        found = f"the class {network.__name__}" if isinstance(network, type) else repr(network)
        raise TypeError(
            f"_{field} must return a flax.linen module, such as nn.Dense(2), got {found}."
        )
    return network


def _check_takes_configuration(choice: Callable, config: OnPolicyConfig, field: str) -> None:
    name, kind = getattr(choice, "__name__", repr(choice)), type(config).__name__
    if not _takes_one(choice):
        raise TypeError(
            f"{name} is called with the configuration to make config.{field}, but takes no "
            f"configuration: give it a field config: {kind}, or pass a module, such as {name}()."
        )
    first = _fields(choice)[0] if _is_module_class(choice) else None
    if first is not None and _is_number(first):
        raise TypeError(
            f"{name} is called with the configuration to make config.{field}, but its first field "
            f"{first.name!r} takes no configuration: give it a field config: {kind} instead, or pass a "
            f"module, such as {name}({first.name}=...)."
        )


def _takes_one(choice: Callable) -> bool:
    """Whether a function, or a class, can be called with one argument."""
    if _is_module_class(choice):
        return bool(_fields(choice))
    try:
        inspect.signature(choice).bind(None)
    except TypeError:
        return False
    except ValueError:  # a function that does not tell its arguments
        pass
    return True


def _is_module_class(choice: object) -> bool:
    return isinstance(choice, type) and issubclass(choice, nn.Module)


def _fields(module: Any) -> list[dataclasses.Field]:
    """The fields of a class of modules that can be given by their positions."""
    fields = [field for field in dataclasses.fields(module) if field.init and not field.kw_only]
    return [field for field in fields if field.name not in ("parent", "name")]


def _is_number(field: dataclasses.Field) -> bool:
    """Whether a field holds numbers."""
    kind = field.type
    text = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    return text.startswith(_NUMBERS)
