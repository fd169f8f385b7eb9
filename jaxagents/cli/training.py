"""The commands that train: `train`, `resume` and `sweep`."""

import contextlib
import dataclasses
import datetime
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxagents.catalogue import CATALOGUE
from jaxagents.cli.choosing import SUMMARIES, Choice, choose, form_of
from jaxagents.cli.interrupts import noting_ctrl_c
from jaxagents.cli.mistakes import FailureError, MistakeError, StoppedError, told_in_a_line
from jaxagents.core import numbers
from jaxagents.presets.settings import PRESETS

if TYPE_CHECKING:
    from jaxagents.cli.runs import Run


def train(words: Sequence[str]) -> None:
    """Trains an agent: `jaxagents train AGENT ENV [options]`."""
    _begin("train", words)


def sweep(words: Sequence[str]) -> None:
    """Trains seeds times hyperparameters: `jaxagents sweep AGENT ENV --seeds 4 --gamma 0.9 0.99`."""
    _begin("sweep", words)


def resume(words: Sequence[str]) -> None:
    """Goes on with a run that was interrupted, or is to have more updates: `jaxagents resume FOLDER`."""
    from jaxagents.cli.folders import Resume
    from jaxagents.cli.parsing import parse

    options = parse(Resume, words, "resume", "Continues a run from its last checkpoint.")
    from jaxagents.cli.runs import Run

    run = Run.read(options.folder)
    given = {"n_steps": options.n_steps, "n_updates": options.n_updates}
    given = {name: number for name, number in given.items() if number is not None}
    if given:
        with told_in_a_line(fields=given):
            chosen = numbers.by_own_names("AgentConfig", given, ["n_updates"], {})
        _check_in_all(chosen["n_steps"], run, options.folder)
        run = dataclasses.replace(run, config={**run.config, **chosen})
    _go_on(run, options.folder, is_begun=True)


def _check_in_all(n_steps: int, run: "Run", folder: Path) -> None:
    """Refuses fewer updates than a run has made."""
    from jaxagents.checkpoints.records import saved_steps

    made = max(saved_steps(run.folder_of_records(folder)), default=0)
    if n_steps < made:
        raise MistakeError(
            f"{folder} has made {made:,} updates already; --n-steps is their number in all, "
            f"got {n_steps:,}."
        )


def _begin(command: str, words: Sequence[str]) -> None:
    choice = choose(command, words)
    from jaxagents.cli.agent_options import options_of
    from jaxagents.cli.options import options_class
    from jaxagents.cli.parsing import parse
    from jaxagents.cli.runs import Run, check_holds_no_run
    from jaxagents.cli.values import chosen_config, chosen_sets

    is_sweep = command == "sweep"
    of_agent = options_of(choice.agent, choice.preset)
    kind = options_class(_own_options(choice, is_sweep), of_agent, is_sweep)
    name = f"{command} {choice.agent}"
    options: Any = parse(kind, choice.words, name, SUMMARIES[command], "ENV")
    if not choice.environment:
        raise MistakeError(f"An environment is missing: {form_of(command)}.")
    with told_in_a_line(fields=dataclasses.asdict(options.config)):
        config = chosen_config(options.config)
        numbers.seed("--seed", options.seed)
        if is_sweep:
            numbers.positive("--seeds", options.seeds)
    run_dir = options.run_dir
    if run_dir is not None:
        check_holds_no_run(run_dir)
    dataset = getattr(options, "dataset", None)
    run = Run(
        agent=choice.agent,
        environment=choice.environment,
        seed=options.seed,
        n_seeds=options.seeds if is_sweep else None,
        preset=choice.preset,
        anneal=options.anneal_learning_rate,
        dataset=None if dataset is None else str(dataset.absolute()),
        config=config,
        hyperparams=chosen_sets(options),
    )
    with _new_folder(choice) if run_dir is None else contextlib.nullcontext(run_dir) as folder:
        _go_on(run, folder)


def _own_options(choice: Choice, is_sweep: bool) -> list[Any]:
    from jaxagents.cli.options import Option

    anneals = choice.preset is not None and PRESETS[choice.preset].anneals
    options = [
        Option("seed", int, 0, "Seed of everything random."),
        Option(
            "run_dir",
            Path | None,
            None,
            "Folder for all results, by default a new one under runs/ with the agent, the environment "
            "and the time.",
        ),
        Option(
            "preset",
            str | None,
            choice.preset,
            "Settings by name, on top of which the other options are; see 'jaxagents list presets'.",
        ),
        Option(
            "anneal_learning_rate",
            bool,
            anneals,
            "Whether Adam's learning rate falls linearly to zero over the training.",
        ),
    ]
    if is_sweep:
        options.append(Option("seeds", int, 4, "Number of seeds."))
    if CATALOGUE[choice.agent].learns_from_data:
        text = "File of the dataset, .npz or .hdf5, as jaxagents.data.Dataset.save writes them."
        options.append(Option("dataset", Path | None, None, text))
    return options


@contextlib.contextmanager
def _new_folder(choice: Choice) -> Iterator[Path]:
    """Makes a folder that no other run has, and removes it again if nothing came into it."""
    name = choice.environment.rsplit(":", 1)[-1].lower().replace("/", "-")
    runs, stem = Path("runs"), f"{choice.agent}-{name}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    is_first, folder, number = not runs.exists(), runs / stem, 1
    with told_in_a_line(OSError):
        runs.mkdir(exist_ok=True)
        while not _is_made(folder):
            number += 1
            folder = runs / f"{stem}-{number}"
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
            if is_first:
                runs.rmdir()


def _is_made(folder: Path) -> bool:
    """Makes a folder, unless it is there."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def _go_on(run: "Run", folder: Path, is_begun: bool = False) -> None:
    """Makes what is missing of a run, of which the folder holds nothing yet unless it is begun."""
    if CATALOGUE[run.agent].learns_from_data and run.dataset is None:
        raise MistakeError(f"{run.agent} learns from data: give --dataset FILE, of .npz or .hdf5.")
    with _resumable(folder), noting_ctrl_c() as check_ctrl_c, contextlib.ExitStack() as stack:
        import jaxagents
        from jaxagents.cli.reports import report_start, report_sweep, report_training

        jaxagents.cache_programs()
        hyperparams = run.make_hyperparams()
        agent = run.make_agent(folder)
        if run.n_seeds is not None:
            with told_in_a_line(NotImplementedError):
                agent.episodes.env.check_compiled()
        if is_begun:
            stack.enter_context(run.rewritten(folder))
        else:
            run.write(folder)
        report_start(agent, folder)
        check_ctrl_c()
        if run.n_seeds is None:
            _train(agent, run, hyperparams, folder)
            report_training(agent, run, folder)
        else:
            result = _sweep(agent, run, hyperparams, folder)
            report_sweep(result, run, folder)


def _train(agent: Any, run: "Run", hyperparams: Any, folder: Path) -> None:
    import jax

    from jaxagents.checkpoints.notes import CorruptCheckpointError

    with told_in_a_line(FileExistsError, CorruptCheckpointError):
        agent.resume(jax.random.key(run.seed), hyperparams)
    _check_complete(agent.previous_training_max_step, agent.config.n_steps, folder)


def _sweep(agent: Any, run: "Run", hyperparams: Any, folder: Path) -> Any:
    import jax

    from jaxagents.checkpoints.notes import CorruptCheckpointError

    seeds = jax.random.split(jax.random.key(run.seed), run.n_seeds or 1)
    with told_in_a_line(FileExistsError, CorruptCheckpointError):
        result = agent.sweep(seeds, hyperparams)
    _check_complete(int(result.runners.update_step.min()), agent.config.n_steps, folder)
    return result


def _check_complete(n_made: int, n_steps: int, folder: Path) -> None:
    if n_made < n_steps:
        raise StoppedError(
            f"Stopped after {n_made:,} of {n_steps:,} updates. {_how_to_go_on(folder)}"
        )


def _how_to_go_on(folder: Path) -> str:
    return f"To go on: jaxagents resume {shlex.quote(str(folder))}"


@contextlib.contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Says of a run that ends early how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        is_there = (folder / "run.json").exists()
        raise StoppedError(
            f"Stopped. {_how_to_go_on(folder)}" if is_there else "Stopped."
        ) from None
    except FloatingPointError as error:
        raise FailureError(
            f"{error} 'jaxagents replay {shlex.quote(str(folder))}' shows its last updates."
        ) from error
