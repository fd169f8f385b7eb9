# %% [markdown]
# # Two players
#
# IPPO (independent PPO) trains several agents at once, each with its own reward. Here a
# chaser and a runner train against each other.
#
# ## A game
#
# An environment with `n_actors` takes one action per agent, and returns one row of
# observations and one reward per agent. The players live on a ring of 12 places, and
# each sees where the other is. At each step the chaser moves up to two places, and the
# runner up to one.

# %%
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
from gymnax.environments import spaces

from jaxagents import IPPO, Environment, check_env
from jaxagents.envs import Step
from jaxagents.ippo import AgentConfig, HyperParameters, OptimizerParams
from jaxagents.plotting import plot_learning_curve


class Chase(Environment):
    n_actors = 2
    n_places = 12
    max_steps = 40
    action_space = spaces.Discrete(3)  # left, stay, right

    def reset(self, key):
        apart = jax.random.randint(key, (), 3, self.n_places - 2)
        state = jnp.array([0, apart])
        return self._observe(state), state

    def step(self, key, state, action):
        slips = jax.random.bernoulli(key, 0.3)  # the chaser moves only 1 place
        reach = jnp.array([jnp.where(slips, 1, 2), 1])
        state = (state + reach * (action - 1)) % self.n_places
        distance = self._distance(state)
        caught = distance <= 1
        gain = jnp.where(caught, 1.0, -0.05)
        return Step(
            obs=self._observe(state),
            state=state,
            reward=jnp.array([gain, -gain]),
            terminated=caught,
            truncated=False,
            info={},
        )

    def _distance(self, state):
        apart = (state[1] - state[0]) % self.n_places
        return jnp.minimum(apart, self.n_places - apart)

    def _observe(self, state):
        apart = (state[::-1] - state) % self.n_places
        angle = 2.0 * jnp.pi * apart / self.n_places
        return jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)


print(check_env(Chase()))
folder = Path(tempfile.mkdtemp())  # or Path("runs")

# %% [markdown]
# ## Train both
#
# By default each agent has its own networks and sees its own row of the observations.

# %%
config = AgentConfig(
    n_steps=60,
    batch_size=64,
    minibatch_size=16,
    rollout_length=40,
    eval_frequency=5,
    eval_deterministic=False,
)
optimizer = OptimizerParams(learning_rate=1e-3, grad_clip=0.5)
hyperparams = HyperParameters(
    ent_coeff=0.01,
    actor_optimizer_params=optimizer,
    critic_optimizer_params=optimizer,
)
agent = IPPO(Chase(), None, config)
runner, metrics = agent.train(jax.random.key(0), hyperparams, progress=False)
print(metrics["returns"].shape)  # (points, episodes, agents)

# %% [markdown]
# The game is zero-sum, so the returns mirror each other. They show who learns faster,
# not how well each plays.

# %%
axes = plot_learning_curve(
    metrics, folder / "learning_curve.png", title="Chaser (0) and runner (1)"
)
print("The picture is in", folder)

# %% [markdown]
# ## Evaluate against random play
#
# To measure a player's strength, test it against a fixed opponent, here one that moves
# at random.


# %%
def length_of_chase(key, chaser_is_trained, runner_is_trained):
    key, obs, state = agent.env_reset(key)
    trained = jnp.array([chaser_is_trained, runner_is_trained])

    def step(carry, _):
        key, obs, state = carry
        key, learned_key, random_key = jax.random.split(key, 3)
        _, learned = agent.act(agent.actor_training, (), obs, learned_key)
        by_chance = jax.random.randint(random_key, (2,), 0, 3)
        action = jnp.where(trained, learned, by_chance)
        key, obs, state, _, done, _ = agent.env_step(key, state, action)
        return (key, obs, state), done

    _, done = jax.lax.scan(step, (key, obs, state), length=Chase.max_steps)
    return done.argmax() + 1


keys = jax.random.split(jax.random.key(1), 256)
play = jax.jit(jax.vmap(length_of_chase, in_axes=(0, None, None)))
print("mean steps until the catch (40 is the limit)")
for chaser in (False, True):
    for runs in (False, True):
        names = ["at random", "trained"]
        steps = play(keys, chaser, runs).mean()
        print(f"chaser {names[chaser]:9}  runner {names[runs]:9} {steps:5.1f}")

# %% [markdown]
# ## Next steps
#
# - [IPPO](../../agents/ippo/), and [multi-agent
#   networks](../../guide/subclassing/#multi-agent-networks), which can share parameters
# - [Self-play](../../guide/suites/#self-play) in two-player games such as connect four
# - `examples/pursuit_ippo.py`: a pursuit in two dimensions, with plots and a video
