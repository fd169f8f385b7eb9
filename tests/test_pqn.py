"""PQN beyond the shared suite."""

import jax
import numpy as np
import pytest
from probes import KnownValues, MatchSign
from registry import AGENTS

from jaxagents import PQN, PQNLearner, pqn
from jaxagents.agents.config import annealed
from jaxagents.sharding import make_mesh

(CASE,) = [case for case in AGENTS if case.name == "PQN"]
KEY = jax.random.key(0)


def returns_by_loops(steps, gamma, q_lambda):
    reward, value = np.asarray(steps.reward), np.asarray(steps.next_value)
    returns, n_steps = np.zeros_like(reward), len(reward)
    for env in range(reward.shape[1]):
        for t in reversed(range(n_steps)):
            is_cut = steps.truncated[t, env] or t == n_steps - 1
            after = value[t, env] if is_cut else returns[t + 1, env]
            future = (1.0 - q_lambda) * value[t, env] + q_lambda * after
            returns[t, env] = reward[t, env] + gamma * (not steps.terminated[t, env]) * future
    return returns


class Recorder(PQNLearner):
    """Reports all returns of its batches, in their order."""

    def _loss(self, params, batch, targets):
        losses, info = super()._loss(params, batch, targets)
        return losses, {**info, "targets": targets, "squares": targets**2}


class RecordingPQN(PQN):
    _discrete_learner = Recorder


@pytest.fixture(scope="module")
def recording():
    """An agent that learns nothing, so that an update uses one network, and its rollout."""
    config = CASE.config(max_episode_steps=3, features=())
    agent = RecordingPQN(KnownValues(None), None, config, eval_during_training=False)
    runner = agent.start(KEY, CASE.hyperparams(0.0, q_lambda=0.7))
    return agent, runner, *jax.jit(agent._play)(runner)[1:]


ACTIONS = np.array([2, 0, 1])


def seen(mask):
    return {"observation": np.eye(3, 2, dtype=np.float32), "action_mask": mask}


@pytest.fixture(scope="module")
def learner():
    return PQNLearner.create(0, seen(np.eye(3) > 0.0), ACTIONS, n_actions=3, features=())


def test_values_of_successors_are_of_allowed_actions(recording, learner):
    agent, *_ = recording
    obs = seen(np.eye(3) > 0.0)
    found = jax.jit(agent._largest_value)(learner, obs)
    np.testing.assert_allclose(found, np.diag(learner.q(obs)))


def test_a_batch_is_fitted_by_half_the_squared_error_however_large(learner):
    obs, returns = seen(np.ones((3, 3), bool)), np.array([0.5, -10.0, 30.0], np.float32)
    q = np.asarray(learner.q(obs))[np.arange(3), ACTIONS]
    _, info = learner.update({"observations": obs, "actions": ACTIONS, "returns": returns})
    np.testing.assert_allclose(info["critic_loss"], np.mean(0.5 * (q - returns) ** 2), rtol=1e-4)
    np.testing.assert_allclose(info["q"], q.mean(), rtol=1e-4)


def test_targets_are_the_returns_of_the_true_successors(recording):
    agent, runner, steps, _ = recording
    assert np.asarray(steps.truncated).any()
    assert np.asarray(steps.terminated).any()
    expected = returns_by_loops(steps, 0.5, 0.7)
    after = agent.advance(jax.device_put(runner, may_alias=False), 1)
    np.testing.assert_allclose(after.info["targets"], expected.mean(), rtol=1e-5)
    np.testing.assert_allclose(after.info["squares"], (expected**2).mean(), rtol=1e-5)


def test_every_transition_is_learned_from_once_an_epoch(recording):
    agent, runner, steps, rngs = recording
    seen = np.asarray(
        jax.jit(agent._epochs)(runner, runner.carry, steps, rngs)[1]["targets"]
    ).ravel()
    assert seen.shape == (4,)
    assert len(np.unique(seen)) == 4
    np.testing.assert_allclose(seen[:2].mean(), seen[2:].mean(), rtol=1e-5)


def test_values_are_those_of_normalised_layers_without_a_target():
    learner = jax.eval_shape(CASE.make(MatchSign).start, KEY, CASE.hyperparams()).learner
    paths = jax.tree_util.tree_leaves_with_path(learner.critic.params)
    assert any("LayerNorm" in jax.tree_util.keystr(path) for path, _ in paths)
    assert not hasattr(learner, "target_critic")


def test_two_devices_that_share_gradients_learn():
    agent = CASE.make(MatchSign, False, n_groups=2, n_steps=150, features=())
    agent.train(KEY, CASE.hyperparams(), progress=False, mesh=make_mesh(2))
    np.testing.assert_array_equal(agent.policy(np.float32([[1.0, 0.0], [-1.0, 0.0]])), [1, 0])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"minibatch_size": 48}, "minibatch_size must divide the 64 transitions of a rollout"),
        ({"gradient_steps": 3}, "gradient_steps must be a multiple of the 2 minibatches"),
        ({"rollout_length": 0}, "rollout_length must be a positive integer"),
        ({"n_groups": 3}, "n_groups must divide"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        CASE.config(**fields)


def test_epochs_are_those_of_the_gradient_steps():
    config = pqn.AgentConfig(
        batch_size=8, rollout_length=4, minibatch_size=16, gradient_steps=6, n_steps=5
    )
    assert (config.n_minibatches, config.n_epochs) == (2, 3)
    assert annealed(config).optimizer.keywords == {"n_gradient_steps": 30}
