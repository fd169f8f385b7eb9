"""Runs a policy trained by PPO in plain NumPy, on CartPole.

    python examples/numpy_policy.py

Trains a small agent, exports its policy to one file, and plays an episode without JAX.
"""

import argparse
from pathlib import Path

import gymnasium
import numpy as np
from safetensors.numpy import load_file

HIDDEN = "weights/params/Torso_0/MLP_0/Dense_0", "weights/params/Torso_0/MLP_0/Dense_1"
LOGITS = "weights/params/Dense_0"


def train_and_export(path: Path, n_steps: int) -> None:
    """Trains PPO on CartPole and exports its policy."""
    import gymnax
    import jax

    from jaxagents import PPO
    from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams

    config = AgentConfig(n_steps=n_steps, batch_size=16, rollout_length=128, eval_frequency=n_steps)
    agent = PPO(*gymnax.make("CartPole-v1"), config)
    optimizer = OptimizerParams(learning_rate=3e-3, grad_clip=0.5)
    optimizers = {"actor_optimizer_params": optimizer, "critic_optimizer_params": optimizer}
    agent.train(jax.random.key(0), HyperParameters(ent_coeff=0.01, **optimizers))
    agent.export_policy(path)


def greedy_action(weights: dict[str, np.ndarray], observation: np.ndarray) -> int:
    """The action with the largest logit, computed as in PPO's default network."""
    x = observation
    for layer in HIDDEN:
        x = np.tanh(x @ weights[f"{layer}/kernel"] + weights[f"{layer}/bias"])
    return int(np.argmax(x @ weights[f"{LOGITS}/kernel"] + weights[f"{LOGITS}/bias"]))


def main(arguments: list[str] | None = None) -> int:
    """Plays an episode and returns its length."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", type=Path, default=Path("cartpole.safetensors"))
    parser.add_argument("--n-steps", type=int, default=100, help="number of updates")
    options = parser.parse_args(arguments)
    if not options.policy.exists():
        train_and_export(options.policy, options.n_steps)
    weights = load_file(options.policy)
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=0)
    length, over = 0, False
    while not over:
        observation, _, terminated, truncated, _ = env.step(greedy_action(weights, observation))
        length, over = length + 1, terminated or truncated
    print(f"The episode lasted {length} steps.")
    return length


if __name__ == "__main__":
    main()
