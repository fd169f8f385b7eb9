"""Checks of how agents are made, and of what their updates and evaluations return."""

import abc
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import PyTree

from jaxagents.core.arrays import is_numeric, leaves_by_name
from jaxagents.core.hook_names import check_pair
from jaxagents.core.names import about_arguments, hint_for, missing_attribute
from jaxagents.core.report import Report, check_not_taken
from jaxagents.engine.config import Config
from jaxagents.envs.play import NAMES_OF_METRICS

_OF_EVALUATIONS = ("terminated", "truncated", "final_rewards", "returns")
"""Names that `Behaviour._eval_metrics` returns."""


def check_metrics(metrics: object, n_episodes: int, agent: str) -> None:
    """Raises unless `_eval_metrics` returns valid metrics of an evaluation.

    Args:
        metrics: Its return value.
        n_episodes: Number of episodes.
        agent: Name of the agent.

    Raises:
        TypeError: It is not a dict of arrays.
        ValueError: There is not one return per episode, or a name is taken.
    """
    what = f"{agent}._eval_metrics"
    if not isinstance(metrics, dict):
        raise TypeError(
            f"{what} must return a dict of arrays, got a {type(metrics).__name__}: add entries "
            "to the dict of super()._eval_metrics(...), and return it."
        )
    for name, entry in metrics.items():
        if not isinstance(name, str) or not is_numeric(entry):
            raise TypeError(
                f"{what} must return a dict of arrays by name, but returns {entry!r} for "
                f"{name!r}: return an array or a number."
            )
    added = [name for name in metrics if name not in _OF_EVALUATIONS]
    check_not_taken(f"{what} gives", added, NAMES_OF_METRICS, "which is the name of another metric")
    if "returns" not in metrics:
        raise ValueError(
            f"{what} must return 'returns', which decide the best checkpoint, but returns "
            f"{sorted(metrics)}: add entries to the dict of super()._eval_metrics(...)."
        )
    shape = jnp.shape(metrics["returns"])
    if shape[:1] != (n_episodes,):
        raise ValueError(
            f"{what} must return 'returns' for each of the {n_episodes} episodes, got shape "
            f"{shape}: keep the entries of super()._eval_metrics(...), and add others under new "
            "names."
        )


def check_update(outcome: object, before: Any, agent: str, config: Config) -> tuple[Any, Report]:
    """Raises unless an update returns a runner with the same arrays, and a report of scalars.

    Args:
        outcome: The return value of the update.
        before: The runner before the update.
        agent: Name of the agent.
        config: Its configuration, which names entries of infos that become metrics.

    Returns:
        The runner and the report.

    Raises:
        TypeError: The update returns something else.
        ValueError: The runner has other arrays, or a number is not a scalar or has a taken name.
    """
    step = f"{agent}._training_step, or a step that it calls,"
    must = (
        f"{step} must return the runner after the update and its report, as in 'runner, report = "
        "super()._training_step(runner)'"
    )
    runner, report = check_pair(outcome, (type(before), Report), must)
    maker = "_create_networks or _create_runner"
    check_same_arrays(runner.replace(info={}), before.replace(info={}), step, maker)
    shapes = {name: jnp.shape(x) for name, x in report.numbers.items() if jnp.ndim(x)}
    if shapes:
        raise ValueError(
            f"{agent}: an update must report single numbers, got the shapes {shapes}: report "
            "their means."
        )
    what = "A loss, or a learner, reports"
    check_not_taken(what, report.numbers, NAMES_OF_METRICS, "which is the name of another metric")
    taken = [name for name in (*config.final_info, *config.summed_info) if name in report.numbers]
    if taken:
        raise ValueError(
            f"final_info and summed_info name {taken}, which updates already report, with "
            f"{sorted(set(report.numbers) - {*taken})}: rename them in the environment's info."
        )
    return runner, report


def check_same_arrays(after: PyTree, before: PyTree, step: str, maker: str) -> None:
    """Raises if an update adds or drops arrays of its carry.

    Args:
        after: The carry after the update.
        before: The carry before the update.
        step: The function that makes the update, for the message.
        maker: The function that makes the first carry, for the message.

    Raises:
        ValueError: Arrays were added or dropped.
    """
    odd = sorted(leaves_by_name(after).keys() ^ leaves_by_name(before).keys())
    if odd:
        raise ValueError(
            f"{step} adds or drops the arrays {odd}, but every update needs the same ones. Have "
            f"{maker} create what you want to keep."
        )


def takes_info(hook: Callable[..., object]) -> bool:
    """Whether an `_eval_metrics` takes an argument `info`."""
    return "info" in inspect.signature(hook).parameters


class SealedAtTheEnd(abc.ABCMeta):
    """Metaclass that calls `_seal` once the constructors of all subclasses have run."""

    # A return type would hide the class from type checkers.
    def __call__(cls, *args: Any, **kwargs: Any):
        """Makes an object."""
        try:
            made = super().__call__(*args, **kwargs)
        except TypeError as error:
            fault = about_arguments(error)
            if not fault:
                raise
            name, signature = cls.__name__, _arguments(cls)
            unknown = [arg for arg in kwargs if arg not in signature.parameters]
            if str(args[:1]).endswith("Policy',)"):  # Stable-Baselines3 takes "MlpPolicy" first
                unknown = ["policy"]
            hint = "".join(f" {hint_for(arg, signature.parameters, cls)}" for arg in unknown[:1])
            or_none = "; env_params may be None" if "env_params" in signature.parameters else ""
            raise TypeError(f"{name}() {fault}.{hint} Call {name}{signature}{or_none}.") from None
        made._seal()
        return made

    if not TYPE_CHECKING:  # a type checker would believe that any attribute exists

        def __getattr__(cls, name: str) -> Any:
            return missing_attribute(cls, name)


def _arguments(made: type) -> inspect.Signature:
    """The signature of a class's constructor, without types."""
    signature = inspect.signature(made.__init__)
    _, *parameters = signature.parameters.values()
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
