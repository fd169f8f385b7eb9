"""Every agent, in a small configuration: a row here puts it under the shared suite."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
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
_SIZES = {"n_steps": 5, "eval_frequency": 2, "n_evals": 3}
_NETWORKS = {"features": (32,), "minibatch_size": 32}


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """An agent under test.

    Attributes:
        name: Its name.
        agent: Its class.
        fields: Fields of its configuration beyond those of every agent of its family.
        learning_rate: One at which it learns the probes.
        n_actors: Number of actors of its environments; `None` for agents of one actor.
        continuous: Whether their actions are continuous.
        updates: Number of updates in which it learns the probes.
        hyper: Further hyperparameters.
    """

    name: str
    agent: type
    fields: dict[str, Any] = dataclasses.field(default_factory=dict)
    learning_rate: float = 1e-2
    n_actors: int | None = None
    continuous: bool = False
    updates: int = 500
    hyper: dict[str, Any] = dataclasses.field(default_factory=dict)

    def env(self, env: type) -> Any:
        return env(self.n_actors, self.continuous)

    def config(self, **fields: Any) -> Any:
        return self.agent._config_type(**{**_SIZES, **self._family, **self.fields, **fields})

    def make(self, env: type, eval_during_training: bool = True, **fields: Any) -> Any:
        """The agent in an environment."""
        config = self.config(**fields)
        data = self._data(env, config)
        agent = self.agent(self.env(env), None, config, eval_during_training, **data)
        usual = self.config(n_steps=5 if config.n_steps == 5 else 6)
        if env is MatchSign and config.without_files() == usual.without_files():
            _HELD[self.name, config.n_steps, eval_during_training] = agent.programs
        return agent

    def _data(self, env: type, config: Any) -> dict[str, Dataset]:
        return {}


class OnPolicyCase(Case):
    """An on-policy agent under test."""

    learns_values = True
    loss = "actor_loss"
    size = "batch_size: 8"

    @property
    def _family(self) -> dict[str, Any]:
        actor, critic = CategoricalActor(2, features=(16,)), StateCritic(features=(16,))
        networks = {"actor_network": actor, "critic_network": critic}
        if self.n_actors is not None:
            networks = {
                name: PerActor(network, self.n_actors, own_observations=False)
                for name, network in networks.items()
            }
        return {"batch_size": 8, "rollout_length": 8, **networks}

    def hyperparams(self, learning_rate: Any = None, **fields: Any) -> Any:
        rate = self.learning_rate if learning_rate is None else learning_rate
        optimizer = ppo.OptimizerParams(learning_rate=rate)
        optimizers = {"actor_optimizer_params": optimizer, "critic_optimizer_params": optimizer}
        return self.agent._hyperparams_type(**{"gamma": 0.5, **optimizers, **self.hyper, **fields})

    def learning_rate_of(self, hyperparams: Any) -> Any:
        return hyperparams.actor_optimizer_params.learning_rate

    def acting(self, runner: Any) -> Any:
        return runner.actor_training

    def values(self, agent: Any, observations: Any) -> Any:
        return jax.vmap(agent.critic_training)(observations)

    def gradient_steps(self, agent: Any) -> dict[str, tuple[Any, int]]:
        """Gradient steps made of each network, and those that an update step should make."""
        config = agent.config
        return {
            "actor": (agent.actor_training.step, config.actor_epochs * config.n_minibatches),
            "critic": (agent.critic_training.step, config.critic_epochs * config.n_minibatches),
        }


@dataclasses.dataclass(frozen=True, eq=False)
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
    _family = {**_NETWORKS, "batch_size": 4, "buffer_size": 512, "learning_starts": 32}  # noqa: RUF012

    @property
    def learns_values(self) -> bool:
        return self.value is not None

    def hyperparams(self, learning_rate: Any = None, **fields: Any) -> Any:
        rate = self.learning_rate if learning_rate is None else learning_rate
        rates = {f"{network}_learning_rate": rate for network in self.trained}
        return self.agent._hyperparams_type(**{**self.hyper, **rates, **fields})

    def learning_rate_of(self, hyperparams: Any) -> Any:
        return getattr(hyperparams, f"{self.trained[0]}_learning_rate")

    def acting(self, runner: Any) -> Any:
        return getattr(runner.learner, self.trained[0])

    def values(self, agent: Any, observations: Any) -> Any:
        assert self.value is not None
        return self.value(agent.learner, observations)

    def gradient_steps(self, agent: Any) -> dict[str, tuple[Any, int]]:
        """Gradient steps made of each network, and those that an update step should make."""
        steps = agent.config.gradient_steps
        return {name: (getattr(agent.learner, name).step, steps) for name in self.trained}


class RolloutCase(LearnerCase):
    """An agent around a learner that learns from its own rollouts."""

    _family = {**_NETWORKS, "batch_size": 4, "rollout_length": 16, "gradient_steps": 4}  # noqa: RUF012


@dataclasses.dataclass(frozen=True, eq=False)
class OfflineCase(LearnerCase):
    """An offline agent under test.

    Attributes:
        expert: Whether it learns from the best actions, instead of from random ones.
    """

    expert: bool = False
    _family = _NETWORKS

    def _data(self, env: type, config: Any) -> dict[str, Dataset]:
        return {"dataset": _collected(env, self.continuous, config.max_episode_steps, self.expert)}


@functools.lru_cache(maxsize=64)
def _collected(env_type: type, continuous: bool, max_steps: int, expert: bool) -> Dataset:
    """Transitions of 64 environments and 16 steps."""
    keys = jax.random.split(jax.random.key(7), 64)
    transitions = _collector(env_type, continuous, max_steps)(keys, expert)
    return Dataset(jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:]), transitions))


@functools.lru_cache(maxsize=64)
def _collector(env_type: type, continuous: bool, max_steps: int) -> Callable[..., Any]:
    """A program that takes the best actions or random ones."""
    env = env_type(None, continuous)
    episodes = Episodes(as_environment(env), max_steps)

    def rollout(key: Any, expert: Any) -> Any:
        def step(carry: tuple, key: Any) -> tuple:
            obs, state = carry
            best = env.action(env.best(state.envstate))
            action = jnp.where(expert, best, env.random_action(key))
            played = episodes.step(key, state, action)
            transition = {
                "observations": obs,
                "actions": action,
                "rewards": played.reward,
                "next_observations": played.next_obs,
                "masks": 1.0 - played.terminated,
            }
            return (played.obs, played.envstate), transition

        reset_key, key = jax.random.split(key)
        return jax.lax.scan(step, episodes.reset(reset_key), jax.random.split(key, 16))[1]

    return jax.jit(jax.vmap(rollout, (0, None)))


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
_BOTH = {"continuous": True, "trained": ("actor", "critic"), "value": _of_the_mode}

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

_DDQN = {"dueling": True, "n_step_returns": 2, "target_update_period": 5}
_C51 = {"n_atoms": 17, "double": True, "noisy": True}
_BOUNDS = {"v_min": -4.0, "v_max": 4.0}
_QRDQN = {"n_quantiles": 5, "prioritised_replay": True}
VALUE_BASED = [
    LearnerCase("DQN", dqn.DQN, hyper=_Q, value=_largest),
    LearnerCase("DDQN", dqn.DDQN, _DDQN, hyper={**_Q, "tau": 0.3}, value=_largest),
    LearnerCase("C51", c51.C51, _C51, hyper={**_Q, **_BOUNDS}, value=_largest),
    LearnerCase("QRDQN", qrdqn.QRDQN, _QRDQN, hyper=_Q, value=_largest),
    RolloutCase("PQN", pqn.PQN, hyper={"gamma": 0.5, "epsilon": 0.2}, value=_largest),
]

_SAC = {"backup_entropy": False}
_NOISY = {**_ACTOR_CRITIC, "exploration_noise": 0.5}
_DISCRETE = {**_BOTH, "continuous": False, "value": _chosen_of_several}
ACTOR_CRITIC = [
    LearnerCase("SAC", sac.SAC, _SAC, hyper=_COLD, **_BOTH),
    LearnerCase("discrete SAC", sac.SAC, _SAC, hyper=_COLD, **_DISCRETE),
    LearnerCase("TD3", td3.TD3, {"policy_delay": 1}, hyper=_NOISY, updates=1000, **_BOTH),
]

_IQL = {"value": lambda learner, obs: learner.value(obs), "trained": ("actor", "critic", "value")}
_TD3BC = {"policy_delay": 1, "normalise_observations": False}
_BC = {"trained": ("actor",), "loss": "actor_loss", "expert": True}
_LITTLE = {"conservative_weight": 0.01}
_EXPECTILE, _BETA = ({**_ACTOR_CRITIC, "expectile": 0.95}, {**_ACTOR_CRITIC, "beta": 3.0})
OFFLINE = [
    OfflineCase("IQL", iql.IQL, hyper=_EXPECTILE, learning_rate=3e-3, updates=2500, **_BOTH | _IQL),
    OfflineCase("AWAC", awac.AWAC, hyper=_BETA, updates=1500, **_BOTH),
    OfflineCase("TD3BC", td3bc.TD3BC, _TD3BC, hyper=_ACTOR_CRITIC, updates=1500, **_BOTH),
    OfflineCase(
        "CQL", cql.CQL, {"n_action_samples": 2}, hyper={**_COLD, **_LITTLE}, updates=1500, **_BOTH
    ),
    OfflineCase(
        "discrete CQL",
        cql.CQL,
        hyper={**_ACTOR_CRITIC, **_LITTLE},
        value=lambda learner, obs: learner.critic(obs).max(-1),
    ),
    OfflineCase("BC", bc.BC, continuous=True, **_BC),
    OfflineCase("discrete BC", bc.BC, **_BC),
]

FAMILIES = [ON_POLICY, VALUE_BASED, ACTOR_CRITIC, OFFLINE]
AGENTS = [case for family in FAMILIES for case in family]
