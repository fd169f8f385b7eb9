"""Measures the PPO of Stable-Baselines3."""

import functools

import measure
from sb3 import Trainer
from stable_baselines3 import PPO
from torch import nn

if __name__ == "__main__":
    measure.main("stable-baselines3", functools.partial(Trainer, PPO, {"activation_fn": nn.Tanh}))
