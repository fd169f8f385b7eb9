"""Mistakes with networks."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from jaxagents import PPO, DiscreteSACLearner, DQNLearner, PPOBase, SACLearner
from jaxagents.envs.spaces import Box
from jaxagents.networks import (
    MLP,
    CategoricalActor,
    CategoricalPolicy,
    Critic,
    Policy,
    StateCritic,
    WithMemory,
)
from jaxagents.networks.vision import make_encoder
from mistakes.things import (
    make_box_ppo,
    make_dqn,
    make_ppo,
    make_sac,
    mine,
    runner_of,
    train,
)


class Plain(nn.Module):
    """A network without a field for the configuration."""

    @nn.compact
    def __call__(self, obs):
        return nn.Dense(2)(obs)


class Vector(nn.Module):
    """A network with several outputs, whose field is a number."""

    size: int = 5

    @nn.compact
    def __call__(self, obs, temperature=1.0):
        return nn.Dense(self.size)(obs)


def remembering(base=PPO, **hooks):
    """An agent whose networks have a memory."""
    networks = {"actor_network": None, "critic_network": None}
    return make_ppo(agent=mine(base, **hooks), memory="gru", **networks)


def values_of_single_observations(self, training, obs, targets, hyperparams):
    return jax.vmap(lambda o: self._value(training, training.params, o))(obs) - targets


def act_without_a_memory():
    agent = remembering()
    agent.act(runner_of(agent).actor_training, (), jnp.zeros(2))


MISTAKES = {
    "An actor with more outputs than there are actions": lambda: make_ppo(
        actor_network=CategoricalActor(5)
    ),
    "An actor of continuous actions that outputs only the mean": lambda: make_box_ppo(
        actor_network=Vector(2)
    ),
    "An actor of a discrete learner with more outputs than there are actions": lambda: (
        DiscreteSACLearner.create(
            0,
            jnp.zeros(2),
            0,
            n_actions=2,
            actor_network=CategoricalPolicy(features=(4,), n_actions=5),
        )
    ),
    "A class of networks without a field for the configuration": lambda: make_ppo(
        actor_network=Plain
    ),
    "A class of networks whose field is a number": lambda: make_ppo(actor_network=Vector),
    "A function that returns something other than a network": lambda: make_ppo(
        actor_network=lambda config: 3
    ),
    "The name of a network": lambda: make_ppo(actor_network="mlp"),
    "`channels_first` with your own networks": lambda: make_ppo(channels_first=True),
    "`channels_first` without images": lambda: make_dqn(channels_first=True),
    "A critic with several outputs": lambda: make_ppo(critic_network=Vector()),
    "A subclass of a base class without networks": lambda: make_ppo(
        agent=mine(PPOBase, _distribution_of=lambda self, output: output), critic_network=None
    ),
    "An unknown kind of memory": lambda: make_ppo(memory="rnn"),
    "`memory` with networks that have none": lambda: make_ppo(
        memory="gru", actor_network=CategoricalActor(2), critic_network=StateCritic()
    ),
    "`memory` for a subclass whose default network has none": lambda: remembering(
        _actor_network=lambda self: CategoricalActor(2)
    ),
    "A loss that values one observation by itself, with a critic that has a memory": lambda: train(
        remembering(_critic_loss=values_of_single_observations)
    ),
    "A hook for one observation, with an actor that has a memory": lambda: make_ppo(
        agent=mine(
            PPOBase,
            _distribution_of=lambda self, output: output,
            _entropy=lambda self, training, obs: 0.0,
        ),
        actor_network=WithMemory(CategoricalActor(2, features=()), cell=nn.GRUCell(features=4)),
    ),
    "DQN with a network that outputs too many values": lambda: make_dqn(critic_network=Vector(5)),
    "A single critic where several are needed": lambda: make_sac(critic_network=Critic((4,))),
    "A class of networks for a learner": lambda: make_dqn(critic_network=MLP),
    "A misspelt encoder": lambda: make_encoder("imapla"),
    "A policy with a negative standard deviation": lambda: Policy(action_dim=1, fixed_std=-1.0),
    "Images for a learner without an encoder": lambda: SACLearner.create(
        0, np.zeros((8, 8, 3), np.uint8), np.zeros(1)
    ),
    "Continuous actions for a discrete learner": lambda: DQNLearner.create(
        0, jnp.zeros(2), jnp.zeros(()), n_actions=2
    ),
    "Discrete actions for a continuous learner": lambda: SACLearner.create(
        0, jnp.zeros(2), jnp.int32(0)
    ),
    "A box for the actions of a discrete learner": lambda: DQNLearner.create(
        0, Box(-1.0, 1.0, (2,)), Box(-1.0, 1.0, (1,))
    ),
    "The space of actions that are not rescaled, for a learner": lambda: SACLearner.create(
        0, Box(-1.0, 1.0, (3,)), Box(-2.0, 2.0, (1,))
    ),
    "A discrete learner without the number of actions": lambda: DQNLearner.create(
        0, jnp.zeros(2), jnp.int32(0)
    ),
    "An example of an action that does not exist": lambda: DQNLearner.create(
        0, jnp.zeros(2), jnp.int32(3), n_actions=2
    ),
    "A scalar as an example of continuous actions": lambda: SACLearner.create(
        0, jnp.zeros(2), jnp.zeros(())
    ),
    "More minibatches than environments, for networks with a memory": lambda: make_ppo(
        memory="gru", minibatches_per_epoch=8, actor_network=None, critic_network=None
    ),
    "A recurrent network without its memory: `agent.act(actor, (), obs)`": act_without_a_memory,
}
