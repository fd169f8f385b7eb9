"""Every agent, in a small configuration: a row here puts it under the shared suite."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import MatchSign

from jaxagents import (
    A2C,
    IPPO,
    MAPPO,
    PPO,
    REINFORCE,
    RND,
    awac,
    bc,
    c51,
    cql,
    dqn,
    iql,
    ppo,
    pqn,
    qrdqn,
    rnd,
    sac,
    td3,
    td3bc,
)
from jaxagents.data import Dataset
from jaxagents.envs import Episodes, as_environment
from jaxagents.networks import CategoricalActor, PerActor, StateCritic

_HELD: dict[tuple[str, int, bool], Any] = {}
"""The programs of agents as most files take them, so that a process compiles them once."""
_USUAL = (5, 6)
"""Their numbers of updates."""
_SIZES = {"n_steps": 5, "eval_frequency": 2, "n_evals": 3}


@dataclasses.dataclass(frozen=True)
class Case:
    """An agent under test.

    Attributes:
        name: Its name.
        agent: Its class.
        fields: Fields of its configuration beyond those of every agent of its family.
        learning_rate: One at which it learns the probes.
        n_actors: Number of actors of its environments; `None` for agents of one actor.
        continuous: Whether their actions are continuous.
        updates: Factor of the number of update steps in which it learns the probes.
        hyper: Further hyperparameters.
    """

    name: str
    agent: type
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)
    learning_rate: float = 1e-2
    n_actors: int | None = None
    continuous: bool = False
    updates: float = 1
    hyper: dict[str, Any] = dataclasses.field(default_factory=dict)

    def env(self, env: type) -> Any:
        """An environment with such actions."""
        return env(self.n_actors, self.continuous)

    def config(self, **fields: Any) -> Any:
        """A small configuration."""
        return self.agent._config_type(**{**_SIZES, **self._family, **self.fields, **fields})

    def make(self, env: type, eval_during_training: bool = True, **fields: Any) -> Any:
        """The agent in an environment."""
        agent = self._made(env, eval_during_training, **fields)
        config, usual = agent.config, self.config(n_steps=agent.config.n_steps)
        if env is MatchSign and config.n_steps in _USUAL and _same(config, usual):
            _HELD[self.name, config.n_steps, eval_during_training] = agent.programs
        return agent

    def _made(self, env: type, eval_during_training: bool, **fields: Any) -> Any:
        return self.agent(self.env(env), None, self.config(**fields), eval_during_training)


class OnPolicyCase(Case):
    """An on-policy agent under test."""

    learns_values = True
    loss = "actor_loss"
    size = "batch_size: 8"

    @property
    def _family(self) -> dict[str, Any]:
        networks = {"actor_network": _actor(), "critic_network": _critic()}
        if self.n_actors is not None:
            networks = {
                name: PerActor(network, self.n_actors, own_observations=False)
                for name, network in networks.items()
            }
        return {"batch_size": 8, "rollout_length": 8, **networks}

    def hyperparams(self, learning_rate: Any = None, **fields: Any) -> Any:
        """Hyperparameters with which it learns the probes."""
        rate = self.learning_rate if learning_rate is None else learning_rate
        optimizer = ppo.OptimizerParams(learning_rate=rate)
        optimizers = {"actor_optimizer_params": optimizer, "critic_optimizer_params": optimizer}
        return self.agent._hyperparams_type(**{"gamma": 0.5, **optimizers, **self.hyper, **fields})

    def learning_rate_of(self, hyperparams: Any) -> Any:
        """The learning rate of hyperparameters."""
        return hyperparams.actor_optimizer_params.learning_rate

    def acting(self, runner: Any) -> Any:
        """The network that acts."""
        return runner.actor_training

    def values(self, agent: Any, observations: Any) -> Any:
        """Values of observations."""
        critic = jax.jit(jax.vmap(agent.critic_training))
        return np.asarray(critic(np.asarray(observations, np.float32)))

    def gradient_steps(self, runner: Any) -> dict[str, tuple[Any, int]]:
        """Gradient steps made of each network, and those that an update step should make."""
        config = self.config()
        return {
            "actor": (runner.actor_training.step, config.actor_epochs * config.n_minibatches),
            "critic": (runner.critic_training.step, config.critic_epochs * config.n_minibatches),
        }


@dataclasses.dataclass(frozen=True)
class LearnerCase(Case):
    """An agent around a learner under test.

    Attributes:
        trained: Its networks with a learning rate, the one that acts first.
        value: Gives the values of a batch of observations under a learner; `None` if it learns none.
        loss: Name of a loss in its metrics.
    """

    trained: tuple[str, ...] = ("critic",)
    value: Callable[[Any, Any], Any] | None = None
    loss: str = "critic_loss"
    size = "minibatch_size: 32"

    @property
    def learns_values(self) -> bool:
        """Whether there are values that it learns."""
        return self.value is not None

    @property
    def _family(self) -> dict[str, Any]:
        return {
            "features": (32,),
            "minibatch_size": 32,
            "batch_size": 4,
            "buffer_size": 512,
            "learning_starts": 32,
        }

    def hyperparams(self, learning_rate: Any = None, **fields: Any) -> Any:
        """Hyperparameters with which it learns the probes."""
        rate = self.learning_rate if learning_rate is None else learning_rate
        rates = {f"{network}_learning_rate": rate for network in self.trained}
        return self.agent._hyperparams_type(**{**self.hyper, **rates, **fields})

    def learning_rate_of(self, hyperparams: Any) -> Any:
        """The learning rate of hyperparameters."""
        return getattr(hyperparams, f"{self.trained[0]}_learning_rate")

    def acting(self, runner: Any) -> Any:
        """The network that acts."""
        return getattr(runner.learner, self.trained[0])

    def values(self, agent: Any, observations: Any) -> Any:
        """Values of observations."""
        assert self.value is not None
        return np.asarray(jax.jit(self.value)(agent.learner, np.asarray(observations, np.float32)))

    def gradient_steps(self, runner: Any) -> dict[str, tuple[Any, int]]:
        """Gradient steps made of each network, and those that an update step should make."""
        steps = self.config().gradient_steps
        return {name: (getattr(runner.learner, name).step, steps) for name in self.trained}


@dataclasses.dataclass(frozen=True)
class RolloutCase(LearnerCase):
    """An agent around a learner that learns from its own rollouts."""

    @property
    def _family(self) -> dict[str, Any]:
        sizes = {"batch_size": 4, "rollout_length": 16, "gradient_steps": 4}
        return {"features": (32,), "minibatch_size": 32, **sizes}


@dataclasses.dataclass(frozen=True)
class OfflineCase(LearnerCase):
    """An offline agent under test.

    Attributes:
        expert: Whether it learns from the best actions, instead of from random ones.
    """

    expert: bool = False

    @property
    def _family(self) -> dict[str, Any]:
        return {"features": (32,), "minibatch_size": 32}

    def _made(self, env: type, eval_during_training: bool, **fields: Any) -> Any:
        config = self.config(**fields)
        dataset = _collected(env, self.continuous, config.max_episode_steps, self.expert)
        return self.agent(self.env(env), None, config, eval_during_training, dataset=dataset)


def _same(config: Any, other: Any) -> bool:
    return config.without_files() == other.without_files()


@functools.lru_cache(maxsize=64)
def _collected(env_type: type, continuous: bool, max_steps: int, expert: bool) -> Dataset:
    """Transitions of 64 environments and 16 steps."""
    env = env_type(None, continuous)
    episodes = Episodes(as_environment(env), max_steps)

    def step(carry: tuple, key: Any) -> tuple:
        obs, state = carry
        action = env.action(env.best(state.envstate)) if expert else env.random_action(key)
        played = episodes.step(key, state, action)
        transition = {
            "observations": obs,
            "actions": action,
            "rewards": played.reward,
            "next_observations": played.next_obs,
            "masks": 1.0 - played.terminated,
        }
        return (played.obs, played.envstate), transition

    def rollout(key: Any) -> Any:
        reset_key, key = jax.random.split(key)
        return jax.lax.scan(step, episodes.reset(reset_key), jax.random.split(key, 16))[1]

    transitions = jax.jit(jax.vmap(rollout))(jax.random.split(jax.random.key(7), 64))
    return Dataset(jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), transitions))


def _actor() -> CategoricalActor:
    return CategoricalActor(2, features=(16,))


def _critic() -> StateCritic:
    return StateCritic(features=(16,))


def _largest(learner: Any, obs: Any) -> Any:
    """Of the values of all actions."""
    return learner.q(obs).max(-1)


def _of_the_mode(learner: Any, obs: Any) -> Any:
    """The least value that the critics give to the greedy actions."""
    values = learner.critic(obs, learner.sample_actions(obs))
    return values.min(axis=0)


def _chosen_of_several(learner: Any, obs: Any) -> Any:
    """The least value that the critics give to the greedy discrete actions."""
    values = learner.critic(obs).min(axis=0)
    return jnp.take_along_axis(values, learner.sample_actions(obs)[:, None], -1)[:, 0]


# As many epochs of both networks, which then learn in one loop; those of MAPPO differ.
_MINIBATCHES = {"minibatch_size": 4, "actor_epochs": 2, "critic_epochs": 2}
_Q = {"gamma": 0.5, "tau": 0.05, "epsilon": 0.2, "epsilon_steps": 100.0}
_ACTOR_CRITIC = {"gamma": 0.5, "tau": 0.05}
_COLD = {**_ACTOR_CRITIC, "initial_temperature": 1e-3, "temperature_learning_rate": 0.0}
_BOTH = ("actor", "critic")

ON_POLICY = [
    OnPolicyCase("PPO", PPO, _MINIBATCHES),
    OnPolicyCase("IPPO", IPPO, _MINIBATCHES, n_actors=2),
    OnPolicyCase("MAPPO", MAPPO, {**_MINIBATCHES, "actor_epochs": 3}, n_actors=2),
    OnPolicyCase("REINFORCE", REINFORCE),
    OnPolicyCase("A2C", A2C),
    OnPolicyCase(
        "RND",
        RND,
        {**_MINIBATCHES, "embedding_network": rnd.Embedding(features=(16,), size=8)},
        hyper={"intrinsic_coeff": 0.01},
    ),
]

VALUE_BASED = [
    LearnerCase("DQN", dqn.DQN, hyper=_Q, value=_largest, updates=2),
    LearnerCase(
        "DDQN",
        dqn.DDQN,
        {"dueling": True, "n_step_returns": 2, "target_update_period": 5},
        hyper={**_Q, "tau": 0.3},
        value=_largest,
        updates=2,
    ),
    LearnerCase(
        "C51",
        c51.C51,
        {"n_atoms": 41, "double": True, "dueling": True, "noisy": True},
        hyper={**_Q, "v_min": -4.0, "v_max": 4.0},
        value=_largest,
        updates=3,
    ),
    LearnerCase(
        "QRDQN",
        qrdqn.QRDQN,
        {"n_quantiles": 5, "prioritised_replay": True},
        hyper=_Q,
        value=_largest,
        updates=3,
    ),
    RolloutCase("PQN", pqn.PQN, hyper={"gamma": 0.5, "epsilon": 0.2}, value=_largest),
]

ACTOR_CRITIC = [
    LearnerCase(
        "SAC",
        sac.SAC,
        {"backup_entropy": False},
        continuous=True,
        trained=_BOTH,
        hyper=_COLD,
        value=_of_the_mode,
        updates=3,
    ),
    LearnerCase(
        "discrete SAC",
        sac.SAC,
        {"backup_entropy": False},
        trained=_BOTH,
        hyper=_COLD,
        value=_chosen_of_several,
        updates=3,
    ),
    LearnerCase(
        "TD3",
        td3.TD3,
        {"policy_delay": 1},
        continuous=True,
        trained=_BOTH,
        hyper={**_ACTOR_CRITIC, "exploration_noise": 0.5},
        value=_of_the_mode,
        updates=3,
    ),
]

OFFLINE = [
    OfflineCase(
        "IQL",
        iql.IQL,
        continuous=True,
        trained=("actor", "critic", "value"),
        hyper={**_ACTOR_CRITIC, "expectile": 0.95},
        value=lambda learner, obs: learner.value(obs),
        updates=6,
    ),
    OfflineCase(
        "AWAC",
        awac.AWAC,
        continuous=True,
        trained=_BOTH,
        hyper={**_ACTOR_CRITIC, "beta": 3.0},
        value=_of_the_mode,
        updates=6,
    ),
    OfflineCase(
        "TD3BC",
        td3bc.TD3BC,
        {"policy_delay": 1, "normalise_observations": False},
        continuous=True,
        trained=_BOTH,
        hyper=_ACTOR_CRITIC,
        value=_of_the_mode,
        updates=6,
    ),
    OfflineCase(
        "CQL",
        cql.CQL,
        {"n_action_samples": 2},
        continuous=True,
        trained=_BOTH,
        hyper={**_COLD, "conservative_weight": 0.01},
        value=_of_the_mode,
        updates=6,
    ),
    OfflineCase(
        "discrete CQL",
        cql.CQL,
        hyper={**_ACTOR_CRITIC, "conservative_weight": 0.01},
        value=lambda learner, obs: learner.critic(obs).max(-1),
        updates=3,
    ),
    OfflineCase("BC", bc.BC, continuous=True, trained=("actor",), loss="actor_loss", expert=True),
    OfflineCase("discrete BC", bc.BC, trained=("actor",), loss="actor_loss", expert=True),
]

FAMILIES = [ON_POLICY, VALUE_BASED, ACTOR_CRITIC, OFFLINE]
AGENTS = [case for family in FAMILIES for case in family]

others_are_slow = pytest.mark.slow_except(*(family[0].name for family in FAMILIES))
"""Of a test that takes every agent, where one of a family shows most of what all of it would."""
