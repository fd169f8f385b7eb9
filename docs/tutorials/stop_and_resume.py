# %% [markdown]
# # Stop and resume
#
# After Ctrl-C, SIGTERM or a power failure, a run continues from its last checkpoint. On
# a CPU, the result is bit for bit the same as without the interruption.

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
folder = Path(tempfile.mkdtemp())  # or Path("runs/cartpole")

# %% [markdown]
# ## A script that you can start again
#
# With `restore_agent=True` the folder may already contain checkpoints. `resume` runs
# whatever remains of the `n_steps` updates.

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
# Here a callback ends the first run after an evaluation. Ctrl-C and SIGTERM end it
# after the current chunk of updates, and also leave a checkpoint.


# %%
def interrupt(progress):
    return progress.step >= config.n_steps // 2


runner, metrics = train(callbacks=[interrupt])
print("stopped after update", int(runner.update_step))

# %% [markdown]
# Run the same script again:

# %%
runner, metrics = train()
print("ended after update", int(runner.update_step))
print("evaluations at", metrics["update_step"])

# %% [markdown]
# ## The result is identical

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
# ## Choose another checkpoint
#
# `restore("best")` loads the checkpoint with the highest mean return. You can choose
# another criterion, here the highest minimum return:

# %%
agent = PPO(env, env_params, config)
safest, _ = agent.restore(
    "best", best_fn=lambda metrics: metrics["returns"].min(axis=1).argmax()
)
print("update", int(safest.update_step))

# %% [markdown]
# ## Train for longer, with other hyperparameters
#
# Given a runner, `train` runs another `n_steps` updates. New hyperparameters replace
# the runner's own:

# %%
runner, _ = agent.restore("last")
calmer = HyperParameters(eps_clip=0.1)
runner, metrics = agent.train(None, calmer, runner, n_steps=10, progress=False)
print("update", int(runner.update_step))

# %% [markdown]
# ## Next steps
#
# - [Checkpoints](../../guide/checkpoints/): which are kept, and what happens if one is
#   damaged
# - [Reliability](../../reliability/): the guarantees, and how they are tested
# - [Gymnasium environments](../../guide/gymnasium/), where `resume` works too
