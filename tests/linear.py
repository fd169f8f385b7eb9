"""Learners with linear networks, whose updates NumPy can reproduce."""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from learner_registry import ACTION_DIM, N_ACTIONS, OBS_DIM, transitions

from jaxagents import ops
from jaxagents.core.observed import network_input


def normal(key, shape):
    """Weights drawn by NumPy, as constants, which take no time to compile."""
    return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape), jnp.float32)


class Policy(nn.Module):
    """A Gaussian whose mean is the tanh of a linear function."""

    @nn.compact
    def __call__(self, observations, temperature=1.0):
        weights = self.param("weights", normal, (OBS_DIM, ACTION_DIM))
        log_std = self.param("log_std", normal, (ACTION_DIM,))
        return ops.Gaussian(jnp.tanh(observations @ weights), log_std + jnp.log(temperature))


class DiscretePolicy(nn.Module):
    """Linear logits."""

    @nn.compact
    def __call__(self, observations, temperature=1.0):
        logits = observations @ self.param("weights", normal, (OBS_DIM, N_ACTIONS))
        return ops.Categorical(logits).tempered(temperature)


class Critics(nn.Module):
    """Two linear functions of observation and action."""

    @nn.compact
    def __call__(self, observations, actions):
        weights = self.param("weights", normal, (2, OBS_DIM + ACTION_DIM))
        pairs = jnp.concatenate([observations, actions], axis=-1)
        return jnp.einsum("...i,ci->c...", pairs, weights)


class DiscreteCritics(nn.Module):
    """Two linear functions of the observation for each action."""

    @nn.compact
    def __call__(self, observations):
        return observations @ self.param("weights", normal, (2, OBS_DIM, N_ACTIONS))


class ActionValues(nn.Module):
    """A linear function of the observation for each action, or several for each."""

    outputs: tuple[int, ...] = ()

    @nn.compact
    def __call__(self, observations):
        weights = self.param("weights", normal, (OBS_DIM, N_ACTIONS, *self.outputs))
        return jnp.tensordot(network_input(observations), weights, axes=1)


class Value(nn.Module):
    """A linear function of the observation."""

    @nn.compact
    def __call__(self, observations):
        return observations @ self.param("weights", normal, (OBS_DIM,))


def create(kind, **fields):
    """A learner that makes plain gradient steps, whose targets are not copies of its networks."""
    batch = transitions(kind.discrete_actions, (16,))
    sizes = {"n_actions": N_ACTIONS} if kind.discrete_actions else {}
    fields = {"optimizer": optax.sgd, **sizes, **fields}
    learner = kind.create(0, batch["observations"], batch["actions"], **fields)

    def other(state):
        params = jax.tree.map(lambda x: np.float32(0.1 - 0.5 * np.asarray(x)), state.params)
        return state.replace(params=params)

    targets = [name for name in vars(learner) if name.startswith("target_")]
    return learner.replace(**{name: other(getattr(learner, name)) for name in targets})


def batch_with(kind, further: Iterable[str] = (), seed=0):
    """A batch of transitions, with random numbers under further keys."""
    batch, rng = transitions(kind.discrete_actions, (16,), seed), np.random.default_rng(seed + 100)
    return batch | {key: rng.uniform(0.1, 1.0, size=16).astype(np.float32) for key in further}


ALL = ("discounts", "weights")
"""The keys that a batch may have besides."""


def weights_of(learner, *names):
    """Parameters `weights` of networks."""
    return [np.asarray(getattr(learner, name).params["weights"], np.float64) for name in names]


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def log_prob_and_slopes(obs, actions, weights, log_std):
    """Log-densities of a `Policy`, and their derivatives by its outputs and by its log_std."""
    mean, std = np.tanh(obs @ weights), np.exp(log_std)
    z = (actions - mean) / std
    log_prob = (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(axis=-1)
    return log_prob, z / std * (1 - mean**2), z**2 - 1
