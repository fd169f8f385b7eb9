# %% [markdown]
# # Gymnasium and MuJoCo
#
# Environments that run in Python, such as those of Gymnasium, cannot be compiled. A
# *learner* trains in them: it has the networks and the update of an agent, and the loop
# around it runs on the host.

# %%
import tempfile

import gymnasium

from jaxagents import SACLearner
from jaxagents.host import OnlineConfig, evaluate, rescale_actions, train_online
from jaxagents.plotting import plot_learning_curve

env, eval_env = gymnasium.make("Pendulum-v1"), gymnasium.make("Pendulum-v1")

# %% [markdown]
# ## A learner
#
# `create` takes a seed, an example of an observation and of an action, and any setting
# of soft actor-critic by its name.

# %%
learner = SACLearner.create(
    0,
    env.observation_space.sample(),
    env.action_space.sample(),
    features=(64, 64),
    gamma=0.98,
    actor_learning_rate=1e-3,
    critic_learning_rate=1e-3,
)

# %% [markdown]
# ## Train
#
# After `start_steps` random actions there is one update to each step. Every
# `eval_frequency` steps the learner is evaluated, in an environment of its own.

# %%
config = OnlineConfig(
    n_steps=5_000,
    start_steps=500,
    batch_size=128,
    eval_frequency=1_000,
    n_evals=5,
    checkpoint_dir=tempfile.mkdtemp(),  # yours might be "runs/pendulum"
)
learner, metrics = train_online(
    learner, env, config, eval_env=eval_env, progress=False
)
print(metrics["step"])
print(metrics["returns"].mean(axis=1).round(0))

# %%
axes = plot_learning_curve(metrics, title="SAC on Pendulum")

# %% [markdown]
# ## Play
#
# Learners act in [-1, 1]; `rescale_actions` makes the environment take that. An action
# for one observation:

# %%
observation, _ = eval_env.reset(seed=1)
print(learner.sample_actions(observation))

# %%
outcomes = evaluate(
    learner.sample_actions, rescale_actions(eval_env), n_episodes=10, seed=1
)
print(outcomes["returns"].mean())

# %% [markdown]
# ## MuJoCo
#
# Other environments need no other code. With the extra `mujoco`,
# `gymnasium.make("HalfCheetah-v5")` takes the place of Pendulum, and the default
# settings are those for it: 1,000,000 steps, 5,000 of them random, batches of 256. See
# [what SAC learns](../../benchmarks/learners/) there, and how long it takes.
#
# ```python
# env = gymnasium.make("HalfCheetah-v5")
# eval_env = gymnasium.make("HalfCheetah-v5")
# learner = SACLearner.create(
#     0,
#     env.observation_space.sample(),
#     env.action_space.sample(),
# )
# config = OnlineConfig(checkpoint_dir="runs/cheetah")
# learner, metrics = train_online(
#     learner, env, config, eval_env=eval_env
# )
# ```

# %% [markdown]
# ## Go on from here
#
# - [PPO in Gymnasium environments](../../guide/gymnasium/)
# - [Host loops](../../guide/host_loops/): resuming, logs, films, loops of your own
# - [Learners](../../guide/learners/): the other algorithms
# - [Offline data](../../tutorials/offline_data/)
