"""A trunk shared by actor and critic."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import trees
from flax import linen as nn
from probes import Allowed, MatchSign, Recall

from jaxagents import IPPO, MAPPO, PPO
from jaxagents.agents.runners import whole_critic
from jaxagents.networks import (
    Normalised,
    PerActor,
    StateCritic,
    Torso,
    WithMemory,
    normalised,
)
from jaxagents.ppo import AgentConfig, HyperParameters, OptimizerParams

KEY = jax.random.key(0)
PLAIN = Torso(features=(8,))
RECURRENT = WithMemory(Torso(features=(8,)), nn.GRUCell(features=8), Torso(features=(8,)))


def make(env=Recall, agent=PPO, trunk=RECURRENT, evaluates=False, **fields):
    sizes = {"n_steps": 3, "batch_size": 8, "rollout_length": 4, "minibatch_size": 4, "n_evals": 4}
    return agent(env(), None, AgentConfig(trunk=trunk, **{**sizes, **fields}), evaluates)


def hyperparams(learning_rate=1e-2, **others):
    optimizer = OptimizerParams(learning_rate=learning_rate, grad_clip=jnp.inf)
    rates = dict.fromkeys(("actor_optimizer_params", "critic_optimizer_params"), optimizer)
    return HyperParameters(**rates, **others)


def test_a_step_goes_down_the_sum_of_both_losses():
    """As if actor and critic were two whole networks that hold the same trunk."""
    epochs = {"actor_epochs": 1, "critic_epochs": 1}
    agent = make(trunk=PLAIN, optimizer=optax.sgd, minibatch_size=8, **epochs)
    given = hyperparams(0.5, ent_coeff=0.1, vf_coeff=0.3)
    losses = [make_loss(agent, hook) for hook in ("_actor_loss", "_critic_loss")]

    @jax.jit
    def networks_and_gradients(runner):
        collected, traj = agent._with_targets(*agent._collect(runner)[:2])
        inputs = inputs_of(agent, collected, traj)

        def total(actor_params, critic_params):
            actor = collected.actor_training.replace(params=actor_params)
            critic = collected.critic_training.replace(params=critic_params)
            networks = actor, whole_critic(agent.config, actor, critic)
            parts = zip(losses, networks, inputs, strict=True)
            return sum(loss(network, *of_loss, given) for loss, network, of_loss in parts)

        before = collected.actor_training.params, collected.critic_training.params
        return before, jax.grad(total, (0, 1))(*before)

    runner = agent.start(KEY, given)
    before, grads = jax.tree.map(np.asarray, networks_and_gradients(runner))
    expected = jax.tree.map(lambda x, grad: x - 0.5 * grad, before, grads)
    after = agent.advance(runner, 1)
    found = after.actor_training.params, after.critic_training.params
    trees.assert_close(found, expected)
    for name, of_network in zip(("actor", "critic"), grads, strict=True):
        norm = np.sqrt(sum(np.square(x).sum() for x in jax.tree.leaves(of_network)))
        np.testing.assert_allclose(after.info[f"{name}_gradient_norm"], norm, rtol=1e-4)


def make_loss(agent, hook):
    def loss(*inputs):
        found = getattr(agent, hook)(*inputs)
        return jnp.mean(found[0] if isinstance(found, tuple) else found)

    return loss


def inputs_of(agent, runner, traj):
    """The inputs of both losses for the only minibatch, in the order of a rollout."""
    parts = agent._actor_loss_input(runner, traj), agent._critic_loss_input(runner, traj)
    actor, critic = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), parts)
    return agent._actor_minibatch(*actor), critic


@functools.cache
def remembering():
    """An agent that learns to remember, with two gradient steps per epoch."""
    sizes = {"n_steps": 40, "rollout_length": 6, "batch_size": 16, "minibatch_size": 8}
    return make(**sizes, normalise_observations=True, normalise_values=True)


def test_both_networks_stop_by_the_divergence_of_the_actor():
    """Epochs after the first are skipped; each has one step per half of the rollout."""
    for threshold, n_steps in ((np.inf, 8), (0.0, 2)):
        runner = remembering().start(KEY, hyperparams(kl_threshold=threshold))
        runner = remembering().advance(runner, 1)
        assert runner.actor_training.step == runner.critic_training.step == n_steps


def test_learns_to_remember():
    agent = remembering()
    _, metrics = agent.train(KEY, hyperparams(), progress=False)
    assert metrics["entropy"][-1] < 0.4
    carry, act = agent.initial_carry(agent.actor_training), jax.jit(agent.act)
    for time in range(3):
        obs = np.float32([1.0 if time == 0 else 0.0, time])
        carry, action = act(agent.actor_training, carry, obs)
    assert action == 1
    carry = agent.critic_training.model_def.initial()
    value = jax.eval_shape(lambda obs: agent.critic_training(carry, obs)[1], obs)
    assert value.shape == ()


@pytest.mark.parametrize("lifted", [True, False])
def test_goes_with_masks_and_several_actors(lifted):
    trunk = PerActor(RECURRENT, 2, shared_params=True) if lifted else RECURRENT
    fields = {"normalise_observations": True, "network_sharing": "shared"}
    agent = make(lambda: Allowed(2), IPPO, trunk=trunk, **fields)
    runner = jax.eval_shape(agent.program.start, KEY, hyperparams())
    jax.eval_shape(agent.program.advance, runner, np.int32(1))
    assert runner.carry.shape == ((8, 2, 8) if lifted else (8, 8))


@pytest.mark.parametrize("lift", [lambda trunk: trunk, normalised], ids=["plain", "normalised"])
def test_actors_behind_trunks_of_their_own_see_nothing_of_each_other(lift):
    agent = make(lambda: MatchSign(2), IPPO, trunk=lift(PerActor(Torso(features=(4,)), 2)))
    obs = jnp.zeros((2, 2))
    actor = jax.eval_shape(lambda: agent._create_networks(KEY, KEY, obs)[0])
    kernels = {x.shape for x in jax.tree.leaves(actor.params["network"]) if x.ndim > 1}
    assert all(shape[0] == 2 for shape in kernels), kernels
    assert not any(8 in shape for shape in kernels)


def test_refuses_what_does_not_fit():
    with pytest.raises(
        ValueError, match=r"actor_epochs \(4\) and critic_epochs \(2\) must be equal"
    ):
        make(critic_epochs=2)
    with pytest.raises(ValueError, match="memory='gru' is for default networks without a trunk"):
        make(memory="gru")
    with pytest.raises(ValueError, match="network_sharing='torso' is for default networks"):
        make(network_sharing="torso")
    with pytest.raises(TypeError, match="the memory of critic_network belongs in the trunk"):
        make(critic_network=WithMemory(StateCritic(features=())))
    with pytest.raises(TypeError, match="critic_network sees no observations: put Normalised aro"):
        make(critic_network=Normalised(StateCritic(features=())))
    with pytest.raises(ValueError, match="they share no trunk"):
        make(lambda: MatchSign(2), MAPPO)
