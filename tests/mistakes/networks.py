"""Mistakes with networks."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from probes import MatchSign

from jaxagents import IPPO, PPO, DiscreteSACLearner, DQNLearner, PPOBase, SACLearner, ippo, ppo
from jaxagents.networks import (
    MLP,
    CategoricalActor,
    CategoricalPolicy,
    Critic,
    GaussianActor,
    PerActor,
    Policy,
    StateCritic,
    WithMemory,
)
from jaxagents.networks.vision import make_encoder
from mistakes.entries import Theme
from mistakes.things import (
    ON_POLICY,
    hyperparams,
    key,
    make_box_ppo,
    make_dqn,
    make_ppo,
    make_sac,
    runner_of,
)

mistake = Theme("Networks")


class Plain(nn.Module):
    """A network without a field for the configuration."""

    @nn.compact
    def __call__(self, obs):
        return nn.Dense(2)(obs)


class Wide(nn.Module):
    """A network whose first field is a number."""

    width: int

    @nn.compact
    def __call__(self, obs):
        return nn.Dense(self.width)(obs)


class Vector(nn.Module):
    """A network with several outputs."""

    size: int = 5

    @nn.compact
    def __call__(self, obs, temperature=1.0):
        return nn.Dense(self.size)(obs)


@mistake(
    ValueError, r"actor.* must give 2 logits, one for each action of MatchSign, .*shape \(5,\)"
)
def too_many_logits():
    """An actor with more outputs than there are actions."""
    make_ppo(actor_network=CategoricalActor(5))


@mistake(
    ValueError, r"actor.* must give 2 logits, one for each action of MatchSign, .*shape \(1,\)"
)
def too_few_logits():
    """An actor with fewer outputs than there are actions."""
    make_ppo(actor_network=Vector(1))


@mistake(ValueError, r"actor.* must give 2 logits, one for each action of MatchSign, got a tuple")
def moments_for_logits():
    """An actor of continuous actions in an environment of discrete ones."""
    make_ppo(actor_network=GaussianActor((2,)))


@mistake(ValueError, r"actor.* must give 2 logits, .* got shape \(2, 3\)")
def too_many_logits_for_each_actor():
    """An actor with too many outputs for each of several actors."""
    network = PerActor(CategoricalActor(3), 2, own_observations=False)
    IPPO(MatchSign(2), None, ippo.AgentConfig(actor_network=network))


@mistake(
    ValueError, r"actor.* must give a mean and a logarithm .* of shape \(2,\).*got shape \(2,\)"
)
def mean_alone():
    """An actor of continuous actions that gives the mean alone."""
    make_box_ppo(actor_network=Vector(2))


@mistake(ValueError, r"actor.* a mean and a logarithm .* of shape \(2,\).*got .*shape \(3,\)")
def mean_of_another_shape():
    """An actor of continuous actions with too many components."""
    make_box_ppo(actor_network=GaussianActor((3,)))


@mistake(ValueError, r"DiscreteSACLearner.* must give 2 logits, .*got shape \(5,\)")
def too_many_logits_of_a_learner():
    """An actor of a discrete learner with more outputs than there are actions."""
    actor = CategoricalPolicy(features=(4,), n_actions=5)
    DiscreteSACLearner.create(0, jnp.zeros(2), 0, n_actions=2, actor_network=actor)


@mistake(
    TypeError, r"Plain .*takes no configuration.*config: AgentConfig.*or pass a module.*Plain\(\)"
)
def network_without_a_configuration():
    """A class of networks without a field for the configuration."""
    make_ppo(actor_network=Plain)


@mistake(TypeError, r"Wide .*'width'.*takes no configuration.*or pass a module, such as Wide\(")
def network_of_a_number():
    """A class of networks whose field is a number."""
    make_ppo(actor_network=Wide)


@mistake(TypeError, r"a function of no arguments|takes no configuration")
def function_of_nothing():
    """A function without arguments that makes a network."""
    make_ppo(critic_network=lambda: StateCritic())


@mistake(
    TypeError, r"must be a flax\.linen module, or be called with the configuration to make one"
)
def network_that_is_none():
    """A function that gives something else than a network."""
    make_ppo(actor_network=lambda config: 3)


@mistake(TypeError, r"actor_network must be a flax\.linen module, .* got 'mlp'")
def name_of_a_network():
    """The name of a network."""
    make_ppo(actor_network="mlp")


@mistake(ValueError, r"the critic's value must have shape \(\), got shape \(5,\)")
def critic_with_several_outputs():
    """A critic with several outputs."""
    make_ppo(critic_network=Vector())


@mistake(ValueError, r"Bare has no default: set config\.critic_network")
def base_without_networks():
    """A subclass of a base without networks."""

    class Bare(PPOBase):
        def _distribution_of(self, output):
            return output

    make_ppo(agent=Bare, critic_network=None)


@mistake(ValueError, r"memory must be None or one of \('gru', 'lstm', 'min_gru'\), got 'rnn'")
def unknown_memory():
    """A memory of a kind that there is not."""
    make_ppo(memory="rnn")


@mistake(ValueError, r"memory='gru' is for default networks, but actor_network and critic_network")
def memory_for_given_networks():
    """`memory` beside networks that have none."""
    make_ppo(memory="gru", actor_network=CategoricalActor(2), critic_network=StateCritic())


@mistake(
    TypeError, r"Own\._actor_network makes a network without a memory, although config\.memory="
)
def memory_for_a_default_network_without_one():
    """`memory` for a subclass whose default network has none."""

    class Own(PPO):
        def _actor_network(self):
            return CategoricalActor(2)

    make_ppo(agent=Own, memory="gru", actor_network=None, critic_network=None)


@mistake(TypeError, r"The critic of Own has a memory: call _values\(training, obs\)")
def loss_of_one_observation_for_a_critic_with_a_memory():
    """A loss that values one observation by itself, with a critic that has a memory."""

    class Own(PPO):
        def _critic_loss(self, training, obs, targets, hyperparams):
            return jax.vmap(lambda o: self._value(training, training.params, o))(obs) - targets

    agent = make_ppo(agent=Own, memory="gru", actor_network=None, critic_network=None)
    agent.train(key(), hyperparams(), progress=False)


@mistake(TypeError, r"has an actor network with a memory, which _entropy would know nothing of")
def hooks_around_a_memory():
    """A hook for one observation, with an actor that has a memory."""

    class Hooked(PPOBase):
        def _distribution_of(self, output):
            return output

        def _entropy(self, training, obs):
            return 0.0

    memory = WithMemory(CategoricalActor(2, features=()), cell=nn.GRUCell(features=4))
    make_ppo(agent=Hooked, actor_network=memory)


@mistake(
    ValueError, r"a value of each of n_actions=2 actions, .* got shape \(5,\): look at critic_ne"
)
def values_of_other_actions():
    """DQN with a network of too many values."""
    make_dqn(critic_network=Vector(5))


@mistake(
    ValueError, r"critic_network must give values of shape \(critics\).*ensemblize\(Critic, 2\)"
)
def single_critic():
    """A single critic where several are needed."""
    make_sac(critic_network=Critic((4,)))


@mistake(
    TypeError, r"critic_network must be a flax\.linen module, .*, got <class .*MLP.*: pass MLP\("
)
def class_of_networks_for_a_learner():
    """A class of networks for a learner."""
    make_dqn(critic_network=MLP)


@mistake(TypeError, r"encoder must be a flax\.linen module, .* got 'impala'")
def name_of_an_encoder():
    """The name of an encoder instead of `make_encoder(name)`."""
    make_dqn(encoder="impala")


@mistake(ValueError, r"There is no encoder 'imapla'\. .*impala")
def misspelt_encoder():
    """A misspelt encoder."""
    make_encoder("imapla")


@mistake(ValueError, r"fixed_std must be positive, got -1")
def negative_deviation():
    """A policy with a negative standard deviation."""
    Policy(action_dim=1, fixed_std=-1.0)


@mistake(
    ValueError, r"one vector of observations for each action.*observation_encoder|need encoder="
)
def images_without_an_encoder():
    """Images for a learner without an encoder."""
    SACLearner.create(0, np.zeros((8, 8, 3), np.uint8), np.zeros(1))


@mistake(ValueError, r"one vector of observations for each action.*observation_encoder")
def scalar_observations():
    """Scalar observations, such as those of a discrete space, for a learner."""
    DQNLearner.create(0, np.zeros((), np.int32), 0, n_actions=2)


@mistake(TypeError, r"The learner takes integer actions, got an example of type float32")
def floats_for_a_discrete_learner():
    """Continuous actions for a discrete learner."""
    DQNLearner.create(0, jnp.zeros(2), jnp.zeros(()), n_actions=2)


@mistake(TypeError, r"The learner takes floating actions, got an example of type int32")
def integers_for_a_continuous_learner():
    """Discrete actions for a continuous learner."""
    SACLearner.create(0, jnp.zeros(2), jnp.int32(0))


@mistake(TypeError, r"number of discrete actions is missing: create the learner with n_actions=")
def unknown_number_of_actions():
    """A discrete learner that is not told the number of actions."""
    DQNLearner.create(0, jnp.zeros(2), jnp.int32(0))


@mistake(ValueError, r"Actions must lie in 0\.\.1 with n_actions=2, got 3 to 3")
def action_that_does_not_exist():
    """An example of an action that does not exist."""
    DQNLearner.create(0, jnp.zeros(2), jnp.int32(3), n_actions=2)


@mistake(ValueError, r"actions with a last axis of components, got a scalar")
def scalar_action():
    """A scalar as an example of continuous actions."""
    SACLearner.create(0, jnp.zeros(2), jnp.zeros(()))


@mistake(
    ValueError, r"minibatches hold whole environments: minibatches_per_epoch must divide batch"
)
def minibatches_that_do_not_divide_environments():
    """More minibatches than environments, for networks with a memory."""
    PPO(MatchSign(), None, ppo.AgentConfig(**ON_POLICY, memory="gru", minibatches_per_epoch=8))


@mistake(
    ValueError,
    r"needs a memory of shape \(64,\): at first agent\.initial_carry\(training\)",
)
def no_memory_for_a_network_with_one():
    """Acting by a network with a memory, without giving it one: `agent.act(actor, (), obs)`."""
    agent = make_ppo(memory="gru", actor_network=None, critic_network=None)
    agent.act(runner_of(agent).actor_training, (), jnp.zeros(2))
