"""The commands for existing runs: `eval`, `export`, `plot`, `replay`, `verify`; and `list`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxagents.catalogue import CATALOGUE, PRESETS
from jaxagents.cli.mistakes import FailureError, MistakeError, environment_names, one_line_errors
from jaxagents.cli.options import Eval, Export, List, Plot, Repeat, Verify
from jaxagents.cli.parsing import parse
from jaxagents.cli.reports import draw_runs, print_table, report_episodes
from jaxagents.cli.runs import Run
from jaxagents.core import numbers
from jaxagents.core.extras import GYMNASIUM, SUITES, is_installed, pip_install


def evaluate(words: Sequence[str]) -> None:
    """Plays episodes with a trained agent: `jaxagents eval FOLDER`."""
    options = parse(Eval, words, "eval", "Plays episodes with the agent of a run.")
    with one_line_errors():
        numbers.positive("--n-evals", options.n_evals)
        if options.seed is not None:
            numbers.seed("--seed", options.seed)
    run, agent = _run_and_agent(options.folder)
    from jaxagents.envs.drawings import check_can_film

    with one_line_errors():
        if options.film is not None:
            check_can_film(agent.episodes.env, options.film, agent.episodes.env.render_fps)
        runner, _ = agent.restore(options.checkpoint)
    print(
        f"{CATALOGUE[run.agent].agent} on {run.environment} after {int(runner.update_step):,} updates:"
    )
    with one_line_errors():
        seed = run.seed + 1 if options.seed is None else options.seed
        report_episodes(agent, seed, options.n_evals, options.deterministic)
        if options.film is not None:
            agent.render_episode(seed, options.film, deterministic=options.deterministic)
            print(f"{options.film} shows an episode.")


def export(words: Sequence[str]) -> None:
    """Writes the policy of a run to one file: `jaxagents export FOLDER`."""
    options = parse(Export, words, "export", "Writes the policy of a run to one file.")
    _, agent = _run_and_agent(options.folder)
    path = options.output or options.folder / "policy.safetensors"
    with one_line_errors():
        agent.restore(options.checkpoint)
        agent.export_policy(path)
    print(f"{path} holds the policy, which jaxagents.load_policy reads.")


def plot(words: Sequence[str]) -> None:
    """Draws a metric of one or more runs: `jaxagents plot FOLDER...`."""
    options = parse(Plot, words, "plot", "Draws a metric of runs into one picture.")
    if not options.folders:
        raise MistakeError("Missing: jaxagents plot FOLDER... Folders of runs.")
    metric, folders = options.metric, options.folders
    default = (folders[0] if len(folders) == 1 else Path()) / f"{metric.replace('/', '-')}.png"
    path = options.output or default
    with one_line_errors():
        draw_runs(folders, metric, path)
    print(f"{path} shows {metric}.")


def replay(words: Sequence[str]) -> None:
    """Repeats updates of a run, and prints each: `jaxagents replay FOLDER --from 1200`."""
    options = parse(Repeat, words, "replay", "Repeats updates of a run, and prints each.")
    with one_line_errors():
        numbers.positive("--updates", options.updates)
        if options.first is not None:
            numbers.not_negative("--from", options.first)
    run, agent = _run_and_agent(options.folder)
    from jaxagents.checkpoints.records import saved_steps
    from jaxagents.envs.drawings import check_can_film

    with one_line_errors():
        if options.film is not None:
            check_can_film(agent.episodes.env, options.film, agent.episodes.env.render_fps)
        steps = saved_steps(options.folder)
        first = (steps[-1] if steps else 0) if options.first is None else options.first
        stretch = agent.replay(first, options.updates)
    _print_stretch(stretch)
    if options.film is not None:
        with one_line_errors():
            agent.render_episode(run.seed + 1, options.film, runner=stretch.runner)
        print(f"{options.film} shows an episode after the last of these updates.")


def _print_stretch(stretch: Any) -> None:
    import numpy as np

    names = [
        name
        for name, values in stretch.metrics.items()
        if ("loss" in name or "gradient_norm" in name) and np.ndim(values) == 1
    ]
    steps = stretch.metrics["update_step"]
    rows = []
    for i, step in enumerate(steps):
        mark = "<- not finite" if step == stretch.not_finite_since else ""
        rows.append([f"{step:,}", *(f"{stretch.metrics[name][i]:.4g}" for name in names), mark])
    print_table(["update", *(name.replace("_", " ") for name in names), ""], rows)
    if stretch.not_finite_since is not None:
        names = ", ".join(stretch.not_finite)
        print(f"Not finite since update {stretch.not_finite_since:,}: {names}.")
    else:
        print("All numbers are finite.")


def verify(words: Sequence[str]) -> None:
    """Checks each checkpoint, and exits with 1 if one is damaged: `jaxagents verify FOLDER`."""
    options = parse(Verify, words, "verify", "Checks whether checkpoints are damaged.")
    import jaxagents

    folder = options.folder
    with one_line_errors():
        in_sweep = (folder / "sweep").is_dir() and not (folder / "checkpoints").exists()
        damages = jaxagents.verify(folder / "sweep" if in_sweep else folder)
    for step, damage in damages.items():
        print(f"{step:>12,}  {damage or 'whole'}")
    n_damaged = sum(map(bool, damages.values()))
    if n_damaged:
        raise FailureError(f"{n_damaged} of {len(damages)} checkpoints are damaged.")


def list_names(words: Sequence[str]) -> None:
    """Lists names: `jaxagents list agents`, `list envs` or `list presets`."""
    kind = parse(List, words, "list", "Lists what can be chosen.").kind
    if kind == "envs":
        _print_environments()
    elif kind == "agents":
        rows = [[name, entry.summary, entry.actions] for name, entry in CATALOGUE.items()]
        print_table(["agent", "algorithm", "actions"], rows)
    else:
        rows = [[name, settings.agent, settings.env] for name, settings in PRESETS.items()]
        print_table(["preset", "agent", "environment"], rows)


def _print_environments() -> None:
    """Prints the names of gymnax and installed suites, and to stderr, how to get more."""
    print(*environment_names(), sep="\n")
    missing = []
    for suite in SUITES:
        if not is_installed(suite):
            missing.append(suite)
        elif suite != GYMNASIUM:
            from jaxagents.envs.adapters.making import names_of

            print(*names_of(suite), sep="\n")
    more = f"Agents also take {GYMNASIUM}:NAME, with any name that gymnasium.make knows."
    if missing:
        such_as = pip_install(missing[0])
        more = f"More come with {', '.join(missing)} (such as by {such_as}). {more}"
    print(more, file=sys.stderr)


def _run_and_agent(folder: Path) -> tuple[Any, Any]:
    run = Run.read(folder)
    if run.n_seeds is not None:
        raise MistakeError(
            f"{folder} is of a sweep; this command takes the folder of a single run: 'jaxagents "
            "train' makes one with the hyperparameters of the best set."
        )
    import jaxagents

    jaxagents.cache_programs()
    return run, run.make_agent(folder)
