# %% [markdown]
# # Your own algorithm
#
# This tutorial changes the loss of PPO, and then builds an algorithm from the on-policy
# base class. You can override the hooks for advantages and returns in the same way.
#
# ## PPO with another loss
#
# PPO clips the probability ratio; its paper also proposes a penalty on the KL
# divergence from the old policy. The hook `_actor_loss` takes a minibatch of samples,
# and returns one loss per sample and a dict of diagnostics.

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
    penalty: Traced = hyperparameter(1.0, 0.0)  # default, lower bound


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
# `log_prob_old` and `advantage` come from the rollout; PPO has already standardised the
# advantages.

# %%
env, env_params = gymnax.make("CartPole-v1")
folder = Path(tempfile.mkdtemp())  # or Path("runs")
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
# ## An algorithm from the base class
#
# `OnPolicyBase` collects rollouts, estimates advantages and returns, and samples
# minibatches. An algorithm adds its configuration, its hyperparameters and the actor's
# loss. Here is advantage actor-critic (A2C):


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
# `ReadyMadePolicy` adds the default networks, and a policy for discrete and continuous
# actions. Without it, a subclass has to implement [the
# policy](../../tutorials/own_policy/).


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
# The diagnostics of the loss appear in the metrics, averaged over the last update
# before each evaluation:

# %%
axes = plot_learning_curve(
    metrics, folder / "entropy.png", metric="entropy", title="Entropy (nats)"
)
print("The pictures are in", folder)

# %% [markdown]
# ## Next steps
#
# - [Subclassing](../../guide/subclassing/): every hook, with its shapes
# - `jaxagents/ppo.py` and `jaxagents/a2c.py`, which have the same structure
# - [Many seeds and a sweep](../../tutorials/sweep/), to compare two algorithms
