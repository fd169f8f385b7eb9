"""Checks of on-policy agents, by shapes, before anything is compiled."""

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from jaxagents.agents.actor_and_critic import network_of, own_network
from jaxagents.agents.checks import check_plays_on_host
from jaxagents.agents.collect import DRAWING_HOOKS, distribution_at
from jaxagents.agents.runners import Runner, whole_critic
from jaxagents.core.arrays import check_same_tree, check_size, is_numeric
from jaxagents.core.hook_names import check_pair, is_own
from jaxagents.core.numbers import check_divides
from jaxagents.envs.checks import (
    check_environment,
    check_masks,
    check_n_actors,
)
from jaxagents.envs.spaces import is_discrete
from jaxagents.learners.memory import initial_carry, step
from jaxagents.learners.train_state import Info, TrainState
from jaxagents.networks import Normalised, remembers

if TYPE_CHECKING:
    from jaxagents.agents.on_policy import OnPolicyBase

_POLICY_HOOKS = (*DRAWING_HOOKS, "policy")


def check_agent(agent: "OnPolicyBase") -> None:
    """Raises unless an agent's hooks, networks, configuration and environment fit together.

    Args:
        agent: The agent.

    Raises:
        TypeError: Hooks are missing or would never be called, or a network does not fit its use.
        ValueError: Shapes do not match, or the number of actors is not supported.
    """
    env = agent.episodes.env
    _check_hooks(agent)
    _check_networks(agent)
    check_n_actors(env, type(agent).__name__, agent._is_of_actors)
    check_masks(agent.episodes)
    if env.on_host:
        from jaxagents.agents.on_policy import OnPolicyBase

        names = "_training_step", "_collect", "_rollout_environment"
        check_plays_on_host(type(agent), OnPolicyBase, names)
    action = _check_outputs(agent)
    if not env.on_host:
        check_environment(agent.episodes, action)


def _check_hooks(agent: "OnPolicyBase") -> None:
    """Raises unless the overridden hooks define a policy and would all be called."""
    name = type(agent).__name__
    hooks = [hook for hook in _POLICY_HOOKS if agent._gives(hook)]
    missing = [hook for hook in _POLICY_HOOKS if hook not in hooks]
    if missing and not (agent._gives("_distribution") or agent._gives("_distribution_of")):
        raise TypeError(
            f"{name} has no policy: define the hooks {', '.join(missing)}, or just "
            "_distribution; or, for an actor network with a memory, _distribution_of(output), "
            "which turns its output into a distribution of actions."
        )
    blind = [*hooks, *["_distribution"] * agent._gives("_distribution")]
    if blind and remembers(network_of(agent, "actor_network")):
        raise TypeError(
            f"{name} has an actor network with a memory, which {', '.join(blind)} would not "
            "see: define only _distribution_of(output)."
        )
    gives_value = "_value" in vars(agent) or is_own(type(agent), "_value")
    if gives_value and remembers(network_of(agent, "critic_network")):
        raise TypeError(
            f"{name} has a critic network with a memory, for which {name}._value would never be "
            "called: move what it computes into critic_network, or use a critic without a "
            "memory."
        )


def _check_networks(agent: "OnPolicyBase") -> None:
    """Raises unless the networks fit the configuration's memory and trunk."""
    name, fields = type(agent).__name__, ("actor_network", "critic_network")
    for field in fields if agent.config.trunk is not None else ():
        network = own_network(agent, field)
        if isinstance(network, Normalised):
            raise TypeError(
                f"{name}: with config.trunk, {field} sees no observations: put Normalised around "
                "the trunk instead, or set normalise_observations=True."
            )
        if remembers(network):
            raise TypeError(
                f"{name}: with config.trunk, the memory of {field} belongs in the trunk, as "
                "only the trunk sees observations in order."
            )
    config, networks = agent.config, {field: network_of(agent, field) for field in fields}
    has_memory = {field: remembers(network) for field, network in networks.items()}
    forgetful = [field for field in fields if not has_memory[field] and not getattr(config, field)]
    if config.memory is not None and forgetful:
        raise TypeError(
            f"{name}._{forgetful[0]} makes a network without a memory, although "
            f"config.memory={config.memory!r}: make one with a memory, such as WithMemory, and "
            "leave config.memory unset."
        )
    if not any(has_memory.values()):
        return
    n_minibatches, owner = config.n_minibatches, type(config).__name__
    what = "batch_size where a network has a memory, as minibatches hold whole environments"
    check_divides(f"{owner}.minibatches_per_epoch", n_minibatches, config.batch_size, what)
    size = config.batch_size // n_minibatches
    what = f"the {size} environments of a minibatch where a network has a memory"
    check_divides(f"{owner}.n_groups", config.n_groups, size, what)


def _check_outputs(agent: "OnPolicyBase") -> PyTree:
    """Raises unless networks and hooks return valid outputs for one observation.

    Args:
        agent: The agent.

    Returns:
        An action, as shapes.
    """
    name, env = type(agent).__name__, agent.episodes.env
    key, obs = jax.eval_shape(lambda: jax.random.key(0)), agent._observation
    actor, critic = jax.eval_shape(agent._create_networks, key, key, obs)
    _check_variables_are_kept(agent, obs, actor, critic)
    critic = jax.eval_shape(lambda *both: whole_critic(agent.config, *both), actor, critic)
    _, value = jax.eval_shape(
        lambda critic, obs: step(critic, initial_carry(critic.model_def), obs), critic, obs
    )

    def act(key: Key[Array, ""], actor: TrainState, obs: PyTree) -> tuple[PyTree, ...]:
        carry = agent.initial_carry(actor)
        _, distribution = distribution_at(agent, actor, carry, obs)
        hook = "_distribution_of" if remembers(actor.model_def) else "_distribution"
        methods = ["sample", "log_prob", "entropy", *["mode"] * (not agent._gives("policy"))]
        _check_distribution(distribution, methods, f"{name}.{hook}")
        _, greedy = agent.act(actor, carry, obs)
        action = distribution.sample(key)
        for leaf in jax.tree.leaves(action) if is_discrete(agent.episodes.action_space) else []:
            if jnp.issubdtype(leaf.dtype, jnp.inexact):
                raise TypeError(
                    f"{name}: actions of {env.wording.environment} are discrete, and must be "
                    "integers, such as jnp.argmax or jax.random.categorical return, got "
                    f"{leaf.dtype}."
                )
        return action, greedy, distribution.log_prob(action), distribution.entropy()

    action, greedy, log_prob, entropy = jax.eval_shape(act, key, actor, obs)
    outputs = {"the critic's value": value, "_entropy": entropy, "_log_prob": log_prob}
    for what, output in outputs.items():
        check_size(output, agent.episodes.actors_shape, f"{name}: {what}")
    check_same_tree(action, greedy, f"{name}: the action", "_sample_actions", "policy")
    return action


def _check_distribution(distribution: PyTree, methods: Iterable[str], hook: str) -> None:
    """Raises unless a hook's output is a distribution of actions."""
    kind = type(distribution).__name__
    wanted = (
        f"{hook} must return a distribution, such as jaxagents.ops.Categorical(logits), with "
        "sample(key), log_prob(action), entropy() and mode()"
    )
    missing = [name for name in methods if not callable(getattr(distribution, name, None))]
    if missing:
        is_array = hasattr(distribution, "dtype")
        given = f"an array of shape {distribution.shape}" if is_array else f"a {kind}"
        raise TypeError(f"{wanted}, got {given}, which lacks {', '.join(missing)}.")
    try:
        inspect.signature(distribution.sample).bind(None)
    except TypeError as error:
        raise TypeError(
            f"{wanted}, but {kind}.sample takes no key by position: write a class whose sample(key) "
            "calls it, such as self.inner.sample(seed=key)."
        ) from error
    if not all(map(is_numeric, jax.tree.leaves(distribution))):
        raise TypeError(
            f"{wanted}, but {kind} is not a pytree, so a policy with it cannot be compiled: "
            "make it a flax.struct.dataclass."
        )


def _check_variables_are_kept(
    agent: "OnPolicyBase", obs: PyTree, actor: TrainState, critic: TrainState
) -> None:
    """Raises if an override of `_create_networks` dropped variables of the networks."""
    if not agent._gives("_create_networks"):
        return
    key = jax.eval_shape(lambda: jax.random.key(0))
    from jaxagents.agents.on_policy import OnPolicyBase

    own = jax.eval_shape(OnPolicyBase._create_networks.__get__(agent), key, key, obs)
    for what, before, after in zip(("actor", "critic"), own, (actor, critic), strict=True):
        lost = sorted(before.extra_variables.keys() - after.extra_variables.keys())
        if lost and before.model_def == after.model_def:
            raise ValueError(
                f"{type(agent).__name__}._create_networks drops {lost} from the extra_variables of the "
                f"{what}, which its network needs: keep them, as in "
                f"{{**{what}.extra_variables, 'mine': ...}}."
            )


def check_learned(outcome: object, agent: str) -> tuple[Runner, Info]:
    """Raises unless `_learn` returns a runner and a dict of metrics.

    Args:
        outcome: The return value of `_learn`.
        agent: Name of the agent.

    Returns:
        The runner and the metrics.

    Raises:
        TypeError: `_learn` returns something else.
    """
    must = (
        f"{agent}._learn must return the runner whose networks have learned and a dict of numbers to "
        "report, as in 'runner, numbers = super()._learn(runner, traj, rngs)'"
    )
    return check_pair(outcome, (Runner, dict), must)
