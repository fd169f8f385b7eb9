"""Habits from other libraries, and from earlier versions."""

import importlib

from probes import MatchSign

import jaxagents
from jaxagents import DQNLearner, dqn, ppo, sac
from jaxagents.ppo import AgentConfig
from mistakes.things import agent, hyperparams, make_ppo

MISTAKES = {
    "`num_timesteps` in a configuration": lambda: AgentConfig(num_timesteps=1_000_000),
    "`num_envs` in a configuration": lambda: AgentConfig(num_envs=8),
    "`num_steps` in a configuration": lambda: AgentConfig(num_steps=8),
    "`buffer_capacity` in a configuration": lambda: dqn.AgentConfig(buffer_capacity=3),
    "`hidden_dims` for a learner": lambda: DQNLearner.create(
        0, [0.0], 0, n_actions=2, hidden_dims=(8,)
    ),
    "`learning_rate` in the configuration of an on-policy agent": lambda: AgentConfig(
        learning_rate=3e-4
    ),
    "`learning_rate` in the configuration of an off-policy agent": lambda: sac.AgentConfig(
        learning_rate=3e-4
    ),
    "`max_grad_norm` in the hyperparameters of an on-policy agent": lambda: hyperparams(
        max_grad_norm=0.5
    ),
    "`gamma` in a configuration": lambda: AgentConfig(gamma=0.99),
    "`batch_size` among hyperparameters": lambda: hyperparams(batch_size=8),
    "`discount` for `gamma`": lambda: hyperparams(discount=0.9),
    "`clip_range` for `eps_clip`": lambda: hyperparams(clip_range=0.2),
    "The pair that `gymnax.make` returns, as one argument": lambda: make_ppo((MatchSign(), None)),
    "`agent.learn(...)`": lambda: agent().learn(total_timesteps=1000),
    "`agent.predict(obs)`": lambda: agent().predict([0.0, 0.0]),
    "`agent.save(path)`": lambda: agent().save("runs/1"),
    "`agent.load(path)`": lambda: agent().load("runs/1"),
    "`PPO.load(path)`": lambda: jaxagents.PPO.load("runs/1"),
    "`agent.train(total_timesteps=...)`": lambda: agent().train(0, total_timesteps=10_000),
    "`agent.train(callback=...)`": lambda: agent().train(0, callback=print),
    "`agent.eval(n_eval_episodes=...)`": lambda: agent().eval(0, n_eval_episodes=10),
    "`policy_kwargs` in a configuration": lambda: AgentConfig(policy_kwargs={}),
    "`device` in a configuration": lambda: AgentConfig(device="cuda"),
    "`seed` in a configuration": lambda: AgentConfig(seed=1),
    "`verbose` in a configuration": lambda: AgentConfig(verbose=1),
    "`from jaxagents import VecNormalize`": lambda: jaxagents.VecNormalize,
    "`from jaxagents import make_vec_env`": lambda: jaxagents.make_vec_env,
    "`from jaxagents import DummyVecEnv`": lambda: jaxagents.DummyVecEnv,
    "An environment in place of its parameters": lambda: jaxagents.PPO(
        MatchSign(), MatchSign(), AgentConfig()
    ),
    'A name of Gymnasium: `PPO("LunarLander-v3", None, config)`': lambda: jaxagents.PPO(
        "LunarLander-v3", None, AgentConfig()
    ),
    'A name of an older release of Gymnasium: `jaxagents.make("LunarLander-v2")`': lambda: (
        jaxagents.make("LunarLander-v2")
    ),
    'A name of Atari: `jaxagents.make("ALE/Pong-v5")`': lambda: jaxagents.make("ALE/Pong-v5"),
    "`config._replace`, of 0.2.5": lambda: AgentConfig()._replace(n_steps=3),
    "`deterministic_mode`, of 0.2.5": lambda: AgentConfig(deterministic_mode=True),
    "`from jaxagents import PPOAgent`, of 0.2.5": lambda: jaxagents.PPOAgent,
    "`from jaxagents.ppo import PPOAgentBase`, of 0.2.5": lambda: ppo.PPOAgentBase,
    "Imports from `jaxagents.utils`, of 0.2.5": lambda: importlib.import_module(
        "jaxagents.utils.ppo_utils"
    ),
    "Imports from `jaxagents.depreceated`, of 0.2.5": lambda: importlib.import_module(
        "jaxagents.depreceated.dqn"
    ),
}
