"""Measures the PPO of sbx (Stable-Baselines3 in JAX)."""

import functools

import measure
from flax import linen as nn
from sb3 import Trainer
from sbx import PPO

if __name__ == "__main__":
    measure.main("sbx-rl", functools.partial(Trainer, PPO, {"activation_fn": nn.tanh}))
