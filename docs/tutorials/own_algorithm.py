# %% [markdown]
# # Your own algorithm
#
# Losses, advantages and returns are hooks as well. First PPO with another loss, then
# an algorithm from its base.
#
# ## PPO with another loss
#
# PPO clips the ratio of probabilities. An alternative of the same paper is a penalty
# on the KL divergence from the old policy. The loss is written for a minibatch of
# samples; it returns a loss for each of them, and a dict of what describes them.

# %%
import dataclasses
import tempfile
from pathlib import Path

import gymnax
import jax
import jax.numpy as jnp

from jaxagents import PPO, OnPolicyBase, ops
from jaxagents.agents.config import OnPolicyConfig, OnPolicyHyperparameters
from jaxagents.agents.ready_made import ReadyMadePolicy
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.plotting import plot_learning_curve
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams


class PenaltyHyperParameters(HyperParameters):
    penalty: Traced = hyperparameter(1.0, 0.0)  # its default, and the least


class PenaltyPPO(PPO):
    _hyperparams_type = PenaltyHyperParameters

    def _actor_loss(
        self, training, obs, actions, log_prob_old, advantage, hyperparams
    ):
        log_prob, entropy = self._log_probs_and_entropies(
            training, obs, actions
        )
        ratio = jnp.exp(log_prob - log_prob_old)
        kl = ops.approximate_kl(log_prob, log_prob_old)
        losses = -ratio * advantage + hyperparams.penalty * kl
        return losses, {"kl": kl, "entropy": entropy}


# %% [markdown]
# `log_prob_old` and `advantage` come from the rollout; PPO has standardised the
# advantages. Everything else, such as minibatches, checkpoints and sweeps, stays.

# %%
env, env_params = gymnax.make("CartPole-v1")
folder = Path(tempfile.mkdtemp())  # yours might be Path("runs")
config = AgentConfig(n_steps=60, eval_frequency=10)
optimizer = OptimizerParams(learning_rate=1e-3, grad_clip=0.5)
both = {
    "actor_optimizer_params": optimizer,
    "critic_optimizer_params": optimizer,
}

_, clipped = PPO(env, env_params, config).train(
    jax.random.key(0), HyperParameters(**both), progress=False
)
_, penalised = PenaltyPPO(env, env_params, config).train(
    jax.random.key(0), PenaltyHyperParameters(**both), progress=False
)
axes = plot_learning_curve(clipped, label="clipped", title="PPO on CartPole")
_ = plot_learning_curve(
    penalised, folder / "penalty.png", label="penalty", ax=axes
)
print("The picture is in", folder)

# %% [markdown]
# ## An algorithm from its base
#
# `OnPolicyBase` collects rollouts, estimates advantages and returns, and cuts
# minibatches. An algorithm says what is static about it, what is traced, and what the
# loss of the actor is. This is advantage actor-critic (A2C):


# %%
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ActorCriticConfig(OnPolicyConfig):
    rollout_length: int = 16


class ActorCriticHyperParameters(OnPolicyHyperparameters):
    gae_lambda: Traced = hyperparameter(1.0, 0.0, 1.0)
    ent_coeff: Traced = hyperparameter(0.01, 0.0)


class ActorCriticBase(OnPolicyBase):
    _config_type = ActorCriticConfig
    _hyperparams_type = ActorCriticHyperParameters

    def _actor_loss(
        self, training, obs, actions, log_prob_old, advantage, hyperparams
    ):
        log_prob, entropy = self._log_probs_and_entropies(
            training, obs, actions
        )
        objective = log_prob * advantage + hyperparams.ent_coeff * entropy
        return -objective, {"entropy": entropy}

    def _gae_lambda(self, hyperparams):
        return hyperparams.gae_lambda


# %% [markdown]
# `ReadyMadePolicy` adds the default networks, and a policy for discrete and box
# actions. Without it, a subclass gives the policy: see
# [your own policy](../../tutorials/own_policy/).


# %%
class ActorCritic(ReadyMadePolicy, ActorCriticBase):
    pass


agent = ActorCritic(
    env,
    env_params,
    ActorCriticConfig(n_steps=600, batch_size=32, eval_frequency=100),
)
optimizer = OptimizerParams(learning_rate=2e-3, grad_clip=0.5)
hyperparams = ActorCriticHyperParameters(
    actor_optimizer_params=optimizer, critic_optimizer_params=optimizer
)
runner, metrics = agent.train(jax.random.key(0), hyperparams, progress=False)
axes = plot_learning_curve(metrics, folder / "a2c.png", title="A2C on CartPole")
# %% [markdown]
# What the loss describes is in the metrics, with the mean of each update before an
# evaluation:

# %%
axes = plot_learning_curve(
    metrics, folder / "entropy.png", metric="entropy", title="Entropy (nats)"
)
print("The pictures are in", folder)

# %% [markdown]
# ## Go on from here
#
# - [Subclassing](../../guide/subclassing/): every hook, with its shapes
# - `jaxagents/ppo.py` and `jaxagents/a2c.py`, which are written like this
# - [Many seeds and a sweep](../../tutorials/sweep/), to compare two algorithms
