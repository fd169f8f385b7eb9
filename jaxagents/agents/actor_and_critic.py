"""Actor and critic: their networks, with or without a shared trunk, and their fits to a rollout.

A shared trunk is trained with the actor, on both losses.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Key, PyTree

from jaxagents.agents.collect import (
    Sequence,
    Transition,
    by_environment,
    is_sequence,
    outputs_of,
    playing,
    samples,
)
from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.runners import Runner
from jaxagents.agents.targets import in_units_of_critic
from jaxagents.core.hyperparameters import Traced
from jaxagents.core.report import check_not_taken
from jaxagents.learners.fit import OF_EVERY_FIT, Fit
from jaxagents.learners.memory import initial_carry, step
from jaxagents.learners.optimizer import acts_on_each_number
from jaxagents.learners.train_state import Info, TrainState, check_shape, losses_and_info
from jaxagents.networks import normalised, remembers
from jaxagents.networks.encoding import BehindTrunk, with_extra_entries_of
from jaxagents.networks.initialisation import check_not_nnx, initialise

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

_NUMBERS = ("int", "float", "bool", "str", "tuple", "Sequence", "list")
"""How annotations begin for fields that cannot take a configuration."""
_TRUNK, _NETWORK = "trunk", "network"


def network_of(agent: "OnPolicyBase", field: str) -> nn.Module:
    """The network of a configuration field, on top of the trunk if there is one."""
    has_trunk = agent.config.trunk is not None
    first = own_network(agent, "trunk" if has_trunk else field)
    if agent.config.normalise_observations:
        first = normalised(first)
    return BehindTrunk(own_network(agent, field), first) if has_trunk else first


def own_network(agent: "OnPolicyBase", field: str) -> nn.Module:
    """The network of a configuration field, without the trunk, or of the hook with its name.

    Args:
        agent: The agent.
        field: `trunk`, or a field whose hook returns the network if it is `None`.

    Returns:
        The network.

    Raises:
        TypeError: The field is neither a module nor a function that creates one from the configuration,
            or the hook does not return a module.
    """
    config, choice = agent.config, getattr(agent.config, field)
    if choice is None:
        network = getattr(agent, f"_{field}")()
        check_not_nnx(network, f"What _{field} returns")
        if not isinstance(network, nn.Module):
            found = f"the class {network.__name__}" if isinstance(network, type) else repr(network)
            raise TypeError(
                f"_{field} must return a flax.linen module, such as nn.Dense(2), got {found}."
            )
    elif isinstance(choice, nn.Module):
        network = choice
    else:
        check_not_nnx(choice, f"{type(config).__name__}.{field}")
        if not callable(choice):
            raise TypeError(
                f"{type(config).__name__}.{field} must be a flax.linen module, or a function "
                f"that makes one from the configuration, got {choice!r}."
            )
        _check_takes_configuration(choice, config, field)
        network = choice(config)
        if not isinstance(network, nn.Module):
            raise TypeError(
                "A network must be a flax.linen module, or a function that makes one from the "
                f"configuration; {choice!r} returned {network!r}."
            )
    return agent._for_observation(field, network)


def with_parameters(network: nn.Module, rng: Key[Array, ""], obs: PyTree) -> TrainState:
    """A network with fresh parameters, without an optimizer."""
    inputs = (initial_carry(network), obs) if remembers(network) else (obs,)
    return TrainState.from_variables(network, initialise(network, rng, *inputs))


def _check_takes_configuration(choice: Callable, config: OnPolicyConfig, field: str) -> None:
    """Raises unless a function or module class can be called with the configuration."""
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
        except ValueError:  # a function without a signature
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


def features_at(actor: TrainState, obs: PyTree) -> PyTree:
    """The trunk's features of the first observation of an episode.

    Args:
        actor: Train state of the trunk and the actor on top of it.
        obs: One observation.

    Returns:
        Features, with the observation's extra entries, such as masks.
    """
    trunk = actor.part(_TRUNK)
    _, features = step(trunk, initial_carry(trunk.model_def), obs)
    return with_extra_entries_of(obs, features)


def share_trunk(
    trainings: list[TrainState], inputs: list[PyTree]
) -> tuple[list[TrainState], list[PyTree]]:
    """Computes the trunk's features once, for the losses of both actor and critic; see `Share`."""
    actor, critic = trainings
    (seen_by_actor, *of_actor), (_, *of_critic) = inputs
    network, extra = actor.part(_NETWORK), actor.extra_variables
    of_both = {
        kind: parts for kind, parts in extra.items() if not parts.keys() <= {_TRUNK, _NETWORK}
    }
    network = network.replace(extra_variables={**network.extra_variables, **of_both})
    features = outputs_of(actor.part(_TRUNK), seen_by_actor)
    is_sequence = isinstance(seen_by_actor, Sequence)
    obs = samples(seen_by_actor.obs) if is_sequence else seen_by_actor
    features = with_extra_entries_of(obs, features)
    return [network, critic], [(features, *of_actor), (features, *of_critic)]


# How they are fitted.

EXPLAINED_VARIANCE = "explained_variance"


def fits_of(agent: "OnPolicyBase", runner: Runner, traj: Transition) -> tuple[Fit, Fit]:
    """Defines how an agent's losses fit actor and critic to a rollout.

    Args:
        agent: The agent.
        runner: The runner after the rollout.
        traj: The rollout with advantages and targets.

    Returns:
        The fits of both.

    Raises:
        TypeError: A hook for the inputs of a loss does not return a tuple.
        ValueError: The inputs have the wrong shapes.
    """
    n_steps, n_envs = traj.terminated.shape
    lead = {"time": n_steps, "environments": n_envs}
    in_order = bool(jax.tree.leaves((traj.carry, traj.critic_carry)))

    def fit_of(
        network: str,
        training: TrainState,
        loss: Callable,
        inputs: tuple,
        n_epochs: int,
        kl_threshold: Traced | None = None,
        minibatch: Callable[..., tuple] | None = None,
    ) -> Fit:
        hook = f"{type(agent).__name__}._{network}_loss"
        _check_inputs(f"{hook}_input", inputs, lead)
        elements = (*inputs, playing(traj.obs))

        def prepare(for_each_sample: bool, *elements: PyTree) -> tuple[PyTree, ...]:
            *given, weights = samples(elements) if in_order else elements
            if weights is not None:  # rescaled to mean 1
                weights = weights * (weights.size / jnp.maximum(weights.sum(), 1.0))
            if for_each_sample and minibatch is not None:
                lead = {"samples": _n_samples(given)}
                given = minibatch(*given)
                _check_inputs(f"{type(agent).__name__}._actor_minibatch", given, lead)
            return *given, weights

        def loss_fn(training: TrainState, *inputs: PyTree) -> tuple[Array, Info]:
            *given, weights = inputs
            losses, info = losses_and_info(loss(training, *given, runner.hyperparams))
            check_shape(hook, losses.shape, _n_samples(given), agent.episodes.actors_shape)
            taken, whose = (*OF_EVERY_FIT, EXPLAINED_VARIANCE), "which updates already report"
            check_not_taken(f"{hook} reports", sorted(info), taken, whose)
            if weights is None:
                return losses, info
            return jax.tree.map(functools.partial(_weighted, weights), (losses, info))

        elements = by_environment(elements) if in_order else elements
        in_one_array = acts_on_each_number(agent.config.optimizer)
        return Fit(training, loss_fn, elements, n_epochs, kl_threshold, prepare, hook, in_one_array)

    normalises = agent.config.normalise_values
    of_critic = in_units_of_critic(agent.config, runner, traj) if normalises else traj
    actor = fit_of(
        "actor",
        runner.actor_training,
        agent._actor_loss,
        agent._actor_loss_input(runner, traj),
        agent.config.actor_epochs,
        agent._kl_threshold(runner.hyperparams),
        agent._actor_minibatch,
    )
    critic = fit_of(
        "critic",
        runner.critic_training,
        agent._critic_loss,
        agent._critic_loss_input(runner, of_critic),
        agent.config.critic_epochs,
    )
    return actor, critic


def _n_samples(inputs: PyTree) -> int:
    """Number of samples in a minibatch, or in a part of it."""
    first = jax.tree.leaves(inputs, is_leaf=is_sequence)[0]
    return first.first.size if is_sequence(first) else len(first)


def _weighted(weights: Array, x: Array) -> Array:
    """Losses or metrics, weighted by actor if they have one number per actor."""
    if x.shape[: weights.ndim] != weights.shape:
        return x
    by_actor = weights.reshape(*weights.shape, *[1] * (x.ndim - weights.ndim))
    return jnp.where(by_actor > 0.0, x * by_actor.astype(x.dtype), 0)


def _check_inputs(hook: str, inputs: object, lead: dict[str, int]) -> None:
    """Raises unless a hook returns a tuple of `Sequence`s or arrays with the given leading axes."""
    if not isinstance(inputs, tuple | list):
        raise TypeError(
            f"{hook} must return a tuple of the loss's arguments between training and "
            f"hyperparams, got a {type(inputs).__name__}."
        )
    shape = tuple(lead.values())
    for x in jax.tree.leaves(inputs, is_leaf=is_sequence):
        if not is_sequence(x) and jnp.shape(x)[: len(shape)] != shape:
            raise ValueError(
                f"{hook} must return arrays with leading axes ({', '.join(lead)}) of {shape}, got one "
                f"of shape {jnp.shape(x)}."
            )


def numbers_of(actor: Info, critic: Info) -> Info:
    """Merges the metrics of both networks' fits.

    Args:
        actor: Metrics of the actor's fit.
        critic: Metrics of the critic's fit.

    Returns:
        All metrics; the ones that every fit reports are prefixed, as in `actor_loss`.

    Raises:
        ValueError: Two metrics have the same name.
    """
    numbers, twice = {}, []
    for network, info in (("actor", actor), ("critic", critic)):
        for name, x in info.items():
            full_name = f"{network}_{name}" if name in OF_EVERY_FIT else name
            twice += [full_name] * (full_name in numbers)
            numbers[full_name] = x
    if twice:
        raise ValueError(
            f"_actor_loss and _critic_loss both report {twice}: rename them in one of the two."
        )
    return numbers
