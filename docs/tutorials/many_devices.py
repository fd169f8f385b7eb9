# %% [markdown]
# # Many devices
#
# You can shard the environments and minibatches of one run over several devices, such
# as the GPUs of a host. A CPU can simulate several devices, if you ask for them before
# you use JAX:

# %%
import tempfile
from pathlib import Path

import jax

jax.config.update("jax_num_cpu_devices", 4)

import gymnax

from jaxagents import PPO, sharding
from jaxagents.plotting import plot_learning_curve
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams

mesh = sharding.make_mesh(4)
print(mesh)
folder = Path(tempfile.mkdtemp())  # or Path("runs")

# %% [markdown]
# ## Train on four devices
#
# The agent shuffles samples within `n_groups` groups of environments, and each device
# gets some of the groups. Results depend on the number of groups, not on the number of
# devices.

# %%
env, env_params = gymnax.make("CartPole-v1")
config = AgentConfig(
    n_steps=20,
    batch_size=32,
    minibatch_size=8,
    n_groups=4,
    eval_frequency=5,
)
optimizer = OptimizerParams(learning_rate=1e-3, grad_clip=0.5)
hyperparams = HyperParameters(
    actor_optimizer_params=optimizer, critic_optimizer_params=optimizer
)
agent = PPO(env, env_params, config)
runner, metrics = agent.train(
    jax.random.key(0), hyperparams, mesh=mesh, progress=False
)
axes = plot_learning_curve(
    metrics, folder / "learning_curve.png", title="PPO on four devices"
)
print("The picture is in", folder)

# %% [markdown]
# Each device holds some of the environments, and a copy of the networks:

# %%
print(runner.obs.sharding.spec, runner.obs.shape)
print([shard.data.shape for shard in runner.obs.addressable_shards])
print(jax.tree.leaves(runner.actor_training.params)[0].sharding.spec)

# %% [markdown]
# ## Identical results on any number of devices
#
# Averaging gradients over a different number of devices rounds differently. With
# `replicated_updates=True`, each device learns from the whole minibatch, and results
# are bit-for-bit identical:

# %%
exact = PPO(env, env_params, config.replace(replicated_updates=True, n_steps=5))
for n_devices in (1, 4):
    exact.train(
        jax.random.key(0),
        hyperparams,
        mesh=sharding.make_mesh(n_devices),
        progress=False,
    )
    print(n_devices, float(exact.training_metrics["critic_loss"][-1]))

# %% [markdown]
# ## Next steps
#
# - [Several devices and hosts](../../guide/devices/), with several processes or Slurm
# - [Scaling](../../benchmarks/scaling/): measured speed-up
# - A [sweep](../../tutorials/sweep/) for many seeds, which needs no mesh
