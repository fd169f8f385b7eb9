"""The last run of an agent, and checks of runners and metrics to continue from."""

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Generic

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from jaxagents.checkpoints.records import saved_steps
from jaxagents.core.arrays import are_equal, is_used_up, leaves_by_name
from jaxagents.core.metrics import Metrics
from jaxagents.engine.behaviour import Behaviour
from jaxagents.engine.program import RunnerT

_RESULT = "train returns a runner and metrics, so write: runner, metrics = agent.train(...)"
_AS_BEFORE = (
    "Keep final_info, summed_info and _eval_metrics as they were, so that its metrics can continue."
)


class LastRun(Generic[RunnerT]):
    """The runner and metrics of an agent's last run, the only part of an agent that changes.

    Attributes:
        runner: The runner; `None` if there is no run.
    """

    def __init__(self) -> None:
        """Starts without a run."""
        self.runner: RunnerT | None = None
        self._metrics: Metrics | None = None
        self._n_updates: int | None = None

    def note(self, runner: RunnerT, metrics: Metrics, n_updates: int | None) -> None:
        """Stores a runner and its metrics; see `Agent.collect_training`."""
        check_single(runner)
        if not isinstance(metrics, Mapping):
            raise TypeError(
                "metrics must be a dict of arrays, such as train returns, or {} for none, got "
                f"{metrics!r}."
            )
        if metrics and "update_step" not in metrics:
            raise ValueError(
                "metrics must come from a run, with 'update_step' of shape (points,), or {} "
                f"for none, got {sorted(metrics)}."
            )
        shape = np.shape(metrics["update_step"]) if metrics else (0,)
        if len(shape) != 1:
            raise ValueError(
                "metrics must come from one run, with 'update_step' of shape (points,), got "
                f"one of {shape}: select one with jax.tree.map(lambda x: x[i], (runner, "
                "metrics))."
            )
        copies = jax.tree.map(np.array, metrics)  # the caller may change theirs
        self.runner, self._metrics, self._n_updates = runner, copies, n_updates

    @property
    def usable_runner(self) -> RunnerT:
        """The runner.

        Raises:
            RuntimeError: There is no run.
            ValueError: The runner was donated.
        """
        runner: Any = self.runner
        if runner is None:
            raise RuntimeError(
                "This agent has not been trained: call train or restore first, or collect_training "
                "with the results of a compiled train."
            )
        if is_used_up(runner.update_step):  # checking all arrays takes longer
            check_not_used_up(runner)
        return runner

    @property
    def metrics(self) -> Metrics | None:
        """A copy of the metrics, including the runs that it continued."""
        return None if self._metrics is None else jax.tree.map(np.array, self._metrics)

    @property
    def n_updates(self) -> int:
        """Number of updates that the runner has made; zero if there is no run."""
        if self.runner is None or self._n_updates is not None:
            return self._n_updates or 0
        runner: Any = self.usable_runner
        return int(runner.update_step)

    @property
    def is_evaluated(self) -> bool:
        """Whether the metrics end with an evaluation after the last update."""
        metrics = self.metrics
        return bool(metrics) and metrics["update_step"][-1] == self.n_updates

    def metrics_until(self, runner: Any, agent: Behaviour) -> Metrics | None:
        """The metrics to continue when training from a runner; `None` if they are not known.

        Raises:
            TypeError: The runner belongs to a different agent class.
            ValueError: The runner was donated, or the runner or the metrics do not fit the agent.
        """
        last = self.runner
        if runner is not last:
            check_fits(agent, runner)
        check_not_used_up(runner)
        is_known = runner is last
        if last is not None and isinstance(runner, type(last)) and not is_used_up(last):
            learned = [(x.update_step, agent.vital_arrays(x)) for x in (runner, last)]
            is_known = is_known or are_equal(*learned)  # a copy, or with other hyperparameters
        earlier = self.metrics if is_known else None
        if earlier:
            check_same_metrics(agent, earlier, runner)
        folder = agent.config.checkpoint_dir
        if not earlier and folder is not None and saved_steps(folder):
            warnings.warn(
                "This runner is not at the end of the run that the agent remembers, so the "
                f"metrics in {folder} start over. They continue from the runner of "
                "agent.restore('last').",
                stacklevel=4,
            )
        return earlier


def select_run(runs: object, index: tuple[int, ...]) -> tuple[Any, Metrics]:
    """Selects one of several runs; see `Agent.select`."""
    if not isinstance(runs, tuple):
        raise TypeError(
            "select takes the result of sweep or jax.vmap(agent.train), and then indices, as in "
            f"agent.select(result, result.best, 0), got {runs!r} first."
        )
    runners, metrics = runs[:2]
    shape = np.shape(runners.update_step)
    if len(index) != len(shape) or not all(
        hasattr(i, "__index__") and -n <= i < n for i, n in zip(index, shape, strict=True)
    ):
        raise IndexError(
            f"There are runs along axes of lengths {shape}: give an index for each axis, got {index}."
        )
    runner, metrics = jax.tree.map(lambda x: x[index], (runners, metrics))
    return runner, metrics


def check_single(runner: Any) -> None:
    """Raises unless the argument is a single runner, not a stack of several."""
    if not hasattr(runner, "update_step"):
        hint = f": {_RESULT}" if isinstance(runner, tuple) else ", such as train and start return"
        raise TypeError(f"A runner is needed{hint}, got a {type(runner).__name__}.")
    if jnp.ndim(runner.update_step):
        raise ValueError(
            f"This runner is a stack of {runner.update_step.size} runs: select one with "
            "jax.tree.map(lambda x: x[i], (runner, metrics)), or continue all of them with "
            "jax.vmap."
        )


def check_not_used_up(runner: PyTree) -> None:
    """Raises unless the argument is a single runner whose arrays have not been donated."""
    check_single(runner)
    if is_used_up(runner):
        raise ValueError(
            "This runner's arrays were used up by advance: continue with the runner that it "
            "returned, which agent.collect_training(runner, metrics) makes the agent remember, "
            "or pass advance a copy, jax.tree.map(jnp.copy, runner)."
        )


def fresh_runner(agent: Behaviour[Any, Any, RunnerT], hyperparams: object) -> RunnerT:
    """A fresh runner of an agent, as shapes.

    Args:
        agent: The agent.
        hyperparams: Hyperparameters; if they have a different class, the defaults are used.

    Returns:
        The runner.
    """
    kind = agent._hyperparams_type
    given = hyperparams if isinstance(hyperparams, kind) else kind()
    key = "fresh runner", jax.tree.structure(given)
    return agent.programs.get(
        key, lambda it: jax.eval_shape(it.program.start, jax.random.key(0), given)
    )


def check_fits(agent: Behaviour, runner: Any) -> None:
    """Raises unless a runner has the shapes of an agent's runners.

    Args:
        agent: The agent.
        runner: The runner. Fields that are `None` were left out of a checkpoint and are not compared.

    Raises:
        TypeError: It is not a runner, or belongs to a different family of agents.
        ValueError: It is a stack of several, or an array is missing or has a different shape; the error
            names the first such array.
    """
    if hasattr(runner, "update_step"):
        check_single(runner)  # a stack's hyperparameters cannot make a fresh runner
    fresh: Any = fresh_runner(agent, getattr(runner, "hyperparams", None))
    name = repr(agent).strip("<>")
    if not isinstance(runner, type(fresh)):
        hint = f": {_RESULT}" if isinstance(runner, tuple) else ""
        raise TypeError(
            f"{name} takes a runner of the class {type(fresh).__name__}, got "
            f"{type(runner).__name__}{hint}."
        )
    found, needed = _shapes(runner.replace(info={})), _shapes(fresh)
    left_out = {field for field, value in vars(runner).items() if value is None}
    for path in {**needed, **found}:
        if path.split("/")[0] in left_out or found.get(path) == needed.get(path):
            continue
        here, there = (
            f"has shape {shapes[path]}" if path in shapes else "is missing"
            for shapes in (found, needed)
        )
        raise ValueError(
            f"This runner does not fit {name}: its {path} {here}, but in a fresh runner it "
            f"{there}. A runner continues with the environment, networks, batch_size and other "
            "sizes that it began with."
        )


@contextlib.contextmanager
def check_fits_on_error(agent: Behaviour, runner: Any) -> Iterator[None]:
    """Raises a clear error if a step fails because a runner does not fit the agent.

    Comparing all shapes before each step would often take longer than the step.
    """
    check_not_used_up(runner)
    try:
        yield
    except Exception:
        check_fits(agent, runner)
        raise


def with_networks_of(agent: Behaviour[Any, Any, RunnerT], runner: RunnerT) -> RunnerT:
    """Loads a runner's arrays into an agent's networks and optimizers."""
    fresh: Any = fresh_runner(agent, runner.hyperparams)
    structure = jax.tree.structure(fresh.replace(info=runner.info))
    return jax.tree.unflatten(structure, jax.tree.leaves(runner))


def check_same_metrics(agent: Behaviour, earlier: Metrics, runner: Any) -> None:
    """Raises unless a run that continues from a runner is evaluated as before.

    Args:
        agent: The agent.
        earlier: Metrics so far, points first.
        runner: The runner. The metrics in its `info` are not compared: the next update replaces them.

    Raises:
        ValueError: The evaluation differs.
    """
    fresh = fresh_runner(agent, runner.hyperparams)
    key = "metrics", jax.tree.structure(fresh)
    point = agent.programs.get(key, lambda it: it.program.shapes_of_metrics(fresh))
    was_evaluated = "lengths" in earlier
    if was_evaluated != ("lengths" in point):
        before = "was evaluated" if was_evaluated else "was not evaluated"
        raise ValueError(
            f"This run {before} so far, and its metrics must continue: make the agent with "
            f"eval_during_training={was_evaluated}."
        )
    had = {name: shape[1:] for name, shape in _shapes(earlier).items() if name not in runner.info}
    has = _shapes(point)
    if was_evaluated and had["lengths"] != has["lengths"]:
        (n_before,), (n_now,) = had["lengths"], has["lengths"]
        raise ValueError(
            f"This run was evaluated on {n_before} episodes so far, but the agent uses {n_now}: "
            f"set n_evals={n_before}, so that its metrics can continue."
        )
    missing, new = sorted(had.keys() - has.keys()), sorted(has.keys() - had.keys())
    if missing or new:
        changes = ("had", missing, "lacks"), ("lacked", new, "has")
        told = [
            f"{had} {names} so far, which the agent {has}" for had, names, has in changes if names
        ]
        raise ValueError(f"The metrics of this run {', and '.join(told)}. {_AS_BEFORE}")
    for name, shape in had.items():
        if has[name] != shape:
            raise ValueError(
                f"The metric {name!r} of this run had the shape {shape} at each point so far, "
                f"but the agent's has {has[name]}. {_AS_BEFORE}"
            )


def _shapes(tree: PyTree) -> dict[str, tuple[int, ...]]:
    return {name: jnp.shape(leaf) for name, leaf in leaves_by_name(tree).items()}
