"""Settings of multi-agent tasks, shared with the JaxMARL baselines.

The numbers are from the baselines' configuration files. JaxMARL's worker imports this module too, so it
only needs the standard library.
"""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

N_POINTS = 10
"""Number of evaluations of a run."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of an algorithm.

    Attributes:
        baseline: Script of the baseline, in JaxMARL's folder `baselines`.
        config: Its configuration file.
        learning_rate: Initial learning rate of Adam, which decays to zero.
        n_envs: Number of environments.
        rollout_length: Steps of each environment per update.
        n_minibatches: Minibatches per epoch; they hold whole sequences.
        clip: Clip range of the probability ratio.
        entropy_coefficient: Entropy coefficient.
        value_coefficient: Weight of the value loss.
        max_gradient_norm: Gradients are clipped to this norm.
    """

    baseline: str
    config: str
    learning_rate: float
    n_envs: int
    n_minibatches: int
    clip: float
    entropy_coefficient: float
    value_coefficient: float
    max_gradient_norm: float
    rollout_length: int = 128
    n_epochs: int = 4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    width: int = 128

    @property
    def steps_per_update(self) -> int:
        """Environment steps per update."""
        return self.n_envs * self.rollout_length


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A game, and the settings of each algorithm.

    Attributes:
        environment: Its name.
        options: Options of the environment.
        overrides: Overrides of the baselines' configurations.
        shows_wins: Whether episodes are won or lost.
        settings: Settings of each algorithm.
        updates: Number of updates.
        of_jaxmarl: Whether JaxMARL has it.
        return_scale: Factor for the mean return of an agent, as in the baselines.
    """

    environment: str
    settings: dict[str, Settings]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    overrides: dict[str, Any] = dataclasses.field(default_factory=dict)
    shows_wins: bool = False
    updates: int
    of_jaxmarl: bool = True
    return_scale: float = 1.0


MPE = {
    "IPPO": Settings(
        baseline="IPPO/ippo_rnn_mpe",
        config="ippo_rnn_mpe",
        learning_rate=5e-4,
        n_envs=16,
        n_minibatches=2,
        clip=0.3,
        entropy_coefficient=0.01,
        value_coefficient=1.0,
        max_gradient_norm=0.5,
    ),
    "MAPPO": Settings(
        baseline="MAPPO/mappo_rnn_mpe",
        config="mappo_homogenous_rnn_mpe",
        learning_rate=2e-3,
        n_envs=16,
        n_minibatches=4,
        clip=0.2,
        entropy_coefficient=0.01,
        value_coefficient=0.5,
        max_gradient_norm=0.5,
    ),
}
SMAX = {
    "IPPO": Settings(
        baseline="IPPO/ippo_rnn_smax",
        config="ippo_rnn_smax",
        learning_rate=4e-3,
        n_envs=128,
        n_minibatches=4,
        clip=0.05,
        entropy_coefficient=0.01,
        value_coefficient=0.5,
        max_gradient_norm=0.25,
    ),
    "MAPPO": Settings(
        baseline="MAPPO/mappo_rnn_smax",
        config="mappo_homogenous_rnn_smax",
        learning_rate=2e-3,
        n_envs=128,
        n_minibatches=4,
        clip=0.2,
        entropy_coefficient=0.0,
        value_coefficient=0.5,
        max_gradient_norm=0.25,
    ),
}
TINY = {
    name: dataclasses.replace(settings, rollout_length=8, width=8, n_epochs=1)
    for name, settings in MPE.items()
}


def _battle(scenario: str) -> Task:
    """A scenario of SMAX, with the options that the baselines give it."""
    rules = {"see_enemy_actions": True, "walls_cause_death": True, "attack_mode": "closest"}
    return Task(
        environment="HeuristicEnemySMAX",
        options={"scenario": scenario, **rules},
        overrides={"MAP_NAME": scenario},
        settings=SMAX,
        shows_wins=True,
        updates=61,
    )


TASKS = {  # the last one only checks that everything works
    "simple_spread": Task(
        environment="MPE_simple_spread_v3", settings=MPE, updates=244, return_scale=3.0
    ),
    "3m": _battle("3m"),
    "2s3z": _battle("2s3z"),
    "meeting": Task(environment="meeting", settings=TINY, updates=1, of_jaxmarl=False),
}


def parser() -> argparse.ArgumentParser:
    """A parser with the options of the workers."""
    made = argparse.ArgumentParser()
    add = made.add_argument
    add("--task", choices=TASKS, required=True)
    add("--algorithm", choices=("IPPO", "MAPPO"), required=True)
    add("--updates", type=int, required=True)
    add("--episodes", type=int, default=256, help="episodes per evaluation; 0 for none")
    add("--seed", type=int, default=0)
    add("--checkout", type=Path, help="checkout of JaxMARL's repository")
    return made
