"""Sweeps with a folder: what they save, resume and reject."""

import contextlib
import json
import os
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from compilations import collectives_of, lowered_updates
from probes import BestAction, MatchSign
from registry import AGENTS
from saved_runs import damage_arrays

from jaxagents import verify
from jaxagents.checkpoints.records import SWEEP, saved_steps
from jaxagents.engine import sweep as sweeps
from jaxagents.engine.members import MembersOnDevices
from jaxagents.engine.observers import SweepBar

CASES = {case.name: case for case in AGENTS}
CASE = CASES["REINFORCE"]
KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, 2)
SETS = {"gamma": jnp.array([0.5, 0.9])}


def make(folder, case=CASE, env=MatchSign, evaluated=True, **fields):
    fields = {"n_steps": 6, "checkpoint_dir": folder, "restore_agent": folder is not None, **fields}
    return case.make(env, evaluated, **fields)


def sweep(agent, n_steps=4, keys=KEYS, case=CASE, **values):
    hyperparams = case.hyperparams(**{**SETS, **values})
    return agent.sweep(keys, hyperparams, n_steps=n_steps, progress=False)


def no_training(*args, **kwargs):
    raise AssertionError("something is trained")


def folder_contents(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def alone():
    """The sweep without a folder."""
    return sweep(make(None))


def test_goes_on_bit_for_bit_and_shares_its_folder_with_a_training(tmp_path, alone, monkeypatch):
    sweep(make(tmp_path, restore_agent=False), n_steps=2)
    again = make(tmp_path)
    trees.assert_equal(alone, sweep(again))
    assert not again.agent_trained
    assert verify(tmp_path / SWEEP) == dict.fromkeys([0, 2, 4])
    lines = (tmp_path / SWEEP / "metrics.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in lines]
    members = [(line["update_step"], line["set"], line["seed"]) for line in lines]
    assert members == [(n, *member) for n in (0, 2, 4) for member in np.ndindex(2, 2)]
    per_update = again.config.steps_per_update
    assert [line["env_steps"] for line in lines[::4]] == [0, 2 * per_update, 4 * per_update]
    assert len({line["seconds"] for line in lines[-4:]}) == 1
    assert lines[-1]["returns"] == pytest.approx(alone.metrics["returns"][1, 1, -1].mean())
    hyperparams = json.loads((tmp_path / SWEEP / "hyperparameters.json").read_text())
    assert hyperparams["gamma"] == [0.5, 0.9]
    again.train(KEY, CASE.hyperparams(), n_steps=1, progress=False)
    assert saved_steps(tmp_path) == [0, 1]
    before = folder_contents(tmp_path)
    monkeypatch.setattr(sweeps, "drive", no_training)
    monkeypatch.setattr(sweeps, "members_of", no_training)
    for n_steps in (4, 3):  # a finished one is returned
        trees.assert_equal(alone, sweep(make(tmp_path), n_steps))
    assert folder_contents(tmp_path) == before


def test_replay_buffers_go_on_and_are_filled_anew_where_they_were_left_out(tmp_path):
    case = CASES["DQN"]

    def part(name, n_steps, **fields):
        folder = name and tmp_path / name
        return sweep(make(folder, case, features=(), **fields), n_steps, case=case)

    whole = part(None, 4)
    part("whole", 2)
    trees.assert_equal(whole, part("whole", 4))
    part("lean", 2, checkpoint_buffer=False)
    assert part("lean", 2, checkpoint_buffer=False).runners.buffer is None
    after = part("lean", 4, checkpoint_buffer=False)
    assert after.runners.buffer is not None
    assert after.runners.update_step.tolist() == [[4, 4], [4, 4]]


def interrupted(monkeypatch, number, agent, n_steps):
    """A sweep that gets a signal after its first chunk, which is of one update."""
    with monkeypatch.context() as patch:
        patch.setattr(SweepBar, "on_chunk", lambda *_: os.kill(os.getpid(), number))
        return sweep(agent, n_steps)


def test_ctrl_c_saves(tmp_path, alone, monkeypatch):
    stopped = interrupted(monkeypatch, signal.SIGINT, make(tmp_path), n_steps=4)
    assert stopped.runners.update_step.tolist() == [[1, 1], [1, 1]]
    assert saved_steps(tmp_path / SWEEP) == [0, 1]
    trees.assert_equal(alone.runners, sweep(make(tmp_path)).runners)


def test_sigterm_saves_and_is_raised_again_and_the_evaluation_is_made_later(tmp_path, monkeypatch):
    received = []
    before = signal.signal(
        signal.SIGTERM, lambda *_: received.append(saved_steps(tmp_path / SWEEP))
    )
    interrupted(monkeypatch, signal.SIGTERM, make(tmp_path), n_steps=1)
    signal.signal(signal.SIGTERM, before)
    assert received == [[0, 1]]
    trees.assert_equal(sweep(make(None), 1), sweep(make(tmp_path), 1))


def test_a_damaged_checkpoint_is_passed_over(tmp_path, alone):
    sweep(make(tmp_path))
    damage_arrays(tmp_path / SWEEP / "checkpoints" / "4" / "members")
    assert verify(tmp_path / SWEEP)[4] is not None
    with (
        pytest.warns(UserWarning, match=r"update 4 .* Falling back to another checkpoint"),
        pytest.warns(UserWarning, match=r"update 4 .* It was set aside"),
    ):
        after = sweep(make(tmp_path))
    trees.assert_equal(alone, after)
    assert (tmp_path / SWEEP / "checkpoints" / "4.damaged-1").is_dir()


def test_refuses_what_is_not_its_own(tmp_path):
    sweep(make(tmp_path), n_steps=1)
    before = folder_contents(tmp_path)
    for changes, difference in [
        ({"keys": jax.random.split(KEY, 3)}, "it has 2 seeds, this one has 3"),
        ({"keys": jax.random.split(jax.random.key(1), 2)}, r"its random key of seed 0 is \["),
        ({"gamma": jnp.array([0.5, 0.8])}, r"its gamma is \[0.5, 0.9\], and this one's \[0.5, 0."),
        ({"gamma": jnp.array([0.5, 0.9, 0.1])}, "it has 2 sets of hyperparameters, this one has 3"),
        ({"learning_rate": 0.125}, r"its actor_optimizer_params.learning_rate is \["),
    ]:
        with pytest.raises(ValueError, match=f"is of another sweep: {difference}"):
            sweep(make(tmp_path), **changes)
    with pytest.raises(FileExistsError, match="already holds checkpoints, up to update 1"):
        sweep(make(tmp_path, restore_agent=False))
    with pytest.raises(ValueError, match="is of the environment MatchSign, but this is BestAction"):
        sweep(make(tmp_path, env=BestAction))
    with pytest.raises(ValueError, match="was evaluated on 3 episodes"):
        sweep(make(tmp_path, n_evals=4))
    with pytest.raises(ValueError, match=r"a sweep \(agent.sweep continues .* of no agent"):
        make(tmp_path / SWEEP).resume(KEY, CASE.hyperparams(), progress=False)
    assert folder_contents(tmp_path) == before


def test_goes_on_on_several_devices_as_on_cores(tmp_path, monkeypatch):
    case = CASES["BC"]  # whose programs are given data besides
    hyperparams, keys, devices = case.hyperparams(), jax.random.split(KEY, 3), jax.devices()[:2]

    def members_of(agent, n_members):
        return contextlib.nullcontext(MembersOnDevices(agent, devices))

    def swept(folder, n_steps):
        agent = make(folder, case, evaluated=False, features=())
        return agent.sweep(keys, hyperparams, n_steps=n_steps, progress=False)

    on_cores = swept(None, 4)
    assert on_cores.best is None  # without evaluation
    monkeypatch.setattr(sweeps, "members_of", members_of)
    swept(tmp_path, 2)
    parts = swept(tmp_path, 4)
    trees.assert_equal(swept(None, 4), parts)
    trees.assert_close(on_cores, parts)
    sets = jax.tree.map(lambda x: np.full(3, x, np.float32), hyperparams)
    members = MembersOnDevices(make(None, case, evaluated=False, features=()), devices)
    assert not collectives_of(lowered_updates(members, keys, sets))
