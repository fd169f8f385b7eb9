# %% [markdown]
# # Your own policy
#
# `PPO` accepts your own networks. `PPOBase` accepts any policy that can sample actions
# and compute their log-probabilities.
#
# ## Custom networks
#
# `PPO` expects logits for discrete actions. Write the network for a single observation.
# The agent creates it, and passes its own configuration.

# %%
import tempfile
from pathlib import Path

import gymnax
import jax
import jax.numpy as jnp
from flax import linen as nn

from jaxagents import PPO, PPOBase, ops
from jaxagents.plotting import plot_learning_curve
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams


class Actor(nn.Module):
    config: AgentConfig

    @nn.compact
    def __call__(self, obs):
        x = nn.relu(nn.Dense(32)(obs))
        return nn.Dense(2)(x)


class Critic(nn.Module):
    config: AgentConfig

    @nn.compact
    def __call__(self, obs):
        x = nn.relu(nn.Dense(32)(obs))
        return nn.Dense(1)(x)


env, env_params = gymnax.make("CartPole-v1")
config = AgentConfig(
    n_steps=60, eval_frequency=10, actor_network=Actor, critic_network=Critic
)
optimizer = OptimizerParams(learning_rate=1e-3, grad_clip=0.5)
hyperparams = HyperParameters(
    actor_optimizer_params=optimizer, critic_optimizer_params=optimizer
)
agent = PPO(env, env_params, config)
runner, metrics = agent.train(jax.random.key(0), hyperparams, progress=False)
print(agent.summarize(metrics["returns"]).mean)

# %% [markdown]
# ## A policy with four hooks
#
# Pendulum takes a torque between -2 and 2. This policy samples it from a normal
# distribution with a fixed standard deviation. Each hook takes a single observation;
# the base class vmaps it over time and environments.


# %%
class Torque(nn.Module):
    config: AgentConfig

    @nn.compact
    def __call__(self, obs):
        x = nn.tanh(nn.Dense(64)(obs))
        return 2.0 * nn.tanh(nn.Dense(1)(x))


class FixedWidth(PPOBase):
    std = 0.5

    def _sample_actions(self, rng, training, obs):
        mean = training.apply_fn(training.params, obs)
        return mean + self.std * jax.random.normal(rng, mean.shape)

    def _log_prob(self, training, params, obs, actions):
        mean = training.apply_fn(params, obs)
        return jax.scipy.stats.norm.logpdf(actions, mean, self.std).sum()

    def _entropy(self, training, obs):
        return 0.5 * jnp.log(2.0 * jnp.pi * jnp.e * self.std**2)

    def policy(self, training, obs):
        return training.apply_fn(training.params, obs)


env, env_params = gymnax.make("Pendulum-v1")
folder = Path(tempfile.mkdtemp())  # or Path("runs")
config = AgentConfig(
    n_steps=150,
    batch_size=32,
    minibatch_size=8,
    rollout_length=64,
    actor_epochs=8,
    critic_epochs=8,
    eval_frequency=25,
    actor_network=Torque,
    critic_network=Critic,
)
hyperparams = HyperParameters(
    gamma=0.95,
    actor_optimizer_params=optimizer,
    critic_optimizer_params=OptimizerParams(learning_rate=3e-3, grad_clip=0.5),
)
agent = FixedWidth(env, env_params, config)
_, of_hooks = agent.train(jax.random.key(0), hyperparams, progress=False)

# %% [markdown]
# ## A policy with one distribution
#
# One hook that returns a distribution can replace the four. The actor's loss then applies
# the network once instead of twice.


# %%
class ByDistribution(PPOBase):
    std = 0.5

    def _distribution(self, training, params, obs):
        mean = training.apply_fn(params, obs)
        return ops.Gaussian(mean, jnp.full_like(mean, jnp.log(self.std)))


agent = ByDistribution(env, env_params, config)
_, of_distribution = agent.train(jax.random.key(0), hyperparams, progress=False)

axes = plot_learning_curve(of_hooks, label="four hooks", title="Pendulum")
_ = plot_learning_curve(
    of_distribution,
    folder / "learning_curves.png",
    label="one distribution",
    ax=axes,
)
print("The picture is in", folder)

# %% [markdown]
# ## Mistakes fail early
#
# The constructor traces the hooks. Wrong shapes raise an error before anything
# is compiled, and so do misspelt hooks:


# %%
class Misspelt(ByDistribution):
    def _actor_los(self, *args):
        return 0.0


try:
    Misspelt(env, env_params, config)
except TypeError as error:
    print(error)

# %% [markdown]
# ## Next steps
#
# - [Your own algorithm](../../tutorials/own_algorithm/)
# - [Subclassing](../../guide/subclassing/): all hooks, networks with a memory,
#   multi-agent networks
