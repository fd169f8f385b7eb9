"""Habits from other libraries, and from earlier versions."""

import importlib

from probes import MatchSign

from jaxagents import DQNLearner, dqn, ppo, sac
from mistakes.entries import Theme
from mistakes.things import agent, hyperparams, make_ppo

mistake = Theme("Habits from other libraries")


@mistake(TypeError, r"no field 'num_timesteps'\. Did you mean 'total_timesteps'\?")
def num_timesteps():
    """`num_timesteps` in a configuration."""
    ppo.AgentConfig(num_timesteps=1_000_000)


@mistake(TypeError, r"no field 'num_envs'\. Did you mean 'n_envs'\?")
def num_envs():
    """`num_envs` in a configuration."""
    ppo.AgentConfig(num_envs=8)


@mistake(TypeError, r"no field 'num_steps'\. Did you mean 'rollout_length'\?")
def num_steps():
    """`num_steps` in a configuration."""
    ppo.AgentConfig(num_steps=8)


@mistake(TypeError, r"no field 'buffer_capacity'\. Did you mean 'buffer_size'\?")
def buffer_capacity():
    """`buffer_capacity` in a configuration."""
    dqn.AgentConfig(buffer_capacity=3)


@mistake(TypeError, r"no field 'hidden_dims'\. Did you mean 'features'\?")
def hidden_dims():
    """`hidden_dims` for a learner."""
    DQNLearner.create(0, [0.0], 0, n_actions=2, hidden_dims=(8,))


@mistake(
    TypeError, r"'learning_rate'.*actor_optimizer_params=OptimizerParams\(learning_rate=.*critic"
)
def learning_rate_in_a_configuration():
    """`learning_rate` in the configuration of an on-policy agent."""
    ppo.AgentConfig(learning_rate=3e-4)


@mistake(
    TypeError, r"'learning_rate'.*actor_optimizer_params=OptimizerParams\(learning_rate=.*critic"
)
def learning_rate_in_hyperparameters():
    """`learning_rate` in the hyperparameters of an on-policy agent."""
    ppo.HyperParameters(learning_rate=3e-4)


@mistake(TypeError, r"'learning_rate'.*critic_learning_rate.* of HyperParameters")
def learning_rate_of_an_off_policy_agent():
    """`learning_rate` in the configuration of an off-policy agent."""
    sac.AgentConfig(learning_rate=3e-4)


@mistake(TypeError, r"no field 'max_grad_norm'\. .*OptimizerParams\(grad_clip=")
def max_grad_norm():
    """`max_grad_norm` in the hyperparameters of an on-policy agent."""
    ppo.HyperParameters(max_grad_norm=0.5)


@mistake(TypeError, r"'gamma'.*hyperparameter.*HyperParameters\(gamma=")
def discount_in_a_configuration():
    """`gamma` in a configuration."""
    ppo.AgentConfig(gamma=0.99)


@mistake(TypeError, r"'batch_size'.* AgentConfig\(batch_size=")
def size_in_hyperparameters():
    """`batch_size` among hyperparameters."""
    ppo.HyperParameters(batch_size=8)


@mistake(TypeError, r"no field 'discount'\. Did you mean 'gamma'\?")
def discount():
    """`discount` for `gamma`."""
    hyperparams(discount=0.9)


@mistake(TypeError, r"no field 'clip_range'\. Did you mean 'eps_clip'\?")
def clip_range():
    """`clip_range` for `eps_clip`."""
    hyperparams(clip_range=0.2)


@mistake(
    TypeError,
    r"got a tuple.*env, env_params = gymnax\.make\(.*PPO\(env, env_params, con",
)
def result_of_make():
    """The pair that `gymnax.make` returns, as one argument."""
    make_ppo((MatchSign(), None))


@mistake(AttributeError, r"PPO has no 'learn': call train\(rng, hyperparams\)")
def learn():
    """`agent.learn(...)`."""
    agent().learn(total_timesteps=1000)


@mistake(AttributeError, r"PPO has no 'predict': .*act\(training, carry, obs\).*policy")
def predict():
    """`agent.predict(obs)`."""
    agent().predict([0.0, 0.0])


@mistake(AttributeError, r"PPO has no 'save': .*checkpoint_dir")
def save():
    """`agent.save(path)`."""
    agent().save("runs/1")


@mistake(AttributeError, r"PPO has no 'load': .*restore")
def load():
    """`agent.load(path)`."""
    agent().load("runs/1")


@mistake(AttributeError, r"AgentConfig has no '_replace': call replace\(\.\.\.\)")
def underscore_replace():
    """`config._replace`, of 0.2.5."""
    ppo.AgentConfig()._replace(n_steps=3)


@mistake(TypeError, r"'deterministic_mode'.*0\.2\.5.*never read.*leave it out")
def deterministic_mode():
    """`deterministic_mode`, of 0.2.5."""
    ppo.AgentConfig(deterministic_mode=True)


@mistake(ImportError, r"PPOAgent was the name in 0\.2\.5.*PPOBase.*Migrating")
def former_name():
    """`from jaxagents import PPOAgent`, of 0.2.5."""
    from jaxagents import PPOAgent  # noqa: F401


@mistake(ImportError, r"PPOAgent was the name in 0\.2\.5.*PPOBase.*Migrating")
def former_name_in_its_module():
    """`from jaxagents.ppo import PPOAgent`, of 0.2.5."""
    from jaxagents.ppo import PPOAgent  # noqa: F401


@mistake(ImportError, r"PPOAgentBase was the name in 0\.2\.5.*PPOBase.*Migrating")
def former_name_of_a_base():
    """`from jaxagents.ppo import PPOAgentBase`, of 0.2.5."""
    from jaxagents.ppo import PPOAgentBase  # noqa: F401


@mistake(ImportError, r"jaxagents\.utils .*0\.2\.5.*jaxagents\.ppo.*Migrating")
def former_module():
    """Imports from `jaxagents.utils`, of 0.2.5."""
    importlib.import_module("jaxagents.utils.ppo_utils")


@mistake(ImportError, r"jaxagents\.depreceated .*0\.2\.5.*DQN.*Migrating")
def former_module_of_q_learning():
    """Imports from `jaxagents.depreceated`, of 0.2.5."""
    importlib.import_module("jaxagents.depreceated.dqn")
