"""Agents around a learner: tests that others do not share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from probes import Box, Images, MatchSign, Probe, Target

from jaxagents import (
    BC,
    DQN,
    SAC,
    C51Learner,
    DQNBase,
    DQNLearner,
    bc,
    c51,
    dqn,
    sac,
)
from jaxagents.agents.experience import empty_buffer

KEY = jax.random.key(0)
SMALL = {
    "n_steps": 4,
    "eval_frequency": 2,
    "n_evals": 3,
    "batch_size": 4,
    "minibatch_size": 8,
    "buffer_size": 64,
    "learning_starts": 10,
    "features": (8,),
    "checkpoint_buffer": False,  # concerns folders, and those who have one share programs too
}


def small_dqn(env=None, agent=DQN, evaluates=True, **fields):
    env = MatchSign() if env is None else env
    return agent(env, None, dqn.AgentConfig(**{**SMALL, **fields}), evaluates)


class Counter(Probe):
    """Counts from a random number on, for three steps or, from negative ones, for ever.

    Action 1 is rewarded.
    """

    def observe(self, state):
        return jnp.stack([state.sign * 100.0 + state.time, state.time.astype(float)])

    def reward(self, state, action):
        return jnp.asarray(action, float)

    def terminated(self, state):
        return (state.time >= 3) & (state.sign > 0)


def around(change):
    """DQN around a learner that reports something else."""

    def changed(self, *args):
        losses, info = DQNLearner._loss(self, *args)
        return losses, {**info, **change(info)}

    Own = type("Own", (DQNLearner,), {"_loss": changed})
    return type("Around", (DQNBase,), {"_discrete_learner": Own})


OfSigned = around(lambda info: {"td_errors": -info["td_errors"]})


def counting(**files):
    """An agent with prioritised replay, and errors with a sign."""
    sizes = {"rollout_length": 3, "gradient_steps": 2, "target_update_period": 4}
    fields = {"max_episode_steps": 3, "prioritised_replay": True, "evaluates": False}
    return small_dqn(Counter(), OfSigned, **sizes, **fields, **files)


@pytest.fixture(scope="module", autouse=True)
def kept():
    """The agent of most tests; its programs stay in memory."""
    return counting()


# What is collected.


def test_the_buffer_holds_true_successors_and_whether_episodes_ended_or_were_cut():
    agent = counting()
    runner = agent.advance(agent.start(KEY, dqn.HyperParameters()), np.int32(3))
    rows = runner.buffer.to_dataset()
    assert len(rows) == 3 * 4 + 3 * 3 * 4
    np.testing.assert_array_equal(rows["next_observations"], rows["observations"] + 1.0)
    is_last = rows["observations"][:, 1] == 2
    newest = np.arange(1, 5) * len(rows) // 4 - 1  # counts as an end in a dataset
    np.testing.assert_array_equal(np.delete(rows["ends"], newest), np.delete(is_last, newest))
    has_ended = is_last & (rows["observations"][:, 0] > 0)
    assert 0 < has_ended.sum() < is_last.sum()
    np.testing.assert_array_equal(rows["masks"], 1.0 - has_ended)
    np.testing.assert_array_equal(rows["rewards"], rows["actions"])


def test_learning_starts_with_random_actions_in_whole_steps_of_all_environments():
    buffer = counting().start(KEY, dqn.HyperParameters()).buffer
    assert buffer.size == 12  # at least 10, of 4 environments
    assert 0.2 < buffer.to_dataset()["actions"].mean() < 0.8


def test_an_update_step_collects_and_learns_and_copies_the_network_as_configured():
    agent = counting()
    assert agent.config.update_to_data_ratio == 2 / 12
    runner = agent.start(KEY, dqn.HyperParameters(tau=1.0))
    first = params_of(runner.learner.target_critic)
    runner = agent.advance(runner, np.int32(1))
    trees.assert_equal(first, params_of(runner.learner.target_critic))
    runner = agent.advance(runner, np.int32(1))
    assert runner.buffer.size == 12 + 2 * 3 * 4
    assert runner.learner.critic.step == 2 * 2
    assert runner.update_step == 2
    copied = params_of(runner.learner.target_critic)
    trees.assert_equal(params_of(runner.learner.critic), copied)
    assert not trees.equal(first, copied)


def params_of(network):
    """A copy of its parameters, which outlives the donated runner."""
    return jax.tree.map(np.array, network.params)


@pytest.mark.parametrize("decay", ["linear", "exponential"])
def test_random_actions_become_rarer_with_environment_steps(decay):
    agent = small_dqn(exploration_decay=decay)
    hyperparams = dqn.HyperParameters(initial_epsilon=0.9, epsilon=0.1, epsilon_steps=100.0)
    epsilons = [float(agent._epsilon(hyperparams, jnp.float32(n))) for n in (0, 50, 100, 1000)]
    halfway, end = (0.5, 0.1) if decay == "linear" else (0.1 + 0.8 * np.exp([-0.5, -1.0]))
    np.testing.assert_allclose(epsilons, [0.9, halfway, end, 0.1], atol=1e-3)


def test_acts_greedily_without_exploration_and_at_random_with_full_exploration():
    agent = counting()

    def shares(epsilon):
        hyperparams = dqn.HyperParameters(
            initial_epsilon=epsilon, epsilon=epsilon, critic_learning_rate=0.0
        )
        runner = agent.start(KEY, hyperparams)
        runner = agent.advance(runner.replace(buffer=empty_buffer(agent.behaviour)), np.int32(5))
        rows = runner.buffer.to_dataset()
        greedy = runner.learner.critic(jnp.asarray(rows["observations"])).argmax(-1)
        return (rows["actions"] == greedy).mean()

    assert shares(0.0) == 1.0
    assert 0.2 < shares(1.0) < 0.8


class Matrix(Target):
    """Its actions are matrices with components from -2 to 1."""

    def action_space(self, params):
        return Box(-2.0, 1.0, (2, 3))

    def reward(self, state, action):
        assert action.shape == (2, 3)
        return -jnp.square(action - 0.5 * state.sign).sum()


class Daring(SAC):
    """Explores beyond the bounds."""

    def _explore(self, *args):
        return 3.0 * super()._explore(*args)


@pytest.fixture(scope="module")
def of_matrices():
    """An agent after ten updates, and its runner; the first twelve actions were random."""
    agent = Daring(Matrix(), None, sac.AgentConfig(**SMALL), eval_during_training=False)
    runner, _ = agent.train(KEY, sac.HyperParameters(), n_steps=10, progress=False)
    return agent, runner


def test_explored_actions_stay_in_the_box(of_matrices):
    taken = np.asarray(of_matrices[1].buffer.storage["actions"])[12 : 12 + 10 * 4]
    assert ((taken >= -2.0) & (taken <= 1.0)).all()
    assert (taken == -2.0).any()
    assert (taken == 1.0).any()


def test_box_actions_of_any_shape_are_in_the_units_of_each_and_flat_for_the_learner(of_matrices):
    agent, runner = of_matrices
    stored = np.asarray(runner.buffer.storage["actions"])
    assert stored.shape == (64, 2, 3)
    assert -2.0 <= stored[:12].min() < -1.2
    assert 0.2 < stored[:12].max() <= 1.0
    rows = runner.buffer.to_dataset()
    assert (rows.action_space.low == -2.0).all()
    assert (rows.action_space.high == 1.0).all()
    actions, observations = np.asarray(rows["actions"]), np.asarray(rows["observations"])
    distance = np.square(actions - 0.5 * observations[:, :1, None]).sum((1, 2))
    np.testing.assert_allclose(rows["rewards"], -distance, atol=1e-5)
    obs = np.array([1.0, 0.0], np.float32)

    @jax.jit
    def seen_by_the_learner(runner):
        unit = runner.learner.sample_actions(obs)
        values = runner.learner.critic(obs, unit)
        actions = runner.buffer.take(np.arange(8))["actions"]
        return unit, values, agent.behaviour._units.to_learner(actions)

    unit, values, learned = jax.tree.map(np.asarray, seen_by_the_learner(runner))
    assert unit.shape == (6,)
    assert values.shape == (2,)
    expected = -0.5 + 1.5 * unit.reshape(2, 3)
    np.testing.assert_allclose(agent.policy(obs), expected, rtol=1e-6)
    np.testing.assert_allclose(-0.5 + 1.5 * learned, stored[:8].reshape(8, 6), atol=1e-6)
    config = bc.AgentConfig(n_steps=2, minibatch_size=8)
    given = BC(Matrix(), None, config, dataset=rows).data.arrays["actions"]
    np.testing.assert_allclose(-0.5 + 1.5 * given[0], actions.reshape(-1, 6), atol=1e-6)


def test_images_stay_bytes_and_observations_may_be_dicts():
    program = small_dqn(Images()).program
    runner = jax.eval_shape(program.start, KEY, dqn.HyperParameters())
    runner, _ = jax.eval_shape(program.advance, runner, 1)
    assert runner.buffer.storage["observations"]["image"].dtype == jnp.uint8


# How it is kept.


def test_buffers_of_members_are_in_memory_once():
    sizes = {"buffer_size": 80_000, "n_step_returns": 2, "prioritised_replay": True}
    agent, keys = small_dqn(**sizes), jax.random.split(KEY, 3)
    runner = jax.eval_shape(jax.vmap(agent.start, (0, None)), keys, dqn.HyperParameters())
    advance = jax.vmap(agent.advance, (0, None))
    data = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(runner.buffer))
    program = jax.jit(advance, donate_argnums=0).lower(runner, np.int32(5)).compile()
    memory = program.memory_analysis()
    not_shared = memory.output_size_in_bytes - memory.alias_size_in_bytes
    in_all = memory.argument_size_in_bytes + not_shared + memory.temp_size_in_bytes
    assert in_all < 1.1 * data


def test_checkpoints_may_leave_the_buffer_out(tmp_path):
    agent = counting(checkpoint_dir=tmp_path)
    agent.train(KEY, dqn.HyperParameters(), progress=False)
    again = counting(checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = again.restore("last")
    assert runner.buffer is None
    assert runner.update_step == 4
    trees.assert_equal(agent.learner, again.learner)
    resumed, _ = again.train(None, None, runner, n_steps=2, progress=False)
    assert resumed.update_step == 6
    assert resumed.buffer.size == 12 + 2 * 3 * 4
    restored, _ = again.restore("last")
    assert restored.buffer is None
    advanced = again.advance(jax.device_put(restored, may_alias=False), 2)
    expected, _ = again.train(None, None, restored, n_steps=2, progress=False)
    trees.assert_equal(advanced, expected)


# Options.


def test_prioritised_replay_draws_what_was_estimated_worst():
    agent = counting()
    hyperparams = dqn.HyperParameters(priority_exponent=1.0)
    runner = agent.advance(agent.start(KEY, hyperparams), np.int32(15))
    buffer, learner = runner.buffer, runner.learner
    _, probabilities = draw(buffer)
    assert np.ptp(probabilities) > 0.0
    priorities = np.asarray(buffer.priorities.levels[0])[: int(buffer.size)]
    indices, weights = np.arange(len(priorities)), np.ones(len(priorities), np.float32)

    @jax.jit
    def errors(learner, buffer):
        _, info = learner.update({**buffer.take(indices), "weights": weights})
        return jnp.abs(info["td_errors"])

    assert np.corrcoef(priorities, errors(learner, buffer))[0, 1] > 0.5


@jax.jit
def draw(buffer):
    """Indices of eight transitions, and their probabilities."""
    return buffer.sample_prioritised(KEY, 8)


def test_uniform_priorities_are_uniform_replay_without_weights():
    agent = counting()
    hyperparams = dqn.HyperParameters(priority_exponent=0.0)
    runner = agent.advance(agent.start(KEY, hyperparams), np.int32(4))
    _, probabilities = draw(runner.buffer)
    np.testing.assert_allclose(probabilities, 1.0 / runner.buffer.size, rtol=1e-5)


def test_q_and_policy_are_those_of_the_trained_agent():
    agent = counting()
    with pytest.raises(RuntimeError, match="has not been trained"):
        agent.q(jnp.zeros(2))
    agent.collect_training(agent.start(KEY, dqn.HyperParameters()), {})
    observations = jnp.array([[1.0, 0.0], [-1.0, 0.0]])
    values = agent.q(observations)
    assert values.shape == (2, 2)
    np.testing.assert_array_equal(agent.policy(observations), values.argmax(-1))
    np.testing.assert_array_equal(agent.policy(agent.learner, observations[0]), values[0].argmax())
    with pytest.raises(ValueError, match=r"q takes one observation, .* structured as"):
        agent.q({"angle": jnp.zeros(2)})


# Bad input.


@pytest.mark.parametrize(
    ("actions", "error", "message"),
    [
        (np.zeros((4, 1), int), ValueError, r"shape \(4,\), got shape \(4, 1\)"),
        (np.zeros(4, np.float32), TypeError, "must return integers .*got float32"),
    ],
)
def test_names_explored_actions_of_another_shape_or_kind(actions, error, message):
    class Explorer(SAC):
        def _explore(self, key, learner, obs, n_steps):
            return actions

    program = Explorer(MatchSign(), None, sac.AgentConfig(**SMALL)).program
    runner = jax.eval_shape(program.start, KEY, sac.HyperParameters())
    with pytest.raises(error, match=rf"Explorer\._explore .*{message}"):
        jax.eval_shape(program.advance, runner, 1)


def test_its_configuration_and_hyperparameters_inherit_those_of_its_learner():
    class Atoms(DQN):
        _discrete_learner = C51Learner

    with pytest.raises(TypeError, match=r"C51Learner needs the fields of jaxagents.c51.C51Config"):
        small_dqn(agent=Atoms)

    class Bounds(Atoms):
        _config_type = c51.AgentConfig

    with pytest.raises(TypeError, match=r"fields of jaxagents.c51.C51Hyperparameters, got a .*dqn"):
        Bounds(MatchSign(), None, c51.AgentConfig(**SMALL))


class Silent(DQNLearner):
    def _update(self, batch):
        learner, info = super()._update(batch)
        return learner, {name: info[name] for name in ("critic_loss", "q")}


@pytest.mark.parametrize(
    ("agent", "error", "message"),
    [
        (
            type("Around", (DQNBase,), {"_discrete_learner": Silent}),
            TypeError,
            "takes weights and reports td_errors, and Silent does not",
        ),
        (
            around(lambda info: {"td_errors": info["td_errors"].mean()}),
            ValueError,
            r"Own must report one td_error for each sample, shape \(8,\), got",
        ),
    ],
)
def test_reports_of_learners_that_do_not_serve_are_named(agent, error, message):
    agent = small_dqn(Counter(), agent, evaluates=False, prioritised_replay=True)
    with pytest.raises(error, match=message):
        agent.train(KEY, dqn.HyperParameters(), progress=False)
