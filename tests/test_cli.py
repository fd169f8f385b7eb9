"""The command line and loggers."""

import json

import pytest

from jaxagents.cli import main
from jaxagents.loggers import JSONLLogger

TINY = ["--batch-size", "4", "--rollout-length", "8", "--eval-frequency", "2"]
PNG = b"\x89PNG"


def test_trains_and_resumes(tmp_path, capsys):
    run = tmp_path / "runs" / "cartpole"
    command = ["train", "--env", "CartPole-v1", "--run-dir", str(run), *TINY]
    main([*command, "--n-steps", "2"])
    assert "After 2 updates (64 environment steps), 128 greedy" in capsys.readouterr().out
    for name in ("config.json", "hyperparameters.json", "metrics.jsonl", "checkpoints"):
        assert (run / name).exists()
    assert (run / "learning_curve.png").read_bytes().startswith(PNG)

    with pytest.raises(SystemExit):
        main(command)
    assert "already holds checkpoints: add --resume" in capsys.readouterr().err

    main([*command, "--n-steps", "4", "--resume"])
    assert "After 4 updates" in capsys.readouterr().out
    main([*command, "--n-steps", "4", "--resume"])
    assert "After 4 updates" in capsys.readouterr().out
    lines = (run / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["update_step"] for line in lines]
    assert steps == [0, 2, 4]


def test_resuming_what_never_began_starts_it(tmp_path, capsys):
    main(["train", "--run-dir", str(tmp_path), *TINY, "--n-steps", "2", "--resume"])
    assert "After 2 updates" in capsys.readouterr().out


def test_refuses_sizes_that_do_not_fit(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--run-dir", str(tmp_path), "--batch-size", "6"])
    assert "--batch-size must be a multiple of 4" in capsys.readouterr().err


def test_appends_lines_of_json(tmp_path):
    logger = JSONLLogger(tmp_path / "metrics.jsonl")
    logger.log(1, {"x": 0.5, "y": float("nan")})
    JSONLLogger(tmp_path / "metrics.jsonl").log(2, {"x": float("inf")})
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"update_step": 1, "x": 0.5, "y": None},
        {"update_step": 2, "x": "inf"},
    ]
