"""Mistakes in configurations."""

import jax
import optax
from probes import MatchSign

from jaxagents import PPO, bc, c51, dqn, reinforce
from jaxagents.ppo import AgentConfig
from mistakes.things import ON_POLICY, make_dqn, train


def swapped():
    import gymnax  # computes something as it is imported

    env, env_params = gymnax.make("CartPole-v1")
    PPO(env, AgentConfig(), env_params)


class Short(AgentConfig):
    rollout_length: int = 5


MISTAKES = {
    "A misspelt field": lambda: AgentConfig(n_step=3),
    "A field that only other agents have: REINFORCE with `minibatch_size`": lambda: (
        reinforce.AgentConfig(minibatch_size=3)
    ),
    "Fields by position: `AgentConfig(200)`": lambda: AgentConfig(200),
    "No updates": lambda: AgentConfig(n_steps=0),
    "A float for a count: `n_steps=1e6`": lambda: AgentConfig(n_steps=1e6),
    "A boolean for a count": lambda: AgentConfig(n_steps=True),
    "Two names of one number that contradict each other": lambda: AgentConfig(
        n_steps=300, n_updates=400
    ),
    "Updates and environment steps that contradict each other": lambda: AgentConfig(
        n_updates=300, total_timesteps=4096
    ),
    "`total_timesteps` for an agent that learns from a dataset": lambda: bc.AgentConfig(
        total_timesteps=1_000_000
    ),
    "`eval_frequency=0` to switch evaluation off, instead of `eval_during_training=False`": lambda: (
        AgentConfig(eval_frequency=0)
    ),
    "A `minibatch_size` that does not divide `batch_size`": lambda: AgentConfig(
        batch_size=10, minibatch_size=4
    ),
    "Groups that do not divide `batch_size`": lambda: AgentConfig(n_groups=3),
    "A number of minibatches that does not divide the samples of an update": lambda: AgentConfig(
        batch_size=8, rollout_length=3, minibatches_per_epoch=7
    ),
    "As many minibatches as samples": lambda: PPO(
        MatchSign(), None, AgentConfig(batch_size=4, rollout_length=16, minibatches_per_epoch=64)
    ),
    "Groups that do not divide the samples of a minibatch": lambda: AgentConfig(
        batch_size=8, minibatch_size=1, rollout_length=3, n_groups=2
    ),
    "A replay buffer that the environments cannot share": lambda: dqn.AgentConfig(
        buffer_size=1001, learning_starts=8
    ),
    "A replay buffer smaller than `learning_starts`": lambda: dqn.AgentConfig(
        buffer_size=800, learning_starts=1000
    ),
    "Prioritised replay with a buffer on the host": lambda: dqn.AgentConfig(
        buffer_on_host=True, prioritised_replay=True
    ),
    "Checkpoints of a replay buffer on the host": lambda: dqn.AgentConfig(
        buffer_on_host=True, checkpoint_dir="runs/dqn"
    ),
    "A replay buffer on the host for compiled environments": lambda: make_dqn(buffer_on_host=True),
    "C51 with a single atom": lambda: c51.AgentConfig(n_atoms=1),
    "An optimizer, not a function that makes one: `optimizer=optax.adam(1e-3)`": lambda: (
        AgentConfig(optimizer=optax.adam(1e-3))
    ),
    "An optimizer that ignores its learning rate: `optimizer=lambda: optax.adam(1e-3)`": lambda: (
        AgentConfig(optimizer=lambda: optax.adam(1e-3))
    ),
    "The layers of PPO's networks in its configuration": lambda: AgentConfig(features=(256, 256)),
    "A traced value for a static field, inside `jit` or `vmap`": lambda: jax.jit(
        lambda n: AgentConfig(n_steps=n).n_steps
    )(3),
    "The configuration of another agent": lambda: PPO(MatchSign(), None, dqn.AgentConfig()),
    "The configuration and the parameters of the environment swapped": swapped,
    "A dict as a configuration": lambda: PPO(MatchSign(), None, ON_POLICY),
    "The class of the configuration instead of an instance": lambda: PPO(
        MatchSign(), None, AgentConfig
    ),
    "A number for the widths of layers: `features=64`": lambda: make_dqn(features=64),
    "A new default without a type, or in a class that is not a dataclass": Short,
    "A float for `eval_rng`": lambda: AgentConfig(eval_rng=0.5),
    "`keep_checkpoints=0` to keep all, instead of `None`": lambda: AgentConfig(keep_checkpoints=0),
    "An empty path as the folder of checkpoints": lambda: AgentConfig(checkpoint_dir=""),
    "`restore_agent=True` without a `checkpoint_dir`": lambda: AgentConfig(restore_agent=True),
    'Text for a flag, which would count as true: `restore_agent="no"`': lambda: AgentConfig(
        checkpoint_dir="runs/1", restore_agent="no"
    ),
    "A negative number of updates to make": lambda: train(n_steps=-1),
}
