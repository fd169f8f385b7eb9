"""Mistakes with checkpoints."""

import jax
import numpy as np
from probes import MatchSign

from jaxagents import PPO, ppo, verify
from mistakes.entries import Theme
from mistakes.things import agent, hyperparams, key, make_ppo, runner, zeros

mistake = Theme("Checkpoints and restoring")


def metrics(n_evals):
    """Metrics of one point."""
    episodes = np.zeros((1, n_evals))
    return {"update_step": np.zeros(1, int), "returns": episodes, "lengths": episodes}


def trained(metrics, eval_during_training=True):
    config = make_ppo().config
    made = PPO(MatchSign(), None, config, eval_during_training)
    made.collect_training(runner(), metrics)
    return made


@mistake(FileNotFoundError, r"no checkpoint_dir to restore from: set it in the configuration")
def restored_from_nowhere():
    """`restore` without a `checkpoint_dir`."""
    agent().restore()


@mistake(TypeError, r"restore takes 'best', 'last' or the number of an update step, got True")
def restored_by_a_flag():
    """`restore(True)`."""
    agent().restore(True)


@mistake(TypeError, r"restore takes 'best', 'last' or the number of an update step, got 2\.0")
def restored_by_a_float():
    """A float as the number of an update step."""
    agent().restore(2.0)


@mistake(TypeError, r"best_fn must be a function of metrics, got 'returns'")
def name_for_a_function():
    """The name of a metric for `best_fn`."""
    agent().restore("best", best_fn="returns")


@mistake(ValueError, r"best_fn chooses the 'best' checkpoint, but 'last' was asked for")
def choice_of_the_last(folder):
    """`best_fn` for the last checkpoint, or for that of an update."""
    make_ppo(checkpoint_dir=folder).restore("last", best_fn=len)


@mistake(ValueError, r"of a learner, which train_online or train_offline wrote .*, and of no agent")
def checkpoints_of_train_online(folder):
    """Checkpoints of `train_online`, which is gone."""
    (folder / "checkpoints" / "0" / "learner").mkdir(parents=True)
    make_ppo(checkpoint_dir=folder, restore_agent=True).restore("last")


@mistake(ValueError, r"resume needs a checkpoint_dir in the configuration, .*call train")
def resumed_from_nowhere():
    """`resume` without a `checkpoint_dir`."""
    agent().resume(key(), hyperparams())


@mistake(FileNotFoundError, r"holds no checkpoints")
def restored_from_an_empty_folder(folder):
    """`restore` from a folder without checkpoints."""
    make_ppo(checkpoint_dir=folder).restore()


@mistake(FileNotFoundError, r"holds no checkpoints")
def verified_an_empty_folder(folder):
    """`verify` of a folder without checkpoints."""
    verify(folder)


@mistake(NotADirectoryError, r"is a file")
def file_for_a_folder(folder):
    """A file as the folder of checkpoints."""
    file = folder / "notes.txt"
    file.write_text("mine")
    make_ppo(checkpoint_dir=file)


@mistake(ValueError, r"evaluated in 5 episodes.*evaluates in 2: set n_evals=5")
def another_number_of_episodes():
    """Another `n_evals` for a training that goes on."""
    trained(metrics(5)).train(None, None, runner(), progress=False)


@mistake(ValueError, r"was evaluated .*eval_during_training=True")
def no_evaluations_any_more():
    """A training that goes on without the evaluations that it had."""
    trained(metrics(2), False).train(None, None, runner(), progress=False)


@mistake(ValueError, r"was not evaluated.*eval_during_training=False")
def evaluations_from_now_on():
    """A training that goes on with evaluations that it did not have."""
    trained({"update_step": np.zeros(1, int)}).train(None, None, runner(), progress=False)


@mistake(ValueError, r"training had \['won'\] so far, which the agent lacks\. Set final_info")
def another_final_info():
    """A training that goes on without entries of `final_info` that it had."""
    point = zeros(lambda: agent().program.evaluate(runner()))
    earlier = jax.tree.map(lambda x: x[None], {**point, "won": point["lengths"]})
    trained(earlier).train(None, None, runner(), progress=False)


@mistake(ValueError, r"stack of 2 trainings: select one")
def stack_to_remember():
    """The results of a `vmap` for `collect_training`."""
    stack = jax.tree.map(lambda x: jax.numpy.stack([x, x]), runner())
    agent().collect_training(stack, {})


@mistake(ValueError, r"checkpoint_dir must be the path of a folder.*got True")
def flag_for_a_folder():
    """A boolean for the folder of checkpoints."""
    ppo.AgentConfig(checkpoint_dir=True)


@mistake(TypeError, r"A runner is needed, .* got a dict")
def metrics_for_a_runner():
    """Metrics and runner the wrong way round for `collect_training`."""
    agent().collect_training({}, runner())


@mistake(TypeError, r"metrics must be a dict of arrays, .* or \{\} for none, got None")
def no_metrics_to_remember():
    """`None` for the metrics of `collect_training`."""
    agent().collect_training(runner(), None)


@mistake(ValueError, r"metrics must be those of a training, with 'update_step'.* got \['loss'\]")
def other_metrics_to_remember():
    """Metrics without their update steps for `collect_training`."""
    agent().collect_training(runner(), {"loss": np.zeros(2)})


@mistake(FileNotFoundError, r"has no checkpoint_dir, from which a stretch .* set it")
def replay_without_a_folder():
    """`replay` without a `checkpoint_dir`."""
    agent().replay(0, 2)


@mistake(ValueError, r"step must be an integer of 0 or more, got -5")
def replay_from_before_the_beginning():
    """`replay` from a negative update step."""
    agent().replay(-5)


@mistake(ValueError, r"checkpoint_dir must be the path of a folder.*got None")
def verify_nothing():
    """`verify(None)`."""
    verify(None)
