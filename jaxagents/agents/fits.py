"""How actor and critic are fitted to a rollout, and what is reported of that."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from jaxtyping import Array, PyTree

from jaxagents.agents import sequences, shared_trunk
from jaxagents.agents.chosen_network import network_of
from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.playing import playing, shares_of, weighed
from jaxagents.agents.runners import Runner
from jaxagents.agents.sequences import check_inputs, n_samples_of
from jaxagents.agents.targets import in_units_of_critic, targets_after
from jaxagents.agents.transitions import Transition
from jaxagents.core.names import check_not_taken
from jaxagents.learners.fit import OF_EVERY_FIT, Fit, Share, with_examples
from jaxagents.learners.losses import Info, check_shape, losses_and_info
from jaxagents.networks import remembers

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

T = TypeVar("T")

EXPLAINED_VARIANCE = "explained_variance"


def share_of(config: OnPolicyConfig) -> Share | None:
    """The part that actor and critic have in common; see `fit`."""
    return None if config.trunk is None else shared_trunk.share


def fits_of(agent: "OnPolicyBase", runner: Runner, traj: Transition) -> tuple[Fit, Fit]:
    """How actor and critic are fitted to a rollout by the losses of an agent.

    Args:
        agent: The agent.
        runner: The runner after the rollout.
        traj: The rollout with advantages and targets.

    Returns:
        The fits of both, of whose losses the shapes are known.

    Raises:
        TypeError: A loss, or a hook that gives its inputs, returns something else than it must.
        ValueError: Shapes, or names of numbers, are none that it may return.
    """
    config, name = agent.config, type(agent).__name__
    n_steps, n_envs = traj.terminated.shape
    in_units = traj
    if config.normalise_values:
        after = targets_after(config, runner, traj)
        in_units = in_units_of_critic(traj, runner.targets, after)
    inputs = {
        "actor": agent._actor_loss_input(runner, traj),
        "critic": agent._critic_loss_input(runner, in_units),
    }
    for network, given in inputs.items():
        lead = {"time": n_steps, "environments": n_envs}
        check_inputs(f"{name}._{network}_loss_input", given, lead)
    in_order = any(remembers(network_of(agent, f"{network}_network")) for network in inputs)
    elements = {network: (*given, playing(traj.obs)) for network, given in inputs.items()}
    elements = sequences.elements(elements) if in_order else elements

    def samples(*elements: PyTree) -> tuple[PyTree, ...]:
        *given, weights = sequences.samples(elements) if in_order else elements
        return *given, shares_of(weights)

    def samples_of_actor(*elements: PyTree) -> tuple[PyTree, ...]:
        *given, weights = samples(*elements)
        prepared = agent._actor_minibatch(*given)
        check_inputs(f"{name}._actor_minibatch", prepared, {"samples": n_samples_of(given)})
        return *prepared, weights

    def losses(hook: Callable, *samples_and_weights: PyTree) -> tuple[Array, Info]:
        *samples, weights = samples_and_weights
        return weighed(losses_and_info(hook(*samples, runner.hyperparams)), weights)

    actor = Fit(
        runner.actor_training,
        functools.partial(losses, agent._actor_loss),
        elements["actor"],
        config.actor_epochs,
        agent._kl_threshold(runner.hyperparams),
        samples,
    )
    critic = Fit(
        runner.critic_training,
        functools.partial(losses, agent._critic_loss),
        elements["critic"],
        config.critic_epochs,
        prepare=samples,
    )
    actor, critic = with_examples((actor, critic), config.n_minibatches, share_of(config))
    _check_losses(agent, actor, critic, n_steps * n_envs // config.n_minibatches)
    if actor.example.is_per_sample:
        actor = actor._replace(prepare=samples_of_actor)
    return actor, critic


def _check_losses(agent: "OnPolicyBase", actor: Fit, critic: Fit, n_samples: int) -> None:
    """Raises unless losses are of samples, or one number, and report under names of their own."""
    for hook, fit in (("_actor_loss", actor), ("_critic_loss", critic)):
        name, example = f"{type(agent).__name__}.{hook}", fit.example
        check_shape(name, example.losses.shape, n_samples, agent._actors_shape)
        taken = (*OF_EVERY_FIT, EXPLAINED_VARIANCE)
        whose = "which updates report themselves"
        check_not_taken(f"{name} reports", sorted(example.info), taken, whose)
    numbers_of(actor.example.info, critic.example.info)  # raises if both have a name
    if actor.kl_threshold is not None and "kl" not in actor.example.info:
        raise TypeError(
            f"{type(agent).__name__}._actor_loss must report 'kl', by which _kl_threshold stops its "
            f"epochs, but reports {sorted(actor.example.info)}: give its dict an entry "
            "'kl': ops.approximate_kl(log_prob, log_prob_old), or override _kl_threshold to return "
            "None."
        )


def numbers_of(actor: dict[str, T], critic: dict[str, T]) -> dict[str, T]:
    """The numbers that describe the fits of both networks.

    Args:
        actor: Those of the actor's fit, or their shapes.
        critic: Those of the critic's fit, or their shapes.

    Returns:
        All of them; those of every fit are named after their network, such as `actor_loss`.

    Raises:
        ValueError: Two of them have the same name.
    """
    of_actor, of_critic = (
        {f"{network}_{name}" if name in OF_EVERY_FIT else name: x for name, x in info.items()}
        for network, info in (("actor", actor), ("critic", critic))
    )
    twice = [name for name in of_actor if name in of_critic]
    if twice:
        raise ValueError(f"_actor_loss and _critic_loss both report {twice}: rename one of each.")
    return {**of_actor, **of_critic}
