# %% [markdown]
# # Many seeds and a sweep
#
# One training says little: another seed may learn twice as fast. `agent.sweep` trains
# several seeds with several sets of hyperparameters, over all cores of a CPU or all
# accelerators, by one compiled program.

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
folder = Path(tempfile.mkdtemp())  # yours might be Path("runs")
config = AgentConfig(n_steps=25, eval_frequency=5)
agent = PPO(env, env_params, config)

# %% [markdown]
# ## Seeds and sets
#
# Arrays among the hyperparameters have a common first axis of sets. Plain
# numbers are shared by all of them. The random keys are the seeds.

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
# Each member is a training of its own: on a CPU, bit for bit the one that `train`
# would make alone.
#
# ## Compare
#
# The median of the seeds, and thinly each of them:

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
# The best set is that with the highest mean return over seeds at the last evaluation.
# `plot_sweep` shows that evaluation: the seeds, and the interval of each set's mean.

# %%
axes = plot_sweep(result, folder / "sweep.png")
print("The picture is in", folder)
best = result.best_hyperparams.actor_optimizer_params.learning_rate
print(f"best learning rate: {best:g}")

# %% [markdown]
# The agent does not remember a sweep. `select` takes one training out of it, here the
# first seed of the best set; then the agent can play, go on or be exported.

# %%
runner, metrics = agent.select(result, result.best, 0)
print(agent.eval(jax.random.key(1))["returns"].mean())

# %% [markdown]
# The mean return of a set that was chosen for it is too high by a little. For a fair
# number, train the chosen set with other seeds:

# %%
others = jax.random.split(jax.random.key(100), 5)
chosen = jax.tree.map(lambda x: x[None], result.best_hyperparams)
fair = agent.sweep(others, chosen, progress=False)
print(np.asarray(fair.metrics["returns"][0, :, -1]).mean(axis=-1).round(1))

# %% [markdown]
# ## Go on from here
#
# - [Sweeps](../../guide/training/#sweeps) in the guide, and how they
#   [resume](../../guide/checkpoints/#sweeps)
# - [`jax.vmap(agent.train)`](../../guide/training/#inside-jit-and-vmap): one wide program
# - [Stop and resume](../../tutorials/stop_and_resume/)
