"""Checks of hooks: misspelt or former names, wrong arguments, wrong return values."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from jaxagents.core.names import alike

_CLOSE = 0.85
"""Stricter than for names that must be wrong: a method may be the user's own."""
_LONGEST_DIFFERENCE = 2
"""In letters. A hook's name with an added word is a helper of the user."""


_NETWORKS = "config.actor_network and config.critic_network, or _actor_network and _critic_network"
_CHECKPOINTS = "config.checkpoint_dir"
_TARGETS = "_trajectory_returns and _trajectory_advantages"
_ACTOR = "_actor_loss, with config.actor_epochs and _kl_threshold"
_CRITIC = "_critic_loss, with config.critic_epochs"
_UPDATE = "_training_step(runner), or _learn, which is given the rollout"
_ACTING = "policy, and _sample_actions for actions that are drawn"
_ENVIRONMENT = "env_reset and env_step, or a wrapper of the environment"
_EXPLORATION = "the hyperparameters initial_epsilon, epsilon and epsilon_steps, or _explore"
_OF_LEARNER = "the learner's _loss and _q_target"

FORMER_HOOKS = {
    "_sample_action": "_sample_actions",
    "_init_env": "the environment that the agent is given",
    "_init_checkpointer": _CHECKPOINTS,
    "_checkpoint_base": _CHECKPOINTS,
    "_init_optimizer": "config.optimizer",
    "_init_network": _NETWORKS,
    "_create_empty_trainstate": _NETWORKS,
    "_make_transition": "_actor_loss_input and _critic_loss_input, which are given the rollout",
    "_generate_metrics": "what the losses report, and _eval_metrics",
    "_create_training": "_create_runner",
    "_create_update_runner": "_create_runner",
    "_make_rollout_runners": "_collect",
    "_add_next_values": _TARGETS,
    "_add_advantages": _TARGETS,
    "_process_trajectory": _TARGETS,
    "_actor_minibatch_update": _ACTOR,
    "_actor_epoch": _ACTOR,
    "_actor_update": _ACTOR,
    "_actor_training_cond": "_kl_threshold",
    "_critic_minibatch_update": _CRITIC,
    "_critic_epoch": _CRITIC,
    "_critic_update": _CRITIC,
    "_eval_agent": "_eval_metrics",
    "_eval_body": "_eval_metrics",
    "_eval_cond": "config.max_episode_steps",
    "_eval_step": "_eval_metrics",
    "_pp": "a constructor of your own, after super().__init__(...)",
    "_update_step": _UPDATE,
    "_update_training": _UPDATE,
    "_rollout": "_collect",
    "_make_step_runners": "_collect",
    "_step": _UPDATE,
    "_reset": _ENVIRONMENT,
    "_env_step": _ENVIRONMENT,
    "_returns": _TARGETS,
    "_advantages": _TARGETS,
    "_checkpoint": _CHECKPOINTS,
    "_summary_stats": "summarize",
    "_pi_value": _ACTING,
    "_select_action": f"{_ACTING}, or _explore of agents such as DQN",
    "act_randomly": "_explore, and _act_randomly for the steps before learning starts",
    "_init_eps_fn": _EXPLORATION,
    "_init_buffer": "config.buffer_size and config.prioritised_replay",
    "_store_transition": "config.buffer_size and config.prioritised_replay",
    "_sample_batch": "config.minibatch_size and config.prioritised_replay",
    "_init_q_network": "config.critic_network",
    "_update_q_network": "_learn",
    "_fake_update_network": "config.learning_starts",
    "_update_target_network": "config.target_update_period and the hyperparameter tau",
    "_q_state_action": "ops.values_of(self._q(params, obs), actions) in the learner's _loss",
    "_p": _OF_LEARNER,
    "_q_from_p": _OF_LEARNER,
    "_cross_entropy": _OF_LEARNER,
    "_huber_loss": _OF_LEARNER,
}
"""Removed hooks of 0.2.5, and their replacements."""


def check_hook_names(
    cls: type,
    hooks: Sequence[str],
    gone: Mapping[str, str] = MappingProxyType({}),
    attributes: Mapping[str, object] | None = None,
) -> None:
    """Raises if a user's class, or an instance of it, has a method that looks like a hook but is not.

    Args:
        cls: The class, which inherits from a class of the library.
        hooks: Names of the hooks that it may override.
        gone: Replacements of removed hooks, by their names.
        attributes: Attributes that the constructor has set, by name; `None` for none.

    Raises:
        TypeError: There is such a method; the error names the nearest hook or the replacement.
    """
    known = {name for owner in cls.__mro__ if is_ours(owner) for name in vars(owner)}
    methods = [*_private_methods(cls), *_methods_of(attributes or {})]
    own = [name for name in methods if name not in known]
    for name in gone:
        if name not in known and (is_own(cls, name) or name in (attributes or ())):
            raise TypeError(
                f"{cls.__name__}.{name} would never be called: it was a hook in 0.2.5; instead, "
                f"use {gone[name]}. See Migrating in the guide. If it is your own method, give "
                "it another name."
            )
    free = [hook for hook in hooks if hook not in methods]
    for name in own:
        hook = alike(name, free, _CLOSE)
        if hook and abs(len(hook) - len(name)) <= _LONGEST_DIFFERENCE:
            raise TypeError(
                f"{cls.__name__}.{name} would never be called: there is no such hook. Did you "
                f"mean {hook}? If it is your own method, give it a less similar name."
            )


def check_hook_forms(made: object, hooks: Sequence[str]) -> None:
    """Raises if a user's hook is not a method, or takes its arguments in a different order.

    Args:
        made: A class that inherits from a class of the library, or an instance of it.
        hooks: Names of the hooks that it may override.

    Raises:
        TypeError: There is such a hook.
    """
    cls = made if isinstance(made, type) else type(made)
    for hook in hooks:
        ours = next((it for it in cls.__mro__ if is_ours(it) and hook in vars(it)), None)
        given, taken = _arguments(ours, hook), _arguments(cls, hook)
        if ours is not None and inspect.isfunction(vars(ours)[hook]):
            value = getattr(made, hook)
            if not callable(value):
                raise TypeError(
                    f"{cls.__name__}.{hook} must be a method, {hook}({', '.join(['self', *given])}), "
                    f"got {value!r}."
                )
        if [name for name in taken if name in given] != [name for name in given if name in taken]:
            raise TypeError(
                f"{cls.__name__}.{hook} must be {hook}(self, {', '.join(given)}), got "
                f"{hook}(self, {', '.join(taken)}): arguments are passed in this order, not by "
                "name."
            )


def check_pair(outcome: object, kinds: tuple[type, type], must: str) -> tuple[Any, Any]:
    """Raises unless a hook returns two objects of the given classes.

    Args:
        outcome: The return value of the hook.
        kinds: The classes.
        must: Start of the message, which says what to return.

    Returns:
        Both objects.

    Raises:
        TypeError: The hook returns something else.
    """
    given: Sequence[Any] = outcome if isinstance(outcome, tuple | list) else [outcome]
    if len(given) == len(kinds) and all(map(isinstance, given, kinds)):
        return given[0], given[1]
    found = " and ".join(f"a {type(x).__name__}" for x in given)
    raise TypeError(f"{must}, got {found}.")


def is_own(cls: type, hook: str) -> bool:
    """Whether a class's hook is defined by a user, not by the library."""
    owner = next((it for it in cls.__mro__ if hook in vars(it)), None)
    return owner is not None and not is_ours(owner)


def _arguments(cls: type | None, hook: str) -> list[str]:
    """The names of a hook's positional arguments; none if it is not a function."""
    try:
        signature = inspect.signature(getattr(cls, hook))
    except (AttributeError, TypeError, ValueError):
        return []
    by_position = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [name for name, it in signature.parameters.items() if it.kind in by_position]
    return [name for name in names if name not in ("self", "cls")]


def _private_methods(cls: type) -> Iterator[str]:
    """The names of a user's methods, and of nested classes, that start with one underscore."""
    for owner in cls.__mro__:
        if not is_ours(owner) and owner is not object:
            yield from _methods_of(vars(owner))


def _methods_of(attributes: Mapping[str, object]) -> Iterator[str]:
    for name, value in attributes.items():
        is_method = callable(value) or isinstance(value, classmethod | staticmethod)
        if is_method and name.startswith("_") and not name.startswith("__"):
            yield name


def is_ours(cls: type) -> bool:
    """Whether a class belongs to the library."""
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]
