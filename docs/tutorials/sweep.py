# %% [markdown]
# # Many seeds and a sweep
#
# One run says little: another seed may learn twice as fast. `agent.sweep` trains
# several seeds of several sets of hyperparameters with one compiled program, on all CPU
# cores or accelerators.

# %%
import tempfile
from pathlib import Path

import gymnax
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from jaxagents import PPO
from jaxagents.plotting import plot_sweep
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams

env, env_params = gymnax.make("CartPole-v1")
folder = Path(tempfile.mkdtemp())  # or Path("runs")
config = AgentConfig(n_steps=25, eval_frequency=5)
agent = PPO(env, env_params, config)

# %% [markdown]
# ## Seeds and sets
#
# Hyperparameters that are arrays have one entry per set; plain numbers apply to all
# sets. The random keys serve as seeds.

# %%
rates = jnp.array([1e-4, 1e-3, 1e-2])
optimizer = OptimizerParams(learning_rate=rates, grad_clip=0.5)
sets = HyperParameters(
    actor_optimizer_params=optimizer, critic_optimizer_params=optimizer
)
seeds = jax.random.split(jax.random.key(0), 5)

result = agent.sweep(seeds, sets, progress=False)
print(result.metrics["returns"].shape)  # (sets, seeds, points, episodes)

# %% [markdown]
# On a CPU, each run of the sweep is bit-for-bit identical to a separate call of
# `train`.
#
# ## Compare
#
# Thick lines are medians over seeds, thin lines the individual seeds:

# %%
steps = np.asarray(result.metrics["update_step"][0, 0])
returns = np.asarray(result.metrics["returns"]).mean(axis=-1)

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for rate, of_set in zip(rates, returns, strict=True):
    (line,) = axes.plot(
        steps, np.median(of_set, axis=0), lw=2, label=f"{rate:g}"
    )
    axes.plot(steps, of_set.T, color=line.get_color(), lw=0.7, alpha=0.5)
axes.set(xlabel="updates", ylabel="mean return", title="PPO on CartPole")
legend = figure.legend(title="learning rate", loc="outside right upper")

# %% [markdown]
# ## Choose
#
# The best set has the highest mean return over seeds at the last evaluation.
# `plot_sweep` shows that evaluation, with all seeds and a confidence interval for the
# mean of each set.

# %%
axes = plot_sweep(result, folder / "sweep.png")
print("The picture is in", folder)
best = result.best_hyperparams.actor_optimizer_params.learning_rate
print(f"best learning rate: {best:g}")

# %% [markdown]
# `select` picks one of the runs, here the first seed of the best set. Then you can
# evaluate the agent, continue the run, or export the policy.

# %%
runner, metrics = agent.select(result, result.best, 0)
print(agent.eval(jax.random.key(1))["returns"].mean())

# %% [markdown]
# `sweep` chose the best set for its mean return, so that return is slightly optimistic.
# For a fair estimate, train the set with new seeds:

# %%
others = jax.random.split(jax.random.key(100), 5)
chosen = jax.tree.map(lambda x: x[None], result.best_hyperparams)
fair = agent.sweep(others, chosen, progress=False)
print(np.asarray(fair.metrics["returns"][0, :, -1]).mean(axis=-1).round(1))

# %% [markdown]
# ## Next steps
#
# - [Sweeps](../../guide/training/#sweeps), and how to
#   [resume](../../guide/checkpoints/#sweeps) them
# - [`jax.vmap(agent.train)`](../../guide/training/#inside-jit-and-vmap)
# - [Stop and resume](../../tutorials/stop_and_resume/)
