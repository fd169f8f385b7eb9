"""The examples in Gymnasium environments and of Minari datasets."""

import json

import gymnasium
import jax
import jax.numpy as jnp
import minari
import nbformat
import numpy as np
import pytest
import trees
from gymnasium.envs.classic_control import PendulumEnv
from nbclient import NotebookClient
from PIL import Image

from jaxagents.data import from_minari, to_minari
from jaxagents.host import concatenate_trajectories, evaluate_with_trajectories

ENV = "InvertedPendulum-v5"
BOUND = 3.0
SIZES = {"--n-evals": 2, "--batch-size": 8}
ONLINE = {"--start-steps": 40, "--eval-frequency": 60, "--buffer-size": 500, **SIZES}
OFFLINE = {"--n-updates": 30, "--eval-frequency": 20, **SIZES}
ABOUT = dict.fromkeys(
    ("algorithm_name", "author", "author_email", "code_permalink", "description"), "For tests."
)
SMALL = ["--features", "8", "8"]


@pytest.fixture(autouse=True)
def minari_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))


@pytest.fixture
def sac(load, monkeypatch):
    script = load("sac_mujoco")
    monkeypatch.setattr(script, "FILM_SECONDS", 0.2)
    return script


@pytest.fixture
def dataset():
    """The identifier of a dataset whose actions lie within the environment's own bounds."""
    rng = np.random.default_rng(0)
    env = gymnasium.make(ENV)

    def policy(observation):
        return rng.uniform(-BOUND, BOUND, 1)

    _, trajectories = evaluate_with_trajectories(policy, env, 8)
    identifier = "pendulum/random-v0"
    to_minari(concatenate_trajectories(trajectories), identifier, env=env, eval_env=env, **ABOUT)
    return identifier


def words(options):
    return [str(word) for option in options.items() for word in option]


def error_of(script, argv, capsys):
    with pytest.raises(SystemExit):
        script.main(argv)
    return capsys.readouterr().err


def cannot_render(self):
    """MuJoCo without OpenGL, which only some machines have."""
    raise RuntimeError("no OpenGL here")


def test_sac_script(sac, check_files, tmp_path, capsys, monkeypatch):
    env = "Pendulum-v1"  # which can be drawn anywhere
    argv = [*words({**ONLINE, "--env": env, "--minari-id": "pendulum/sac-v0"}), *SMALL]
    whole = tmp_path / "whole"
    results = sac.main([*argv, "--n-steps", "120", "--output", str(whole)])
    text = capsys.readouterr().out

    metrics = results["metrics"]
    np.testing.assert_array_equal(metrics["update_step"], [0, 60, 120])
    assert metrics["returns"].shape == (3, 2)
    best = np.argmax(metrics["returns"].mean(axis=1))
    assert f"The best agent, of step {metrics['update_step'][best]}" in text
    assert "step         120  returns" in text
    assert "No video" not in text
    check_files(whole, "learning_curve.png", "config.json", "metrics.jsonl")
    assert list((whole / "tensorboard").iterdir())
    with Image.open(whole / "episode.gif") as film:
        assert film.n_frames == 1 + 0.2 * gymnasium.make(env).metadata["render_fps"]
        first = np.asarray(film.convert("RGB"))
        film.seek(film.n_frames - 1)
        assert (np.asarray(film.convert("RGB")) != first).any()

    source = minari.load_dataset("pendulum/sac-v0")
    written, expected = {**from_minari(source)}, {**results["runner"].buffer.to_dataset()}
    assert len(expected["ends"]) == 160
    expected["ends"][-1] = True
    jax.tree.map(np.testing.assert_array_equal, written, expected)
    assert source.recover_environment().spec.id == env
    assert "choose another --minari-id" in error_of(sac, argv, capsys)

    monkeypatch.setattr(PendulumEnv, "render", cannot_render)
    parts = [*words({**ONLINE, "--env": env}), *SMALL, "--output", str(tmp_path / "parts")]
    sac.main([*parts, "--n-steps", "60"])
    resumed = sac.main([*parts, "--n-steps", "120", "--resume"])
    assert f"No video, since {env} cannot be rendered here: no OpenGL" in capsys.readouterr().out
    assert not (tmp_path / "parts" / "episode.gif").exists()
    trees.assert_equal(resumed["runner"], results["runner"])
    trees.assert_equal(resumed["best"], results["best"])
    check_files(tmp_path / "parts", "learning_curve.png", "learning_curve-2.png")


def test_sac_script_refuses_early(sac, tmp_path, capsys):
    new, old = str(tmp_path / "new"), str(tmp_path)
    assert "choose another --output, or --resume" in error_of(sac, ["--output", old], capsys)
    error = error_of(sac, ["--output", new, "--resume"], capsys)
    assert "nothing to resume in" in error
    error = error_of(sac, ["--output", new, "--minari-id", "pendulum"], capsys)
    assert "must end in a version such as -v0, got pendulum" in error
    assert not (tmp_path / "new").exists()


SETTINGS = {
    "bc": {"--best-share": 0.5},
    "cql": {"--conservative-weight": 2.0, "--n-action-samples": 2, "--tau": 0.1},
    "iql": {"--expectile": 0.8, "--beta": 1.0, "--tau": 0.1},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_offline_scripts(name, load, dataset, check_files, tmp_path, capsys):
    output = tmp_path / "run"
    script = load(f"{name}_minari")
    settings = words({**OFFLINE, **SETTINGS[name], "--output": output})
    argv = [dataset, *settings, *SMALL]
    results = script.main(argv)
    text = capsys.readouterr().out

    np.testing.assert_array_equal(results["metrics"]["update_step"], [0, 20, 30])
    assert results["metrics"]["returns"].shape == (3, 2)
    assert np.isfinite(results["metrics"]["actor_loss"][1:]).all()
    returns = results["episodes"]["returns"]
    assert f"{name.upper()} in 2 other episodes: mean return {returns.mean():.1f}" in text
    assert f"{dataset}: " in text
    agent = results["agent"]
    for option, value in SETTINGS[name].items():
        field = option.removeprefix("--").replace("-", "_")
        if field != "best_share":
            hyperparams = agent.training_runner.hyperparams
            settled = getattr(hyperparams, field, getattr(agent.config, field, None))
            assert settled == pytest.approx(value)
    check_files(output, "learning_curve.png", "config.json", "metrics.jsonl")
    assert "choose another --output" in error_of(script, argv, capsys)


def test_offline_scripts_refuse_early(load, dataset, tmp_path, capsys, monkeypatch):
    output = ["--output", str(tmp_path / "run")]
    error = error_of(load("iql_minari"), ["other-v0", *output], capsys)
    assert f"no Minari dataset other-v0 here; there are {dataset}." in error
    error = error_of(load("bc_minari"), [dataset, "--best-share", "0", *output], capsys)
    assert "--best-share must lie in (0, 1], got 0.0" in error
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "none"))
    error = error_of(load("cql_minari"), ["x-v0", *output], capsys)
    assert "there are none (sac_mujoco.py --minari-id ID writes one)" in error


def test_tasks_and_their_best_episodes(load, dataset):
    offline, script = load("offline_minari"), load("bc_minari")
    task = offline.load(offline.make_parser("", "x").parse_args([dataset]))
    lengths = np.diff(np.flatnonzero(np.append(True, task.dataset["ends"])))
    np.testing.assert_array_equal(task.returns, lengths - 1)  # 1 for each step but the last
    assert task.env.spec.id == ENV
    data, returns = from_minari(dataset), np.sort(task.returns)
    for n_best in (1, 3, len(returns)):
        n_steps = (returns[-n_best:] + 1).sum()
        best = script.best_episodes(data, n_steps / len(data) - 1e-3)
        np.testing.assert_array_equal(np.sort(offline.episode_returns(best)), returns[-n_best:])
    np.testing.assert_array_equal(best["observations"], data["observations"])


@pytest.fixture
def notebook(examples):
    return nbformat.read(examples / "new_algorithm.ipynb", as_version=4)


def tagged(notebook, tag):
    return [cell for cell in notebook.cells if tag in cell.metadata.get("tags", [])]


def test_new_algorithm_is_short(notebook):
    (cell,) = tagged(notebook, "algorithm")
    lines = [line.strip() for line in cell.source.splitlines()]
    n_lines = sum(bool(line) and not line.startswith("#") for line in lines)
    assert 20 < n_lines < 60


def test_new_algorithm(notebook):
    names = {}
    for cell in notebook.cells:
        if cell.id in ("imports", "learner"):
            exec(cell.source, names)
    rng = np.random.default_rng(0)
    shapes = {"observations": (6, 3), "actions": (6, 2), "rewards": (6,), "masks": (6,)}
    batch = {name: jnp.float32(rng.uniform(-1, 1, shape)) for name, shape in shapes.items()}
    batch["next_observations"] = batch["observations"][::-1]
    learner = names["TD3"].create(0, batch["observations"], batch["actions"], (8, 8))
    once, _ = learner.update(batch)
    twice, infos = learner.update_many(jax.tree.map(lambda x: jnp.stack([x, x]), batch))
    assert infos["critic_loss"].shape == (2,)

    def moved(before, after):
        states = ("actor", "critic", "target_actor", "target_critic")
        pairs = ((getattr(before, name).params, getattr(after, name).params) for name in states)
        return [not trees.equal(*pair) for pair in pairs]

    assert moved(learner, once) == [False, True, False, False]
    assert moved(once, twice) == [True, True, True, True]
    still = learner.replace(smoothing=0.0)
    successor = learner.target_actor(batch["next_observations"]).mode()
    values = np.min(learner.target_critic(batch["next_observations"], successor), axis=0)
    targets = batch["rewards"] + 0.99 * batch["masks"] * values
    errors = learner.critic(batch["observations"], batch["actions"]) - targets[None]
    loss = np.square(errors).mean(axis=1).sum()
    np.testing.assert_allclose(still.update(batch)[1]["critic_loss"], loss, rtol=1e-5)


def test_notebook(notebook, tmp_path):
    (parameters,) = tagged(notebook, "parameters")
    sizes = {"n_steps": 400, "start_steps": 300, "eval_frequency": 200, "n_evals": 2}
    sizes |= {"batch_size": 8, "features": (8, 8)}
    assert [line.split(" = ")[0] for line in parameters.source.splitlines()] == list(sizes)
    parameters.source = "\n".join(f"{name} = {value!r}" for name, value in sizes.items())
    results = (
        "[episode_steps, len(buffer), points, np.shape(evaluations), episodes['returns'].shape]"
    )
    source = f"import json\n\nprint(json.dumps({results}))"
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=tmp_path)

    (output,) = notebook.cells[-1].outputs
    assert json.loads(output.text) == [[200, 400], 400, [0, 200, 400], [3, 2], [2]]
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
