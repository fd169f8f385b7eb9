# %% [markdown]
# # Gymnasium and MuJoCo
#
# An agent steps a Gymnasium environment in Python, and acts and learns in compiled
# programs.

# %%
import tempfile
from pathlib import Path

import gymnasium
import jax

from jaxagents import SAC
from jaxagents.plotting import plot_learning_curve
from jaxagents.sac import AgentConfig, HyperParameters

env = gymnasium.make("Pendulum-v1", render_mode="rgb_array")
folder = Path(tempfile.mkdtemp())  # or Path("runs")

# %% [markdown]
# ## Train
#
# With `n_envs=1` the agent trains in the environment itself, otherwise in copies of it.
# After `learning_starts` random steps, it takes one gradient step per environment step.
# Every `eval_frequency` updates, an evaluation runs in a separate copy.

# %%
config = AgentConfig(
    n_envs=1,
    n_updates=5_000,
    learning_starts=500,
    minibatch_size=128,
    buffer_size=10_000,
    features=(64, 64),
    eval_frequency=1_000,
    n_evals=5,
    checkpoint_dir=folder / "pendulum",
)
hyperparams = HyperParameters(
    gamma=0.98, actor_learning_rate=1e-3, critic_learning_rate=1e-3
)
agent = SAC(env, None, config)
runner, metrics = agent.train(jax.random.key(0), hyperparams, progress=False)
print(metrics["update_step"])
print(metrics["returns"].mean(axis=1).round(0))

# %%
axes = plot_learning_curve(
    metrics, folder / "learning_curve.png", title="SAC on Pendulum"
)
print("The picture is in", folder)

# %% [markdown]
# ## Evaluate and act
#
# `eval` plays more episodes, and `policy` returns the action for one observation, ready
# for `env.step`.

# %%
outcomes = agent.eval(jax.random.key(1), n_evals=10)
print(outcomes["returns"].mean())

observation, _ = env.reset(seed=1)
print(agent.policy(observation))

# %%
frames = agent.render_episode(jax.random.key(2), folder / "episode.gif")
print(frames.shape)

# %% [markdown]
# ## MuJoCo
#
# Install the `mujoco` extra, and pass `"gymnasium:HalfCheetah-v5"` instead of Pendulum.
# The [benchmark](../../benchmarks/learners/) shows returns and training times.
#
# ```python
# config = AgentConfig(
#     n_envs=1,
#     total_timesteps=1_000_000,
#     learning_starts=5_000,
#     minibatch_size=256,
#     buffer_size=1_000_000,
#     eval_frequency=10_000,
#     checkpoint_dir="runs/cheetah",
#     checkpoint_buffer=False,
# )
# agent = SAC("gymnasium:HalfCheetah-v5", None, config)
# runner, metrics = agent.train(0)
# ```

# %% [markdown]
# ## Next steps
#
# - [Gymnasium environments](../../guide/gymnasium/), including vector environments and
#   EnvPool
# - [Off-policy agents](../../guide/off_policy/)
# - [Custom loops](../../guide/host_loops/) around a learner
# - [Offline data](../../tutorials/offline_data/)
