"""Observations and rewards that agents normalise by running statistics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from probes import MatchSign, Probe
from registry import AGENTS

from jaxagents import A2C, load_policy
from jaxagents.a2c import AgentConfig
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import CategoricalActor, DiscreteCritic, Normalised, Policy
from jaxagents.sharding import make_mesh
from jaxagents.td3 import TD3Learner

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}
BOTH = {"normalise_observations": True, "normalise_rewards": True}
ON_DEVICES = {
    "A2C": {"n_groups": 2},
    "IPPO": {"n_groups": 4, "replicated_updates": True},
    "TD3": {"n_groups": 2, "replicated_updates": True},
}
"""How devices may share the work of some agents."""


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
    """A small agent that normalises both; those of a name are equal, and share programs.

    Only of PPO are there evaluations during training.
    """
    return CASES[name].make(FarOff, name == "PPO", **BOTH, **ON_DEVICES.get(name, {}), **fields)


@pytest.fixture(scope="module")
def trained():
    """A small agent after a few updates."""
    agent = make("PPO")
    runner, metrics = agent.train(KEY, CASES["PPO"].hyperparams(), progress=False)
    return agent, runner, metrics


def resets(agent):
    """First observations of six episodes."""
    reset = jax.jit(lambda key: jax.vmap(agent.episodes.reset)(jax.random.split(key, 6))[0])
    return np.asarray(reset(KEY))


def moments(state):
    (of_vector,) = state.extra_variables["observed"]["statistics"]["moments"]
    return of_vector


def rollouts(case, agent, n):
    """The runner before each update, and what is collected for it, with true rewards."""

    @jax.jit
    def collected(runner):
        return agent._rollout(runner)[1], agent._collect(runner)[1]

    runner = agent.start(KEY, case.hyperparams())
    for _ in range(n):
        traj, scaled = collected(runner)
        yield runner, traj, scaled
        runner = agent.advance(jax.device_put(runner, may_alias=False), 1)


def kl_of_first_minibatch(agent, runner):
    return float(jax.jit(agent.program.reports_of_minibatches)(runner)["kl"][0])


@pytest.mark.parametrize("name", ["PPO", "IPPO"])
def test_the_first_ratio_of_an_update_is_1(name):
    agent = make(name)
    runner = agent.advance(agent.start(KEY, CASES[name].hyperparams()), 2)
    assert abs(kl_of_first_minibatch(agent, runner)) < 1e-9


def test_statistics_updated_before_the_update_would_change_the_first_ratio():
    """So that the test above would see it."""
    agent = make("PPO")

    @jax.jit
    def kl(runner):
        later, traj, _ = agent._collect(runner)
        later = later.replace(actor_training=later.actor_training.observe(traj.obs))
        actor, _ = agent._fits(later, traj)
        inputs = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), actor.inputs)
        return actor.loss_fn(actor.training, *inputs)[1]["kl"].mean()

    assert kl(agent.start(KEY, CASES["PPO"].hyperparams())) > 1e-6


def test_statistics_are_those_of_all_observations_acted_on():
    case, agent = CASES["PPO"], make("PPO")
    seen = [(runner, traj.obs) for runner, traj, _ in rollouts(case, agent, 4)]
    last = seen[-1][0]
    obs = np.concatenate([np.asarray(obs) for _, obs in seen[:-1]]).reshape(-1, 2).astype(float)
    for state in (last.actor_training, last.critic_training):
        found = moments(state)
        np.testing.assert_allclose(found.mean, obs.mean(0), rtol=1e-5)
        np.testing.assert_allclose(found.variance, obs.var(0), rtol=1e-3)
        assert found.count == len(obs)


@pytest.mark.parametrize("name", ["PPO", "IPPO"])
def test_rewards_are_in_units_of_the_deviation_of_returns(name):
    case, agent = CASES[name], make(name)
    carried, returns = np.zeros((8, *agent._actors_shape)), []
    for runner, traj, scaled in rollouts(case, agent, 3):
        over = np.asarray(traj.terminated | traj.truncated)
        for reward, ended in zip(np.asarray(traj.reward), over, strict=True):
            returns.append(carried + reward)
            ended = ended.reshape(8, *[1] * (reward.ndim - 1))
            carried = runner.hyperparams.gamma * np.where(ended, 0.0, returns[-1])
        deviation = np.stack(returns).std((0, 1))
        expected = np.clip(np.asarray(traj.reward) / deviation, -10.0, 10.0)
        np.testing.assert_allclose(scaled.reward, expected, rtol=1e-4)


def test_metrics_show_true_rewards(trained):
    _, _, metrics = trained
    assert set(np.unique(metrics["returns"])) <= {0.0, 1000.0, 2000.0, 3000.0}
    assert set(np.unique(metrics["final_rewards"])) <= {0.0, 1000.0}


def test_everything_that_acts_normalises_by_itself(trained, tmp_path):
    agent, runner, _ = trained
    obs = resets(agent)
    actor = runner.actor_training
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


def assert_goes_on(name, folder):
    """A training of five updates is the same if a checkpoint of two lies between."""
    hyperparams = CASES[name].hyperparams()
    expected, _ = make(name).train(KEY, hyperparams, progress=False)
    first = make(name, checkpoint_dir=folder)
    first.train(KEY, hyperparams, n_steps=2, progress=False)
    again = make(name, checkpoint_dir=folder, restore_agent=True)
    runner, _ = again.resume(KEY, hyperparams, progress=False)
    assert runner.update_step == 5
    trees.assert_equal(runner, expected)


@pytest.mark.parametrize("name", ["PPO", "IPPO"])
def test_trainings_go_on_from_checkpoints_bit_for_bit(name, tmp_path):
    assert_goes_on(name, tmp_path)


def alone_and_shared(agent, hyperparams, n_devices, n_steps):
    """The runners of a training on one device, and of the same on several."""
    return (
        agent.train(KEY, hyperparams, n_steps=n_steps, progress=False, mesh=mesh)[0]
        for mesh in (None, make_mesh(n_devices))
    )


def test_statistics_are_those_of_all_devices():
    alone, shared = alone_and_shared(make("IPPO"), CASES["IPPO"].hyperparams(), 4, n_steps=3)
    trees.assert_equal(shared, alone)


@pytest.mark.optimised
def test_statistics_are_rounded_alike_on_any_number_of_devices():
    case, sizes = CASES["A2C"], {"batch_size": 8, "rollout_length": 16, "n_groups": 2}
    agent = case.make(FarOff, False, replicated_updates=True, **sizes, **BOTH)
    alone, shared = alone_and_shared(agent, case.hyperparams(), 2, n_steps=1)
    trees.assert_equal(shared, alone)


def test_devices_that_learn_from_their_own_samples_share_statistics():
    alone, shared = alone_and_shared(make("A2C"), CASES["A2C"].hyperparams(), 2, n_steps=1)
    for one, other in (
        (moments(shared.actor_training), moments(alone.actor_training)),
        (shared.returns, alone.returns),
    ):
        trees.assert_close(one, other)


def test_seeds_that_are_trained_together_have_statistics_of_their_own():
    agent, hyperparams = make("A2C"), CASES["A2C"].hyperparams()
    keys = jax.random.split(KEY, 2)
    together, _ = jax.vmap(agent.train, (0, None))(keys, hyperparams)
    together = jax.tree.map(np.asarray, (moments(together.actor_training), together.returns))
    for i, key in enumerate(keys):
        alone, _ = agent.train(key, hyperparams, progress=False)
        one = jax.tree.map(lambda x, i=i: x[i], together)
        trees.assert_close(one, (moments(alone.actor_training), alone.returns))


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
    runner = jax.eval_shape(program.advance, runner, np.int32(1))
    kept = runner.actor_training.extra_variables["observed"]["statistics"]["moments"]
    assert [None if part is None else part.mean.shape for part in kept] == [None, None, (2,)]


def test_a_network_that_normalises_needs_no_switch():
    actor = Normalised(CategoricalActor(2, features=(8,)))
    agent = CASES["A2C"].make(FarOff, False, actor_network=actor)
    runner = agent.advance(agent.start(KEY, CASES["A2C"].hyperparams()), 1)
    assert moments(runner.actor_training).count == 64
    assert not runner.critic_training.extra_variables


def test_a_learner_that_normalises_needs_no_switch():
    critic = Normalised(DiscreteCritic(features=(8,), n_actions=2))
    for name in ("DQN", "PQN"):
        case = CASES[name]
        agent = case.make(FarOff, False, critic_network=critic)
        runner = agent.advance(agent.start(KEY, case.hyperparams()), 1)
        config = agent.config
        n_collected = config.rollout_length * config.batch_size
        observed = runner.buffer.size if name == "DQN" else n_collected
        assert moments(runner.learner.critic).count == observed


def test_an_offline_learner_that_normalises_needs_no_switch():
    case = CASES["BC"]
    network = Normalised(Policy(features=(8,), action_dim=1))
    agent = case.make(FarOff, False, n_steps=1, actor_network=network)
    runner = agent.start(KEY, case.hyperparams())
    assert moments(runner.learner.actor).count > 0


def test_without_the_switches_a_runner_is_as_before():
    program = CASES["PPO"].make(FarOff).program
    runner = jax.eval_shape(program.start, KEY, CASES["PPO"].hyperparams())
    assert (runner.received, runner.returns) == ((), ())
    assert not runner.actor_training.extra_variables


def share_of_rewards(agent, hyperparams, n_updates):
    """The share of the rewards that an agent gets in the end."""
    runner = agent.advance(agent.start(KEY, hyperparams), np.int32(n_updates))
    agent.collect_training(runner, {})
    return agent.eval(jax.random.key(0), n_evals=64)["returns"].mean() / 3000.0


def test_learns_what_is_far_off_only_if_normalised():
    case = CASES["A2C"]
    assert share_of_rewards(make("PPO"), CASES["PPO"].hyperparams(), 80) > 0.95
    assert share_of_rewards(make("A2C"), case.hyperparams(), 80) > 0.95
    assert share_of_rewards(case.make(FarOff, False), case.hyperparams(), 80) < 0.8


OFF_POLICY = ["DQN", "SAC", "TD3"]


def networks_of(learner):
    return {
        name: getattr(learner, name)
        for name in ("actor", "critic", "value", "target_actor", "target_critic", "target_value")
        if isinstance(getattr(learner, name, None), TrainState)
    }


def discounted(rewards, ends, gamma):
    """What an episode has brought so far, at each step of each environment."""
    carried, so_far = 0.0, []
    for reward, ended in zip(rewards.T, ends.T, strict=True):
        so_far.append(carried + reward)
        carried = gamma * np.where(ended, 0.0, so_far[-1])
    return np.stack(so_far)


@pytest.mark.parametrize("name", OFF_POLICY)
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
    scaled = agent._reward_scale(runner)({"rewards": jnp.asarray(stored["rewards"])})
    deviation = np.sqrt(runner.returns.variance)
    np.testing.assert_allclose(scaled["rewards"], stored["rewards"] / deviation, rtol=1e-5)
    of_envs = (stored[name].reshape(n_envs, -1) for name in ("rewards", "ends"))
    np.testing.assert_allclose(
        runner.returns.variance, discounted(*of_envs, gamma=0.5).var(), rtol=1e-4
    )
    assert runner.returns.count == n_rows
    assert runner.received.shape == (n_envs,)


def test_off_policy_trainings_go_on_bit_for_bit(tmp_path):
    assert_goes_on("DQN", tmp_path)


def test_off_policy_statistics_are_those_of_all_devices():
    alone, shared = alone_and_shared(make("TD3"), CASES["TD3"].hyperparams(), 2, n_steps=5)
    trees.assert_equal(shared, alone)


def test_off_policy_agents_learn_what_is_far_off_only_if_normalised():
    case = CASES["DQN"]
    assert share_of_rewards(make("DQN"), case.hyperparams(), 400) > 0.95
    assert share_of_rewards(make("SAC"), CASES["SAC"].hyperparams(), 600) > 0.95
    assert share_of_rewards(case.make(FarOff, False), case.hyperparams(), 400) < 0.8


def test_an_exported_learner_normalises_by_itself(tmp_path):
    agent = make("TD3")
    agent.train(KEY, CASES["TD3"].hyperparams(), progress=False)
    obs = resets(agent)
    agent.export_policy(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    trees.assert_close(policy(obs), jax.vmap(agent.policy)(obs))
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


@pytest.mark.parametrize("name", ["IQL", "discrete CQL"])
def test_offline_agents_have_the_statistics_of_their_dataset_from_the_start(name):
    case = CASES[name]
    agent = case.make(FarOff, False, normalise_observations=True)
    runner = agent.start(KEY, case.hyperparams())
    (rows,) = agent.data.arrays["observations"]
    before = networks_of(runner.learner)
    before = {
        network: jax.tree.map(np.asarray, moments(state)) for network, state in before.items()
    }
    after = networks_of(agent.advance(runner, 2).learner)
    for network, found in before.items():
        np.testing.assert_allclose(found.mean, np.float64(rows).mean(0), rtol=1e-6)
        np.testing.assert_allclose(found.variance, np.float64(rows).var(0), rtol=1e-3)
        assert found.count == len(rows)
        trees.assert_equal(moments(after[network]), found)


def test_an_offline_agent_learns_what_is_far_off_only_if_normalised():
    case = CASES["discrete BC"]
    shares = [
        share_of_rewards(case.make(FarOff, False, **fields), case.hyperparams(), 150)
        for fields in ({"normalise_observations": True}, {})
    ]
    assert shares[0] > 0.95
    assert shares[1] < 0.8
