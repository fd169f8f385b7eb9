# %% [markdown]
# # First ten minutes
#
# Train an agent, plot its learning curve, record a video, save it, and restore it. This
# page is [a script](first_ten_minutes.py) that you can run, or open as a notebook with
# [jupytext](https://jupytext.readthedocs.io), after
# `pip install ".[export,plot,video]"` in a clone of the repository.
#
# ## An environment and an agent
#
# This environment is written in JAX, so the whole run becomes one compiled program.
# `gymnax.make` returns the environment and its parameters.

# %%
import gymnax
import jax

from jaxagents import PPO
from jaxagents.plotting import plot_learning_curve
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams

env, env_params = gymnax.make("CartPole-v1")

# %% [markdown]
# The *configuration* fixes the array shapes and loop lengths of the compiled program.
# An update takes `rollout_length` steps in each of `batch_size` environments, so this
# run takes `100 * 16 * 128 = 204_800` steps.

# %%
config = AgentConfig(
    n_steps=100,  # updates
    batch_size=16,  # environments
    rollout_length=128,
    eval_frequency=10,  # updates between evaluations
)
agent = PPO(env, env_params, config)

# %% [markdown]
# *Hyperparameters* are inputs to the compiled program. All have defaults.

# %%
optimizer = OptimizerParams(learning_rate=5e-4, grad_clip=0.5)
hyperparams = HyperParameters(
    ent_coeff=0.01,
    actor_optimizer_params=optimizer,
    critic_optimizer_params=optimizer,
)

# %% [markdown]
# ## Train
#
# The random key makes the run reproducible. Compilation takes the first few seconds.
# Leave out `progress=False` to see a progress bar.

# %%
runner, metrics = agent.train(jax.random.key(0), hyperparams, progress=False)

# %% [markdown]
# `runner` is the complete training state. `metrics` is a dict of arrays with one row
# per evaluation:

# %%
for name, values in metrics.items():
    print(f"{name:25} {values.shape}")

# %% [markdown]
# Each evaluation plays 32 episodes. The curve is their mean return, and the band spans
# the 10th to the 90th percentile; 500 is the maximum. The optional second argument is
# the file to save the plot in.

# %%
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())  # or Path("runs")
steps_per_update = config.batch_size * config.rollout_length
axes = plot_learning_curve(
    metrics,
    folder / "learning_curve.png",
    steps_per_update=steps_per_update,
    title="PPO on CartPole",
)
print("The picture is in", folder)
# %% [markdown]
# ## Evaluate
#
# `eval` plays new episodes with the trained agent, greedily by default.

# %%
outcomes = agent.eval(jax.random.key(1), n_evals=64)
returns = agent.summarize(outcomes["returns"])
print(f"greedy:  {returns.mean:.1f} +- {returns.std:.1f}")

outcomes = agent.eval(jax.random.key(1), n_evals=64, deterministic=False)
returns = agent.summarize(outcomes["returns"])
print(f"sampled: {returns.mean:.1f} +- {returns.std:.1f}")

# %% [markdown]
# ## Record a video
#
# `render_episode` records an episode as a GIF or MP4, and returns the frames:

# %%
frames = agent.render_episode(
    jax.random.key(2), folder / "episode.gif", max_steps=150
)
print(frames.shape, frames.dtype)

# %% [markdown]
# ![PPO balances the pole in CartPole-v1](../../pictures/cartpole.gif)
#
# ## Act
#
# `policy` returns the greedy action for one observation:

# %%
rng, obs, envstate = agent.env_reset(jax.random.key(2))
print(obs, agent.policy(agent.actor_training, obs))

# %% [markdown]
# `env_reset`, `policy` and `env_step` are pure functions, so you can write any loop
# around them. This one is compiled:


# %%
def step(carry, _):
    rng, obs, envstate = carry
    action = agent.policy(agent.actor_training, obs)
    rng, next_obs, envstate, *_ = agent.env_step(rng, envstate, action)
    return (rng, next_obs, envstate), obs


_, seen = jax.lax.scan(step, (rng, obs, envstate), length=200)
print(f"the pole leans by at most {abs(seen[:, 2]).max():.2f} radians")

# %% [markdown]
# ## Save and restore
#
# With a `checkpoint_dir`, the agent saves a checkpoint at every evaluation.

# %%
saved = config.replace(checkpoint_dir=folder / "cartpole")
saving = PPO(env, env_params, saved)
runner, _ = saving.train(jax.random.key(0), hyperparams, progress=False)
# %% [markdown]
# `restore("best")` loads the checkpoint with the highest mean return, even in another
# process. Pass `"last"` or an update number to load a different one.

# %%
restored = PPO(env, env_params, saved.replace(restore_agent=True))
runner, metrics = restored.restore("best")
print("update", int(runner.update_step))
print("return", restored.eval(jax.random.key(1))["returns"].mean())

# %% [markdown]
# ## Export the policy
#
# You can export the policy to a single file. Loading it needs neither the agent nor the
# environment:

# %%
from jaxagents import load_policy

restored.export_policy(folder / "policy.safetensors")
policy = load_policy(folder / "policy.safetensors")
print(policy(obs), policy.metadata["environment"])

# %% [markdown]
# ## Next steps
#
# - [Many seeds and a sweep](../../tutorials/sweep/): which learning rate is best?
# - [Stop and resume](../../tutorials/stop_and_resume/): press Ctrl-C, and continue
#   later
# - [Your own policy](../../tutorials/own_policy/) and [your own
#   algorithm](../../tutorials/own_algorithm/)
# - [Training](../../guide/training/) in detail, or from the [command
#   line](../../guide/command_line/)
# - [Which agent?](../../guide/which_agent/)
