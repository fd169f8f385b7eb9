"""How actor and critic are fitted to a rollout, and the numbers reported of it."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from jaxagents.agents import transitions
from jaxagents.agents.actor_and_critic import share_trunk
from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.runners import Runner
from jaxagents.agents.targets import in_units_of_critic
from jaxagents.agents.transitions import Transition, is_sequence, playing
from jaxagents.core.hyperparameters import Traced
from jaxagents.core.names import check_not_taken
from jaxagents.learners.fit import OF_EVERY_FIT, Fit, Share, with_examples
from jaxagents.learners.losses import Info, check_shape, losses_and_info
from jaxagents.learners.train_state import TrainState

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

T = TypeVar("T")

EXPLAINED_VARIANCE = "explained_variance"


def share_of(config: OnPolicyConfig) -> Share | None:
    """The part that actor and critic have in common; see `fit`."""
    return None if config.trunk is None else share_trunk


def fits_of(agent: "OnPolicyBase", runner: Runner, traj: Transition) -> tuple[Fit, Fit]:
    """How actor and critic are fitted to a rollout by the losses of an agent.

    Args:
        agent: The agent.
        runner: The runner after the rollout.
        traj: The rollout with advantages and targets.

    Returns:
        The fits of both, with the shapes of their losses.

    Raises:
        TypeError: A loss, or a hook that gives its inputs, returns something else than it must.
        ValueError: Shapes, or names of numbers, are none that it may return.
    """
    config, name = agent.config, type(agent).__name__
    n_steps, n_envs = traj.terminated.shape
    in_order = bool(jax.tree.leaves((traj.carry, traj.critic_carry)))

    def fit_of(
        network: str,
        training: TrainState,
        loss: Callable,
        inputs: tuple,
        n_epochs: int,
        kl_threshold: Traced | None = None,
    ) -> Fit:
        lead = {"time": n_steps, "environments": n_envs}
        _check_inputs(f"{name}._{network}_loss_input", inputs, lead)
        elements = (*inputs, playing(traj.obs))
        elements = transitions.elements(elements) if in_order else elements
        losses = functools.partial(_weighted_losses, loss, runner.hyperparams)
        prepare = functools.partial(_samples, in_order)
        return Fit(training, losses, elements, n_epochs, kl_threshold, prepare)

    def standardised(*elements: PyTree) -> tuple[PyTree, ...]:
        *given, weights = _samples(in_order, *elements)
        first = jax.tree.leaves(given, is_leaf=is_sequence)[0]
        lead = {"samples": first.first.size if is_sequence(first) else len(first)}
        prepared = agent._actor_minibatch(*given)
        _check_inputs(f"{name}._actor_minibatch", prepared, lead)
        return *prepared, weights

    actor = fit_of(
        "actor",
        runner.actor_training,
        agent._actor_loss,
        agent._actor_loss_input(runner, traj),
        config.actor_epochs,
        agent._kl_threshold(runner.hyperparams),
    )
    critic = fit_of(
        "critic",
        runner.critic_training,
        agent._critic_loss,
        agent._critic_loss_input(runner, in_units_of_critic(config, runner, traj)),
        config.critic_epochs,
    )
    actor, critic = with_examples((actor, critic), config.n_minibatches, share_of(config))
    _check_losses(agent, actor, critic, n_steps * n_envs // config.n_minibatches)
    if actor.example.losses.ndim:  # else a loss of the whole minibatch, given as it was collected
        actor = actor._replace(prepare=standardised)
    return actor, critic


def _samples(in_order: bool, *elements: PyTree) -> tuple[PyTree, ...]:
    """The inputs of a loss for a minibatch, with mask weights rescaled to mean 1 as the last."""
    *given, weights = transitions.samples(elements) if in_order else elements
    if weights is not None:
        weights = weights * (weights.size / jnp.maximum(weights.sum(), 1.0))
    return *given, weights


def _weighted_losses(loss: Callable, hyperparams: Any, *samples: PyTree) -> tuple[Array, Info]:
    """The losses and info of a hook, weighted where they have a number for each actor."""
    training, *given, weights = samples
    losses, info = losses_and_info(loss(training, *given, hyperparams))
    if weights is None:
        return losses, info

    def weighted(x: Array) -> Array:
        if x.shape[: weights.ndim] != weights.shape:
            return x
        by_actor = weights.reshape(*weights.shape, *[1] * (x.ndim - weights.ndim))
        return jnp.where(by_actor > 0.0, x * by_actor.astype(x.dtype), 0)

    return jax.tree.map(weighted, (losses, info))


def _check_inputs(hook: str, inputs: object, lead: dict[str, int]) -> None:
    """Raises unless a hook gives a tuple of arrays with leading axes of some sizes, or `Sequence`s."""
    if not isinstance(inputs, tuple | list):
        raise TypeError(
            f"{hook} must return a tuple, of what the loss takes between training and hyperparams, got "
            f"a {type(inputs).__name__}."
        )
    shape = tuple(lead.values())
    for x in jax.tree.leaves(inputs, is_leaf=is_sequence):
        if not is_sequence(x) and jnp.shape(x)[: len(shape)] != shape:
            raise ValueError(
                f"{hook} must return arrays with leading axes ({', '.join(lead)}) of {shape}, got one "
                f"of shape {jnp.shape(x)}."
            )


def _check_losses(agent: "OnPolicyBase", actor: Fit, critic: Fit, n_samples: int) -> None:
    """Raises unless losses are of samples, or one number, and report under names of their own."""
    taken, whose = (*OF_EVERY_FIT, EXPLAINED_VARIANCE), "which updates report themselves"
    for hook, fit in (("_actor_loss", actor), ("_critic_loss", critic)):
        name, example = f"{type(agent).__name__}.{hook}", fit.example
        check_shape(name, example.losses.shape, n_samples, agent._actors_shape)
        check_not_taken(f"{name} reports", sorted(example.info), taken, whose)
    numbers_of(actor.example.info, critic.example.info)  # raises if both have a name
    if actor.kl_threshold is not None and "kl" not in actor.example.info:
        raise TypeError(
            f"{type(agent).__name__}._actor_loss must report 'kl', since _kl_threshold stops its epochs "
            f"by it, but reports {sorted(actor.example.info)}: give its dict an entry "
            "'kl': ops.approximate_kl(log_prob, log_prob_old), or override _kl_threshold to return "
            "None."
        )


def numbers_of(actor: dict[str, T], critic: dict[str, T]) -> dict[str, T]:
    """The numbers that describe the fits of both networks.

    Args:
        actor: Numbers of the actor's fit, or their shapes.
        critic: Numbers of the critic's fit, or their shapes.

    Returns:
        All of them; the ones of every fit are named after their network, such as `actor_loss`.

    Raises:
        ValueError: Two of them have the same name.
    """
    numbers, twice = {}, []
    for network, info in (("actor", actor), ("critic", critic)):
        for name, x in info.items():
            full_name = f"{network}_{name}" if name in OF_EVERY_FIT else name
            twice += [full_name] * (full_name in numbers)
            numbers[full_name] = x
    if twice:
        raise ValueError(f"_actor_loss and _critic_loss both report {twice}: rename one of each.")
    return numbers
