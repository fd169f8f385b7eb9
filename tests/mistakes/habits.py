"""Habits from other libraries, and from earlier versions."""

import importlib

import gymnasium
import jax.numpy as jnp
from flax import linen as nn
from probes import MatchSign

import jaxagents
from jaxagents import PPO, DQNLearner, SACLearner, dqn, ppo, sac
from jaxagents.ops import Categorical
from jaxagents.ppo import AgentConfig
from mistakes.things import (
    agent,
    bc_learner,
    dqn_learner,
    hyperparams,
    make_dqn,
    make_ppo,
    mine,
)


class Branches(nn.Module):
    """A network with a Python `if` on an observation."""

    @nn.compact
    def __call__(self, obs):
        logits = nn.Dense(2)(obs)
        return logits if obs[0] > 0 else -logits


def branches_on_an_observation(self, training, params, obs):
    logits = training(obs, params=params)
    return Categorical(logits if obs[0] > 0 else -logits)


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
    "`PPO.load(path)`": lambda: PPO.load("runs/1"),
    "`agent.train(total_timesteps=...)`": lambda: agent().train(0, total_timesteps=10_000),
    "`agent.train(callback=...)`": lambda: agent().train(0, callback=print),
    "`agent.eval(n_eval_episodes=...)`": lambda: agent().eval(0, n_eval_episodes=10),
    "`policy_kwargs` in a configuration": lambda: AgentConfig(policy_kwargs={}),
    "`device` in a configuration": lambda: AgentConfig(device="cuda"),
    "`seed` in a configuration": lambda: AgentConfig(seed=1),
    "`verbose` in a configuration": lambda: AgentConfig(verbose=1),
    "`ent_coef` in a configuration": lambda: AgentConfig(ent_coef=0.01),
    "`normalize_advantage` in a configuration": lambda: AgentConfig(normalize_advantage=True),
    "`env_id` in a configuration": lambda: AgentConfig(env_id="CartPole-v1"),
    "`gae_lambda` in the configuration of an agent that has no such hyperparameter": lambda: (
        sac.AgentConfig(gae_lambda=0.95)
    ),
    '`PPO("MlpPolicy", env)`': lambda: PPO("MlpPolicy", MatchSign()),
    "`PPO(env, config)`, without the parameters of the environment": lambda: PPO(
        MatchSign(), AgentConfig()
    ),
    "`PPO(..., verbose=1)`": lambda: PPO(MatchSign(), None, AgentConfig(), verbose=1),
    "`PPO(..., n_steps=128)`": lambda: PPO(MatchSign(), None, AgentConfig(), n_steps=128),
    "`PPO(..., learning_rate=3e-4)`": lambda: PPO(
        MatchSign(), None, AgentConfig(), learning_rate=3e-4
    ),
    "A function instead of the environment that it makes": lambda: make_ppo(
        lambda: gymnasium.make("CartPole-v1")
    ),
    "`agent.train(0, 10_000)`": lambda: agent().train(0, 10_000),
    "`agent.train(gamma=...)`": lambda: agent().train(0, gamma=0.99),
    "`agent.train(learning_rate=...)`": lambda: agent().train(0, learning_rate=3e-4),
    "`agent.train(eval_env=...)`": lambda: agent().train(0, eval_env=MatchSign()),
    "`agent.train(seed=...)`": lambda: agent().train(seed=0),
    '`agent.to("cuda")`': lambda: agent().to("cuda"),
    "`agent.state_dict()`": lambda: agent().state_dict(),
    "`agent.render()`": lambda: agent().render(),
    "`SACLearner(env)`": lambda: SACLearner(MatchSign()),
    "`DQNLearner(seed, observation, action)`": lambda: DQNLearner(0, jnp.zeros(2), 0),
    "`config.n_steps = 5`": lambda: setattr(AgentConfig(), "n_steps", 5),
    "`config.gamma = 0.9`": lambda: setattr(AgentConfig(), "gamma", 0.9),
    "`hyperparams.gamma = 0.9`": lambda: setattr(hyperparams(), "gamma", 0.9),
    "`hyperparams.learning_rate = 3e-4`": lambda: setattr(hyperparams(), "learning_rate", 3e-4),
    "`learner.gamma = 0.9`": lambda: setattr(dqn_learner(), "gamma", 0.9),
    "`learner.actor.params = params`": lambda: setattr(bc_learner().actor, "params", {}),
    "A Python `if` on an observation in a network": lambda: make_ppo(actor_network=Branches()),
    "A Python `if` on an observation within a network of DQN": lambda: make_dqn(
        critic_network=nn.Sequential([Branches()]), features=()
    ),
    "A Python `if` on an observation in a hook": lambda: make_ppo(
        agent=mine(PPO, _distribution=branches_on_an_observation)
    ),
    "`from jaxagents import AgentConfig`": lambda: jaxagents.AgentConfig,
    "`from jaxagents import CategoricalActor`": lambda: jaxagents.CategoricalActor,
    "`from jaxagents import TensorBoardLogger`": lambda: jaxagents.TensorBoardLogger,
    "`from jaxagents import VecNormalize`": lambda: jaxagents.VecNormalize,
    "`from jaxagents import make_vec_env`": lambda: jaxagents.make_vec_env,
    "`from jaxagents import DummyVecEnv`": lambda: jaxagents.DummyVecEnv,
    "An environment in place of its parameters": lambda: PPO(
        MatchSign(), MatchSign(), AgentConfig()
    ),
    'A name from Gymnasium: `PPO("LunarLander-v3", None, config)`': lambda: PPO(
        "LunarLander-v3", None, AgentConfig()
    ),
    'A name from an older release of Gymnasium: `jaxagents.make("LunarLander-v2")`': lambda: (
        jaxagents.make("LunarLander-v2")
    ),
    'An Atari name: `jaxagents.make("ALE/Pong-v5")`': lambda: jaxagents.make("ALE/Pong-v5"),
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
