"""The networks of actor and critic, as the configuration has them, alone or behind a trunk.

A trunk that both share is trained with the actor, by the losses of both.
"""

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

from flax import linen as nn
from jaxtyping import Array, Key, PyTree

from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.transitions import Sequence, outputs_of, samples
from jaxagents.learners.memory import initial_carry, step
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import normalised, remembers
from jaxagents.networks.encoding import BehindTrunk, features_beside
from jaxagents.networks.initialisation import check_not_nnx, initialise

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

_NUMBERS = ("int", "float", "bool", "str", "tuple", "Sequence", "list")
"""The first words of annotations of fields that cannot take a configuration."""
_TRUNK, _NETWORK = "trunk", "network"


def network_of(agent: "OnPolicyBase", field: str) -> nn.Module:
    """The whole network of a field of the configuration, behind the trunk if there is one."""
    network = own_network(agent, field)
    see = normalised if agent.config.normalise_observations else lambda network: network
    if agent.config.trunk is None:
        return see(network)
    return BehindTrunk(network, see(own_network(agent, "trunk")))


def own_network(agent: "OnPolicyBase", field: str) -> nn.Module:
    """The network of a field of the configuration by itself, or of the hook that has its name."""
    default = None if field == "trunk" else getattr(agent, f"_{field}")
    return agent._for_observation(field, make_network(field, default, agent.config))


def with_parameters(network: nn.Module, rng: Key[Array, ""], obs: PyTree) -> TrainState:
    """A network with fresh parameters, without an optimizer."""
    inputs = (initial_carry(network), obs) if remembers(network) else (obs,)
    return TrainState.from_variables(network, initialise(network, rng, *inputs))


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
        network = default()
        check_not_nnx(network, f"What _{field} returns")
        if not isinstance(network, nn.Module):
            found = f"the class {network.__name__}" if isinstance(network, type) else repr(network)
            raise TypeError(
                f"_{field} must return a flax.linen module, such as nn.Dense(2), got {found}."
            )
        return network
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


def _check_takes_configuration(choice: Callable, config: OnPolicyConfig, field: str) -> None:
    """Raises unless a function, or a class of modules, can be called with the configuration."""
    name, kind = getattr(choice, "__name__", repr(choice)), type(config).__name__
    fields = []
    if isinstance(choice, type) and issubclass(choice, nn.Module):
        fields = [
            field
            for field in dataclasses.fields(choice)
            if field.init and not field.kw_only and field.name not in ("parent", "name")
        ]
        takes_one = bool(fields)
    else:
        try:
            inspect.signature(choice).bind(None)
            takes_one = True
        except TypeError:
            takes_one = False
        except ValueError:  # a function that does not tell its arguments
            takes_one = True
    if not takes_one:
        raise TypeError(
            f"{name} is called with the configuration to make config.{field}, but takes no "
            f"configuration: give it a field config: {kind}, or pass a module, such as {name}()."
        )
    if not fields:
        return
    first, annotation = fields[0].name, fields[0].type
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if text.startswith(_NUMBERS):
        raise TypeError(
            f"{name} is called with the configuration to make config.{field}, but its first field "
            f"{first!r} takes no configuration: give it a field config: {kind} instead, or pass a "
            f"module, such as {name}({first}=...)."
        )


def whole_critic(config: OnPolicyConfig, actor: TrainState, critic: TrainState) -> TrainState:
    """The critic from observations to values: behind the actor's trunk, if there is one.

    Args:
        config: Configuration of the agent.
        actor: State of the actor's training, with the trunk.
        critic: State of the critic's training; behind a trunk it sees features.

    Returns:
        The critic; behind a trunk, with no optimizer.
    """
    if config.trunk is None:
        return critic
    trunk = _part(actor, _TRUNK)
    parts = {_TRUNK: trunk, _NETWORK: critic}
    extra: dict[str, PyTree] = {}
    for name, part in parts.items():
        for kind, variables in part.extra_variables.items():
            extra.setdefault(kind, {})[name] = variables
    return TrainState(
        step=critic.step,
        params={name: part.params for name, part in parts.items()},
        opt_state=None,
        extra_variables=extra,
        model_def=BehindTrunk(critic.model_def, trunk.model_def),
    )


def features_at(actor: TrainState, obs: PyTree) -> PyTree:
    """The trunk's features of the first observation of an episode.

    Args:
        actor: State of the training of the trunk and the actor behind it.
        obs: One observation.

    Returns:
        Features, with all that the observation says beside.
    """
    trunk = _part(actor, _TRUNK)
    _, features = step(trunk, initial_carry(trunk.model_def), obs)
    return features_beside(obs, features)


def share_trunk(
    trainings: list[TrainState], inputs: list[PyTree]
) -> tuple[list[TrainState], list[PyTree]]:
    """Has the losses of actor and critic see the features of one trunk; see `Share`."""
    actor, critic = trainings
    (seen_by_actor, *of_actor), (_, *of_critic) = inputs
    network, extra = _part(actor, _NETWORK), actor.extra_variables
    of_both = {
        kind: parts for kind, parts in extra.items() if not parts.keys() <= {_TRUNK, _NETWORK}
    }
    network = network.replace(extra_variables={**network.extra_variables, **of_both})
    features = outputs_of(_part(actor, _TRUNK), seen_by_actor)
    is_sequence = isinstance(seen_by_actor, Sequence)
    obs = samples(seen_by_actor.obs) if is_sequence else seen_by_actor
    features = features_beside(obs, features)
    return [network, critic], [(features, *of_actor), (features, *of_critic)]


def _part(training: TrainState, name: str) -> TrainState:
    """A part of a network behind a trunk."""
    extra = training.extra_variables
    return TrainState(
        step=training.step,
        params=training.params.get(name, {}),
        opt_state=None,
        extra_variables={kind: parts[name] for kind, parts in extra.items() if name in parts},
        model_def=getattr(training.model_def, name),
    )
