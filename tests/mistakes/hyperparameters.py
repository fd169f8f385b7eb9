"""Mistakes in hyperparameters."""

import jax.numpy as jnp
import numpy as np
from probes import MatchSign

from jaxagents import C51, DQNLearner, LinearSchedule, c51, dqn, ppo
from jaxagents.ppo import OptimizerParams
from mistakes.things import agent, hyperparams, key, keys, train


def tried(**fields):
    train(hyperparams=hyperparams(**fields))


def swept(number=2, **fields):
    agent().sweep(keys(number), hyperparams(**fields), progress=False)


def created(**fields):
    DQNLearner.create(0, jnp.zeros(2), 0, n_actions=2, **fields)


def c51_between(v_min, v_max):
    config = c51.AgentConfig(buffer_size=64, learning_starts=8, features=(4,))
    train(C51(MatchSign(), None, config), c51.HyperParameters(v_min=v_min, v_max=v_max))


MISTAKES = {
    "A misspelt hyperparameter": lambda: hyperparams(gama=0.9),
    "A discount above 1": lambda: tried(gamma=99),
    "A negative coefficient": lambda: tried(ent_coeff=-0.01),
    "NaN for a coefficient": lambda: tried(ent_coeff=float("nan")),
    "An infinite learning rate": lambda: tried(
        actor_optimizer_params=OptimizerParams(learning_rate=np.inf)
    ),
    "A negative gradient clip": lambda: tried(
        critic_optimizer_params=OptimizerParams(grad_clip=-1.0)
    ),
    "An infinite learning rate of a learner": lambda: created(critic_learning_rate=np.inf),
    "C51 with `v_max` below `v_min`": lambda: c51_between(1.0, -1.0),
    "Text for a number": lambda: tried(gamma="0.9"),
    "A boolean for a number": lambda: tried(gamma=True),
    "An array of values for `train`, outside `vmap`": lambda: tried(gamma=jnp.array([0.9, 0.99])),
    "An array of values for a single learner": lambda: created(
        critic_learning_rate=np.array([1e-4, 1e-3])
    ),
    "Parameters of the optimizer as a dict": lambda: tried(
        actor_optimizer_params={"learning_rate": 3e-4}
    ),
    "The hyperparameters of another agent": lambda: train(hyperparams=dqn.HyperParameters()),
    "Hyperparameters as a dict": lambda: train(hyperparams={"gamma": 0.9}),
    "The class of the hyperparameters instead of an instance": lambda: train(
        hyperparams=ppo.HyperParameters
    ),
    "A sweep with three discounts and two coefficients": lambda: swept(
        gamma=jnp.array([0.9, 0.95, 0.99]), ent_coeff=jnp.array([0.0, 0.01])
    ),
    "A sweep over no sets of hyperparameters": lambda: swept(gamma=jnp.zeros(0)),
    "A sweep over no seeds": lambda: swept(0),
    "A single key for a sweep": lambda: agent().sweep(key(), hyperparams(), progress=False),
    "A sweep with one value out of range": lambda: swept(gamma=jnp.array([0.5, 1.5])),
    "A list of values for a sweep, instead of an array": lambda: swept(gamma=[0.5, 0.9]),
    "The class of a schedule": lambda: tried(ent_coeff=LinearSchedule),
    "A schedule that is a function with `float` or `if` on the update step": lambda: tried(
        ent_coeff=lambda step: float(step)
    ),
    "A schedule that ends out of range": lambda: tried(
        ent_coeff=LinearSchedule(0.1, -0.5, n_steps=10)
    ),
}
