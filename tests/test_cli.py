"""The command line, in this process, on one small training."""

import contextlib
import dataclasses
import json
import runpy
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

from jaxagents import PPO, load_policy
from jaxagents.agents.annealing import annealed_adam
from jaxagents.catalogue import CATALOGUE, PRESETS
from jaxagents.cli import main, training
from jaxagents.cli.mistakes import MistakeError, environment_names
from jaxagents.cli.options import FILE, Eval, Plot, chosen_config, chosen_sets, options_of
from jaxagents.cli.parsing import parse
from jaxagents.cli.runs import Run
from jaxagents.data import Dataset
from jaxagents.engine.observers import NotFiniteError
from jaxagents.engine.replay import Replay

SIZES = ["--batch-size", "4", "--minibatch-size", "2", "--rollout-length", "8", "--n-evals", "2"]
SIZES += ["--max-episode-steps", "10"]
CARTPOLE = ["ppo", "CartPole-v1"]
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "trained"
    main(["train", *CARTPOLE, "--run-dir", str(folder), *SIZES, "--n-steps", "2", "--gamma", "0.9"])
    return folder


@pytest.fixture
def copied(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "copied")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "swept"
    rates = ["--seeds", "2", "--learning-rate", "1e-3", "1e-2", "--gamma", "0.9"]
    main(["sweep", *CARTPOLE, "--run-dir", str(folder), *SIZES, "--n-steps", "2", *rates])
    return folder


def ends(words, status, capsys):
    """The message of a command that ends with some status, which has to be one line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == status
    said = capsys.readouterr().err
    assert said.startswith("jaxagents: ")
    assert said.count("\n") == 1
    return said


def steps_of(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["update_step"] for line in lines]


def test_a_training_leaves_everything_in_its_folder(trained, capsys):
    for name in ("config.json", "hyperparameters.json", "metrics.jsonl", "checkpoints"):
        assert (trained / name).exists()
    assert (trained / "learning_curve.png").read_bytes().startswith(PNG)
    assert steps_of(trained) == [0, 1, 2]
    run = json.loads((trained / "run.json").read_text())
    assert (run["agent"], run["environment"], run["seed"]) == ("ppo", "CartPole-v1", 0)
    assert run["config"]["n_steps"] == 2
    assert run["hyperparams"][0]["gamma"] == 0.9
    assert run["hyperparams"][0]["kl_threshold"] == "inf"
    said = ends(["train", *CARTPOLE, "--run-dir", str(trained)], 2, capsys)
    assert f"'jaxagents resume {trained}' goes on with it" in said


def test_a_run_can_have_more_updates(copied, capsys):
    main(["resume", str(copied), "--n-steps", "3"])
    assert "After 3 updates (96 environment steps)" in capsys.readouterr().out
    main(["resume", str(copied)])
    assert "128 greedy episodes return" in capsys.readouterr().out
    assert steps_of(copied) == [0, 1, 2, 3]
    said = ends(["resume", str(copied), "--n-steps", "2"], 2, capsys)
    assert "has made 3 updates already" in said
    assert Run.read(copied).config["n_steps"] == 3


def test_what_was_stopped_before_its_first_checkpoint_begins_anew(copied, capsys):
    shutil.rmtree(copied / "checkpoints")
    (copied / "metrics.jsonl").unlink()
    main(["resume", str(copied)])
    assert "After 2 updates" in capsys.readouterr().out


@pytest.mark.parametrize("is_within_an_update", [True, False])
def test_ctrl_c_says_how_to_go_on(copied, capsys, monkeypatch, is_within_an_update):
    def resume(agent, *_):
        if is_within_an_update:
            raise KeyboardInterrupt

    monkeypatch.setattr(PPO, "resume", resume)
    monkeypatch.setattr(PPO, "eval", None)
    said = ends(["resume", str(copied)], 130, capsys)
    made = "" if is_within_an_update else " after 0 of 2 updates"
    assert said == f"jaxagents: Stopped{made}. To go on: jaxagents resume {copied}\n"


@pytest.fixture
def handled_ctrl_c():
    """Handles Ctrl-C as Python does, even in a process that began by ignoring it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handled_ctrl_c")
def test_ctrl_c_is_not_lost_where_its_error_is(copied, capsys, monkeypatch):
    make_agent = Run.make_agent

    def make(run, folder):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return make_agent(run, folder)

    monkeypatch.setattr(Run, "make_agent", make)
    said = ends(["resume", str(copied), "--n-steps", "9"], 130, capsys)
    assert said == f"jaxagents: Stopped. To go on: jaxagents resume {copied}\n"
    assert steps_of(copied) == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_folder_that_another_training_writes_to_is_a_mistake(copied, swept, capsys):
    for folder, locked in (copied, copied), (swept, swept / "sweep"):
        with FileLock(locked / ".lock"):
            said = ends(["resume", str(folder), "--n-steps", "3"], 2, capsys)
        assert "is writing to" in said
        assert Run.read(folder).config["n_steps"] == 2


def test_nothing_comes_between_the_description_of_a_resumed_run_and_its_training(
    copied, capsys, monkeypatch
):
    def resume(*_):
        assert Run.read(copied).config["n_steps"] == 3
        with pytest.raises(Timeout):
            FileLock(copied / ".lock").acquire(timeout=0)

    monkeypatch.setattr(PPO, "resume", resume)
    monkeypatch.setattr(PPO, "eval", None)
    assert "after 0 of 3 updates" in ends(["resume", str(copied), "--n-steps=3"], 130, capsys)
    FileLock(copied / ".lock").acquire(timeout=0).lock.release()


@pytest.mark.parametrize("text", ["{}", "[]", "", '{"agent": "ppo"'])
def test_a_run_that_cannot_be_read_is_a_mistake(copied, capsys, text):
    (copied / "run.json").write_text(text)
    said = ends(["resume", str(copied)], 2, capsys)
    assert f"{copied}/run.json is not as 'jaxagents train'" in said


def test_numbers_that_are_not_finite_end_a_training(copied, capsys, monkeypatch):
    def resume(*_):
        raise NotFiniteError("Numbers that are not finite.")

    monkeypatch.setattr(PPO, "resume", resume)
    assert f"'jaxagents replay {copied}' shows" in ends(["resume", str(copied)], 1, capsys)
    spaced = copied.rename(copied.with_name("a run"))
    assert f"jaxagents replay '{spaced}'" in ends(["resume", str(spaced)], 1, capsys)
    said = ends(["train", *CARTPOLE, "--run-dir", str(spaced)], 2, capsys)
    assert f"jaxagents resume '{spaced}'" in said


def test_plays_episodes(trained, capsys):
    main(["eval", str(trained), "--n-evals", "3", "--no-deterministic", "--checkpoint", "2"])
    first, second = capsys.readouterr().out.splitlines()
    assert first == "PPO on CartPole-v1 after 2 updates:"
    assert second.startswith("3 sampled episodes return ")
    said = ends(["eval", str(trained), "--checkpoint", "7"], 2, capsys)
    assert "7" in said


def test_films_an_episode(trained, tmp_path, capsys, monkeypatch):
    film = tmp_path / "film.gif"
    main(["eval", str(trained), "--n-evals", "1", "--film", str(film)])
    assert film.read_bytes().startswith(b"GIF")
    assert "exists already" in ends(["eval", str(trained), "--film", str(film)], 2, capsys)
    monkeypatch.setattr(PPO, "eval", None)
    missing = tmp_path / "no such folder"
    said = ends(["eval", str(trained), "--film", str(missing / "film.gif")], 2, capsys)
    assert f"there is no folder {missing}" in said
    monkeypatch.setattr("jaxagents.envs.adapters.functional.Functional.can_draw", False)
    said = ends(["eval", str(trained), "--film", str(tmp_path / "other.gif")], 2, capsys)
    assert "does not draw" in said


def test_exports_a_policy(trained, tmp_path, capsys):
    path = tmp_path / "policy.safetensors"
    main(["export", str(trained), "--checkpoint", "2", "--output", str(path)])
    assert load_policy(path)(np.zeros(4, np.float32)) in (0, 1)
    assert "exists already" in ends(["export", str(trained), "--output", str(path)], 2, capsys)


def test_says_what_is_trained_and_what_to_try_next(tmp_path, capsys):
    folder = tmp_path / "a run"
    main(["train", *CARTPOLE, "--run-dir", str(folder), *SIZES, "--n-steps", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"PPO on CartPole-v1, in {folder}:"
    assert "  rollout_length: 8" in lines[1:7]
    assert "gamma" not in lines[7]
    assert lines[-3:] == [
        f"  jaxagents eval '{folder}' --film episode.gif",
        f"  jaxagents resume '{folder}' --n-steps 4",
        f"  jaxagents export '{folder}'",
    ]


def test_makes_updates_once_more(trained, capsys, tmp_path):
    film = tmp_path / "film.gif"
    main(["replay", str(trained), "--from", "1", "--updates", "1", "--film", str(film)])
    lines = capsys.readouterr().out.splitlines()
    assert "actor gradient norm  actor loss" in lines[0]
    assert lines[1].split()[0] == "2"
    assert lines[2] == "All numbers are finite."
    assert lines[3] == f"{film} shows an episode after the last of these updates."
    assert film.read_bytes().startswith(b"GIF")
    said = ends(["replay", str(trained), "--film", str(film)], 2, capsys)
    assert "exists already" in said


def test_a_replay_shows_where_numbers_are_not_finite(trained, capsys, monkeypatch):
    metrics = {"update_step": np.array([2, 3]), "actor_loss": np.array([1.0, np.nan])}
    stretch = Replay(None, metrics, 3, ["parameters"])
    monkeypatch.setattr(PPO, "replay", lambda *_: stretch)
    main(["replay", str(trained)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["3", "nan", "<-", "not", "finite"]
    assert lines[3:] == ["Not finite since update 3: parameters."]


def test_verifies_checkpoints(copied, capsys):
    main(["verify", str(copied)])
    assert capsys.readouterr().out.split() == ["0", "whole", "1", "whole", "2", "whole"]
    arrays = [path for path in (copied / "checkpoints" / "2").rglob("*") if path.is_file()]
    max(arrays, key=lambda path: path.stat().st_size).write_bytes(b"")
    assert "1 of 3 checkpoints are damaged" in ends(["verify", str(copied)], 1, capsys)
    assert "holds no checkpoints" in ends(["verify", str(copied / "no")], 2, capsys)


def test_sweeps_every_combination(swept, capsys):
    capsys.readouterr()
    main(["resume", str(swept)])
    lines = capsys.readouterr().out.splitlines()
    for line, rate in zip(lines[-4:-2], ("0.001", "0.01"), strict=True):
        assert line.endswith(f"  learning_rate {rate}")
    assert lines[-1] == f"  jaxagents plot {swept}"
    main(["verify", str(swept)])
    assert "2  whole" in capsys.readouterr().out
    assert "is of a sweep" in ends(["eval", str(swept)], 2, capsys)


def test_plots_runs(trained, swept, tmp_path, capsys):
    picture = tmp_path / "losses.png"
    main(["plot", str(trained), str(swept), "--metric", "actor_loss", "--output", str(picture)])
    assert picture.read_bytes().startswith(PNG)
    main(["plot", str(swept)])
    assert (swept / "returns.png").read_bytes().startswith(PNG)
    assert "no metric 'loss'; there are: actor_" in ends(
        ["plot", str(trained), "--metric", "loss"], 2, capsys
    )
    assert "holds no metrics.jsonl" in ends(["plot", str(tmp_path)], 2, capsys)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "training/loss": 0.5}\n')
    main(["plot", str(tmp_path), "--metric", "training/loss"])
    assert (tmp_path / "training-loss.png").read_bytes().startswith(PNG)


def test_plots_what_a_run_that_was_killed_amid_a_line_has_written(copied, capsys):
    file, written = copied / "metrics.jsonl", (copied / "metrics.jsonl").read_text()
    file.write_text(written + '{"update_st')
    main(["plot", str(copied)])
    file.write_text(written + "{oops\n")
    assert "metrics.jsonl: line 4 is not JSON" in ends(["plot", str(copied)], 2, capsys)
    file.write_text("")
    assert f"{file} holds no points yet" in ends(["plot", str(copied)], 2, capsys)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["trian"], "no command 'trian'. Did you mean 'train'?"),
        (["train", "pppo", "CartPole-v1"], "no agent 'pppo'. Did you mean 'ppo'?"),
        (["train", "ppo", "cartpole"], "no environment 'cartpole'. Did you mean 'CartPole-v1'?"),
        (["train", "--preset", "dqn"], "no preset 'dqn'. Did you mean 'dqn-cartpole'?"),
        (["train", "--preset"], "--preset needs a name"),
        (["train", "ppo", "--preset=dqn-acrobot"], "is of the agent dqn, not ppo"),
        (["train", "--preset", "ppo-cartpole", "--preset=dqn-acrobot"], "can be given once"),
        (["train"], "An agent and an environment are missing: jaxagents train AGENT ENV"),
        (["train", "ppo"], "An environment is missing: jaxagents train AGENT ENV"),
        (["train", *CARTPOLE, "--gama", "1"], "no option '--gama'. Did you mean '--gamma'?"),
        (["train", *CARTPOLE, "--num-envs", "1"], "Did you mean '--n-envs'?"),
        (["train", *CARTPOLE, "--num-timesteps=9"], "Did you mean '--total-timesteps'?"),
        (
            ["train", *CARTPOLE, "--n-steps=3", "--n-updates=4"],
            "--n-steps=3 contradicts --n-updates=4. Give one of them.",
        ),
        (["train", *CARTPOLE, "more"], "'more' is no option"),
        (["train", *CARTPOLE, "--n-steps", "ten"], "--n-steps: needs a whole number, got 'ten'."),
        (["train", *CARTPOLE, "--gamma", "much"], "--gamma: needs a number, got 'much'."),
        (
            ["sweep", *CARTPOLE, "--gamma", "0.9,1"],
            "--gamma: needs values with spaces between, got '",
        ),
        (["train", *CARTPOLE, "--n-steps", "0"], ": --n-steps must be a positive integer, got 0"),
        (
            ["train", *CARTPOLE, "--batch-size", "6"],
            ": --minibatch-size must divide --batch-size: 6 is not a multiple of",
        ),
        (
            ["train", "dqn", "CartPole-v1", "--memory=gru", "--learning-starts=3"],
            ": --learning-starts must be at least --sequence-length * --batch-size (128)",
        ),
        (
            ["train", *CARTPOLE, "--actor-optimizer-params.eps", "-1"],
            ": --actor-optimizer-params.eps must lie in",
        ),
        (["train", *CARTPOLE, "--gamma", "2"], ": --gamma must lie in [0, 1], got 2.0"),
        (["sweep", *CARTPOLE, "--seeds", "0"], "--seeds must be a positive integer, got 0."),
        (
            ["train", *CARTPOLE, "--seed", "4294967296"],
            "--seed must be an integer of 32 bits, such as 0 to 4294967295, got 4294967296.",
        ),
        (["eval", "x", "--seed", "99999999999999999999"], "--seed must be an integer of 32 bits"),
        (["eval", "x", "--n-evals", "0"], "--n-evals must be a positive integer, got 0."),
        (["replay", "x", "--updates", "0"], "--updates must be a positive integer, got 0."),
        (["replay", "x", "--from", "-1"], "--from must be an integer of 0 or more, got -1."),
        (["train", "dqn", "Pendulum-v1"], "DQN acts in discrete spaces"),
        (["train", "bc", "Pendulum-v1"], "bc learns from data: give --dataset FILE"),
        (["train", "bc", "Pendulum-v1", "--dataset", "no.npz"], "no.npz: No such file"),
        (
            ["resume", "x", "--n-steps", "9.5"],
            "--n-steps: needs a whole number or None, got '9.5'.",
        ),
        (["resume", "x", "--n-steps"], "--n-steps needs a value."),
        (["train", "dqn", "CartPole-v1", "--features", "--seed", "1"], "--features needs a value."),
        (["sweep", *CARTPOLE, "--gamma", "0.9", "--grad-clip"], "--grad-clip needs a value."),
        (
            ["eval", "x", "--checkpoint", "worst"],
            "--checkpoint: needs best, last or a whole number, got 'worst'.",
        ),
        (["train", "ppo", "gym:CartPole-v1"], "'gym': write 'gymnasium:CartPole-v1'."),
        (["train", "sac", "gymnasium:CartPole-v1", "--n-envs", "3"], "--buffer-size must be"),
        (["sweep", "ppo", "gymnasium:CartPole-v1"], "CartPole-v1 runs on the host"),
        (["train", "ppo", "brx:ant"], "There is no suite or module 'brx'. Did you mean 'brax'?"),
        (["train", "ppo", "gymnasium:LunarLander-v3"], "Box2D is not installed"),
        (
            ["train", "ppo", "gymnasium:ALE/Pong-v5"],
            "that another package registers begin with it, as in 'gymnasium:ale_py:ALE/Pong-v5'.",
        ),
        (["train", "ppo", "gymnasium:no_such:Pong-v5"], "No module named 'no_such'"),
        (["train", "ppo", "gymnasium:numpy:Pong-v5"], "Environment `Pong` doesn't exist"),
        (["train", "ippo", "pettingzoo:atari/pong-v3"], "pip install 'pettingzoo[atari]'"),
        (["resume", "."], ". holds no run.json"),
        (["resume", "no-folder"], "There is no folder 'no-folder'."),
        (["resume"], "Missing: jaxagents resume FOLDER. Folder of the run."),
        (["plot"], "Missing: jaxagents plot FOLDER..."),
        (["list", "things"], "'agents', 'envs', 'presets'"),
    ],
)
@pytest.mark.parametrize("has_boxes", [True, False])
def test_mistakes_are_told_in_one_line(words, hint, has_boxes, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tyro._fmtlib._should_use_utf8_drawing_chars", lambda: has_boxes)
    monkeypatch.chdir(tmp_path)
    for module in ("Box2D", "multi_agent_ale_py"):
        monkeypatch.setitem(sys.modules, module, None)
    assert hint in ends(words, 2, capsys)
    assert not list(tmp_path.iterdir())


def test_a_reader_may_stop_reading():
    command = [
        sys.executable,
        "-c",
        "from jaxagents.cli import main; main(['train', 'ppo', '--help'])",
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_runs_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["jaxagents", "list", "agents"])
    runpy.run_module("jaxagents", run_name="__main__")
    assert "proximal policy optimization" in capsys.readouterr().out


def test_names_options_and_help_need_no_jax():
    script = """
import sys
from jaxagents.catalogue import CATALOGUE, PRESETS
from jaxagents.cli import looking, main
looking.is_installed = lambda suite: False  # the suites that are there say their own names
commands = "train", "resume", "sweep", "eval", "plot", "export", "replay", "verify", "list"
for words in ([], ["list", "agents"], ["list", "envs"], ["list", "presets"], ["--version"],
              ["train", "pppo"], ["train", "ppo", "CartPole"], ["lits"],
              ["train", "ppo", "CartPole-v1", "--gama", "1"], ["resume", "no-folder"],
              ["sweep", "--preset", "pqn-cartpole", "--help"],
              *([command, "--help"] for command in commands),
              *(["train", agent, "--help"] for agent in CATALOGUE)):
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


def test_lists_the_environments_of_gymnax(monkeypatch, capsys):
    assert list(environment_names()) == list(gymnax.registered_envs)
    monkeypatch.setattr("jaxagents.cli.looking._names_of_suites", lambda: [])
    monkeypatch.setattr("jaxagents.cli.looking.is_installed", lambda name: name == "brax")
    main(["list", "envs"])
    said = capsys.readouterr()
    assert said.out.split() == list(gymnax.registered_envs)
    assert said.err.startswith("More come with pgx, ")


def test_a_folder_that_is_almost_right_is_suggested(copied, capsys):
    said = ends(["resume", f"{copied}s"], 2, capsys)
    assert said.endswith(f"Did you mean '{copied}'?\n")


def test_the_table_of_options_is_true():
    is_true = FILE.read_text(encoding="utf-8") == text_of_table()
    assert is_true, (
        f"Options of an agent have changed: run `make options`, which renews {FILE.name}."
    )


@pytest.mark.parametrize(
    ("agent", "preset"),
    [
        *((name, None) for name in CATALOGUE),
        *((settings.agent, name) for name, settings in PRESETS.items()),
    ],
)
def test_options_give_the_defaults_of_each_agent_and_preset(agent, preset):
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


def test_other_names_of_options_give_the_fields():
    words = ["--n-envs=4", "--total-timesteps=1025"]
    options = parse(options_of("ppo"), words, "train", "")
    chosen = chosen_config(options.config)
    assert (chosen["batch_size"], chosen["n_steps"]) == (4, 3)
    assert not chosen.keys() & {"n_envs", "n_updates", "total_timesteps"}


def test_help_lists_the_options_of_an_agent(capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", "dqn", "--help"])
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "--gamma FLOAT Discount. (default: 0.99)" in text
    assert "--total-timesteps {None}|INT In place of n_steps, number of environment steps" in text
    assert "--n-updates {None}|INT Another name of n_steps." in text
    assert "--preset" in text
    assert "--exploration-decay {linear,exponential}" in text
    assert "--actor-network" not in text
    assert "--checkpoint-dir" not in text


def test_a_sweep_that_is_stopped_goes_on(tmp_path, capsys, monkeypatch):
    finished = PPO.sweep

    def stopped(agent, *args):
        return finished(agent, *args, n_steps=1, progress=False)

    monkeypatch.setattr(PPO, "sweep", stopped)
    words = [
        *CARTPOLE,
        *SIZES,
        "--n-steps",
        "2",
        "--run-dir",
        str(tmp_path / "a run"),
        "--seeds",
        "2",
    ]
    said = ends(["sweep", *words], 130, capsys)
    assert f"after 1 of 2 updates. To go on: jaxagents resume '{tmp_path / 'a run'}'" in said
    monkeypatch.undo()
    main(["resume", str(tmp_path / "a run")])
    assert "Returns of 2 seeds" in capsys.readouterr().out


def test_values_come_in_every_combination():
    kind = options_of("ppo", is_sweep=True)
    words = ["--seed", "3", "--learning-rate", "1", "2", "--gamma", "0.5", "0.9", "--vf-coeff", "3"]
    options = parse(kind, words, "sweep", "")
    assert options.seed == 3
    sets = chosen_sets(options)
    assert [(s["gamma"], s["actor_optimizer_params.learning_rate"]) for s in sets] == [
        (0.5, 1.0),
        (0.5, 2.0),
        (0.9, 1.0),
        (0.9, 2.0),
    ]
    run = Run(agent="ppo", environment="", seed=0, config={}, hyperparams=sets)
    hyperparams = run.make_hyperparams()
    assert hyperparams.vf_coeff == 3.0
    np.testing.assert_allclose(hyperparams.critic_optimizer_params.learning_rate, [1, 2, 1, 2])


def test_a_value_that_is_given_twice_is_tried_once():
    kind = options_of("ppo", is_sweep=True)
    words = ["--learning-rate", "1", "1", "--gamma", "0.9", "0.90"]
    assert len(chosen_sets(parse(kind, words, "sweep", ""))) == 1


def test_a_folder_that_cannot_be_made_is_a_mistake(tmp_path):
    (tmp_path / "file").touch()
    run = Run(agent="ppo", environment="CartPole-v1", seed=0, config={}, hyperparams=[{}])
    with pytest.raises(MistakeError, match="file/run: Not a directory"):
        run.write(tmp_path / "file" / "run")


def test_options_go_on_top_of_a_preset(tmp_path, monkeypatch):
    monkeypatch.setattr("jaxagents.cli.training._go_on", lambda run, folder: run.write(folder))
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


@pytest.fixture
def two_at_once(tmp_path, monkeypatch):
    """Words of a training, just before whose first file the same one with another seed begins."""

    def go_on(run, folder):
        if run.seed == 0:
            main([*words, "--seed", "1"])
        run.write(folder)

    words = ["train", *CARTPOLE]
    monkeypatch.setattr("jaxagents.cli.training._go_on", go_on)
    monkeypatch.chdir(tmp_path)
    return words


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own(two_at_once):
    main(two_at_once)
    assert sorted(Run.read(folder).seed for folder in Path("runs").iterdir()) == [0, 1]


def test_a_run_is_not_described_over_another(two_at_once, capsys):
    two_at_once.append("--run-dir=x")
    assert "x already holds a run" in ends(two_at_once, 2, capsys)
    assert Run.read(Path("x")).seed == 1


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("jaxagents.cli.training._go_on", lambda run, folder: run.write(folder))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    words = ["train", "bc", "Pendulum-v1", "--run-dir=~/x", "--dataset=~/data.npz"]
    main(words)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert Run.read(tmp_path / "home" / "x").dataset == str(tmp_path / "home" / "data.npz")
    assert "already holds a run" in ends(words, 2, capsys)
    assert f"{tmp_path / 'home' / 'x'} holds no metrics" in ends(["plot", "~/x"], 2, capsys)
    assert parse(Plot, ["~", "a~b"], "plot", "").folders == (tmp_path / "home", Path("a~b"))
    assert parse(Eval, ["x", "--film=~/x.gif"], "eval", "").film == tmp_path / "home" / "x.gif"
    assert "no home folder ~nobody-at-all" in ends(["resume", "~nobody-at-all/x"], 2, capsys)


def test_an_empty_path_is_not_the_working_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in (["train", *CARTPOLE, "--run-dir", ""], ["resume", ""], ["plot", ""]):
        assert "A path is empty" in ends(words, 2, capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_module_of_the_folder_may_register_environments_with_gymnasium(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    registry = gymnasium.registry.copy()
    monkeypatch.setattr("gymnasium.envs.registration.registry", registry)
    (tmp_path / "registers_poles.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('own/Pole-v0', entry_point=CartPoleEnv)\n"
    )
    name = "gymnasium:registers_poles:own/Pole-v0"
    for agent in ("ppo", "dqn"):
        run = Run(agent=agent, environment=name, seed=0, config={}, hyperparams=[{}])
        assert repr(run.make_agent(tmp_path)) == f"<{agent.upper()} on own/Pole-v0>"


def test_makes_agents_that_learn_from_data(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "observations": rng.normal(size=(8, 3)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (8, 1)).astype(np.float32),
    }
    Dataset(arrays).save(tmp_path / "data.npz")
    run = Run(
        agent="bc",
        environment="Pendulum-v1",
        seed=0,
        preset="bc-pendulum",
        dataset=str(tmp_path / "data.npz"),
        config={},
        hyperparams=[{}],
    )
    agent = run.make_agent(tmp_path)
    assert agent.config.features == (64, 64)
    assert run.steps_per_update is None


def test_takes_environments_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "their_envs.py").write_text(
        "from gymnax.environments.classic_control.cartpole import CartPole\n"
        "class Pole(CartPole):\n    pass\n"
    )
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.chdir(tmp_path)
    config = {"batch_size": 4, "rollout_length": 8}
    run = Run(agent="ppo", environment="their_envs:Pole", seed=0, config=config, hyperparams=[{}])
    assert type(run.make_agent(tmp_path).env).__name__ == "Pole"


def test_names_with_a_slash_make_no_folder_within_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    choice = training.Choice("ippo", "pettingzoo:mpe/simple_spread-v3", None, [])
    with training._folder_of(choice) as folder:
        assert folder.parent.name == "runs"
        assert folder.name.startswith("ippo-mpe-simple_spread-v3-")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_runs_that_was_there_stays(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    ends(["train", *CARTPOLE, "--gamma", "2"], 2, capsys)
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]
    Path("runs").rmdir()
    Path("runs").write_text("mine")
    assert "runs: File exists." in ends(["train", *CARTPOLE], 2, capsys)
