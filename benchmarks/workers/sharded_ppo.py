"""Measures jaxagents' PPO on the number of devices in the environment variable N_DEVICES."""

import os

import measure
from jaxagents_ppo import Trainer
from tasks import Task

from jaxagents.engine.executors import OnMesh
from jaxagents.sharding import make_mesh


class ShardedTrainer(Trainer):
    """The agent on a mesh."""

    def __init__(self, task: Task, n_envs: int) -> None:
        super().__init__(task, n_envs, n_groups=8)
        self.agent = OnMesh(self.agent, make_mesh(int(os.environ["N_DEVICES"])))


if __name__ == "__main__":
    measure.main("jaxagents", ShardedTrainer)
