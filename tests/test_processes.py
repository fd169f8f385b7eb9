"""Trainings that several processes share."""

import re
import subprocess
import sys

import jax
import numpy as np
import pytest
import together
import trees
from probes import MatchSign
from registry import AGENTS

from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}
FIELDS = {"n_groups": 4, "replicated_updates": True}
EIGHT_GROUPS = {"n_groups": 8, "batch_size": 16}


def make(name, **fields):
    return CASES[name].make(MatchSign, **{**FIELDS, **fields})


def test_two_by_four_and_one_by_eight_go_on_from_each_other_bit_for_bit(tmp_path):
    script = """
        from test_processes import CASES, EIGHT_GROUPS, KEY, make

        (folder,) = arguments
        fields = {"n_steps": 4, "checkpoint_dir": folder, "restore_agent": True}
        agent = make("PPO", **EIGHT_GROUPS, **fields)
        mesh = sharding.make_mesh()
        assert mesh.size == 8
        runner, metrics = agent.resume(KEY, CASES["PPO"].hyperparams(), mesh=mesh, loggers=[])
        assert agent.eval(KEY, n_evals=3)["returns"].shape == (3,)
        print(process, runner.update_step, metrics["update_step"].tolist())
        """
    for i, text in enumerate(together.run(script, 2, 4, tmp_path)):
        assert text.splitlines()[-1] == f"{i} 4 [0, 2, 4]"
    hyperparams = CASES["PPO"].hyperparams()
    alone = make("PPO", n_steps=6, **EIGHT_GROUPS)
    whole = alone.train(KEY, hyperparams, progress=False)
    agent = make("PPO", n_steps=6, **EIGHT_GROUPS, checkpoint_dir=tmp_path, restore_agent=True)
    resumed = agent.resume(KEY, hyperparams, progress=False, mesh=make_mesh(8))
    trees.assert_equal(whole, resumed)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 4


def test_learners_and_what_all_processes_stop_at(tmp_path):
    script = """
        import os, signal, threading
        import numpy as np
        import pytest
        import registry
        from jaxagents.checkpoints import shared_writer
        from test_processes import CASES, KEY, make

        mesh = sharding.make_mesh()
        (folder,) = arguments

        def save(name, **fields):
            agent = make(name, **fields)
            runner, metrics = agent.train(KEY, CASES[name].hyperparams(), mesh=mesh)
            leaves = jax.tree.leaves(CASES[name].acting(runner).params)
            np.savez(f"{folder}/{name}-{process}.npz", *leaves)

        save("SAC", checkpoint_dir=f"{folder}/sac")

        whole = registry._collected  # each process has its part of it

        def part(*args):
            dataset = whole(*args)
            return dataset.get_subset(np.array_split(np.arange(len(dataset)), n_processes)[process])

        registry._collected = part
        save("BC")
        with pytest.raises(ValueError, match="n_groups must be a multiple of the 2 processes"):
            make("BC", n_groups=1)

        shared_writer._SECONDS_FOR_A_FILE_TO_APPEAR = 0.5
        agent = make("PPO", checkpoint_dir=f"{folder}/of-{process}")
        with pytest.raises(FileNotFoundError, match=r"processes \\[1\\] do not see"):
            agent.train(KEY, CASES["PPO"].hyperparams(), mesh=mesh)
        again = make("SAC", checkpoint_dir=f"{folder}/sac", restore_agent=True)
        error, message = (FileExistsError, "holds a checkpoint") if process == 0 else (
            RuntimeError, "The first process could not begin"
        )
        with pytest.raises(error, match=message):
            again.train(KEY, CASES["SAC"].hyperparams(), mesh=mesh)

        agent = make("PPO", n_steps=10**9, eval_frequency=10**9)
        if process == 1:
            threading.Timer(3.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        runner, _ = agent.train(KEY, CASES["PPO"].hyperparams(), mesh=mesh)
        print(f"stopped at {runner.update_step}")
        """
    printed = together.run(script, 2, 2, tmp_path)
    assert len({text.splitlines()[-1] for text in printed}) == 1
    for name in ("SAC", "BC"):
        runner, _ = make(name).train(KEY, CASES[name].hyperparams(), progress=False)
        for i in range(2):
            found = np.load(tmp_path / f"{name}-{i}.npz")
            leaves = jax.tree.leaves(CASES[name].acting(runner).params)
            trees.assert_equal([found[key] for key in found], leaves)


def test_a_killed_process_ends_the_others_and_a_restart_goes_on(tmp_path):
    script = """
        import os, pathlib, signal, threading, time
        from test_processes import CASES, KEY, make

        folder = pathlib.Path(arguments[0])

        def die_once():
            while not (folder / "checkpoints" / "4").exists():
                time.sleep(0.02)
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

        if process == 1 and not (folder / "killed").exists():
            threading.Thread(target=die_once, daemon=True).start()
        agent = make("PPO", n_steps=60, checkpoint_dir=folder, restore_agent=True)
        agent.resume(KEY, CASES["PPO"].hyperparams(), mesh=sharding.make_mesh())
        """
    survivor, killed = together.start(script, 2, 1, tmp_path)
    _, error = survivor.communicate(timeout=120)
    killed.communicate(timeout=10)
    assert killed.returncode == -9
    assert survivor.returncode not in (0, None)
    assert re.search("Perhaps another process of this training has ended|another task died", error)
    assert not (tmp_path / "checkpoints" / "60").exists()
    together.run(script, 2, 1, tmp_path)
    agent = make("PPO", n_steps=60, checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = agent.restore("last")
    whole, _ = make("PPO", n_steps=60).train(KEY, CASES["PPO"].hyperparams(), progress=False)
    trees.assert_equal(whole, runner)


def of_a_process(script, **variables):
    """What a process prints in which no launcher has set any variable but those that are given."""
    source = "import jax\nfrom jaxagents import sharding\n" + script
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={"PATH": "", "JAX_PLATFORMS": "cpu", **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("variables", "arguments"),
    [
        ({}, ""),
        ({}, "num_processes=1, process_id=0, coordinator_address='localhost:1'"),
        ({"SLURM_NTASKS": "1", "SLURM_JOB_ID": "1"}, ""),
    ],
    ids=["no launcher", "said so", "one task"],
)
def test_a_process_alone_goes_on_alone(variables, arguments):
    script = f"""
sharding.initialize({arguments})
sharding.make_mesh()
sharding.initialize({arguments})
print(jax.distributed.is_initialized(), sharding.make_mesh().size)
"""
    assert of_a_process(script, **variables) == "False 1\n"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sharding.initialize(num_processes=2, process_id=0)", "address should be defined"),
        ("sharding.initialize('localhost:1', 2)", "process id of the current process must be"),
        ("import gymnax; sharding.initialize(num_processes=2)", "Importing gymnax is such a call"),
        ("sharding.make_mesh(2)", "A mesh can have 1 to 1 devices here, got 2"),
    ],
)
def test_refuses_what_cannot_begin(script, message):
    assert message in of_a_process(script)
