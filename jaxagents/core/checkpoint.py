"""Checkpoints of a training in a folder of its own, kept by policy and verified when read."""

import contextlib
import itertools
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from filelock import FileLock, Timeout

from jaxagents.core.arrays import is_key
from jaxagents.core.describe import to_json
from jaxagents.core.metrics import Metrics, join
from jaxagents.loggers import JSONLLogger

Leaf = tuple[str, Any]


class CorruptCheckpointError(ValueError):
    """A checkpoint could not be read back as it was written."""


def check_folder(directory: str | os.PathLike, may_be_filled: bool) -> None:
    """Raises if a folder cannot take the checkpoints of an agent.

    Args:
        directory: The folder, which need not exist.
        may_be_filled: Whether it may hold checkpoints already.

    Raises:
        NotADirectoryError: It is a file.
        FileExistsError: It holds checkpoints and may not.
    """
    path = _resolve(directory)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"checkpoint_dir {path} is a file, not a folder.")
    steps = saved_steps(path)
    if steps and not may_be_filled:
        raise FileExistsError(
            f"{path} already holds checkpoints, up to update {steps[-1]}. Set restore_agent=True in the "
            "configuration to restore from them, or choose another checkpoint_dir. Nothing was changed."
        )


def saved_steps(directory: str | os.PathLike) -> list[int]:
    """Update steps of the finished checkpoints in a folder, in order."""
    folder = _checkpoints(_resolve(directory))
    if not folder.is_dir():
        return []
    return sorted(int(child.name) for child in folder.iterdir() if child.name.isdigit())


def restore(
    agent: Any, mode: str | int, best_fn: Callable[[Metrics], Any] | None, hyperparams: Any
) -> tuple[Any, Metrics]:
    """Reads a checkpoint of an agent.

    Args:
        agent: The agent, whose configuration names the folder.
        mode: `"best"`, `"last"`, or the number of an update step.
        best_fn: Maps the metrics at the kept checkpoints to the index of the best.
        hyperparams: Hyperparameters structured as those that were saved.

    Returns:
        The runner, and the history of metrics up to it.
    """
    if agent.config.checkpoint_dir is None:
        raise FileNotFoundError(
            "This agent has no checkpoint_dir to restore from: set it in the configuration."
        )
    directory = _resolve(agent.config.checkpoint_dir)
    steps = saved_steps(directory)
    if not steps:
        raise FileNotFoundError(f"{directory} holds no checkpoints.")
    template = jax.eval_shape(agent.start, jax.random.key(0), hyperparams)
    for step in _candidates(directory, steps, mode, best_fn):
        try:
            return _read(directory, step, agent, template)
        except CorruptCheckpointError as error:
            if not isinstance(mode, str):
                raise
            warnings.warn(f"{error} Falling back to another checkpoint.", stacklevel=3)
    raise CorruptCheckpointError(f"No checkpoint in {directory} could be read.")


def write_description(directory: str | os.PathLike, stem: str, description: Any) -> None:
    """Writes `stem.json`, or `stem-2.json` and so on where other contents are already there.

    Args:
        directory: The folder.
        stem: Name of the file without its ending.
        description: Dataclass or dict.
    """
    text = json.dumps(to_json(description), indent=2) + "\n"
    path, number = _resolve(directory) / f"{stem}.json", 1
    path.parent.mkdir(parents=True, exist_ok=True)
    while path.exists() and path.read_text(encoding="utf-8") != text:
        number += 1
        path = path.with_name(f"{stem}-{number}.json")
    path.write_text(text, encoding="utf-8")


class Records:
    """Keeps the records of one training in the agent's checkpoint folder, which it locks.

    The folder holds `config.json`, `hyperparameters.json`, `metrics.jsonl` and `checkpoints/`.
    """

    def __init__(self, agent: Any, runner: Any, earlier: Metrics | None) -> None:
        """Prepares the records; nothing is written before the context is entered.

        Args:
            agent: The agent.
            runner: Where the training starts.
            earlier: Metrics of the trainings that it goes on from.
        """
        self._agent = agent
        self._runner = runner
        self._earlier = earlier
        self._directory = _resolve(agent.config.checkpoint_dir)
        self._stack = contextlib.ExitStack()
        self.logger = JSONLLogger(self._directory / "metrics.jsonl")

    def __enter__(self) -> "Records":
        """Locks the folder and describes the training in it.

        Raises:
            FileExistsError: Another training writes to the folder, or it holds later checkpoints.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_lock(self._directory))
            self._clear_the_way()
            write_description(self._directory, "config", _description(self._agent))
            write_description(self._directory, "hyperparameters", self._runner.hyperparams)
            self._manager = stack.enter_context(
                _manager(self._directory, self._agent.config.keep_checkpoints)
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        """Waits for the last checkpoint and unlocks the folder."""
        with self._stack, _warn_if_unwritten():
            self._manager.wait_until_finished()

    def on_chunk(self, n_updates: int) -> None:
        """Does nothing."""

    def on_point(self, runner: Any, history: Metrics) -> None:
        """Saves a checkpoint, known by its mean return."""
        self._save(runner, history, _mean_return(history))

    def on_interruption(self, runner: Any, history: Metrics) -> None:
        """Saves a checkpoint, which has no return to compete with the best."""
        self._save(runner, history, None)

    def _save(self, runner: Any, history: Metrics, mean_return: dict[str, float] | None) -> None:
        from orbax.checkpoint import args

        step = int(runner.update_step)
        if step in saved_steps(self._directory):
            return
        leaves = [(path, np.array(leaf)) for path, leaf in _leaves(runner)]
        meta = {**_identity(self._agent), "leaves": [_signature(*leaf) for leaf in leaves]}
        items = args.Composite(
            runner=args.StandardSave(dict(leaves)),
            history=args.StandardSave(join(self._earlier, history)),
            meta=args.JsonSave(meta),
        )
        with _warn_if_unwritten():
            if not self._manager.save(step, args=items, metrics=mean_return):
                raise OSError(f"the checkpoint of update {step} was not written")

    def _clear_the_way(self) -> None:
        """Sets later checkpoints aside if they are damaged, and refuses to train behind others."""
        start = int(self._runner.update_step)
        later = (step for step in saved_steps(self._directory) if step > start)
        damages = {step: _damage(self._directory, step) for step in later}
        for step, damage in damages.items():
            if damage is None:
                raise FileExistsError(
                    f"{self._directory} holds a checkpoint of update {step}, but this training "
                    f"starts at update {start}. Go on from the last checkpoint "
                    "(runner, _ = agent.restore('last') and agent.train(None, hyperparams, runner)), "
                    "or choose another checkpoint_dir. Nothing was changed."
                )
        for step, damage in damages.items():
            _set_aside(self._directory, step)
            warnings.warn(f"{damage} It was set aside.", stacklevel=2)


def _damage(directory: Path, step: int) -> CorruptCheckpointError | None:
    """What is wrong with a checkpoint, if anything."""
    try:
        _verified_items(directory, step)
    except CorruptCheckpointError as error:
        return error
    return None


def _set_aside(directory: Path, step: int) -> None:
    folder = _checkpoints(directory) / str(step)
    names = (f"{step}.damaged-{number}" for number in itertools.count(1))
    folder.rename(next(path for name in names if not (path := folder.with_name(name)).exists()))


def _candidates(
    directory: Path, steps: list[int], mode: str | int, best_fn: Callable[[Metrics], Any] | None
) -> Iterable[int]:
    newest_first = steps[::-1]
    if mode == "last":
        return newest_first
    if mode == "best":
        return _best_first(_kept_history(directory, newest_first), best_fn)
    if mode in steps:
        return [int(mode)]
    raise FileNotFoundError(
        f"There is no checkpoint of {mode!r}: choose 'best', 'last' or one of the update steps {steps}."
    )


def _kept_history(directory: Path, newest_first: list[int]) -> Metrics:
    """The metrics of the evaluation points whose checkpoints are still there."""
    for step in newest_first:
        with contextlib.suppress(CorruptCheckpointError):
            history = _restore_items(directory, step, ["history"])["history"]
            kept = np.isin(history["update_step"], newest_first)
            return {name: values[kept] for name, values in history.items()}
    raise CorruptCheckpointError(f"No checkpoint in {directory} could be read.")


def _best_first(history: Metrics, best_fn: Callable[[Metrics], Any] | None) -> list[int]:
    steps = history["update_step"]
    if best_fn is not None:
        index = int(best_fn(history))
        if not -len(steps) <= index < len(steps):
            raise ValueError(
                f"best_fn gave index {index}, but there are {len(steps)} kept checkpoints."
            )
        return [int(steps[index])]
    if "returns" not in history:
        raise ValueError(
            "Without evaluation during training no checkpoint is known to be the best: restore 'last', "
            "or give best_fn."
        )
    means = history["returns"].reshape(len(steps), -1).mean(axis=1)
    return [int(step) for step in steps[np.argsort(means, kind="stable")[::-1]]]


def _read(directory: Path, step: int, agent: Any, template: Any) -> tuple[Any, Metrics]:
    items = _verified_items(directory, step)
    place = _place(directory, step)
    _check_identity(place, items["meta"], agent)
    _check_leaves(place, items["meta"]["leaves"], _leaves(template))

    def as_leaf(saved: np.ndarray, like: Any) -> Any:
        array = jnp.asarray(saved)
        return jax.random.wrap_key_data(array) if is_key(like) else array

    like, structure = jax.tree.flatten(template)
    saved = [items["runner"][path] for path, _ in _leaves(template)]
    leaves = [as_leaf(s, k) for s, k in zip(saved, like, strict=True)]
    return jax.tree.unflatten(structure, leaves), items["history"]


def _verified_items(directory: Path, step: int) -> dict[str, Any]:
    """Everything that a checkpoint holds, read back as it was written."""
    items = _restore_items(directory, step, ["meta", "runner", "history"])
    for signature in items["meta"]["leaves"]:
        path = signature["path"]
        if _signature(path, items["runner"][path]) != signature:
            raise CorruptCheckpointError(f"{_place(directory, step)} is damaged at {path}.")
    return items


def _place(directory: Path, step: int) -> str:
    return f"The checkpoint of update {step} in {directory}"


def _check_identity(place: str, meta: dict, agent: Any) -> None:
    for what, own in _identity(agent).items():
        if meta[what] != own:
            raise ValueError(f"{place} is of the {what} {meta[what]}, but this is {own}.")


def _check_leaves(place: str, saved: list[dict], own: list[Leaf]) -> None:
    for signature, (path, leaf) in zip(saved, own, strict=False):
        expected = {"path": path, "shape": list(leaf.shape), "dtype": str(leaf.dtype)}
        found = {name: signature[name] for name in expected}
        if found != expected:
            raise ValueError(
                f"{place} does not fit this agent. The first leaf that differs is {found['path']} with "
                f"shape {tuple(found['shape'])} and dtype {found['dtype']}, where this agent has {path} "
                f"with shape {leaf.shape} and dtype {leaf.dtype}."
            )
    if len(saved) != len(own):
        longer = [s["path"] for s in saved] if len(saved) > len(own) else [path for path, _ in own]
        raise ValueError(
            f"{place} has {len(saved)} leaves, but this agent has {len(own)}; the first without a "
            f"counterpart is {longer[min(len(saved), len(own))]}."
        )


def _restore_items(directory: Path, step: int, names: list[str]) -> dict[str, Any]:
    from orbax.checkpoint import Checkpointer, CompositeCheckpointHandler, args

    restored_as = dict.fromkeys(names, args.StandardRestore) | {"meta": args.JsonRestore}
    composite = args.Composite(**{name: restored_as[name]() for name in names})
    try:
        with Checkpointer(CompositeCheckpointHandler()) as checkpointer:
            items = checkpointer.restore(_checkpoints(directory) / str(step), args=composite)
        return {name: items[name] for name in names}
    except Exception as error:
        raise CorruptCheckpointError(
            f"{_place(directory, step)} cannot be read ({type(error).__name__}: {error})."
        ) from error


@contextlib.contextmanager
def _warn_if_unwritten():
    try:
        yield
    except Exception as error:
        warnings.warn(f"A checkpoint could not be written, training goes on: {error}", stacklevel=2)


def _manager(directory: Path, keep: int | None) -> Any:
    """Makes orbax's checkpoint manager, whose import is too slow for the top of the module."""
    from orbax.checkpoint import CheckpointManager, CheckpointManagerOptions
    from orbax.checkpoint import checkpoint_managers as policies

    latest = policies.LatestN(keep)
    best = policies.BestN(
        get_metric_fn=lambda metrics: metrics["mean_return"],
        n=1,
        keep_checkpoints_without_metrics=False,
    )
    options = CheckpointManagerOptions(
        preservation_policy=policies.AnyPreservationPolicy([latest, best]), create=True
    )
    return CheckpointManager(_checkpoints(directory), options=options)


@contextlib.contextmanager
def _lock(directory: Path):
    lock = FileLock(directory / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FileExistsError(
            f"Another training is writing to {directory}: choose another checkpoint_dir, or wait."
        ) from None
    try:
        yield
    finally:
        lock.release()


def _resolve(directory: str | os.PathLike) -> Path:
    return Path(directory).expanduser().resolve()


def _checkpoints(directory: Path) -> Path:
    return directory / "checkpoints"


def _description(agent: Any) -> dict[str, Any]:
    return {
        **_identity(agent),
        "env_params": agent.env_params,
        "config": agent.config.computation(),
    }


def _identity(agent: Any) -> dict[str, str]:
    env_name = getattr(agent.env, "name", type(agent.env).__name__)
    return {"agent": type(agent).__qualname__, "environment": env_name}


def _mean_return(history: Metrics) -> dict[str, float] | None:
    if "returns" not in history:
        return None
    return {"mean_return": float(np.mean(history["returns"][-1]))}


def _leaves(tree: Any) -> list[Leaf]:
    """Paths and leaves of a pytree, random keys as their data."""

    def raw(leaf: Any) -> Any:
        if not is_key(leaf):
            return leaf
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.eval_shape(jax.random.key_data, leaf)
        return jax.random.key_data(leaf)

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/"), raw(x)) for path, x in leaves]


def _signature(path: str, array: Any) -> dict[str, Any]:
    array = np.asarray(array)
    digest = zlib.crc32(array.tobytes())
    return {"path": path, "shape": list(array.shape), "dtype": str(array.dtype), "crc32": digest}
