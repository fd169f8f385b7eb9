"""The schedules of hyperparameters that were saved, by the description that was saved with them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
from jaxtyping import PyTree

from jaxagents.core.describe import to_json
from jaxagents.core.schedules import (
    CosineSchedule,
    ExponentialSchedule,
    LinearSchedule,
    PiecewiseSchedule,
    Schedule,
    has_schedules,
)

_NOTE = "hyperparameters"
_KINDS = {
    kind.__name__: kind
    for kind in (LinearSchedule, CosineSchedule, ExponentialSchedule, PiecewiseSchedule)
}


def notes_of_schedules(hyperparams: PyTree) -> dict[str, Any]:
    """Hyperparameters as JSON, for the notes of a checkpoint.

    Args:
        hyperparams: Hyperparameters.

    Returns:
        The notes; nothing if the class of the hyperparameters tells how they are structured, because
        there are neither schedules nor parameters of an environment.
    """
    differs = has_schedules(hyperparams) or hyperparams.of_environment
    return {_NOTE: to_json(hyperparams)} if differs else {}


def structured_as_saved(hyperparams: PyTree, notes: Mapping[str, Any]) -> PyTree:
    """Hyperparameters with schedules where saved ones have them, and nowhere else.

    Args:
        hyperparams: Hyperparameters of the same class.
        notes: The notes of the checkpoint.

    Returns:
        Hyperparameters structured as those that were saved.

    Raises:
        ValueError: A schedule was saved that only the hyperparameters themselves could tell.
    """
    return _with_saved(hyperparams, notes.get(_NOTE, {}), "")


def _with_saved(given: PyTree, saved: Mapping[str, Any], path: str) -> PyTree:
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(given):
        value, description = getattr(given, field.name), saved.get(field.name)
        if isinstance(description, dict) and "schedule" in description:
            fields[field.name] = _schedule(value, description, f"{path}{field.name}")
        elif isinstance(value, Schedule):
            fields[field.name] = 0.0
        elif isinstance(value, Mapping):
            fields[field.name] = _mapping(value, description or {}, f"{path}{field.name}")
        elif dataclasses.is_dataclass(value):
            fields[field.name] = _with_saved(value, description or {}, f"{path}{field.name}.")
    return dataclasses.replace(given, **fields) if fields else given


def _mapping(given: Mapping[str, Any], saved: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The numbers and schedules of parameters of an environment."""
    return {
        name: _schedule(given.get(name), description, f"{path}[{name!r}]")
        if isinstance(description, dict)
        else 0.0
        for name, description in saved.items()
    }


def _schedule(given: object, saved: Mapping[str, Any], name: str) -> Schedule:
    kind = saved["schedule"]
    if type(given).__name__ == kind and kind not in _KINDS:
        assert isinstance(given, Schedule)
        return given
    if kind not in _KINDS:
        raise ValueError(
            f"{name} was a {kind} when the checkpoint was made, which does not say what it was: give "
            "the hyperparameters to restore, such as restore('last', hyperparams=hyperparams)."
        )
    fields: dict[str, Any] = {
        key: tuple(x) if isinstance(x, list) else x for key, x in saved.items()
    }
    del fields["schedule"]
    return jax.tree.map(lambda _: 0.0, _KINDS[kind](**fields), is_leaf=lambda x: x is None)
