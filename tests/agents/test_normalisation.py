"""Observations, rewards and values that agents normalise by running statistics."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import struct
from jaxtyping import PyTree
from probes import MatchSign, Probe
from registry import AGENTS

from jaxagents import A2C, load_policy
from jaxagents.a2c import AgentConfig
from jaxagents.agents.fits import fits_of
from jaxagents.agents.off_policy import gradient_step
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import (
    CategoricalActor,
    CategoricalPolicy,
    DiscreteCritic,
    Normalised,
    StateCritic,
)
from jaxagents.sharding import make_mesh
from jaxagents.td3 import TD3Learner

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}
BOTH = {"normalise_observations": True, "normalise_rewards": True}
OF_AGENTS = {
    "A2C": {
        "actor_network": Normalised(CategoricalActor(2, features=())),
        "critic_network": Normalised(StateCritic(features=())),
        "normalise_rewards": True,
        "normalise_values": True,
        "n_groups": 2,
    },
    "IPPO": BOTH,
    "DQN": {
        "critic_network": Normalised(DiscreteCritic(features=(32,), n_actions=2)),
        "normalise_rewards": True,
    },
    "SAC": BOTH,
    "discrete SAC": BOTH,
    "TD3": {**BOTH, "n_groups": 2, "replicated_updates": True},
    "IQL": {"normalise_observations": True},
    "discrete BC": {"actor_network": Normalised(CategoricalPolicy(features=(32,), n_actions=2))},
}
"""How agents normalise, by a switch or by networks that need none, and how devices share their work."""


class Reporter(struct.PyTreeNode):
    """A learner that does nothing but report the rewards that it is given."""

    hyperparams: PyTree

    def update(self, batch):
        return self, {"rewards": batch["rewards"]}


class FarOff(MatchSign):
    """Shows the sign as a small part of a large number, beside noise, and rewards in thousands.

    Episodes do not end with a rollout of eight steps.
    """

    n_steps = 3

    def observe(self, state):
        noise = jnp.cos(1e3 * state.time.astype(float))
        return jnp.stack([1000.0 + 0.1 * state.sign, 500.0 * noise])

    def reward(self, state, action):
        return 1000.0 * super().reward(state, action)


def make(name, **fields):
    """A small agent that normalises; those of a name are equal, and share programs."""
    return CASES[name].make(FarOff, False, **OF_AGENTS[name], **fields)


@functools.cache
def learnt(name, n_updates):
    """A small agent that remembers a training of so many updates, and what episodes of it bring."""
    return trained(make(name), CASES[name].hyperparams(), n_updates)


def trained(agent, hyperparams, n_updates):
    runner = agent.advance(agent.start(KEY, hyperparams), np.int32(n_updates))
    agent.collect_training(runner, {})
    return agent, agent.eval(KEY, n_evals=64)


def share_of_rewards(metrics):
    """The share of the rewards that an agent gets."""
    return metrics["returns"].mean() / 3000.0


def statistics_of(runner):
    return moments(runner.actor_training), runner.returns, runner.targets


def resets(agent):
    """First observations of six episodes."""
    reset = jax.jit(lambda key: jax.vmap(agent.episodes.reset)(jax.random.split(key, 6))[0])
    return np.asarray(reset(KEY))


def moments(state):
    (of_vector,) = state.extra_variables["observed"]["statistics"]["moments"]
    return of_vector


def rollouts(case, agent, n):
    """The runner before each update, and what is collected for it, with true rewards and others."""

    @jax.jit
    def collected(runner):
        after, traj, _ = agent._collect(runner)
        return traj, agent._with_rewards(after, traj)[1]

    runner = agent.start(KEY, case.hyperparams())
    for _ in range(n):
        traj, scaled = collected(runner)
        yield runner, traj, scaled
        runner = agent.advance(jax.device_put(runner, may_alias=False), 1)


def test_the_first_ratio_of_an_update_is_1():
    """It would not be if statistics were updated before the update."""
    agent = make("IPPO")

    @jax.jit
    def kl(runner, observes_before):
        later, traj = agent._with_targets(*agent._collect(runner)[:2])
        actor = later.actor_training
        given = jax.tree.map(
            lambda x, y: jnp.where(observes_before, x, y), actor.observe(traj.obs), actor
        )
        actor, _ = fits_of(agent, later.replace(actor_training=given), traj)
        elements = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), actor.inputs)
        _, info = actor.loss_fn(given, *actor.prepare(*elements))
        return info["kl"].mean()

    runner = agent.advance(agent.start(KEY, CASES["IPPO"].hyperparams()), 2)
    assert abs(kl(runner, False)) < 1e-9
    assert kl(runner, True) > 1e-6


@pytest.mark.parametrize("name", ["A2C", "IPPO"])
@pytest.mark.slow_except("IPPO")
def test_statistics_are_of_all_observations_and_rewards_in_units_of_the_deviation_of_returns(name):
    case, agent = CASES[name], make(name)
    carried, returns, seen = np.zeros((8, *agent._actors_shape)), [], []
    for runner, traj, scaled in rollouts(case, agent, 4):
        over = np.asarray(traj.terminated | traj.truncated)
        for reward, ended in zip(np.asarray(traj.reward), over, strict=True):
            returns.append(carried + reward)
            ended = ended.reshape(8, *[1] * (reward.ndim - 1))
            carried = runner.hyperparams.gamma * np.where(ended, 0.0, returns[-1])
        deviation = np.stack(returns).std((0, 1))
        expected = np.clip(np.asarray(traj.reward) / deviation, -10.0, 10.0)
        np.testing.assert_allclose(scaled.reward, expected, rtol=1e-4)
        for state in (runner.actor_training, runner.critic_training) if seen else ():
            obs = np.concatenate(seen).reshape(-1, 2).astype(float)
            found = moments(state)
            np.testing.assert_allclose(found.mean, obs.mean(0), rtol=1e-5)
            np.testing.assert_allclose(found.variance, obs.var(0), rtol=1e-3)
            assert found.count == len(obs)
        seen.append(np.asarray(traj.obs))


def test_metrics_show_true_rewards():
    _, metrics = learnt("A2C", 80)
    assert set(np.unique(metrics["returns"])) <= {0.0, 1000.0, 2000.0, 3000.0}
    assert set(np.unique(metrics["final_rewards"])) <= {0.0, 1000.0}


def test_everything_that_acts_normalises_by_itself(tmp_path):
    agent, _ = learnt("A2C", 80)
    obs = resets(agent)
    actor = agent.actor_training
    found = jax.tree.map(np.asarray, moments(actor))
    inner = TrainState.create(actor.model_def.network, actor.params["network"])
    normal = (obs - found.mean) / np.sqrt(found.variance + np.float32(1e-8))

    @jax.jit
    @jax.vmap
    def actions(normal, obs):
        of_inner = inner(normal).argmax(-1)
        return of_inner, agent.policy(actor, obs), agent.act(actor, (), obs)[1]

    expected, of_policy, of_act = actions(normal, obs)
    np.testing.assert_array_equal(of_policy, expected)
    np.testing.assert_array_equal(of_act, expected)
    agent.export_policy(tmp_path / "policy")
    np.testing.assert_array_equal(load_policy(tmp_path / "policy")(obs), expected)


@pytest.mark.parametrize("name", ["A2C", "DQN"])
@pytest.mark.slow_except("A2C")
def test_trainings_go_on_from_checkpoints_bit_for_bit(name, tmp_path):
    """A training of five updates is the same if a checkpoint of two lies between."""
    hyperparams = CASES[name].hyperparams()
    expected, _ = make(name).train(KEY, hyperparams, progress=False)
    first = make(name, checkpoint_dir=tmp_path)
    first.train(KEY, hyperparams, n_steps=2, progress=False)
    again = make(name, checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = again.resume(KEY, hyperparams, progress=False)
    assert runner.update_step == 5
    trees.assert_equal(runner, expected)


def alone_and_shared(agent, *begin, n_devices, n_steps):
    """The runners of a training on one device, and of the same on several."""
    return (
        agent.train(*begin, n_steps=n_steps, progress=False, mesh=mesh)[0]
        for mesh in (None, make_mesh(n_devices))
    )


@functools.cache
def started():
    """A runner of A2C, made once, by a program that is compiled quickly if all tests run."""
    return make("A2C").start(KEY, CASES["A2C"].hyperparams())


def test_devices_that_learn_from_their_own_samples_share_statistics():
    begin = None, None, started()
    alone, shared = alone_and_shared(make("A2C"), *begin, n_devices=2, n_steps=1)
    trees.assert_close(statistics_of(shared), statistics_of(alone))


@pytest.mark.optimised
@pytest.mark.slow
def test_statistics_are_rounded_alike_on_any_number_of_devices():
    fields = {**OF_AGENTS["A2C"], "replicated_updates": True, "rollout_length": 16}
    agent = CASES["A2C"].make(FarOff, False, **fields)
    alone, shared = alone_and_shared(agent, None, None, started(), n_devices=2, n_steps=1)
    trees.assert_equal(shared, alone)


def test_seeds_that_are_trained_together_have_statistics_of_their_own():
    agent, hyperparams = make("A2C"), CASES["A2C"].hyperparams()
    keys = jax.random.split(KEY, 2)
    together, _ = jax.vmap(agent.train, (0, None))(keys, hyperparams)
    together = jax.tree.map(np.asarray, statistics_of(together))
    for i, key in enumerate(keys):
        alone, _ = agent.train(key, hyperparams, progress=False)
        one = jax.tree.map(lambda x, i=i: x[i], together)
        trees.assert_close(one, statistics_of(alone))


class Structured(Probe):
    """A dict of a picture, a vector and a number of a kind."""

    def observe(self, state):
        return {
            "picture": jnp.full((3, 3, 1), 200, jnp.uint8),
            "vector": jnp.stack([state.sign, 1e3]),
            "kind": jnp.ones((), jnp.int32),
        }


def test_observations_of_any_structure():
    config = AgentConfig(n_steps=1, batch_size=4, rollout_length=4, **BOTH)
    program = A2C(Structured(), None, config, False).program
    runner = jax.eval_shape(program.start, KEY, CASES["A2C"].hyperparams())
    runner, _ = jax.eval_shape(program.advance, runner, np.int32(1))
    kept = runner.actor_training.extra_variables["observed"]["statistics"]["moments"]
    assert [None if part is None else part.mean.shape for part in kept] == [None, None, (2,)]


def test_a_network_that_normalises_needs_no_switch_and_leaves_others_alone():
    actor = OF_AGENTS["A2C"]["actor_network"]
    program = CASES["A2C"].make(FarOff, False, actor_network=actor).program
    runner = jax.eval_shape(program.start, KEY, CASES["A2C"].hyperparams())
    assert moments(runner.actor_training).mean.shape == (2,)
    assert not runner.critic_training.extra_variables


def test_a_learner_of_rollouts_that_normalises_needs_no_switch():
    case, critic = CASES["PQN"], OF_AGENTS["DQN"]["critic_network"]
    agent = case.make(FarOff, False, critic_network=critic)
    runner = agent.advance(agent.start(KEY, case.hyperparams()), 1)
    observed = agent.config.rollout_length * agent.config.batch_size
    assert moments(runner.learner.critic).count == observed


@pytest.mark.parametrize("name", ["SAC", "discrete SAC"])
def test_every_network_of_a_learner_normalises(name):
    runner = jax.eval_shape(make(name).program.start, KEY, CASES[name].hyperparams())
    for state in networks_of(runner.learner).values():
        assert moments(state).mean.shape == (2,)


def networks_with_statistics(runner):
    states = jax.tree.leaves(runner, is_leaf=lambda x: isinstance(x, TrainState))
    return [x for x in states if isinstance(x, TrainState) and x.extra_variables]


@pytest.mark.parametrize("name", ["A2C", "DQN"])
def test_without_the_switches_a_runner_is_as_before(name):
    program = CASES[name].make(FarOff, False).program
    runner = jax.eval_shape(program.start, KEY, CASES[name].hyperparams())
    assert (runner.received, runner.returns) == ((), ())
    assert not networks_with_statistics(runner)


def test_without_the_switch_an_offline_learner_is_as_before():
    case = CASES["discrete BC"]
    runner = jax.eval_shape(case.make(FarOff, False).program.start, KEY, case.hyperparams())
    assert not networks_with_statistics(runner)


@pytest.mark.parametrize(
    ("name", "n_updates"), [("A2C", 80), ("DQN", 400), ("TD3", 600), ("discrete BC", 150)]
)
@pytest.mark.slow_except("A2C", "DQN")
def test_learns_what_is_far_off(name, n_updates):
    _, metrics = learnt(name, n_updates)
    assert share_of_rewards(metrics) > 0.95


def test_does_not_learn_what_is_far_off_without_normalising():
    case = CASES["A2C"]
    _, metrics = trained(case.make(FarOff, False), case.hyperparams(), 80)
    assert share_of_rewards(metrics) < 0.8


def networks_of(learner):
    return {
        name: getattr(learner, name)
        for name in ("actor", "critic", "value", "target_actor", "target_critic", "target_value")
        if isinstance(getattr(learner, name, None), TrainState)
    }


def discounted(rewards, ends, gamma):
    """The discounted return of an episode so far, at each step of each environment."""
    carried, so_far = 0.0, []
    for reward, ended in zip(rewards.T, ends.T, strict=True):
        so_far.append(carried + reward)
        carried = gamma * np.where(ended, 0.0, so_far[-1])
    return np.stack(so_far)


@pytest.mark.parametrize("name", ["DQN", "TD3"])
def test_off_policy_agents_keep_raw_transitions_and_observe_them(name):
    agent = make(name)
    runner = agent.advance(agent.start(KEY, CASES[name].hyperparams()), 3)
    rows = runner.buffer.to_dataset()
    n_rows, n_envs = 32 + 3 * 4, 4
    assert len(rows["rewards"]) == n_rows
    stored = {name: np.asarray(rows[name]) for name in ("rewards", "observations", "ends")}
    assert set(np.unique(stored["rewards"])) <= {0.0, 1000.0}
    assert stored["observations"][:, 0].min() > 900.0
    for state in networks_of(runner.learner).values():
        found = moments(state)
        assert found.count == n_rows
        np.testing.assert_allclose(found.mean, stored["observations"].mean(0), rtol=1e-5)
        np.testing.assert_allclose(found.variance, stored["observations"].var(0), rtol=1e-2)
    reporter = Reporter(runner.learner.hyperparams)
    _, info = gradient_step(agent, reporter, runner.buffer, KEY, runner.returns)
    learned_from = np.asarray(info["rewards"])
    assert (learned_from == 0.0).any()
    one = 1000.0 / np.sqrt(runner.returns.variance)
    np.testing.assert_allclose(learned_from[learned_from != 0.0], one, rtol=1e-5)
    of_envs = (stored[name].reshape(n_envs, -1) for name in ("rewards", "ends"))
    np.testing.assert_allclose(
        runner.returns.variance, discounted(*of_envs, gamma=0.5).var(), rtol=1e-4
    )
    assert runner.returns.count == n_rows
    assert runner.received.shape == (n_envs,)


def test_off_policy_statistics_are_those_of_all_devices():
    begin = KEY, CASES["TD3"].hyperparams()
    alone, shared = alone_and_shared(make("TD3"), *begin, n_devices=2, n_steps=5)
    trees.assert_equal(shared, alone)


def test_an_exported_learner_normalises_by_itself(tmp_path):
    agent, _ = learnt("TD3", 600)
    obs = resets(agent)
    agent.export_policy(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    trees.assert_close(policy(obs), jax.jit(jax.vmap(agent.policy))(obs))
    assert any("observed" in name for name in policy.weights)


def test_a_learner_made_of_a_batch_has_statistics_of_one_observation():
    learner = TD3Learner.create(
        0, np.zeros((5, 2)), np.zeros((5, 1)), normalise_observations=True, features=(8,)
    )
    obs = np.random.default_rng(0).normal(50.0, 2.0, (40, 2)).astype(np.float32)
    learner = learner.observe(obs)
    for state in networks_of(learner).values():
        np.testing.assert_allclose(moments(state).mean, obs.mean(0), rtol=1e-5)
    batch = {
        "observations": obs,
        "actions": np.zeros((40, 1), np.float32),
        "rewards": np.zeros(40, np.float32),
        "next_observations": obs,
        "masks": np.ones(40, np.float32),
    }
    learner, _ = learner.update(batch)
    assert moments(learner.target_critic).count == 40
    assert learner.sample_actions(obs[0]).shape == (1,)


@pytest.mark.parametrize("name", ["IQL", "discrete BC"])
def test_offline_agents_have_the_statistics_of_their_dataset_from_the_start(name):
    agent = make(name)
    runner = agent.start(KEY, CASES[name].hyperparams())
    (rows,) = agent.data.arrays["observations"]
    before = networks_of(runner.learner)
    before = {
        network: jax.tree.map(np.asarray, moments(state)) for network, state in before.items()
    }
    for found in before.values():
        np.testing.assert_allclose(found.mean, np.float64(rows).mean(0), rtol=1e-6)
        np.testing.assert_allclose(found.variance, np.float64(rows).var(0), rtol=1e-3)
        assert found.count == len(rows)
    after = networks_of(agent.advance(runner, 2).learner)
    for network, found in before.items():
        trees.assert_equal(moments(after[network]), found)
