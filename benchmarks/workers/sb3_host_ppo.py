"""Measures the PPO of Stable-Baselines3 in environments on the host."""

import functools

import host_ppo
from sb3_host import Library

if __name__ == "__main__":
    import torch
    from stable_baselines3 import PPO

    torch.set_num_threads(1)
    options = {"activation_fn": torch.nn.Tanh}
    host_ppo.main(Library("stable-baselines3", functools.partial(PPO, device="cpu"), options))
