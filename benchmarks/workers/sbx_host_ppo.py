"""Measures the PPO of sbx (Stable-Baselines3 in JAX) in environments on the host."""

import host_ppo
from flax import linen as nn
from sb3_host import Library
from sbx import PPO

if __name__ == "__main__":
    host_ppo.main(Library("sbx-rl", PPO, {"activation_fn": nn.tanh}))
