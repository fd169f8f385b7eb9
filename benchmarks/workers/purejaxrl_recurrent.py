"""Measures purejaxrl's recurrent PPO from a checkout of its repository.

purejaxrl is not in a package. It was written for an earlier Flax, whose GRU needed no size, so this
worker gives it a GRU that needs none. Suites that its wrappers import without using them are mocked.
"""

import argparse
import runpy
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import jax
import jax.numpy as jnp
import recurrent
from flax import linen as nn


class GRUCell(nn.GRUCell):
    """The cell with the interface of the earlier Flax."""

    features: int = recurrent.WIDTH

    @staticmethod
    def initialize_carry(rng: jax.Array, batch_dims: tuple[int, ...], size: int) -> jax.Array:
        return jnp.zeros((*batch_dims, size))


def make(args: argparse.Namespace) -> Callable[[int], Any]:
    """A compiled training function of the seed."""
    folder = args.checkout / "purejaxrl"
    sys.path.append(str(folder))
    for name in ("brax", "brax.envs", "brax.envs.wrappers", "brax.envs.wrappers.training", "navix"):
        sys.modules[name] = MagicMock()
    nn.GRUCell = GRUCell
    config = {
        "LR": recurrent.LEARNING_RATE,
        "NUM_ENVS": recurrent.N_ENVS,
        "NUM_STEPS": recurrent.ROLLOUT_LENGTH,
        "TOTAL_TIMESTEPS": args.updates * recurrent.N_ENVS * recurrent.ROLLOUT_LENGTH,
        "UPDATE_EPOCHS": recurrent.N_EPOCHS,
        "NUM_MINIBATCHES": recurrent.N_MINIBATCHES,
        "GAMMA": recurrent.GAMMA,
        "GAE_LAMBDA": recurrent.GAE_LAMBDA,
        "CLIP_EPS": recurrent.CLIP,
        "ENT_COEF": recurrent.ENTROPY_COEFFICIENT,
        "VF_COEF": recurrent.VALUE_COEFFICIENT,
        "MAX_GRAD_NORM": recurrent.MAX_GRADIENT_NORM,
        "ENV_NAME": args.environment,
        "ANNEAL_LR": True,
    }
    train = runpy.run_path(str(folder / "ppo_rnn.py"))["make_train"](config)
    compiled = jax.jit(train).lower(jax.random.key(0)).compile()
    return lambda seed: jax.block_until_ready(compiled(jax.random.key(seed)))


if __name__ == "__main__":
    recurrent.main("purejaxrl", make)
