"""Small trainings that threads or other processes may make."""

import jax
import numpy as np
from probes import MatchSign
from registry import AGENTS

CASES = {case.name: case for case in AGENTS}


def train(name, folder=None):
    """The parameters that an agent acts by after a short training, and its returns."""
    case = CASES[name]
    agent = case.make(MatchSign, checkpoint_dir=folder)
    runner, metrics = agent.train(jax.random.key(0), case.hyperparams(), progress=False)
    params = jax.tree.leaves(case.acting(runner).params)
    return [np.asarray(x) for x in params], metrics["returns"]
