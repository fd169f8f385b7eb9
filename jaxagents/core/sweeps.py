"""Many trainings in one program: seeds times sets of hyperparameters."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxagents.core import training
from jaxagents.core.interruption import Interruption
from jaxagents.core.metrics import Metrics
from jaxagents.core.progress import SweepBar
from jaxagents.core.types import SweepResult

_MEMBERS = PartitionSpec("members")


def sweep(agent: Any, rngs: Any, hyperparams: Any, n_steps: int, progress: bool) -> SweepResult:
    """Trains every seed with every set of hyperparameters.

    Args:
        agent: The agent.
        rngs: Keys, shaped `(n_seeds,)`.
        hyperparams: Hyperparameters whose array leaves have a common leading axis of sets.
        n_steps: Number of updates.
        progress: Whether to show progress.

    Returns:
        Runners and metrics with leading axes `(n_sets, n_seeds)`, and the best set.
    """
    if rngs.ndim != 1:
        raise ValueError(
            f"rngs must be keys with one leading axis of seeds, got shape {rngs.shape}."
        )
    n_sets, n_seeds = _number_of_sets(hyperparams), len(rngs)
    sets = jax.tree.map(
        lambda x: jnp.broadcast_to(jnp.asarray(x, jnp.float32), n_sets), hyperparams
    )
    n_members = n_sets * n_seeds
    mesh = Mesh(np.asarray(jax.devices()[:n_members]), ("members",))
    padding = -n_members % mesh.size

    member_sets = jax.tree.map(lambda x: jnp.repeat(x, n_seeds, axis=0), sets)
    member_rngs = jnp.tile(rngs, n_sets)
    pad = np.minimum(np.arange(n_members + padding), n_members - 1)
    members = jax.tree.map(lambda x: x[pad], (member_rngs, member_sets))
    members = jax.device_put(members, NamedSharding(mesh, _MEMBERS))

    program = _members(agent.program, mesh)
    with (
        Interruption() as interruption,
        SweepBar(agent, 0, n_steps, disable=not progress) as bar,
    ):
        lengths = training.updates_between_points(n_steps, agent.config.eval_frequency)
        runners, metrics = training.drive(
            program, program.start(*members), lengths, [bar], interruption
        )
    metrics = jax.tree.map(lambda x: np.moveaxis(x, 1, 0), metrics)

    def unflatten(x: Any) -> Any:
        return x[:n_members].reshape(n_sets, n_seeds, *x.shape[1:])

    runners, metrics = jax.tree.map(unflatten, (runners, metrics))
    best = _best_set(metrics)
    best_hyperparams = None if best is None else jax.tree.map(lambda x: x[best], sets)
    return SweepResult(runners, metrics, best, best_hyperparams)


@functools.lru_cache(maxsize=16)
def _members(program: Any, mesh: Mesh) -> "Members":
    return Members(program, mesh)


class Members:
    """An agent's program for many members, split over the devices of a mesh.

    On each device of a CPU the members are trained one after another, which is faster there than
    one wide program and does not freeze; accelerators train them side by side.
    """

    def __init__(self, agent: Any, mesh: Mesh) -> None:
        """Compiles nothing yet."""
        self._start = _map_members(agent.start, mesh, n_shared=0)
        self._advance = _map_members(agent.advance, mesh, n_shared=1)
        self._evaluate = _map_members(agent.evaluate, mesh, n_shared=0)

    def start(self, rngs: Any, hyperparams: Any) -> Any:
        """Fresh runners."""
        return self._start((rngs, hyperparams))

    def advance(self, runners: Any, n_updates: Any) -> Any:
        """Makes updates."""
        return self._advance((runners,), n_updates)

    def evaluate(self, runners: Any) -> Metrics:
        """The metrics of one evaluation point."""
        return self._evaluate((runners,))


def _map_members(function: Callable, mesh: Mesh, n_shared: int) -> Callable:
    def on_one_device(members: Any, *shared: Any) -> Any:
        def one(member: Any) -> Any:
            return function(*member, *shared)

        if mesh.devices.flat[0].platform == "cpu":
            return jax.lax.map(one, members)
        return jax.vmap(one)(members)

    return jax.jit(
        jax.shard_map(
            on_one_device,
            mesh=mesh,
            in_specs=(_MEMBERS, *[PartitionSpec()] * n_shared),
            out_specs=_MEMBERS,
            check_vma=False,
        )
    )


def _number_of_sets(hyperparams: Any) -> int:
    sizes = {np.shape(x) for x in jax.tree.leaves(hyperparams) if np.ndim(x)}
    if not sizes:
        return 1
    if len(sizes) > 1 or len(next(iter(sizes))) != 1:
        raise ValueError(
            "The array leaves of hyperparams must share one leading axis of sets, got shapes "
            f"{sorted(sizes)}."
        )
    return next(iter(sizes))[0]


def _best_set(metrics: Metrics) -> int | None:
    if "returns" not in metrics:
        return None
    last = metrics["returns"][:, :, -1]
    means = last.reshape(last.shape[0], -1).mean(axis=1)
    return int(np.argmax(np.nan_to_num(means, nan=-np.inf)))
