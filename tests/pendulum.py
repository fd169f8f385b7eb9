"""The torques that moved the pendulum of a dataset, whichever units its actions have."""

import numpy as np

from jaxagents.cli.runs import Run
from jaxagents.data import Dataset


def check_that_torques_are_read(file, folder, **run):
    """Raises unless the command line reads actions as the torques that moved the pendulum."""
    run = {"agent": "bc", "environment": "Pendulum-v1", "seed": 0, **run}
    made = Run(config={}, hyperparams=[{}], dataset=str(file), **run).make_agent(folder)
    dataset = Dataset.load(file)
    before, after = dataset["observations"], dataset["next_observations"]
    torques = ((after[:, 2] - before[:, 2]) / 0.05 - 15.0 * before[:, 1]) / 3.0
    is_free = np.abs(after[:, 2]) < 7.99  # its speed is limited
    assert is_free.sum() > 100
    (actions,) = made.data.arrays["actions"]
    np.testing.assert_allclose(2.0 * actions[is_free, 0], torques[is_free], atol=1e-3)
