"""On-policy agents that normalise observations and rewards, and actors that have left the game."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import struct
from probes import Probe
from registry import AGENTS

from jaxagents import IPPO, PPO, check_env, ops
from jaxagents.agents.actor_and_critic import fits_of
from jaxagents.agents.collect import playing
from jaxagents.learners.fit import gradients
from jaxagents.networks import CategoricalActor, PerActor, StateCritic
from jaxagents.ppo import AgentConfig
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
CASE = next(case for case in AGENTS if case.name == "IPPO")
SWITCHES = {"normalise_observations": True, "normalise_rewards": True, "normalise_values": True}
NETWORKS = {
    "actor_network": PerActor(CategoricalActor(2, ()), 2),
    "critic_network": PerActor(StateCritic(()), 2),
}


@struct.dataclass
class Nonsense:
    """Observations of an actor that has left."""

    left: float = 0.0


class Leaving(Probe):
    """The second of two actors leaves after two of four steps; then its observations are arbitrary."""

    n_steps = 4
    mask = staticmethod(lambda playing: playing)
    default_params = Nonsense()

    def __init__(self):
        super().__init__(2)

    def actor_mask(self, state, params):
        return self.mask(jnp.stack([True, state.time < 2]))

    def observe(self, state):
        seen = jnp.stack([state.sign, 0.3 * state.time])
        return jnp.stack([seen, -seen])

    def step_env(self, key, state, action, params):
        obs, state, *outcome = super().step_env(key, state, action, params)
        first, second = obs
        return jnp.stack([first, jnp.where(state.time < 2, second, params.left)]), state, *outcome

    def reward(self, state, action):
        own = action == (state.sign > 0)
        return jnp.where(jnp.stack([True, state.time < 2]), own + 0.5 * state.time, 3.0)


class Clipped(IPPO):
    """Reports the difference between values and the values of the rollout."""

    def _critic_loss_input(self, runner, traj):
        return traj.obs, (traj.target, traj.value)

    def _critic_loss(self, training, obs, targets, hyperparams):
        targets, before = targets
        values = self._values(training, obs)
        return (values - targets) ** 2, {"moved": jnp.abs(values - before)}


@functools.cache
def make():
    """An agent that two devices may share; its programs stay in memory."""
    sizes = {"batch_size": 16, "rollout_length": 6, "minibatch_size": 4, "n_groups": 2}
    config = AgentConfig(**sizes, **SWITCHES, **NETWORKS)
    return Clipped(Leaving(), None, config, False)


def start(left=0.0, **fields):
    return make().start(KEY, CASE.hyperparams(env_params={"left": left}, **fields))


def flat(inputs):
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), inputs)


class Rollout(NamedTuple):
    """A rollout as it is played and as it is learnt from.

    Attributes:
        runner: The runner after it.
        played: With the rewards of the environment.
        traj: With scaled rewards, and with values and targets.
        outputs: Of the critic.
        samples: Of a minibatch of all, for each network.
    """

    runner: Any
    played: Any
    traj: Any
    outputs: Any
    samples: Any


@jax.jit
def rollout(runner):
    agent = make()
    after, played, _ = agent._collect(runner)
    after, traj = agent._with_targets(*agent._with_rewards(after, played))
    outputs = jax.vmap(jax.vmap(runner.critic_training))(played.obs)
    samples = [fit.prepare(True, *flat(fit.inputs)) for fit in fits_of(agent, after, traj)]
    return Rollout(after, played, traj, outputs, samples)


@functools.cache
def first_rollout():
    return rollout(start())


def minibatch():
    """How the networks are fitted to a first rollout, and the samples of a minibatch of all."""
    first = first_rollout()
    return list(fits_of(make(), first.runner, first.traj)), first.samples


def test_statistics_rewards_values_and_targets_are_those_of_actors_that_play():
    """Rewards are in units of the deviation of returns, and what critics learn in units of targets."""
    runner, carried = start(), np.zeros((16, 2))
    plays, seen, returns, targets = [], [], [], []
    for _ in range(3):
        played, traj, outputs, (_, of_critic) = jax.tree.map(np.asarray, rollout(runner)[1:])
        over = (played.terminated | played.truncated)[..., None]
        for reward, ended in zip(played.reward, over, strict=True):
            returns.append(carried + reward)
            carried = runner.hyperparams.gamma * np.where(ended, 0.0, returns[-1])
        before = jax.tree.map(np.asarray, runner.targets)
        values = outputs * np.sqrt(before.variance) + before.mean
        plays.append(played.obs["actor_mask"])
        np.testing.assert_allclose(traj.value, plays[-1] * values, rtol=1e-4, atol=1e-4)
        seen.append(played.obs["observation"])
        targets.append(traj.target.astype(float))
        runner = make().advance(runner, 1)
        for i in range(2):
            counts = np.concatenate(plays)[..., i]
            deviation = np.stack(returns)[counts, i].std()
            rewards = np.clip(played.reward[..., i] / deviation, -10.0, 10.0)
            np.testing.assert_allclose(traj.reward[..., i], rewards, rtol=1e-3)
            expected = np.concatenate(targets)[counts, i]
            found = jax.tree.map(lambda x, i=i: x[i], runner.targets)
            assert_moments(found, expected)
            units = (targets[-1][..., i].ravel() - expected.mean()) / expected.std()
            np.testing.assert_allclose(of_critic[1][0][:, i], units, rtol=1e-3, atol=1e-4)
            for network in (runner.actor_training, runner.critic_training):
                *_, found = network.extra_variables["observed"]["statistics"]["moments"]
                found = jax.tree.map(lambda x, i=i: x[i], found)
                assert_moments(found, np.concatenate(seen)[counts, i].astype(float))


def assert_moments(moments, samples):
    np.testing.assert_allclose(moments.mean, samples.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(moments.variance, samples.var(0), rtol=1e-3, atol=1e-6)
    assert moments.count == len(samples)


def test_old_values_are_those_that_the_critic_gave():
    runner = start(learning_rate=0.0)
    for _ in range(2):
        runner = make().advance(runner, 1)
        np.testing.assert_allclose(runner.info["moved"], 0.0, atol=1e-4)


def test_gradients_and_reports_are_those_of_the_samples_that_count():
    """Also with minibatches in parts that have different numbers of valid samples."""
    agent = make()
    fits, samples = minibatch()
    trainings = [fit.training for fit in fits]
    found = jax.jit(lambda samples: gradients(fits, trainings, samples, 4, n_devices=1))(samples)
    hooks = agent._actor_loss, agent._critic_loss
    counts = np.asarray(playing(samples[0][0])) > 0
    assert 0.5 < counts.mean() < 1.0
    for hook, training, inputs, (grads, info) in zip(hooks, trainings, samples, found, strict=True):

        def loss(params, hook=hook, training=training, inputs=inputs):
            out = hook(training.replace(params=params), *inputs[:-1], CASE.hyperparams())
            losses, reports = out if isinstance(out, tuple) else (out, {})
            return losses[counts].mean(), {name: x[counts].mean() for name, x in reports.items()}

        value_and_grad = jax.jit(jax.value_and_grad(loss, has_aux=True))
        (expected, reports), expected_grads = value_and_grad(training.params)
        trees.assert_close(grads, expected_grads)
        trees.assert_close(info, {**reports, "loss": expected})


def test_advantages_are_standardised_over_those_that_count():
    _, (of_actor, _) = minibatch()
    counts, advantage = np.asarray(playing(of_actor[0])) > 0, np.asarray(of_actor[3])
    for actor in range(2):
        counted = advantage[counts[:, actor], actor]
        np.testing.assert_allclose([counted.mean(), counted.std()], [0.0, 1.0], atol=1e-4)
    assert not advantage[~counts].any()


def test_nothing_learns_from_what_actors_see_after_they_have_left():
    one, other = (make().advance(start(left), 3) for left in (0.0, 7.0))
    seen, other_seen = (np.asarray(runner.obs["observation"]) for runner in (one, other))
    assert (seen != other_seen).any()
    for name in ("actor_training", "critic_training", "returns", "targets", "info"):
        trees.assert_close(getattr(one, name), getattr(other, name))
    assert list(one.returns.count) == list(one.targets.count) == [288, 160]


def test_rewards_after_an_actor_has_left_count_for_what_it_did_before():
    runner, traj = first_rollout().runner, first_rollout().traj
    explained = ops.explained_variance(traj.value, traj.target, playing(traj.obs))
    traj = jax.tree.map(np.asarray, traj)
    lam, reward, value = np.asarray(runner.hyperparams.gae_lambda), traj.reward, traj.value
    # the last step that it plays, two that it does not, and the end of the episode
    after = 0.5 * reward[2, :, 1] + 0.25 * reward[3, :, 1]
    last = reward[1, :, 1] + after - value[1, :, 1]
    np.testing.assert_allclose(traj.advantage[1, :, 1], last, rtol=1e-5)
    first = reward[0, :, 1] + 0.5 * value[1, :, 1] - value[0, :, 1] + 0.5 * lam * last
    np.testing.assert_allclose(traj.advantage[0, :, 1], first, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(traj.target[1, :, 1], reward[1, :, 1] + after, rtol=1e-5)
    counted = np.asarray(playing(traj.obs))[:, :, 1] > 0
    left, gained = traj.value[..., 1][counted], traj.target[..., 1][counted]
    np.testing.assert_allclose(explained[1], 1 - (gained - left).var() / gained.var(), rtol=1e-3)


def test_devices_share_the_weights():
    runner = start()
    alone, shared = (
        make().train(None, None, runner, n_steps=1, progress=False, mesh=mesh)[0]
        for mesh in (None, make_mesh(2))
    )
    trees.assert_close(shared.actor_training.params, alone.actor_training.params)
    trees.assert_close(shared.targets, alone.targets)
    trees.assert_close(shared.info, alone.info)


@pytest.mark.parametrize("wrong", [lambda mask: mask[:1], lambda mask: mask.astype(float)])
def test_refuses_what_is_no_mask_of_actors(wrong):
    class Wrong(Leaving):
        mask = staticmethod(wrong)

    with pytest.raises(
        ValueError, match=r"Wrong: the mask of actors must be boolean and have shape"
    ):
        IPPO(Wrong(), None, AgentConfig())
    with pytest.raises(ValueError, match="the mask of actors must be boolean"):
        check_env(Wrong(), n_steps=1)


def test_refuses_a_single_actor_that_leaves():
    class Alone(Probe):
        def actor_mask(self, state, params):
            return jnp.ones((), bool)

    with pytest.raises(ValueError, match="Alone has a mask of actors, but a single actor"):
        PPO(Alone(), None, AgentConfig())
