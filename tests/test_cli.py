"""The command line, in this process, on one small run and one small sweep."""

import contextlib
import dataclasses
import io
import json
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import gymnasium
import gymnax
import jax
import numpy as np
import optax
import pytest
from filelock import FileLock, Timeout
from option_table import text_of_table
from pendulum import check_that_torques_are_read

from jaxagents import REINFORCE, load_policy
from jaxagents.catalogue import CATALOGUE, PRESETS
from jaxagents.cli import main, training
from jaxagents.cli.mistakes import MistakeError, environment_names
from jaxagents.cli.options import FILE, Eval, Plot, chosen_config, chosen_sets, options_of
from jaxagents.cli.parsing import parse
from jaxagents.cli.reports import report_start
from jaxagents.cli.runs import Run
from jaxagents.data import Dataset, ReplayBuffer
from jaxagents.engine.observers import NotFiniteError
from jaxagents.engine.run import Replay
from jaxagents.host import (
    concatenate_trajectories,
    evaluate_with_trajectories,
    example_transition,
    rescale_actions,
)
from jaxagents.learners.optimizer import annealed_adam

CARTPOLE = ["reinforce", "CartPole-v1", "--preset=none"]  # whose programs are the smallest
SIZES = ["--n-steps=2", "--batch-size=4", "--rollout-length=8", "--n-evals=2"]
SIZES += ["--max-episode-steps=10", "--gamma=0.9", "--actor-optimizer-params.grad-clip=inf"]
PNG = b"\x89PNG"


def printed(words):
    """The lines that a command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        main(words)
    return text.getvalue().splitlines()


def ends(words, status, capsys):
    """The one-line message of a command that exits with a status."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == status
    said = capsys.readouterr().err
    assert said.startswith("jaxagents: ")
    assert said.count("\n") == 1
    return said


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run, and what was printed."""
    folder = tmp_path_factory.mktemp("runs") / "a run"
    return folder, printed(["train", *CARTPOLE, "--run-dir", str(folder), *SIZES])


@pytest.fixture(scope="module")
def trained(run):
    return run[0]


@pytest.fixture
def copied(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "copied")


@pytest.fixture
def described(trained, tmp_path):
    """A folder with the description of a run that made no update."""
    dataclasses.replace(Run.read(trained), seed=3).write(tmp_path / "described")
    return tmp_path / "described"


@pytest.fixture
def never_trained(monkeypatch):
    """Commands stop before training, after writing the description of the run."""
    monkeypatch.setattr(
        "jaxagents.cli.training._train_to_end", lambda run, folder: run.write(folder)
    )


def test_a_run_leaves_everything_in_its_folder_and_says_what_to_try_next(run, capsys):
    folder, lines = run
    for name in ("config.json", "hyperparameters.json", "metrics.jsonl", "checkpoints"):
        assert (folder / name).exists()
    assert (folder / "learning_curve.png").read_bytes().startswith(PNG)
    points = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(point)["update_step"] for point in points] == [0, 1, 2]
    description = json.loads((folder / "run.json").read_text())
    chosen = [description[name] for name in ("agent", "environment", "seed")]
    assert chosen == ["reinforce", "CartPole-v1", 0]
    assert description["config"]["n_steps"] == 2
    (hyperparams,) = description["hyperparams"]
    assert hyperparams["gamma"] == 0.9
    assert hyperparams["actor_optimizer_params.grad_clip"] == "inf"
    assert lines[0] == f"REINFORCE on CartPole-v1, in {folder}:"
    assert "  rollout_length: 8" in lines[1:7]
    assert not any("checkpoint_dir" in line for line in lines[1:])
    assert "After 2 updates (64 environment steps):" in lines
    assert lines[-3:] == [
        f"  jaxagents eval '{folder}' --film episode.gif",
        f"  jaxagents resume '{folder}' --n-steps 4",
        f"  jaxagents export '{folder}'",
    ]
    said = ends(["train", *CARTPOLE, "--run-dir", str(folder)], 2, capsys)
    assert f"'jaxagents resume '{folder}'' continues it" in said
    said = ends(["resume", str(folder), "--n-steps", "1"], 2, capsys)
    assert "has already made 2 updates" in said


@pytest.mark.parametrize("is_within_an_update", [True, False])
def test_ctrl_c_says_how_to_go_on(described, capsys, monkeypatch, is_within_an_update):
    def resume(*_):
        if is_within_an_update:
            raise KeyboardInterrupt

    monkeypatch.setattr(REINFORCE, "resume", resume)
    said = ends(["resume", str(described)], 130, capsys)
    made = "" if is_within_an_update else " after 0 of 2 updates"
    assert said == f"jaxagents: Stopped{made}. To continue: jaxagents resume {described}\n"


def test_ctrl_c_is_not_lost_where_its_error_is(described, capsys, monkeypatch):
    make_agent = Run.make_agent

    def make(run, folder):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return make_agent(run, folder)

    monkeypatch.setattr(Run, "make_agent", make)
    monkeypatch.setattr(REINFORCE, "resume", None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which may be ignored
    said = ends(["resume", str(described), "--n-steps", "9"], 130, capsys)
    assert said == f"jaxagents: Stopped. To continue: jaxagents resume {described}\n"
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def test_a_resumed_run_holds_its_folder(described, capsys, monkeypatch):
    """Nothing comes between its description and its updates."""

    def resume(agent, key, hyperparams):
        assert key == jax.random.key(3)
        assert Run.read(described).config["n_steps"] == agent.config.n_steps == 3
        with pytest.raises(Timeout):
            FileLock(described / ".lock").acquire(timeout=0)

    monkeypatch.setattr(REINFORCE, "resume", resume)
    with FileLock(described / ".lock"):
        said = ends(["resume", str(described), "--n-steps", "3"], 2, capsys)
    assert "is writing to" in said
    assert Run.read(described).config["n_steps"] == 2
    assert "after 0 of 3 updates" in ends(["resume", str(described), "--n-steps=3"], 130, capsys)
    FileLock(described / ".lock").acquire(timeout=0).lock.release()


def test_a_run_that_cannot_be_read_is_a_mistake(tmp_path, capsys):
    for text in ("{}", "[]", "", '{"agent": "ppo"'):
        (tmp_path / "run.json").write_text(text)
        said = ends(["resume", str(tmp_path)], 2, capsys)
        assert f"{tmp_path}/run.json does not look as 'jaxagents train'" in said
    said = ends(["resume", f"{tmp_path}s"], 2, capsys)
    assert said.endswith(f"Did you mean '{tmp_path}'?\n")


def test_plays_and_films_episodes(trained, tmp_path, capsys, monkeypatch):
    film = tmp_path / "film.gif"
    words = ["eval", str(trained), "--n-evals", "1"]
    lines = printed([*words, "--no-deterministic", "--checkpoint", "2", "--film", str(film)])
    assert lines[0] == "REINFORCE on CartPole-v1 after 2 updates:"
    assert lines[1].startswith("1 sampled episodes return ")
    assert lines[2] == f"{film} shows an episode."
    assert film.read_bytes().startswith(b"GIF")
    assert "There is no checkpoint of" in ends([*words, "--checkpoint", "7"], 2, capsys)
    assert "exists already" in ends([*words, "--film", str(film)], 2, capsys)
    missing = tmp_path / "no such folder"
    said = ends([*words, "--film", str(missing / "film.gif")], 2, capsys)
    assert f"there is no folder {missing}" in said
    monkeypatch.setattr("jaxagents.envs.adapters.functional.Functional.can_draw", False)
    said = ends([*words, "--film", str(tmp_path / "other.gif")], 2, capsys)
    assert "does not draw" in said


def test_exports_a_policy(trained, tmp_path, capsys):
    path = tmp_path / "policy.safetensors"
    main(["export", str(trained), "--checkpoint", "2", "--output", str(path)])
    assert load_policy(path)(np.zeros(4, np.float32)) in (0, 1)
    words = ["export", str(trained), "--output", str(path)]
    assert "exists already" in ends(words, 2, capsys)
    assert "There is no checkpoint of" in ends([*words, "--checkpoint", "7"], 2, capsys)


def test_repeats_updates(trained, tmp_path, monkeypatch):
    filmed = []
    monkeypatch.setattr(
        REINFORCE, "render_episode", lambda *args, runner: filmed.append((args, runner))
    )
    film = tmp_path / "film.gif"
    words = ["replay", str(trained), "--from", "1", "--updates", "1", "--film", str(film)]
    lines = printed(words)
    assert "actor gradient norm  actor loss" in lines[0]
    assert lines[1].split()[0] == "2"
    assert lines[2] == "All numbers are finite."
    assert lines[3] == f"{film} shows an episode after the last of these updates."
    ((_, seed, path), runner) = filmed[0]
    assert (seed, path, int(runner.update_step)) == (1, film, 2)


def test_a_replay_shows_where_numbers_are_not_finite(described, trained, capsys, monkeypatch):
    def resume(*_):
        raise NotFiniteError("Not finite.")

    monkeypatch.setattr(REINFORCE, "resume", resume)
    spaced = described.rename(described.with_name("a run"))
    assert f"'jaxagents replay '{spaced}'' shows" in ends(["resume", str(spaced)], 1, capsys)
    metrics = {"update_step": np.array([2, 3]), "actor_loss": np.array([1.0, np.nan])}
    stretch = Replay(None, metrics, 3, ["parameters"])
    monkeypatch.setattr(REINFORCE, "replay", lambda *_: stretch)
    lines = printed(["replay", str(trained)])
    assert lines[2].split() == ["3", "nan", "<-", "not", "finite"]
    assert lines[3:] == ["Not finite since update 3: parameters."]


def test_verifies_checkpoints(copied, capsys):
    lines = printed(["verify", str(copied)])
    assert " ".join(lines).split() == ["0", "whole", "1", "whole", "2", "whole"]
    arrays = [path for path in (copied / "checkpoints" / "2").rglob("*") if path.is_file()]
    max(arrays, key=lambda path: path.stat().st_size).write_bytes(b"")
    assert "1 of 3 checkpoints are damaged" in ends(["verify", str(copied)], 1, capsys)
    assert "holds no checkpoints" in ends(["verify", str(copied / "no")], 2, capsys)


def test_a_sweep_that_is_stopped_goes_on(trained, tmp_path, capsys, monkeypatch):
    folder, finished = tmp_path / "swept", REINFORCE.sweep
    words = ["--run-dir", str(folder), "--seeds", "2", "--learning-rate", "1e-3", "1e-2"]
    with monkeypatch.context() as patch:
        patch.setattr(REINFORCE, "sweep", lambda *args: finished(*args, n_steps=1, progress=False))
        said = ends(["sweep", *CARTPOLE, *SIZES, *words], 130, capsys)
    assert f"after 1 of 2 updates. To continue: jaxagents resume {folder}" in said
    with FileLock(folder / "sweep" / ".lock"):
        assert "is writing to" in ends(["resume", str(folder), "--n-steps", "3"], 2, capsys)
    lines = printed(["resume", str(folder)])
    assert "Returns of 2 seeds at the last evaluation:" in lines
    for line, rate in zip(lines[-4:-2], ("0.001", "0.01"), strict=True):
        assert line.endswith(f"  learning_rate {rate}")
    assert sum(" best " in line for line in lines[-4:-2]) == 1
    assert lines[-1] == f"  jaxagents plot {folder}"
    assert "2  whole" in " ".join(printed(["verify", str(folder)]))
    assert "is of a sweep" in ends(["eval", str(folder)], 2, capsys)
    main(["plot", str(folder)])
    assert (folder / "returns.png").read_bytes().startswith(PNG)
    picture = tmp_path / "losses.png"
    main(["plot", str(trained), str(folder), "--metric", "actor_loss", "--output", str(picture)])
    assert picture.read_bytes().startswith(PNG)


def test_plots_what_there_is(copied, tmp_path, capsys):
    said = ends(["plot", str(copied), "--metric", "loss"], 2, capsys)
    assert "no metric 'loss'; there are update_step" in said
    assert "holds no metrics.jsonl" in ends(["plot", str(tmp_path)], 2, capsys)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "training/loss": 0.5}\n')
    main(["plot", str(tmp_path), "--metric", "training/loss"])
    assert (tmp_path / "training-loss.png").read_bytes().startswith(PNG)
    file, written = copied / "metrics.jsonl", (copied / "metrics.jsonl").read_text()
    file.write_text(written + '{"update_st')  # of a run that was killed
    main(["plot", str(copied)])
    file.write_text(written + "{oops\n")
    assert "metrics.jsonl: line 4 is not JSON" in ends(["plot", str(copied)], 2, capsys)
    file.write_text("")
    assert f"{file} holds no points yet" in ends(["plot", str(copied)], 2, capsys)


CART = "train ppo CartPole-v1"
MISTAKES = {
    "trian": "no command 'trian'. Did you mean 'train'?",
    "train pppo CartPole-v1": "no agent 'pppo'. Did you mean 'ppo'?",
    "train ppo cartpole": "no environment 'cartpole'. Did you mean 'CartPole-v1'?",
    "train ppo LunarLander-v3": "'LunarLander-v3'. Did you mean 'gymnasium:LunarLander-v3'?",
    "train ppo LunarLander-v2": "'LunarLander-v2'. Did you mean 'gymnasium:LunarLander-v3'?",
    "train ppo Ant": "no environment 'Ant'. Did you mean 'gymnasium:Ant-v5'?",
    "train ppo ALE/Pong-v5": "'ALE/Pong-v5'. Did you mean 'gymnasium:ale_py:ALE/Pong-v5'?",
    "train --preset dqn": "no preset 'dqn'. Did you mean 'dqn-cartpole'?",
    "train --preset": "--preset needs a name",
    "train ppo --preset=dqn-acrobot": "is for the agent dqn, not ppo",
    "train --preset ppo-cartpole --preset=dqn-acrobot": "can be given only once",
    "train": "An agent and an environment are missing: jaxagents train AGENT ENV",
    "train ppo": "An environment is missing: jaxagents train AGENT ENV",
    f"{CART} --gama 1": "no option '--gama'. Did you mean '--gamma'?",
    f"{CART} --num-envs 1": "Did you mean '--n-envs'?",
    f"{CART} --n-steps=3 --n-updates=4": "--n-steps=3 contradicts --n-updates=4. Give one of them.",
    f"{CART} more": "'more' is not an option",
    f"{CART} --n-steps ten": "--n-steps: invalid literal for int() with base 10: 'ten'",
    f"{CART} --gamma much": "--gamma: could not convert string to float: 'much'",
    "sweep ppo CartPole-v1 --gamma 0.9,1": "--gamma: Could not find valid parse for arguments",
    f"{CART} --n-steps 0": ": --n-steps must be a positive integer, got 0",
    f"{CART} --batch-size 6": ": --minibatch-size must divide --batch-size: 6 is not a multiple of",
    "train dqn Catch-bsuite --memory=gru --learning-starts=3": (
        ": --learning-starts must be at least --sequence-length * --batch-size (128)"
    ),
    f"{CART} --actor-optimizer-params.eps -1": ": --actor-optimizer-params.eps must lie in",
    f"{CART} --gamma 2": ": --gamma must lie in [0, 1], got 2.0",
    f"{CART} --seed 4294967296": "--seed must be an integer of 32 bits, such as 0 to 4294967295",
    "sweep ppo CartPole-v1 --seeds 0": "--seeds must be a positive integer, got 0.",
    "eval x --seed 99999999999999999999": "--seed must be an integer of 32 bits",
    "eval x --n-evals 0": "--n-evals must be a positive integer, got 0.",
    "eval x --render": "no option '--render'. Did you mean '--film'?",
    "eval x --video=x.mp4": "no option '--video'. Did you mean '--film'?",
    "replay x --record-video": "no option '--record-video'. Did you mean '--film'?",
    f"{CART} --capture-video": "'--capture-video'. Call agent.render_episode(seed, path) after",
    f"{CART} --max-grad-norm 1": "Did you mean '--grad-clip'?",
    f"{CART} --anneal-lr": "Did you mean '--anneal-learning-rate'?",
    f"{CART} --device cpu": "or the one that JAX_PLATFORMS names",
    f"{CART} --track": "the command line writes metrics.jsonl.",
    f"{CART} --logdir x": "Did you mean '--run-dir'?",
    "train ppo --env-id CartPole-v1": "or jaxagents train ppo ENV.",
    f"{CART} --ent-coef 0": "Did you mean '--ent-coeff'?",
    "replay x --updates 0": "--updates must be a positive integer, got 0.",
    "replay x --from -1": "--from must be an integer of 0 or more, got -1.",
    "train dqn Pendulum-v1": "DQN supports discrete actions, but",
    "train bc Pendulum-v1": "bc learns from data: pass --dataset FILE",
    "train bc Pendulum-v1 --dataset no.npz": "no.npz: No such file",
    "resume x --n-steps 9.5": "--n-steps: no type matching",
    "resume x --n-steps": "Missing value for argument '--n-steps'",
    "train dqn CartPole-v1 --features --seed 1": "--features needs a value.",
    "eval x --checkpoint worst": "--checkpoint: no type matching",
    "train ppo gym:CartPole-v1": "'gym': write 'gymnasium:CartPole-v1'.",
    "train sac gymnasium:CartPole-v1 --n-envs 3": "--buffer-size must be",
    "train sac gymnasium:Pendulum-v1 --buffer-on-host": "set --no-checkpoint-buffer.",
    "sweep ppo gymnasium:CartPole-v1": "CartPole-v1 runs on the host",
    "train ppo brx:ant": "There is no suite or module 'brx'. Did you mean 'brax'?",
    "train ppo gymnasium:LunarLander-v3": "Box2D is not installed",
    "train ppo gymnasium:ALE/Pong-v5": "begin with it, as in 'gymnasium:ale_py:ALE/Pong-v5'.",
    "train ppo gymnasium:no_such:Pong-v5": "No module named 'no_such'",
    "train ppo gymnasium:numpy:Pong-v5": "Environment `Pong` doesn't exist",
    "train ippo pettingzoo:atari/pong-v3": "pip install 'pettingzoo[atari]'",
    "resume .": ". holds no run.json",
    "resume no-folder": "There is no folder 'no-folder'.",
    "resume": "Missing from jaxagents resume: FOLDER Folder of the run.",
    "plot": "Missing: jaxagents plot FOLDER...",
    "list things": "'agents', 'envs', 'presets'",
    f"{CART} --run-dir ''": "A value is empty",
    "plot ''": "A value is empty",
}
BY_TYRO = ["resume", "list things", f"{CART} --n-steps ten", "resume x --n-steps"]


@pytest.mark.parametrize(
    ("words", "boxed"), [*((words, True) for words in MISTAKES), *((w, False) for w in BY_TYRO)]
)
def test_mistakes_are_told_in_one_line(words, boxed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tyro._fmtlib._should_use_utf8_drawing_chars", lambda: boxed)
    monkeypatch.chdir(tmp_path)
    for module in ("Box2D", "multi_agent_ale_py"):
        monkeypatch.setitem(sys.modules, module, None)
    assert MISTAKES[words] in ends(shlex.split(words), 2, capsys)
    assert not list(tmp_path.iterdir())


def test_a_reader_may_stop_reading():
    script = "from jaxagents.cli import main; main(['train', 'ppo', '--help'])"
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_names_options_and_help_need_no_jax():
    script = """
import sys
from jaxagents.cli import inspection, main
inspection.is_installed = lambda suite: suite == "gymnasium"  # others say their own names
commands = "train", "resume", "sweep", "eval", "plot", "export", "replay", "verify", "list"
for words in ([], ["list", "agents"], ["list", "envs"], ["list", "presets"], ["--version"],
              ["train", "pppo"], ["train", "ppo", "CartPole"], ["lits"],
              ["train", "ppo", "CartPole-v1", "--gama", "1"], ["resume", "no-folder"],
              ["sweep", "--preset", "pqn-cartpole", "--help"], ["train", "ppo", "--help"],
              ["train", "bc", "--help"], *([command, "--help"] for command in commands)):
    try:
        main(words)
    except SystemExit:
        pass
print([name for name in ("jax", "numpy", "gymnax") if name in sys.modules])
"""
    command = [sys.executable, "-c", script]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert out.splitlines()[-1] == "[]"
    assert "usage: jaxagents train ppo ENV [-h]" in out
    assert "ppo-cartpole" in out


def test_lists_agents_and_environments(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["jaxagents", "list", "agents"])
    runpy.run_module("jaxagents", run_name="__main__")
    said = capsys.readouterr().out
    assert "proximal policy optimization" in said
    assert "  discrete, continuous\n" in said
    assert list(environment_names()) == list(gymnax.registered_envs)
    monkeypatch.setattr("jaxagents.cli.inspection.is_installed", lambda name: name == "gymnasium")
    main(["list", "envs"])
    said = capsys.readouterr()
    assert said.out.split() == list(gymnax.registered_envs)
    assert said.err.startswith("More come with brax, pgx, ")


def test_the_table_of_options_is_true():
    is_true = FILE.read_text(encoding="utf-8") == text_of_table()
    assert is_true, f"Options of an agent have changed: `make options` renews {FILE.name}."


PRESETS_OF_EACH_KIND = ["ppo-cartpole", "pqn-breakout", "rainbow-freeway", "cql-pendulum"]


@pytest.mark.parametrize("name", [*CATALOGUE, *PRESETS_OF_EACH_KIND])
def test_options_give_the_defaults_of_each_agent_and_preset(name):
    agent, preset = (PRESETS[name].agent, name) if name in PRESETS else (name, None)
    options = parse(options_of(agent, preset), [], "train", "")
    values, sets = chosen_config(options.config), chosen_sets(options)
    run = Run(agent=agent, environment="", seed=0, preset=preset, config=values, hyperparams=sets)
    _, config, hyperparams, _ = run._start()
    assert config.replace(**values) == config
    left_out = {field.name for field in dataclasses.fields(config)} - set(values)
    assert left_out <= {
        *("eval_rng", "checkpoint_dir", "restore_agent", "optimizer", "encoder"),
        *("actor_network", "critic_network", "value_network", "actor_optimizer"),
        *("embedding_network", "trunk"),
    }
    jax.tree.map(np.testing.assert_array_equal, run.make_hyperparams(), hyperparams)


def test_values_come_in_every_combination_once_and_other_names_give_the_fields():
    kind = options_of("ppo", is_sweep=True)
    words = ["--learning-rate", "1", "2", "1", "--gamma", "0.5", "0.9", "0.90", "--vf-coeff", "3"]
    sets = chosen_sets(parse(kind, words, "sweep", ""))
    tried = [(s["gamma"], s["actor_optimizer_params.learning_rate"]) for s in sets]
    assert tried == [(0.5, 1.0), (0.5, 2.0), (0.9, 1.0), (0.9, 2.0)]
    run = Run(agent="ppo", environment="", seed=0, config={}, hyperparams=sets)
    hyperparams = run.make_hyperparams()
    assert hyperparams.vf_coeff == 3.0
    np.testing.assert_allclose(hyperparams.critic_optimizer_params.learning_rate, [1, 2, 1, 2])
    words = ["--n-envs=4", "--total-timesteps=1025"]
    chosen = chosen_config(parse(options_of("ppo"), words, "train", "").config)
    assert (chosen["batch_size"], chosen["n_steps"]) == (4, 3)
    assert not chosen.keys() & {"n_envs", "n_updates", "total_timesteps"}


@pytest.mark.usefixtures("never_trained")
def test_options_go_on_top_of_a_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["train", "--preset", "ppo-cartpole", "--n-steps", "10", "--ent-coeff", "0"])
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("ppo-cartpole-v1-")
    run = Run.read(folder)
    config = run.make_agent(folder).config
    assert (config.n_steps, config.eval_frequency) == (10, 15)
    assert config.optimizer.func is annealed_adam
    assert config.optimizer.keywords == {"n_gradient_steps": 160}
    constant = dataclasses.replace(run, anneal=False).make_agent(folder).config
    assert constant.optimizer is optax.adam
    hyperparams = run.make_hyperparams()
    assert hyperparams.ent_coeff == 0.0
    assert hyperparams.critic_optimizer_params.learning_rate == 2e-3


@pytest.mark.usefixtures("never_trained")
def test_an_agent_takes_its_preset_in_an_environment(tmp_path, capsys):
    for i, (words, preset) in enumerate(
        {
            "sac Pendulum-v1": "sac-pendulum",
            "c51 Breakout-MinAtar": "c51-breakout",
            "ppo Acrobot-v1 --preset ppo-cartpole": "ppo-cartpole",
            "sac Pendulum-v1 --preset none": None,
            "sac gymnasium:Pendulum-v1": None,
            "a2c Acrobot-v1": None,
        }.items()
    ):
        folder = tmp_path / str(i)
        main(["train", *words.split(), "--run-dir", str(folder)])
        run = Run.read(folder)
        assert run.preset == preset
        report_start(run.make_agent(folder), run, folder)
        note = f"  preset: {preset} (--preset none takes the agent's defaults)"
        assert (note in capsys.readouterr().out.splitlines()) == (preset is not None)
        defaults = CATALOGUE[run.agent].types()[1]()
        assert (run.config["n_steps"] == defaults.n_steps) == (preset is None)


@pytest.mark.parametrize("run_dir", [[], ["--run-dir=x"]])
def test_two_runs_that_begin_at_once_do_not_share_a_folder(run_dir, tmp_path, monkeypatch, capsys):
    def go_on(run, folder):
        if run.seed == 0:
            main([*words, "--seed", "1"])
        run.write(folder)

    words = ["train", *CARTPOLE, *run_dir]
    monkeypatch.setattr("jaxagents.cli.training._train_to_end", go_on)
    monkeypatch.chdir(tmp_path)
    if run_dir:
        assert "x already holds a run" in ends(words, 2, capsys)
        assert Run.read(Path("x")).seed == 1
    else:
        main(words)
        assert sorted(Run.read(folder).seed for folder in Path("runs").iterdir()) == [0, 1]


@pytest.mark.usefixtures("never_trained")
def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    words = ["train", "bc", "Pendulum-v1", "--run-dir=~/x", "--dataset=~/data.npz"]
    words += ["--dataset-actions=rescaled"]
    main(words)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    run = Run.read(tmp_path / "home" / "x")
    assert run.dataset == str(tmp_path / "home" / "data.npz")
    assert run.dataset_actions == "rescaled"
    assert "already holds a run" in ends(words, 2, capsys)
    assert f"{tmp_path / 'home' / 'x'} holds no metrics" in ends(["plot", "~/x"], 2, capsys)
    assert parse(Plot, ["~", "a~b"], "plot", "").folders == (tmp_path / "home", Path("a~b"))
    assert parse(Eval, ["x", "--film=~/x.gif"], "eval", "").film == tmp_path / "home" / "x.gif"
    assert "no home folder ~nobody-at-all" in ends(["resume", "~nobody-at-all/x"], 2, capsys)


def test_takes_environments_of_modules_in_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    registry = gymnasium.registry.copy()
    monkeypatch.setattr("gymnasium.envs.registration.registry", registry)
    (tmp_path / "their_poles.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "from gymnax.environments.classic_control.cartpole import CartPole\n"
        "gymnasium.register('own/Pole-v0', entry_point=CartPoleEnv)\n"
        "Pole = CartPole\n"
    )
    for agent, name, shown in (
        ("dqn", "gymnasium:their_poles:own/Pole-v0", "<DQN on own/Pole-v0>"),
        ("reinforce", "their_poles:Pole", "<REINFORCE on CartPole-v1>"),
    ):
        run = Run(agent=agent, environment=name, seed=0, config={}, hyperparams=[{}])
        assert repr(run.make_agent(tmp_path)) == shown


def test_makes_agents_that_learn_from_data(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "data.npz"
    observations = rng.normal(size=(8, 3)).astype(np.float32)
    actions = rng.uniform(-1, 1, (8, 1)).astype(np.float32)
    arrays = {"observations": observations, "actions": actions}
    Dataset(arrays).save(path)
    Dataset(arrays, action_space=(-1, 1)).save(tmp_path / "rescaled.npz")

    def made(file, said, folder="data"):
        how = {"seed": 0, "preset": "bc-pendulum", "dataset": str(file), "dataset_actions": said}
        run = Run(agent="bc", environment="Pendulum-v1", config={}, hyperparams=[{}], **how)
        run.write(tmp_path / folder / f"{file.stem}-{said}")
        run = Run.read(tmp_path / folder / f"{file.stem}-{said}")
        assert run.steps_per_update is None
        return run.make_agent(tmp_path)

    assert made(path, "environment").config.features == (64, 64)
    for file, said, scale in (
        (path, "environment", 0.5),
        (path, "rescaled", 1.0),
        (tmp_path / "rescaled.npz", None, 1.0),
        (tmp_path / "rescaled.npz", "rescaled", 1.0),
    ):
        held = made(file, said, "more").data.arrays["actions"][0]
        np.testing.assert_array_equal(held, scale * actions)
    with pytest.raises(
        MistakeError, match=r"environment if .* \(-2, 2\), or --dataset-actions resc"
    ):
        made(path, None)
    Dataset({**arrays, "actions": 2 * actions}).save(tmp_path / "torques.npz")
    held = made(tmp_path / "torques.npz", None).data.arrays["actions"][0]
    np.testing.assert_array_equal(held, actions)
    with pytest.raises(MistakeError, match=r"in the box \(-1, 1\), not \(-2, 2\)"):
        made(tmp_path / "rescaled.npz", "environment")


@pytest.mark.filterwarnings("error:The dataset does not say which units")
def test_files_are_read_in_the_units_that_they_were_written_in(tmp_path):
    env = gymnasium.make("Pendulum-v1")
    for name, played in (("torques", env), ("rescaled", rescale_actions(env))):
        sample = played.action_space.sample
        _, trajectories = evaluate_with_trajectories(lambda _, sample=sample: sample(), played, 1)
        buffer = ReplayBuffer.create(example_transition(played), size=200)
        buffer.add_transitions(trajectories[0])
        both = concatenate_trajectories(trajectories), buffer.to_dataset()
        for i, dataset in enumerate(both):
            dataset.save(tmp_path / f"{name}-{i}.npz")
            check_that_torques_are_read(tmp_path / f"{name}-{i}.npz", tmp_path / f"{name}-{i}")
        plain = tmp_path / f"{name}.npz"
        np.savez(plain, **both[0])
        said = {"torques": "environment"}.get(name, name)
        check_that_torques_are_read(plain, tmp_path / name, dataset_actions=said)


def test_folders_of_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    choice = training.Choice("ippo", "pettingzoo:mpe/simple_spread-v3", None, [])
    folder = training._new_folder(choice, is_sweep=False)
    assert folder.parent == Path("runs")
    assert folder.name.startswith("ippo-mpe-simple_spread-v3-")
    assert folder != training._new_folder(choice, is_sweep=False)
    assert training._new_folder(choice, is_sweep=True).name.startswith("sweep-ippo-mpe-simple_")
    ends(["train", *CARTPOLE, "--gamma", "2"], 2, capsys)
    assert not list(tmp_path.iterdir())
    Path("runs").write_text("mine")
    assert ": Not a directory." in ends(["train", *CARTPOLE], 2, capsys)
    run = Run(agent="ppo", environment="CartPole-v1", seed=0, config={}, hyperparams=[{}])
    with pytest.raises(MistakeError, match="runs/run: Not a directory"):
        run.write(tmp_path / "runs" / "run")
