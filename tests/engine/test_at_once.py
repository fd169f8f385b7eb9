"""Trainings at the same time: in threads of one process, and in processes that it spawns."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import alone
import pytest
import trees

from jaxagents import verify
from jaxagents.checkpoints.records import saved_steps


def test_threads_train_at_once(tmp_path):
    names = ["REINFORCE", "DQN"]
    folders = [tmp_path / name for name in names]
    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(alone.train, names, folders))
    for name, folder, trained in zip(names, folders, together, strict=True):
        trees.assert_equal(trained, alone.train(name))
        assert saved_steps(folder)[-1] == 5
        assert not any(verify(folder).values())


@pytest.mark.slow
def test_a_spawned_process_trains_as_this_one():
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as processes:
        spawned = processes.submit(alone.train, "REINFORCE")
        here = alone.train("REINFORCE")
        trees.assert_equal(spawned.result(timeout=300), here)
