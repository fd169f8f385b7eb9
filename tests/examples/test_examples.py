import json
import sys

import jax
import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from PIL import Image


def test_cartpole_script(load, check_files, tmp_path, capsys):
    output = tmp_path / "run"
    argv = ["--output", str(output), "--n-steps", "4", "--n-seeds", "2", "--n-evals", "5"]
    script = load("cartpole_ppo")
    results = script.main(argv)

    metrics = results["metrics"]
    np.testing.assert_array_equal(metrics["update_step"], range(5))
    assert metrics["returns"].shape == (5, 32)
    assert np.all((metrics["returns"] >= 1) & (metrics["returns"] <= 500))
    assert np.isnan(metrics["actor_loss"][0])
    assert np.isfinite(metrics["actor_loss"][1:]).all()
    assert results["episodes"]["returns"].shape == (5,)
    assert np.isfinite(results["episodes"]["returns"]).all()

    jax.tree.map(
        np.testing.assert_array_equal,
        results["last"].actor_training.params,
        results["runner"].actor_training.params,
    )
    assert results["identical"]
    assert results["resumed"].update_step == 5

    assert results["by_seed"]["returns"].shape == (2, 3, 32)
    assert results["by_learning_rate"]["returns"].shape == (3, 3, 32)
    sweep = results["sweep"]
    assert sweep.metrics["returns"].shape == (3, 2, 3, 32)
    assert sweep.best_hyperparams.actor_optimizer_params.learning_rate == pytest.approx(
        script.LEARNING_RATES[sweep.best]
    )
    assert results["record"]["obs"].shape == (500, 4)
    assert results["record"]["done"].any()

    check_files(output, "learning_curve.png", "sweep.png", "episode.png")
    check_files(output, "config.json", "hyperparameters.json", "metrics.jsonl")
    assert "Identical to 5 updates without interruption: True" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        script.main(argv)
    assert "choose another --output" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--ready-made"]], ids=["own policy", "ready-made"])
def test_pursuit_script(options, load, check_files, tmp_path, monkeypatch):
    output = tmp_path / "run"
    script = load("pursuit_ippo")
    monkeypatch.setattr(script, "MAX_EPISODE_STEPS", 60)
    sizes = ["--output", str(output), "--n-steps", "2", "--n-matches", "6"]
    results = script.main([*options, *sizes])

    metrics = results["metrics"]
    assert metrics["returns"].shape == (3, 64, 2)
    np.testing.assert_allclose(metrics["returns"].sum(axis=-1), 0.0, atol=1e-4)
    assert metrics["terminated"].shape == (3, 64)
    if options:
        assert "catch_rate" not in metrics
    else:
        np.testing.assert_allclose(metrics["catch_rate"], metrics["terminated"].mean(axis=1))
    assert results["runner"].update_step == 2

    assert len(results["matches"]) == 6
    for match in results["matches"].values():
        assert match["positions"].shape == (6, 61, 2, 2)
        assert np.abs(match["positions"]).max() <= 5.0 + 1e-5
    pure_pursuit = results["matches"]["straight at the evader", "random"]
    assert pure_pursuit["caught"].all()
    for positions, seconds in zip(pure_pursuit["positions"], pure_pursuit["seconds"], strict=True):
        distances = np.linalg.norm(positions[:, 0] - positions[:, 1], axis=-1)
        assert distances[round(seconds / 0.05)] <= 0.4 + 1e-5
    assert not results["matches"]["random", "random"]["caught"].all()

    check_files(output, "learning.png", "trajectories.png")
    with Image.open(output / "pursuit.gif") as animation:
        assert animation.n_frames > 1


def test_notebooks_are_committed_without_outputs(examples):
    paths = sorted(examples.glob("*.ipynb"))
    assert [path.name for path in paths] == ["cartpole_ppo.ipynb", "new_algorithm.ipynb"]
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        for cell in notebook.cells:
            assert not cell.get("outputs"), (path, cell.id)
            assert cell.get("execution_count") is None, (path, cell.id)


def test_notebook(examples, check_files, tmp_path):
    notebook = nbformat.read(examples / "cartpole_ppo.ipynb", as_version=4)
    (parameters,) = (c for c in notebook.cells if "parameters" in c.metadata.get("tags", []))
    sizes = {"n_steps": 4, "n_seeds": 2, "n_evals": 5, "run_dir": str(tmp_path / "run")}
    assert all(f"{name} = " in parameters.source for name in sizes)
    parameters.source = "\n".join(f"{name} = {value!r}" for name, value in sizes.items())
    results = {
        "prefix": "sys.prefix",
        "identical": "identical",
        "points": "metrics['returns'].shape",
        "mean": "float(stats.mean)",
        "by_seed": "by_seed['returns'].shape",
        "by_rate": "by_rate['returns'].shape",
        "sweep": "result.metrics['returns'].shape",
        "record": "record['obs'].shape",
    }
    listing = ", ".join(f"{name!r}: {expression}" for name, expression in results.items())
    source = f"import json\nimport sys\n\nprint(json.dumps({{{listing}}}))"
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=tmp_path)

    (output,) = notebook.cells[-1].outputs
    found = json.loads(output.text)
    assert 1 <= found.pop("mean") <= 500
    assert found == {
        "prefix": sys.prefix,
        "identical": True,
        "points": [5, 32],
        "by_seed": [2, 3, 32],
        "by_rate": [3, 3, 32],
        "sweep": [3, 2, 3, 32],
        "record": [500, 4],
    }
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 3
    check_files(tmp_path / "run", "config.json", "hyperparameters.json", "metrics.jsonl")
