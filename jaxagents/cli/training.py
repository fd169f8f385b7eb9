"""The commands that train: `train`, `resume` and `sweep`."""

import argparse
import contextlib
import dataclasses
import datetime
import itertools
import secrets
import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from jaxagents.catalogue import CATALOGUE, NO_PRESET, PRESETS, preset_of
from jaxagents.cli.mistakes import (
    FailureError,
    MistakeError,
    StoppedError,
    check_environment,
    one_line_errors,
)
from jaxagents.cli.options import Resume, chosen_config, chosen_sets, options_of
from jaxagents.cli.parsing import parse
from jaxagents.cli.runs import FILE, Run, holds_run_message
from jaxagents.core import numbers
from jaxagents.core.names import check_known

_SUMMARIES = {
    "train": "Trains an agent, and keeps everything in a folder of its own.",
    "sweep": "Trains several seeds of an agent, with every combination of the hyperparameters given.",
}
_FORM = "jaxagents {0} AGENT ENV [options], or jaxagents {0} --preset NAME [options]"
_HELP = """\
usage: {form}

{summary}

  AGENT  one of those that 'jaxagents list agents' shows
  ENV    an environment of gymnax or of a suite ('jaxagents list envs'), or module:Class of your own
  NAME   tuned settings ('jaxagents list presets'), by default those of AGENT in ENV, or none

'jaxagents {command} AGENT --help' lists the options of an agent."""


def train(words: Sequence[str]) -> None:
    """Trains an agent: `jaxagents train AGENT ENV [options]`."""
    _start_run("train", words)


def sweep(words: Sequence[str]) -> None:
    """Trains seeds times hyperparameters: `jaxagents sweep AGENT ENV --seeds 4 --gamma 0.9 0.99`."""
    _start_run("sweep", words)


def resume(words: Sequence[str]) -> None:
    """Continues a run that was stopped, or trains it for longer: `jaxagents resume FOLDER`."""
    options = parse(Resume, words, "resume", "Continues a run from its last checkpoint.")
    run, folder = Run.read(options.folder), options.folder
    given = {"n_steps": options.n_steps, "n_updates": options.n_updates}
    given = {name: number for name, number in given.items() if number is not None}
    if given:
        from jaxagents.checkpoints.records import saved_steps

        with one_line_errors(fields=given):
            chosen = numbers.by_own_names("AgentConfig", given, ["n_updates"], {})
        n_steps = chosen["n_steps"]
        made = max(saved_steps(run.folder_of_records(folder)), default=0)
        if n_steps < made:
            raise MistakeError(
                f"{folder} has already made {made:,} updates; --n-steps is their total number, "
                f"got {n_steps:,}."
            )
        run = dataclasses.replace(run, config={**run.config, **chosen})
    _train_to_end(run, folder, is_begun=True)


def _start_run(command: str, words: Sequence[str]) -> None:
    choice, is_sweep = _choose(command, words), command == "sweep"
    kind = options_of(choice.agent, choice.preset, is_sweep)
    name = f"{command} {choice.agent}"
    options: Any = parse(kind, choice.words, name, _SUMMARIES[command], "ENV")
    if not choice.environment:
        raise MistakeError(f"An environment is missing: {_FORM.format(command)}.")
    with one_line_errors(fields=dataclasses.asdict(options.config)):
        config = chosen_config(options.config)
        numbers.seed("--seed", options.seed)
        if is_sweep:
            numbers.positive("--seeds", options.seeds)
    folder = options.run_dir
    if folder is not None and any((folder / name).exists() for name in ("checkpoints", FILE)):
        raise MistakeError(holds_run_message(folder))
    dataset = getattr(options, "dataset", None)
    run = Run(
        agent=choice.agent,
        environment=choice.environment,
        seed=options.seed,
        n_seeds=options.seeds if is_sweep else None,
        preset=choice.preset,
        anneal=options.anneal_learning_rate,
        dataset=None if dataset is None else str(dataset.absolute()),
        dataset_actions=getattr(options, "dataset_actions", None),
        config=config,
        hyperparams=chosen_sets(options),
    )
    _train_to_end(run, folder or _new_folder(choice, is_sweep))


class Choice(NamedTuple):
    """The chosen agent, environment and preset, and the remaining arguments."""

    agent: str
    environment: str
    preset: str | None
    words: list[str]


def _choose(command: str, words: Sequence[str]) -> Choice:
    """Parses the agent, environment and preset, and checks their names."""
    names = list(itertools.takewhile(lambda word: not word.startswith("-"), words[:2]))
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--preset", action="append", default=[])
    try:
        found, left = parser.parse_known_args(words[len(names) :])
    except argparse.ArgumentError:
        raise MistakeError("--preset needs a name; 'jaxagents list presets' shows them.") from None
    if len(found.preset) > 1:
        raise MistakeError("--preset can be given only once.")
    if names:
        check_known("agent", names[0], CATALOGUE, error=MistakeError)
    preset = found.preset[0] if found.preset else None
    if preset not in (None, NO_PRESET):
        check_known("preset", preset, PRESETS, error=MistakeError)
        settings = PRESETS[preset]
        if names and names[0] != settings.agent:
            raise MistakeError(
                f"Preset '{preset}' is for the agent {settings.agent}, not {names[0]}."
            )
        names += [settings.agent, settings.env][len(names) :]
    form = _FORM.format(command)
    if not names and {"-h", "--help"} & set(left):
        print(_HELP.format(form=form, summary=_SUMMARIES[command], command=command))
        raise SystemExit(0)
    if not names:
        raise MistakeError(f"An agent and an environment are missing: {form}.")
    if len(names) > 1:
        check_environment(names[1])
        preset = preset or preset_of(*names)
    return Choice(names[0], "".join(names[1:]), None if preset == NO_PRESET else preset, left)


def _new_folder(choice: Choice, is_sweep: bool) -> Path:
    """A folder that no other run has, even one that starts in the same second."""
    kind = "sweep-" if is_sweep else ""
    name = choice.environment.rsplit(":", 1)[-1].lower().replace("/", "-")
    now = f"{datetime.datetime.now():%Y%m%d-%H%M%S}"
    return Path("runs", f"{kind}{choice.agent}-{name}-{now}-{secrets.token_hex(2)}")


def _train_to_end(run: Run, folder: Path, is_begun: bool = False) -> None:
    """Trains until a run is complete; `is_begun` says whether its folder already describes it."""
    if CATALOGUE[run.agent].learns_from_data and run.dataset is None:
        raise MistakeError(
            f"{run.agent} learns from data: pass --dataset FILE, an .npz or .hdf5 file."
        )
    with _stoppable(folder) as pressed, contextlib.ExitStack() as stack:
        import jax

        import jaxagents
        from jaxagents.checkpoints.notes import CorruptCheckpointError
        from jaxagents.cli.reports import report_start, report_sweep, report_training

        jaxagents.cache_programs()
        hyperparams, agent = run.make_hyperparams(), run.make_agent(folder)
        if run.n_seeds is not None:
            with one_line_errors(NotImplementedError):
                agent.episodes.env.check_compiled()
        if is_begun:
            stack.enter_context(run.rewritten(folder))
        else:
            run.write(folder)
        report_start(agent, run, folder)
        if pressed.is_set():
            raise KeyboardInterrupt
        key, result = jax.random.key(run.seed), None
        with one_line_errors(FileExistsError, CorruptCheckpointError):
            if run.n_seeds is None:
                agent.resume(key, hyperparams)
                n_made = agent.previous_training_max_step
            else:
                result = agent.sweep(jax.random.split(key, run.n_seeds), hyperparams)
                n_made = int(result.runners.update_step.min())
        if n_made < agent.config.n_steps:
            raise StoppedError(
                f"Stopped after {n_made:,} of {agent.config.n_steps:,} updates. {_resume_hint(folder)}"
            )
        if result is None:
            report_training(agent, run, folder)
        else:
            report_sweep(result, run, folder)


def _resume_hint(folder: Path) -> str:
    return f"To continue: jaxagents resume {shlex.quote(str(folder))}"


@contextlib.contextmanager
def _stoppable(folder: Path) -> Iterator[threading.Event]:
    """Says how to continue a run that ends early.

    Python drops the `KeyboardInterrupt` of Ctrl-C inside callbacks, such as JAX's at each garbage
    collection, and modules may swallow it during import.

    Yields:
        An event that is set once Ctrl-C was pressed.
    """
    pressed = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        pressed.set()
        raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    previous = signal.signal(signal.SIGINT, note) if is_main else None
    try:
        yield pressed
    except KeyboardInterrupt:
        further = f" {_resume_hint(folder)}" if (folder / FILE).exists() else ""
        raise StoppedError(f"Stopped.{further}") from None
    except FloatingPointError as error:
        raise FailureError(
            f"{error} 'jaxagents replay {shlex.quote(str(folder))}' shows its last updates."
        ) from error
    finally:
        if is_main:
            signal.signal(signal.SIGINT, previous)
