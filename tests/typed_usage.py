"""A user's script for the type checker. It never runs; pyright reads it."""

from typing import assert_type

import gymnax
import jax
import numpy as np

from jaxagents import DQN, PPO, SAC, dqn, load_policy, ppo, sac
from jaxagents.callbacks import Callback, Progress, StopAtReturn
from jaxagents.core.metrics import MetricDict


class Report(Callback):
    def on_point(self, progress: Progress) -> bool:
        return progress.metrics["returns"] > 1.0


def script() -> None:
    env, env_params = gymnax.make("CartPole-v1")
    key = jax.random.key(0)

    agent = PPO(env, env_params, ppo.AgentConfig(n_updates=10, n_envs=8, eval_rng=0))
    assert_type(agent.config, ppo.AgentConfig)
    assert_type(agent.config.n_steps, int)
    assert_type(agent.config.replace(n_steps=3), ppo.AgentConfig)
    assert_type(sac.AgentConfig(total_timesteps=1000).n_updates, int)
    runner, metrics = agent.train(
        key, ppo.HyperParameters(gamma=0.9), callbacks=[StopAtReturn(475)]
    )
    assert_type(metrics, MetricDict)
    assert_type(agent.training_runner, ppo.Runner | None)
    assert_type(agent.select((runner, metrics), 0)[0], ppo.Runner)
    agent.summarize(agent.eval(key)["returns"])

    q_agent = DQN(env, env_params, dqn.AgentConfig())
    assert_type(q_agent.config, dqn.AgentConfig)
    q_agent.train(key)
    q_agent.train(3, dqn.HyperParameters())
    q_agent.sweep([0, 1])

    sac_agent = SAC(env, env_params, sac.AgentConfig())
    assert_type(sac_agent.restore("last", hyperparams=sac.HyperParameters())[1], MetricDict)

    agent.train(key, dqn.HyperParameters())  # pyright: ignore[reportArgumentType]
    agent.train("3", ppo.HyperParameters())  # pyright: ignore[reportArgumentType]
    ppo.AgentConfig(num_envs=3)  # pyright: ignore[reportCallIssue]
    agent.config.batchsize  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018

    load_policy("policy.safetensors")(np.zeros(4))
