"""The description of a run in its folder, from which commands recreate its agent."""

import contextlib
import dataclasses
import importlib
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from jaxagents.catalogue import CATALOGUE
from jaxagents.cli.mistakes import MistakeError, one_line_errors
from jaxagents.core.extras import SUITES
from jaxagents.core.names import alike, unknown

FILE = "run.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """The settings that a run was started with.

    Attributes:
        agent: The agent's name in the catalogue.
        environment: Name of the environment for `jaxagents.make`, or `module:Class`.
        seed: The seed.
        n_seeds: Number of seeds of a sweep; `None` for a single run.
        preset: Name of the preset, if there is one.
        anneal: Whether the learning rate decays to zero.
        dataset: File of the dataset, if there is one.
        dataset_actions: Units of its actions, `"environment"` or `"rescaled"`, if given.
        config: Fields of the configuration.
        hyperparams: Sets of hyperparameters by full name, such as `actor_optimizer_params.eps`; only
            sweeps have several.
    """

    agent: str
    environment: str
    seed: int
    n_seeds: int | None = None
    preset: str | None = None
    anneal: bool = False
    dataset: str | None = None
    dataset_actions: str | None = None
    config: dict[str, Any]
    hyperparams: list[dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads the run of a folder.

        Raises:
            MistakeError: The folder holds no run, or its description cannot be read.
        """
        path = folder / FILE
        if not path.is_file():
            raise MistakeError(_no_run_message(folder))
        try:
            with one_line_errors():
                fields = json.loads(path.read_text(encoding="utf-8"))
                sets = [
                    {
                        name: None if value is None else float(value)
                        for name, value in values.items()
                    }
                    for values in fields["hyperparams"]
                ]
                return cls(**{**fields, "hyperparams": sets})
        except MistakeError as error:
            raise MistakeError(
                f"{path} does not look as 'jaxagents train' and 'jaxagents sweep' write it: {error}"
            ) from error

    def write(self, folder: Path) -> None:
        """Makes a folder without a run, and writes the run to it.

        Raises:
            MistakeError: Another run was started there meanwhile, or the folder is not writable.
        """
        with one_line_errors(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                with (folder / FILE).open("x", encoding="utf-8") as file:
                    file.write(self._text())
            except FileExistsError:
                raise MistakeError(holds_run_message(folder)) from None

    @contextlib.contextmanager
    def rewritten(self, folder: Path) -> Iterator[None]:
        """Replaces the description in a folder, and locks the folder until the context ends.

        Raises:
            MistakeError: Another run is writing to the folder.
        """
        from jaxagents.checkpoints.disk import lock

        with one_line_errors(OSError):
            held = lock(self.folder_of_records(folder))
        try:
            unfinished = folder / f".{FILE}"
            unfinished.write_text(self._text(), encoding="utf-8")
            unfinished.replace(folder / FILE)
            yield
        finally:
            held.release()

    def folder_of_records(self, folder: Path) -> Path:
        """The folder of checkpoints and metrics, given the folder of the run."""
        return folder if self.n_seeds is None else folder / "sweep"

    def _text(self) -> str:
        from jaxagents.core.describe import to_json

        return json.dumps(to_json(vars(self)), indent=2) + "\n"

    @property
    def steps_per_update(self) -> int | None:
        """Environment steps per update; `None` for agents that learn from data."""
        if CATALOGUE[self.agent].learns_from_data:
            return None
        return self.config["batch_size"] * self.config["rollout_length"]

    def make_agent(self, folder: Path) -> Any:
        """Makes the agent, with its checkpoints in a folder.

        Raises:
            MistakeError: The environment, options and data do not fit together.
        """
        import optax

        from jaxagents.agents.config import annealed

        with one_line_errors(fields=self.config):
            agent, config, _, anneals = self._start()
            config = config.replace(**self.config, checkpoint_dir=folder, restore_agent=True)
            if self.anneal:
                config = annealed(config)
            elif anneals:
                config = config.replace(optimizer=optax.adam)
            env = _environment(self.environment)
            data = {} if self.dataset is None else {"dataset": self._load_dataset(env)}
            return agent(env, None, config, **data)

    def _load_dataset(self, env: Any) -> Any:
        from jaxagents.data import Dataset, units
        from jaxagents.envs import as_environment

        assert self.dataset is not None
        own = as_environment(env).action_space
        spaces = {None: None, "environment": own, "rescaled": (-1.0, 1.0)}
        dataset = Dataset.load(self.dataset, action_space=spaces[self.dataset_actions])
        box, actions = units.box_of(own), dataset.get("actions")
        is_known = self.dataset_actions is not None or dataset.action_space is not None
        if is_known or box is None or not hasattr(actions, "dtype"):
            return dataset
        if units.may_be_rescaled(actions, box):
            raise MistakeError(
                f"{self.dataset} does not say which units its actions are in. Give --dataset-actions "
                f"environment if they are in the environment's own, {units.words(box)}, or "
                "--dataset-actions rescaled if they are rescaled to (-1, 1)."
            )
        return dataset

    def make_hyperparams(self) -> Any:
        """Makes the hyperparameters; in a sweep, those that vary are arrays.

        Raises:
            MistakeError: A value is out of range.
        """
        import numpy as np
        from flax import traverse_util

        from jaxagents.core.hyperparameters import with_values

        values = {}
        for name, first in self.hyperparams[0].items():
            column = [of_set[name] for of_set in self.hyperparams]
            values[name] = first if len(set(column)) == 1 else np.array(column, np.float32)
        with one_line_errors(fields=values):
            nested = traverse_util.unflatten_dict(values, sep=".")
            hyperparams = with_values(self._start()[2], nested)
            hyperparams.check_ranges()
            return hyperparams

    def _start(self) -> tuple[type[Any], Any, Any, bool]:
        """The class, base configuration and hyperparameters, and whether the preset anneals."""
        if self.preset is not None:
            from jaxagents.presets import preset

            return preset(self.preset)[1:]
        agent, config, hyperparams = CATALOGUE[self.agent].types()
        return agent, config(), hyperparams(), False


def holds_run_message(folder: Path) -> str:
    """The message for a folder that already holds a run."""
    return (
        f"{folder} already holds a run: 'jaxagents resume {shlex.quote(str(folder))}' continues "
        "it; or pass another --run-dir."
    )


def _no_run_message(folder: Path) -> str:
    if folder.is_dir():
        return f"{folder} holds no {FILE}, which 'jaxagents train' and 'jaxagents sweep' write."
    near = alike(folder.name, [other.name for other in sorted(folder.parent.glob("*/"))], 0.6)
    hint = f" Did you mean '{folder.parent / near}'?" if near else ""
    return f"There is no folder '{folder}'.{hint}"


def _environment(name: str) -> Any:
    """Makes an environment of gymnax or a suite, or a user's own."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    module, colon, attribute = name.partition(":")
    if not colon or module in {"gymnax", *SUITES}:
        from jaxagents.envs import make

        return make(name)
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise MistakeError(unknown("suite or module", module, SUITES)) from error
    made = getattr(imported, attribute)
    return made() if callable(made) else made
