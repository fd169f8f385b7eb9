"""Runs shared by several processes."""

import json
import re
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest
import together
import trees
from probes import MatchSign
from registry import AGENTS

from jaxagents import verify
from jaxagents.sharding import make_mesh

pytestmark = pytest.mark.slow

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}
FIELDS = {"n_groups": 4, "replicated_updates": True}
EIGHT_GROUPS = {"n_groups": 8, "batch_size": 16}
SELDOM = {"eval_frequency": 10**9}


def make(name, **fields):
    return CASES[name].make(MatchSign, **{**FIELDS, **fields})


def test_learners_checkpoints_written_anew_and_what_all_processes_stop_at(tmp_path):
    script = """
        import os, signal, threading, time
        import numpy as np
        import pytest
        import registry
        from jaxagents.checkpoints import writer
        from test_processes import CASES, KEY, SELDOM, make

        mesh = sharding.make_mesh()
        (folder,) = arguments

        def save(name, **fields):
            agent = make(name, **fields)
            runner, _ = agent.train(KEY, CASES[name].hyperparams(), mesh=mesh)
            leaves = jax.tree.leaves(CASES[name].acting(runner).params)
            np.savez(f"{folder}/{name}-{process}.npz", *leaves)

        save("DQN", checkpoint_dir=f"{folder}/dqn")

        anew = {"checkpoint_dir": f"{folder}/anew"}
        agent = make("DQN", **anew)
        agent.train(KEY, CASES["DQN"].hyperparams(), n_steps=1, mesh=mesh)
        for gamma in (None, 0.25, 0.25):
            hyperparams = None if gamma is None else CASES["DQN"].hyperparams(gamma=gamma)
            agent = make("DQN", **anew, restore_agent=True)
            runner, _ = agent.restore("last")
            agent.train(None, hyperparams, runner, n_steps=1, mesh=mesh)

        whole = registry._collected  # each process has its part of it

        def part(*args):
            dataset = whole(*args)
            return dataset.get_subset(np.array_split(np.arange(len(dataset)), n_processes)[process])

        registry._collected = part
        save("BC", **SELDOM)
        with pytest.raises(ValueError, match="n_groups must be a multiple of the 2 processes"):
            make("BC", n_groups=1)

        writer._SECONDS_FOR_A_FILE_TO_APPEAR = 0.5
        bc = CASES["BC"].hyperparams()
        agent = make("BC", **SELDOM, checkpoint_dir=f"{folder}/of-{process}")
        with pytest.raises(FileNotFoundError, match=r"processes \\[1\\] do not see"):
            agent.train(KEY, bc, mesh=mesh)
        again = make("DQN", checkpoint_dir=f"{folder}/dqn", restore_agent=True)
        error, message = (FileExistsError, "holds a checkpoint") if process == 0 else (
            RuntimeError, "The first process could not start writing to"
        )
        with pytest.raises(error, match=message):
            again.train(KEY, CASES["DQN"].hyperparams(), mesh=mesh)

        def interrupt():
            while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                time.sleep(0.02)
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGINT)

        if process == 1:
            threading.Thread(target=interrupt, daemon=True).start()
        runner, _ = make("BC", **SELDOM).train(KEY, bc, n_steps=10**9, mesh=mesh)
        print(f"stopped at {runner.update_step}")
        """
    printed = together.run(script, 2, 2, tmp_path)
    assert len({text.splitlines()[-1] for text in printed}) == 1
    for name in ("DQN", "BC"):
        runner, _ = make(name).train(KEY, CASES[name].hyperparams(), progress=False)
        for i in range(2):
            leaves = jax.tree.leaves(CASES[name].acting(runner).params)
            with np.load(tmp_path / f"{name}-{i}.npz") as found:
                trees.assert_equal([found[key] for key in found], leaves)
    check_checkpoints_written_anew_where_something_is_new(tmp_path / "anew")


def check_checkpoints_written_anew_where_something_is_new(folder):
    """A run that was resumed three times; the second time with another `gamma`, which was kept."""
    assert not any(verify(folder).values())
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert names == ["0", "1", "2-2", "3", "4"]
    agent = make("DQN", checkpoint_dir=folder, restore_agent=True)
    for step, gamma in enumerate([0.5, 0.5, 0.25, 0.25]):
        runner, history = agent.restore(step)
        assert runner.hyperparams.gamma == gamma
        assert history["update_step"].tolist() == list(range(step + 1))


def test_a_restart_and_then_one_process_go_on_from_a_killed_training_bit_for_bit(tmp_path):
    script = """
        import os, pathlib, signal, threading, time
        from test_processes import CASES, EIGHT_GROUPS, KEY, make

        folder = pathlib.Path(arguments[0])
        killed = folder / "killed"

        def wait_for(file):
            while not file.exists():
                time.sleep(0.02)

        def die():
            wait_for(folder / "checkpoints" / "4")
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)

        class Survivor:
            def log(self, step, metrics):
                if step == 6:
                    wait_for(killed)

        if process == 1 and not killed.exists():
            threading.Thread(target=die, daemon=True).start()
        fields = {"n_steps": 8, "checkpoint_dir": folder, "restore_agent": True}
        agent = make("REINFORCE", **EIGHT_GROUPS, **fields)
        mesh = sharding.make_mesh()
        assert mesh.size == 8
        hyperparams = CASES["REINFORCE"].hyperparams()
        runner, metrics = agent.resume(KEY, hyperparams, mesh=mesh, loggers=[Survivor()])
        assert agent.eval(KEY, n_evals=3)["returns"].shape == (3,)
        print(process, runner.update_step, metrics["update_step"].tolist())
        """
    survivor, killed = together.start(script, 2, 4, tmp_path)
    _, error = survivor.communicate(timeout=400)
    killed.communicate(timeout=60)
    assert killed.returncode == -9
    assert survivor.returncode not in (0, None)
    assert re.search("Perhaps another process of this run has ended|another task died", error)
    assert not (tmp_path / "checkpoints" / "8").exists()
    for i, text in enumerate(together.run(script, 2, 4, tmp_path)):
        assert text.splitlines()[-1] == f"{i} 8 [0, 2, 4, 6, 8]"

    hyperparams = CASES["REINFORCE"].hyperparams()
    alone = make("REINFORCE", n_steps=10, **EIGHT_GROUPS)
    whole = alone.train(KEY, hyperparams, progress=False)
    agent = make(
        "REINFORCE", n_steps=10, **EIGHT_GROUPS, checkpoint_dir=tmp_path, restore_agent=True
    )
    resumed = agent.resume(KEY, hyperparams, progress=False, mesh=make_mesh(8))
    trees.assert_equal(whole, resumed)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["update_step"] for line in lines]
    # The survivor may have written one point more before it noticed.
    assert steps in ([0, 2, 4, 6, 8, 10], [0, 2, 4, 6, 6, 8, 10])


def printed_without_a_launcher(script):
    """The output of a process without a launcher's environment variables."""
    source = "import os\nimport jax\nfrom jaxagents import sharding\n" + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={"PATH": "", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_alone_goes_on_alone_and_what_cannot_begin_is_refused():
    script = """
        def initialize_in_every_way():
            sharding.initialize(num_processes=1, process_id=0, coordinator_address="localhost:1")
            os.environ |= {"SLURM_NTASKS": "1", "SLURM_JOB_ID": "1"}
            sharding.initialize()
            del os.environ["SLURM_NTASKS"], os.environ["SLURM_JOB_ID"]
            sharding.initialize()
            print(jax.distributed.is_initialized())

        def say_why(function, *args, **kwargs):
            try:
                function(*args, **kwargs)
            except Exception as error:
                print(repr(error), *getattr(error, "__notes__", []))

        initialize_in_every_way()
        say_why(sharding.initialize, num_processes=2, process_id=0)
        say_why(sharding.initialize, "localhost:1", 2)
        import gymnax
        say_why(sharding.initialize, num_processes=2)
        say_why(sharding.make_mesh, 2)
        print(sharding.make_mesh().size)
        initialize_in_every_way()
        """
    messages = [
        "address should be defined",
        "process id of the current process must be",
        "Importing gymnax is such a call",
        "A mesh can have 1 to 1 devices here, got 2",
    ]
    before, *refusals, size, after = printed_without_a_launcher(script).splitlines()
    assert (before, size, after) == ("False", "1", "False")
    for line, message in zip(refusals, messages, strict=True):
        assert message in line
