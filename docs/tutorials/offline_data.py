# %% [markdown]
# # Offline data
#
# Offline agents learn from a dataset of transitions. Here the data comes from a
# half-trained agent.
#
# ## Collect
#
# You can turn the replay buffer of an off-policy agent into a dataset.

# %%
import tempfile
from pathlib import Path

import gymnax
import jax
import numpy as np

from jaxagents import BC, CQL, DQN, bc, cql, dqn
from jaxagents.data import Dataset
from jaxagents.plotting import plot_learning_curve

env, env_params = gymnax.make("CartPole-v1")
folder = Path(tempfile.mkdtemp())  # or Path("runs")
behaviour = DQN(
    env,
    env_params,
    dqn.AgentConfig(n_steps=2_500, eval_frequency=500, buffer_size=20_000),
)
runner, collected = behaviour.train(
    jax.random.key(0), dqn.HyperParameters(tau=0.01), progress=False
)
dataset = runner.buffer.to_dataset()
print(len(dataset), sorted(dataset))

# %% [markdown]
# `masks` are 0 where the episode terminated. `ends` are true at the last step of each
# episode, terminated or truncated. Any arrays with these names work:
#
# ```python
# dataset = Dataset({"observations": ..., "actions": ..., ...})
# dataset = Dataset.load("cartpole.npz")
# ```
#
# For continuous actions, `Dataset(arrays, action_space=...)` specifies the
# [units](../../api/data/#units-of-actions).

# %%
assert isinstance(dataset, Dataset)
ends = np.asarray(dataset["ends"])
print(f"{ends.sum()} episodes, mean length {len(dataset) / ends.sum():.0f}")

# %% [markdown]
# ## Learn from it
#
# Behavioural cloning imitates the actions in the data. CQL (conservative Q-learning)
# improves on them, but stays close to the data. Only evaluations use the environment.

# %%
settings = {"n_steps": 2_000, "eval_frequency": 250, "features": (64, 64)}

imitator = BC(env, env_params, bc.AgentConfig(**settings), dataset=dataset)
_, imitated = imitator.train(
    jax.random.key(0), bc.HyperParameters(), progress=False
)

agent = CQL(env, env_params, cql.AgentConfig(**settings), dataset=dataset)
_, learned = agent.train(
    jax.random.key(0), cql.HyperParameters(), progress=False
)

# %%
axes = plot_learning_curve(
    imitated, label="imitation", title="Offline CartPole"
)
_ = plot_learning_curve(learned, label="CQL", ax=axes)
_ = axes.axhline(
    collected["returns"][-1].mean(), color="0.5", ls="--", label="behaviour"
)
_ = axes.legend(frameon=False)
axes.figure.savefig(folder / "learning_curves.png")
print("The picture is in", folder)

# %% [markdown]
# ## Next steps
#
# - [Offline agents](../../guide/off_policy/#offline), and [IQL](../../agents/iql/) for
#   continuous actions
# - [Public datasets](../../api/data/) from Minari
