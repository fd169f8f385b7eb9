# %% [markdown]
# # Stop and resume
#
# A training that is paused or interrupted, by Ctrl-C, by a scheduler or by a power
# failure, goes on from its last checkpoint. On a CPU it ends with the very numbers of a training
# that was never interrupted.

# %%
import tempfile
from pathlib import Path

import gymnax
import jax
import numpy as np

from jaxagents import PPO
from jaxagents.plotting import plot_learning_curve
from jaxagents.ppo import AgentConfig, HyperParameters

env, env_params = gymnax.make("CartPole-v1")
folder = Path(tempfile.mkdtemp())  # yours might be Path("runs/cartpole")

# %% [markdown]
# ## A script that can be started again
#
# `restore_agent=True` allows the folder to hold checkpoints already. `resume` makes
# what is missing of `n_steps`, whether that is everything or nothing.

# %%
config = AgentConfig(
    n_steps=40, eval_frequency=10, checkpoint_dir=folder, restore_agent=True
)


def train(callbacks=()):
    agent = PPO(env, env_params, config)
    return agent.resume(
        jax.random.key(0),
        HyperParameters(),
        progress=False,
        callbacks=callbacks,
    )


# %% [markdown]
# Here the first run ends itself after an evaluation, as Ctrl-C or SIGTERM would end it
# after the current updates: with a checkpoint.


# %%
def interrupt(progress):
    return progress.step >= config.n_steps // 2


runner, metrics = train(callbacks=[interrupt])
print("stopped after update", int(runner.update_step))

# %% [markdown]
# The same script again:

# %%
runner, metrics = train()
print("ended after update", int(runner.update_step))
print("evaluations at", metrics["update_step"])

# %% [markdown]
# ## The same, bit for bit

# %%
alone = PPO(
    env, env_params, config.replace(checkpoint_dir=None, restore_agent=False)
)
uninterrupted, expected = alone.train(
    jax.random.key(0), HyperParameters(), progress=False
)
equal = jax.tree.map(
    np.array_equal,
    runner.actor_training.params,
    uninterrupted.actor_training.params,
)
print("identical:", jax.tree.all(equal))

axes = plot_learning_curve(expected, label="uninterrupted", title="CartPole")
_ = plot_learning_curve(metrics, label="stopped and resumed", ax=axes)
_ = axes.axvline(config.n_steps // 2, color="grey", ls=":")
axes.figure.savefig(folder / "learning_curves.png")
print("The picture is in", folder)

# %% [markdown]
# ## Another best
#
# `restore("best")` takes the checkpoint of the highest mean return, or the one that a
# function of yours prefers, here that with the highest worst return:

# %%
agent = PPO(env, env_params, config)
safest, _ = agent.restore(
    "best", best_fn=lambda metrics: metrics["returns"].min(axis=1).argmax()
)
print("update", int(safest.update_step))

# %% [markdown]
# ## Train for longer, or otherwise
#
# A larger `n_steps` goes on where training ended. Hyperparameters that are given with
# a runner take the place of its own:

# %%
runner, _ = agent.restore("last")
calmer = HyperParameters(eps_clip=0.1)
runner, metrics = agent.train(None, calmer, runner, n_steps=10, progress=False)
print("update", int(runner.update_step))

# %% [markdown]
# ## Go on from here
#
# - [Checkpoints](../../guide/checkpoints/): what is kept, best and last, damage
# - [Reliability](../../reliability/): what is promised, and how it is tested
# - [Gymnasium environments](../../guide/gymnasium/): the same there
