"""Loggers: what they write, and what they reject."""

import dataclasses
import io
import json
import math
import re
import sys
import time
import types
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from tqdm.auto import tqdm

from jaxagents.core.extras import pip_install
from jaxagents.loggers import (
    ClosingLogger,
    ConsoleLogger,
    JSONLLogger,
    TensorBoardLogger,
    WandbLogger,
)
from jaxagents.plotting.trainings import read_points

NUMBERS = {
    "python": 0.1,
    "single": np.float32(0.1),
    "jax": jnp.float32(0.1),
    "half": jnp.bfloat16(0.5),
    "int": jnp.int32(3),
    "bool": np.True_,
}


class Memory(ClosingLogger):
    closed = False

    def log(self, step, metrics):
        pass

    def close(self):
        self.closed = True


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_leaving_the_context_closes_even_after_an_error():
    with pytest.raises(ValueError, match="inside"), Memory() as logger:
        raise ValueError("inside")
    assert logger.closed


def test_console_lines_are_aligned(capsys):
    with ConsoleLogger() as logger:
        logger.log(5, {"returns": -3.25, "n": 7})
        logger.log(1_000_000, {"returns": 123456.0, "n": np.int64(12_345_678)})
        logger.log(2_000_000, {"returns": float("nan"), "n": 0})
    written = capsys.readouterr()
    assert written.err == ""
    lines = written.out.splitlines()
    assert lines[0] == "step           5  returns      -3.25  n          7"
    assert lines[1] == "step   1,000,000  returns  1.235e+05  n 12,345,678"
    assert lines[2] == "step   2,000,000  returns        nan  n          0"


def test_console_lines_stand_above_a_progress_bar():
    stream = io.StringIO()
    with tqdm(total=10, file=stream) as bar:
        bar.update(3)
        ConsoleLogger(stream).log(3, {"returns": 1.0})
    assert not stream.closed
    line = "step           3  returns          1\n"
    before, after = stream.getvalue().split(line)
    assert before.endswith("\r")  # the bar was cleared
    assert "0/10" in before
    assert "3/10" in after


def test_json_lines_keep_the_digits_and_the_order(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"update_step": 0}\n')
    with JSONLLogger(path) as logger:
        logger.log(1, NUMBERS)
    assert path.read_text() == (
        '{"update_step": 0}\n'
        '{"update_step": 1, "python": 0.1, "single": 0.1, "jax": 0.1, "half": 0.5, "int": 3, '
        '"bool": true}\n'
    )


def test_json_lines_can_count_steps_by_another_name(tmp_path):
    path = tmp_path / "new" / "metrics.jsonl"
    logger = JSONLLogger(path, step_name="step")
    logger.log(np.int64(7), {"x": np.float32("nan"), "y": -jnp.inf})
    assert read_lines(path) == [{"step": 7, "x": None, "y": "-inf"}]
    with pytest.raises(ValueError, match="'step' is the name of the step"):
        logger.log(8, {"step": 1.0})
    assert len(read_lines(path)) == 1


def test_refuses_what_is_no_number(tmp_path):
    for value, found in (
        (jnp.zeros((1,)), r"an array of shape \(1,\)"),
        ([1.0, 2.0], r"an array of shape \(2,\)"),
        ("high", "'high'"),
        (None, "None"),
        (1j, "1j"),
    ):
        for logger in (ConsoleLogger(), JSONLLogger(tmp_path / "metrics.jsonl")):
            with pytest.raises(TypeError, match=f"Metric 'loss' must be a number, got {found}"):
                logger.log(1, {"returns": 1.0, "loss": value})
    assert not (tmp_path / "metrics.jsonl").exists()


def read_events(directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_tensorboard_curves(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    directory = tmp_path / "new" / "run"
    with TensorBoardLogger("~/new/run") as logger:
        logger.log(10, {"evaluation/returns": np.float32(1.5), "n": 2})
        until = time.monotonic() + 20.0
        while "n" not in read_events(directory) and time.monotonic() < until:
            time.sleep(0.2)
        assert read_events(directory)["n"] == [(10, 2.0)]  # before it is closed
        logger.log(20, {"evaluation/returns": math.inf, "n": jnp.float32("nan")})
        with pytest.raises(TypeError, match="Metric 'loss' must be a number"):
            logger.log(30, {"loss": np.zeros(2)})
    events = read_events(directory)
    assert events["evaluation/returns"] == [(10, 1.5), (20, math.inf)]
    np.testing.assert_array_equal(events["n"], [(10, 2.0), (20, math.nan)])


@dataclasses.dataclass
class Config:
    learning_rate: float = 1e-3


@pytest.fixture
def wandb(monkeypatch):
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_SILENT", "true")
    wandb = pytest.importorskip("wandb")
    yield wandb
    wandb.teardown()  # ends its service, a process of its own


def test_wandb_is_given_numbers_and_a_folder(tmp_path, monkeypatch):
    received, logged = {}, []
    run = types.SimpleNamespace(
        log=lambda numbers, step: logged.append((step, numbers)),
        finish=lambda: logged.append("end"),
    )
    wandb = types.SimpleNamespace(init=lambda **given: received.update(given) or run)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    with WandbLogger("project", directory="~/wandb") as logger:
        logger.log(3, {"returns": np.float32(0.1)})
    assert received["dir"] == tmp_path / "wandb"
    assert received["dir"].is_dir()
    assert logged == [(3, {"returns": 0.1}), "end"]


@pytest.mark.slow  # its service is a process of its own
def test_wandb_runs_offline(tmp_path, wandb):
    arguments = {"mode": "offline", "directory": tmp_path / "new", "group": "seeds"}
    config = {"agent": Config(), "seed": 3}
    with (
        WandbLogger("project", "sac", config=config, tags=["quick"], **arguments) as logger,
        WandbLogger("project", "sac", **arguments) as other,
    ):
        logger.log(1, {"returns": 12.5, "loss": np.float32(0.1)})
        logger.log(3, {"returns": jnp.float32(13.25), "loss": float("nan")})
        logger.log(4, {"last": 7.625})
        other.log(1, {"returns": 99.75})
        summary = dict(logger.run.summary)
        with pytest.raises(TypeError, match="Metric 'loss' must be a number"):
            logger.log(4, {"loss": np.zeros(2)})

    assert summary["returns"] == 13.25
    assert np.isnan(float(summary["loss"]))
    assert summary["_step"] == 3
    assert dict(logger.run.config) == {"agent": {"learning_rate": 1e-3}, "seed": 3}
    assert logger.run.group == other.run.group == "seeds"
    assert logger.run.tags == ("quick",)
    assert logger.run.project == "project"
    assert logger.run.name != other.run.name
    assert all(run.name.startswith("sac-2") for run in (logger.run, other.run))
    wandb.teardown()  # its service writes files, and may still do so
    for run, logged in ((logger.run, [b"12.5", b"0.1", b"7.625"]), (other.run, [b"99.75"])):
        (file,) = tmp_path.glob(f"new/wandb/offline-run-*-{run.id}/run-{run.id}.wandb")
        assert all(value in file.read_bytes() for value in logged)


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [
        (lambda path: TensorBoardLogger(path / "run"), "tensorboardX", "tensorboard"),
        (lambda path: WandbLogger("project", directory=path / "run"), "wandb", "wandb"),
    ],
)
def test_names_the_extra_that_is_missing(tmp_path, monkeypatch, make, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"{module} is not.*{re.escape(pip_install(extra))}"):
        make(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_line_that_was_cut_off_is_left_alone(tmp_path):
    file, left = tmp_path / "metrics.jsonl", '{"update_step": 2, "ret'
    logger = JSONLLogger(file)
    logger.log(1, {"returns": 0.5})
    with file.open("a") as cut_off:
        cut_off.write(left)
    for step in (3, 4):
        logger.log(step, {"returns": 1.0})
    assert file.read_text().splitlines()[1] == left
    assert [point["update_step"] for point in read_points(file)] == [1, 3, 4]


def test_paths_of_files_and_folders(tmp_path, monkeypatch):
    """They stay where they were when a script changes its folder; others are refused."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    logger = JSONLLogger("metrics.jsonl")
    logger.log(1, {"x": 0.5})
    monkeypatch.chdir(tmp_path / "elsewhere")
    logger.log(2, {"x": 0.7})
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
    for path in (tmp_path, ""):
        with pytest.raises(IsADirectoryError, match=f"path must be .* got the folder {tmp_path}"):
            JSONLLogger(path)
    with pytest.raises(ValueError, match=r"directory must be the path of a folder, .* got ''"):
        TensorBoardLogger("")
    assert list(Path().iterdir()) == []
