"""Runs of six updates with a folder, by an agent with small programs; and damage to their files."""

import jax
import numpy as np
from probes import MatchSign
from registry import AGENTS

CASES = {case.name: case for case in AGENTS}
CASE = CASES["REINFORCE"]
KEY = jax.random.key(0)


def make(folder=None, restore_agent=True, env=MatchSign, **fields):
    """The agent; equal ones share programs."""
    fields = {"n_steps": 6, "restore_agent": restore_agent and folder is not None, **fields}
    return CASE.make(env, checkpoint_dir=folder, **fields)


def trained(folder=None, n_steps=6, **fields):
    """The agent after updates."""
    agent = make(folder, **fields)
    agent.train(KEY, CASE.hyperparams(), n_steps=n_steps, progress=False)
    return agent


def contents(folder):
    """When each file of the checkpoints was written, by its path."""
    files = (path for path in (folder / "checkpoints").rglob("*") if path.is_file())
    return {path: path.stat().st_mtime_ns for path in files}


def outcome_of(name, folder=None):
    """The actor's parameters after a short run, and its returns."""
    case = CASES[name]
    agent = case.make(MatchSign, n_steps=6, checkpoint_dir=folder)
    runner, metrics = agent.train(KEY, case.hyperparams(), progress=False)
    params = jax.tree.leaves(case.acting(runner).params)
    return [np.asarray(x) for x in params], metrics["returns"]


def damage_arrays(checkpoint):
    """Changes a fifth of every array file of a checkpoint; not all bytes are read again."""
    for path in checkpoint.rglob("d/*"):
        data = bytearray(path.read_bytes())
        for place in range(2 * len(data) // 5, 3 * len(data) // 5):
            data[place] ^= 0xFF
        path.write_bytes(bytes(data))
