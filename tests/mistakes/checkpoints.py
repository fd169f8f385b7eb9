"""Mistakes with checkpoints."""

import jax
import numpy as np
from probes import MatchSign

from jaxagents import PPO, ppo, verify
from mistakes.things import agent, hyperparams, key, make_ppo, runner, zeros


def metrics(n_evals):
    """Metrics of one point."""
    episodes = np.zeros((1, n_evals))
    return {"update_step": np.zeros(1, int), "returns": episodes, "lengths": episodes}


def gone_on(metrics, eval_during_training=True):
    """A run that goes on from given metrics."""
    made = PPO(MatchSign(), None, make_ppo().config, eval_during_training)
    made.collect_training(runner(), metrics)
    made.train(None, None, runner(), progress=False)


def checkpoints_of_train_online(folder):
    (folder / "checkpoints" / "0" / "learner").mkdir(parents=True)
    make_ppo(checkpoint_dir=folder, restore_agent=True).restore("last")


def file_for_a_folder(folder):
    file = folder / "notes.txt"
    file.write_text("mine")
    make_ppo(checkpoint_dir=file)


def another_final_info():
    point = zeros(lambda: agent().program.evaluate(runner()))
    gone_on(jax.tree.map(lambda x: x[None], {**point, "won": point["lengths"]}))


MISTAKES = {
    "`restore` without a `checkpoint_dir`": lambda: agent().restore(),
    "`restore(True)`": lambda: agent().restore(True),
    "A float as the number of an update step": lambda: agent().restore(2.0),
    "The name of a metric for `best_fn`": lambda: agent().restore("best", best_fn="returns"),
    "`best_fn` for the last checkpoint, or for that of an update": lambda folder: make_ppo(
        checkpoint_dir=folder
    ).restore("last", best_fn=len),
    "Checkpoints of `train_online`, which is gone": checkpoints_of_train_online,
    "`resume` without a `checkpoint_dir`": lambda: agent().resume(key(), hyperparams()),
    "`restore` from a folder without checkpoints": lambda folder: make_ppo(
        checkpoint_dir=folder
    ).restore(),
    "`verify` of a folder without checkpoints": lambda folder: verify(folder),
    "A file as the folder of checkpoints": file_for_a_folder,
    "Another `n_evals` for a training that goes on": lambda: gone_on(metrics(5)),
    "A training that goes on without the evaluations that it had": lambda: gone_on(
        metrics(2), False
    ),
    "A training that goes on with evaluations that it did not have": lambda: gone_on(
        {"update_step": np.zeros(1, int)}
    ),
    "A training that goes on without entries of `final_info` that it had": another_final_info,
    "The results of a `vmap` for `collect_training`": lambda: agent().collect_training(
        jax.tree.map(lambda x: jax.numpy.stack([x, x]), runner()), {}
    ),
    "A boolean for the folder of checkpoints": lambda: ppo.AgentConfig(checkpoint_dir=True),
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
