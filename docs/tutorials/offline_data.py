# %% [markdown]
# # Offline data
#
# Offline agents learn from a dataset of transitions, whoever collected it, without
# playing. Here the data comes from an agent that is half trained.
#
# ## Collect
#
# The replay buffer of an off-policy agent is a dataset.

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
folder = Path(tempfile.mkdtemp())  # yours might be Path("runs")
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
# `masks` are 0 where an episode was over because the environment ended it, and `ends`
# are true at its last step, whatever the reason. Any arrays with these names will do:
#
# ```python
# dataset = Dataset({"observations": ..., "actions": ..., ...})
# dataset = Dataset.load("cartpole.npz")
# ```
#
# If actions are continuous, `Dataset(arrays, action_space=...)` says
# [which box](../../api/data/#units-of-actions) they are in.

# %%
assert isinstance(dataset, Dataset)
ends = np.asarray(dataset["ends"])
print(f"{ends.sum()} episodes, mean length {len(dataset) / ends.sum():.0f}")

# %% [markdown]
# ## Learn from it
#
# Behavioural cloning imitates what was done. CQL (conservative Q-learning) asks what
# would have been better, and keeps to actions that the data knows. The environment
# only serves to evaluate them.

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
# ## Go on from here
#
# - [Offline agents](../../guide/off_policy/#offline), and
#   [IQL](../../agents/iql/) for box actions
# - [Minari](../../api/data/) has datasets of others
