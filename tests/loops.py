"""A small learner and small environments for trainings on the host."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from gymnasium import spaces


class Tiny(struct.PyTreeNode):
    """A linear policy with noise, moved by rewards; it knows how many updates it has made."""

    weights: jax.Array
    n_updates: jax.Array
    rng: jax.Array
    discrete: bool = struct.field(pytree_node=False, default=False)

    @classmethod
    def create(cls, observation, n_outputs, discrete=False):
        weights = jnp.zeros((_features(observation).size, n_outputs))
        return cls(weights, jnp.int32(0), jax.random.key(3), discrete)

    @jax.jit
    def update_many(self, batches):
        return jax.lax.scan(Tiny._update, self, batches)

    def _update(self, batch):
        rng, key = jax.random.split(self.rng)
        x = jax.vmap(_features)(batch["observations"])
        x_next = jax.vmap(_features)(batch["next_observations"])
        values = batch["rewards"] + 0.9 * batch["masks"] * (x_next @ self.weights).mean(-1)
        step = x.T @ jnp.tanh(values) / len(x) + 0.1 * jax.random.normal(key, x.shape[1:])
        learner = self.replace(
            weights=0.99 * self.weights + 0.05 * step[:, None],
            n_updates=self.n_updates + 1,
            rng=rng,
        )
        return learner, {"value": values.mean(), "largest_reward": batch["rewards"].max()}

    @jax.jit
    def sample_actions(self, observations, *, seed=None, temperature=1.0):
        outputs = _features(observations) @ self.weights
        if seed is not None:
            outputs = outputs + temperature * jax.random.normal(seed, outputs.shape)
        return outputs.argmax(-1).astype(jnp.int32) if self.discrete else jnp.tanh(outputs)


def _features(observation):
    leaves = [jnp.ravel(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(observation)]
    return jnp.concatenate(leaves) / 10


class Counting(Tiny):
    """Acts by the number of updates it has made, and reports the highest row it has learned from."""

    @jax.jit
    def update_many(self, batches):
        def update(learner, batch):
            newest = batch["observations"].max()
            return learner.replace(n_updates=learner.n_updates + 1), {"newest": newest}

        return jax.lax.scan(update, self, batches)

    @jax.jit
    def sample_actions(self, observations, *, seed=None, temperature=1.0):
        return self.n_updates[None] / 1000


class Line(gymnasium.Env):
    """A walk from a random place; the episode ends beyond 3, and is cut after `limit` steps.

    It writes every observation into the same array.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def __init__(self, limit=7, action_space=None):
        self.action_space = action_space or spaces.Box(-0.5, 1.0, (1,), np.float32)
        self.limit = limit
        self.place = np.zeros(2)
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.place[:] = self.np_random.uniform(-1.0, 1.0), 0.0
        return self.place, {}

    def step(self, action):
        self.taken.append(action)
        self.time += 1
        self.place[0] += np.sum(action) + self.np_random.normal()
        self.place[1] = self.time
        terminated = bool(self.place[0] > 3.0)
        return self.place, self.place[0], terminated, self.time == self.limit, {}


class Clock(gymnasium.Env):
    """Shows how many steps were made in all; episodes have four of them."""

    observation_space = spaces.Box(0.0, np.inf, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.float32([self.time]), {}

    def step(self, action):
        self.time += 1
        return np.float32([self.time]), 1.0, False, self.time % 4 == 0, {}


class Picture(gymnasium.Env):
    """Observations in a dict, with an image of bytes; two actions; at most nine steps."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (2, 2), np.uint8),
            "inner": spaces.Dict({"count": spaces.Discrete(300)}),
        }
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.count = 0, int(self.np_random.integers(100))
        return self._observation(), {}

    def step(self, action):
        assert isinstance(action, int)
        self.time += 1
        self.count += action
        return self._observation(), float(action), self.count % 5 == 0, self.time == 9, {}

    def _observation(self):
        return {"image": np.full((2, 2), self.count, np.uint8), "inner": {"count": self.count}}


class Recorder:
    """Keeps what it is given, and calls a function at a step."""

    def __init__(self, step=None, then=None):
        self.logged = {}
        self.step, self.then = step, then

    def log(self, step, metrics):
        self.logged[step] = metrics
        if step == self.step:
            self.then()
