"""Measures the IPPO of jaxagents in environments of JaxMARL."""

from typing import Any

import jax
import jax.numpy as jnp
import jaxagents_ppo
import jaxmarl
import measure
from tasks import Task

from jaxagents import IPPO
from jaxagents.ippo import AgentConfig
from jaxagents.networks import CategoricalActor, PerActor, StateCritic


class Environment:
    """An environment of JaxMARL whose agents all have the same spaces, as jaxagents asks for one."""

    def __init__(self, name: str) -> None:
        self.env = jaxmarl.make(name)
        self.n_actors = self.env.num_agents

    def action_space(self, params: None) -> Any:
        return self.env.action_space(self.env.agents[0])

    def reset_env(self, key: Any, params: None) -> tuple[Any, Any]:
        obs, state = self.env.reset(key)
        return self._stack(obs), state

    def step_env(self, key: Any, state: Any, action: Any, params: None) -> tuple[Any, ...]:
        """Takes a step; the end of the time is a termination, as JaxMARL has it."""
        actions = dict(zip(self.env.agents, action, strict=True))
        obs, state, reward, done, _ = self.env.step_env(key, state, actions)
        return self._stack(obs), state, self._stack(reward), done["__all__"], {}

    def _stack(self, values: dict[str, Any]) -> Any:
        return jnp.stack([values[agent] for agent in self.env.agents])


class Trainer(jaxagents_ppo.Trainer):
    """The agent, whose actors share their parameters, as those of JaxMARL do."""

    def _agent(self, task: Task, config: dict[str, Any]) -> IPPO:
        env = Environment(task.environment)
        layers = {"features": task.hidden_layers, "activation": jax.nn.tanh}
        actor = CategoricalActor(env.action_space(None).n, **layers)
        networks = {"actor_network": actor, "critic_network": StateCritic(**layers)}
        shared = {
            name: PerActor(network, env.n_actors, shared_params=True)
            for name, network in networks.items()
        }
        return IPPO(env, None, AgentConfig(**shared, **config), eval_during_training=False)


if __name__ == "__main__":
    measure.main("jaxagents", Trainer)
