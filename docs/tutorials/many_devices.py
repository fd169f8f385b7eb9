# %% [markdown]
# # Many devices
#
# Devices, such as the GPUs of a host, share the environments and minibatches of one
# training. Nothing about the agent changes. A CPU can pretend to be several devices,
# which is set before JAX is used for anything else:

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
folder = Path(tempfile.mkdtemp())  # yours might be Path("runs")

# %% [markdown]
# ## Share a training
#
# Samples are mixed within `n_groups` groups of environments, which the devices share
# out. The result depends on the number of groups, not of devices.

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
# Each device has a part of the environments, and a copy of the networks:

# %%
print(runner.obs.sharding.spec, runner.obs.shape)
print([shard.data.shape for shard in runner.obs.addressable_shards])
print(jax.tree.leaves(runner.actor_training.params)[0].sharding.spec)

# %% [markdown]
# ## The same on any number of devices
#
# The gradients of the devices are averaged, in an order that depends on how many there
# are, so that numbers differ by rounding. With `replicated_updates=True` they are the
# same bit for bit; each device then learns from the whole minibatch.

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
# ## Go on from here
#
# - [Several devices and hosts](../../guide/devices/): what is shared out, several
#   processes, Slurm
# - [Scaling](../../benchmarks/scaling/): what it brings
# - For seeds rather than speed, a [sweep](../../tutorials/sweep/) needs no mesh
