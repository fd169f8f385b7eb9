"""Mistakes with checkpoints."""

import jax
import numpy as np
from probes import MatchSign

from jaxagents import PPO, verify
from mistakes.things import agent, hyperparams, key, make_ppo, runner, train, zeros


def metrics(n_evals):
    """Metrics of one point."""
    episodes = np.zeros((1, n_evals))
    return {"update_step": np.zeros(1, int), "returns": episodes, "lengths": episodes}


def train_on(metrics, eval_during_training=True):
    """Continues a run with other metrics before."""
    made = PPO(MatchSign(), None, agent().config, eval_during_training)
    made.collect_training(runner(), metrics)
    train(made, runner=runner())


def checkpoints_of_train_online(folder):
    (folder / "checkpoints" / "0" / "learner").mkdir(parents=True)
    make_ppo(checkpoint_dir=folder, restore_agent=True).restore("last")


def file_for_a_folder(folder):
    file = folder / "notes.txt"
    file.write_text("mine")
    make_ppo(checkpoint_dir=file)


def another_final_info():
    point = zeros(lambda: agent().program.evaluate(runner()))
    earlier = jax.tree.map(lambda x: x[None], {**point, "won": point["lengths"]})
    train_on(earlier)


MISTAKES = {
    "`restore` without a `checkpoint_dir`": lambda: agent().restore(),
    "`restore(True)`": lambda: agent().restore(True),
    "The name of a metric for `best_fn`": lambda: agent().restore("best", best_fn="returns"),
    "`best_fn` for the last checkpoint, or for a given update": lambda folder: make_ppo(
        checkpoint_dir=folder
    ).restore("last", best_fn=len),
    "Checkpoints of `train_online`, which was removed": checkpoints_of_train_online,
    "`resume` without a `checkpoint_dir`": lambda: agent().resume(key(), hyperparams()),
    "`restore` from a folder without checkpoints": lambda folder: make_ppo(
        checkpoint_dir=folder
    ).restore(),
    "`verify` of a folder without checkpoints": lambda folder: verify(folder),
    "A file as the folder of checkpoints": file_for_a_folder,
    "A different `n_evals` in a continued run": lambda: train_on(metrics(5)),
    "A continued run without its earlier evaluations": lambda: train_on(metrics(2), False),
    "A continued run with evaluations that it did not have": lambda: train_on(
        {"update_step": np.zeros(1, int)}
    ),
    "A continued run without its earlier `final_info`": another_final_info,
    "Metrics and runner the wrong way round for `collect_training`": lambda: (
        agent().collect_training({}, runner())
    ),
    "`None` for the metrics of `collect_training`": lambda: agent().collect_training(
        runner(), None
    ),
    "Metrics without their update steps for `collect_training`": lambda: agent().collect_training(
        runner(), {"loss": np.zeros(2)}
    ),
    "`replay` without a `checkpoint_dir`": lambda: agent().replay(0, 2),
    "`replay` from a negative update step": lambda: agent().replay(-5),
    "`verify(None)`": lambda: verify(None),
}
