"""Values of hyperparameters as options give them: dicts by name, with dicts of nested ones."""

import dataclasses
import itertools
from typing import Any

from jaxagents.core.numbers import OTHER_NAMES, by_own_names

Values = dict[str, Any]

SHARED = {
    "learning_rate": "Step size of all networks, in place of each of theirs.",
    "grad_clip": "Largest global norm of the gradients, in place of that of each optimizer.",
}
"""Options that stand for all hyperparameters whose names end so, with their help."""


def chosen_config(options: Any) -> Values:
    """The fields of a configuration that options give, without their other names.

    Args:
        options: Options. One that has its default is taken for one that was not given.

    Returns:
        The fields.

    Raises:
        ValueError: A number is not positive, or two contradict each other.
    """
    values, defaults = dataclasses.asdict(options), dataclasses.asdict(type(options)())
    fields = {name: value for name, value in values.items() if name not in OTHER_NAMES}
    others = [name for name in OTHER_NAMES if values.get(name) is not None]
    given = {name: value for name, value in values.items() if value != defaults[name]}
    sizes = {name: fields[name] for name in ("batch_size", "rollout_length") if name in fields}
    return {**fields, **by_own_names("AgentConfig", given, others, sizes)}


def with_values(hyperparams: Any, values: Values) -> Any:
    """Hyperparameters with other values."""
    nested = {
        name: with_values(getattr(hyperparams, name), value) if isinstance(value, dict) else value
        for name, value in values.items()
    }
    return hyperparams.replace(**nested)


def shared_names(values: Values) -> list[str]:
    """The options that stand for some of these values."""
    return [name for name in SHARED if any(key.endswith(name) for key in by_full_name(values))]


def chosen_sets(options: Any) -> list[Values]:
    """Every combination of the values that options give, with values that are given twice once.

    Args:
        options: Options, of which `hyperparams` holds a value for each name, or several in a tuple.

    Returns:
        The sets, the last of the names that have several values varied first.
    """
    given = dataclasses.asdict(options.hyperparams)
    shared = {name: getattr(options, name, None) for name in SHARED}
    shared = {name: value for name, value in shared.items() if value not in (None, ())}
    own = {name: x for name, x in by_full_name(given).items() if not name.endswith(tuple(shared))}
    axes = {
        name: tuple(dict.fromkeys(x)) if isinstance(x, tuple) else (x,)
        for name, x in {**own, **shared}.items()
    }
    combinations = itertools.product(*[values or (None,) for values in axes.values()])
    return [
        _picked(given, dict(zip(axes, chosen, strict=True)), tuple(shared))
        for chosen in combinations
    ]


def differences(sets: list[Values]) -> list[Values]:
    """Those values of each set that are not the same in all, by names as short as may be."""
    flat = [by_full_name(values) for values in sets]
    varied = [name for name in flat[0] if len({values[name] for values in flat}) > 1]
    own = {name: name.rsplit(".", 1)[-1] for name in varied}
    short = [{own[name]: values[name] for name in varied} for values in flat]
    full = [{name: values[name] for name in varied} for values in flat]
    are_clear = all(
        few[own[name]] == values[name]
        for few, values in zip(short, full, strict=True)
        for name in own
    )
    return short if are_clear else full


def in_words(values: Values) -> str:
    """Values on one line, such as `gamma=0.9 tau=0.01`."""
    return " ".join(f"{name}={value:g}" for name, value in values.items())


def stacked(sets: list[Values]) -> Values:
    """Sets as one, with an array for each value that is not the same in all."""
    import numpy as np

    merged = {}
    for name, first in sets[0].items():
        values = [of_set[name] for of_set in sets]
        if isinstance(first, dict):
            merged[name] = stacked(values)
        else:
            merged[name] = first if len(set(values)) == 1 else np.array(values, np.float32)
    return merged


def by_full_name(values: Values, prefix: str = "") -> Values:
    """Values by names that say in what each is nested, such as `actor_optimizer_params.eps`."""
    flat = {}
    for name, value in values.items():
        is_nested = isinstance(value, dict)
        flat |= by_full_name(value, f"{prefix}{name}.") if is_nested else {f"{prefix}{name}": value}
    return flat


def _picked(values: Values, chosen: Values, shared: tuple[str, ...], prefix: str = "") -> Values:
    picked = {}
    for name, value in values.items():
        if isinstance(value, dict):
            picked[name] = _picked(value, chosen, shared, f"{prefix}{name}.")
        else:
            stands_for_it = [other for other in shared if name.endswith(other)]
            picked[name] = chosen[stands_for_it[0] if stands_for_it else f"{prefix}{name}"]
    return picked
