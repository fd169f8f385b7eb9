"""Every agent, in a small configuration: a row here puts it under the shared suite."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxagents import IPPO, PPO, REINFORCE, ippo, ppo, reinforce
from jaxagents.networks import CategoricalActor, PerActor, StateCritic


class Case(NamedTuple):
    """An agent under test.

    Attributes:
        name: Its name.
        agent: Its class.
        module: Module with its `AgentConfig` and `HyperParameters`.
        sizes: Fields of its configuration beyond those of every agent.
        n_actors: Number of actors of its environments; `None` for agents of one actor.
        learning_rate: One at which it learns the probes.
    """

    name: str
    agent: type
    module: Any
    sizes: dict[str, Any]
    n_actors: int | None
    learning_rate: float

    def config(self, **fields: Any) -> Any:
        """A small configuration."""
        sizes = {
            "n_steps": 5,
            "batch_size": 8,
            "rollout_length": 8,
            "eval_frequency": 2,
            "n_evals": 3,
        }
        networks = {"actor_network": self.network(_actor), "critic_network": self.network(_critic)}
        return self.module.AgentConfig(**{**sizes, **self.sizes, **networks, **fields})

    def network(self, make: Callable) -> Any:
        """A network for one actor, or lifted to several."""
        if self.n_actors is None:
            return make()
        return PerActor(make(), self.n_actors, own_observations=False)

    def hyperparams(self, **fields: Any) -> Any:
        """Hyperparameters with which it learns the probes."""
        optimizer = self.module.OptimizerParams(learning_rate=self.learning_rate)
        optimizers = {"actor_optimizer_params": optimizer, "critic_optimizer_params": optimizer}
        return self.module.HyperParameters(**{"gamma": 0.5, **optimizers, **fields})

    def make(self, env: Any, eval_during_training: bool = True, **fields: Any) -> Any:
        """The agent in an environment made by `env(n_actors)`."""
        return self.agent(env(self.n_actors), None, self.config(**fields), eval_during_training)


def _actor() -> CategoricalActor:
    return CategoricalActor(2, features=(16,))


def _critic() -> StateCritic:
    return StateCritic(features=(16,))


_MINIBATCHES = {"minibatch_size": 4, "actor_epochs": 3, "critic_epochs": 2}

AGENTS = [
    Case("PPO", PPO, ppo, _MINIBATCHES, None, 1e-2),
    Case("IPPO", IPPO, ippo, _MINIBATCHES, 2, 1e-2),
    Case("REINFORCE", REINFORCE, reinforce, {}, None, 1e-2),
]
