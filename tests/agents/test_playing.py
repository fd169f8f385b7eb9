"""Actors that have left the game weigh nothing."""

import functools

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
    """The second of two actors leaves after two of four steps, and then sees any number."""

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


@functools.cache
def make():
    """An agent that two devices may share, whose programs are kept."""
    sizes = {"batch_size": 16, "rollout_length": 6, "minibatch_size": 4, "n_groups": 2}
    config = AgentConfig(**sizes, **SWITCHES, **NETWORKS)
    return IPPO(Leaving(), None, config, False)


def flat(inputs):
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), inputs)


@functools.cache
def first_rollout():
    """The runner after a first rollout, what is learnt from it, and samples of a minibatch of all."""
    agent = make()

    def collected(key):
        runner, traj, _ = agent._collect(agent.program.start(key, CASE.hyperparams()))
        runner, traj = agent._with_targets(*agent._with_rewards(runner, traj))
        samples = [fit.prepare(True, *flat(fit.inputs)) for fit in fits_of(agent, runner, traj)]
        return runner, traj, samples

    return jax.jit(collected)(KEY)


def minibatch():
    """How the networks are fitted to a first rollout, and the samples of a minibatch of all."""
    runner, traj, samples = first_rollout()
    return list(fits_of(make(), runner, traj)), samples


def gradients_of(fits, samples, n_parts):
    """The gradients and the reports of each network, of a minibatch in parts."""

    def compute(samples):
        return gradients(fits, [fit.training for fit in fits], samples, n_parts, n_devices=1)

    return jax.jit(compute)(samples)


def test_gradients_and_reports_are_those_of_the_samples_that_count():
    agent = make()
    fits, samples = minibatch()
    trainings = [fit.training for fit in fits]
    found = gradients_of(fits, samples, n_parts=1)
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


def test_parts_of_minibatches_give_the_same_gradients():
    fits, samples = minibatch()
    whole, parts = (gradients_of(fits, samples, n_parts) for n_parts in (1, 4))
    trees.assert_close(whole, parts)


def test_advantages_are_standardised_over_those_that_count():
    _, (of_actor, _) = minibatch()
    counts, advantage = np.asarray(playing(of_actor[0])) > 0, np.asarray(of_actor[3])
    for actor in range(2):
        counted = advantage[counts[:, actor], actor]
        np.testing.assert_allclose([counted.mean(), counted.std()], [0.0, 1.0], atol=1e-4)
    assert not advantage[~counts].any()


def test_nothing_learns_from_what_actors_see_after_they_have_left():
    agent = make()
    one, other = (
        agent.advance(agent.start(KEY, CASE.hyperparams(env_params={"left": left})), 3)
        for left in (0.0, 7.0)
    )
    seen, other_seen = (np.asarray(runner.obs["observation"]) for runner in (one, other))
    assert (seen != other_seen).any()
    for name in ("actor_training", "critic_training", "returns", "targets", "info"):
        trees.assert_close(getattr(one, name), getattr(other, name))
    assert list(one.returns.count) == list(one.targets.count) == [288, 160]


def test_rewards_after_an_actor_has_left_count_for_what_it_did_before():
    runner, traj, _ = first_rollout()
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


def test_statistics_are_those_of_actors_that_play():
    agent = make()
    _, traj, _ = first_rollout()
    after = agent.advance(agent.start(KEY, CASE.hyperparams(env_params={"left": 0.0})), 1)
    seen = np.asarray(traj.obs["observation"])
    counts = np.asarray(traj.obs["actor_mask"])
    *_, found = after.critic_training.extra_variables["observed"]["statistics"]["moments"]
    for actor in range(2):
        counted = seen[:, :, actor][counts[:, :, actor]]
        np.testing.assert_allclose(found.mean[actor], counted.mean(0), atol=1e-6)
        np.testing.assert_allclose(found.variance[actor], counted.var(0), rtol=1e-4, atol=1e-6)
        assert found.count[actor] == len(counted)


def test_devices_share_the_weights():
    runner = make().start(KEY, CASE.hyperparams(env_params={"left": 0.0}))
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
