"""RND beyond the shared suite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import MatchSign
from registry import ON_POLICY

from jaxagents import RND, rnd
from jaxagents.agents.collect import NOT_YET, Transition
from jaxagents.networks import CategoricalActor, WithMemory
from jaxagents.sharding import make_mesh

(CASE,) = [case for case in ON_POLICY if case.name == "RND"]
KEY = jax.random.key(0)
TIME, ENVS = 8, 8


@pytest.fixture(scope="module")
def agent():
    """The agent of the suite, whose programs it shares."""
    return CASE.make(MatchSign)


@pytest.fixture(scope="module")
def start(agent):
    return agent.start(KEY, CASE.hyperparams(intrinsic_coeff=0.3))


def a_rollout(seed):
    rng = np.random.default_rng(seed)
    obs = jnp.asarray(rng.normal(size=(TIME, ENVS, 2)) * [1.0, 30.0] + 5.0, jnp.float32)
    flags = jnp.asarray(rng.random((TIME, ENVS)) < 0.2)
    reward = jnp.asarray(rng.normal(size=(TIME, ENVS)), jnp.float32)
    return Transition(obs, reward, NOT_YET, reward, reward, obs, flags, ~flags)


def embedding(params, obs):
    """By NumPy, one hidden layer."""
    hidden = params["network"]["Torso_0"]["MLP_0"]["Dense_0"]
    last = params["network"]["Dense_0"]
    x = np.maximum(obs @ hidden["kernel"] + hidden["bias"], 0.0)
    return x @ last["kernel"] + last["bias"]


def test_rewards_are_errors_in_units_of_the_deviation_of_their_endless_returns(agent, start):
    rollouts = [a_rollout(seed) for seed in (1, 2)]
    runner, seen, sums, carried = start, [], [], np.zeros(ENVS)
    with_rewards = jax.jit(agent._with_rewards)
    for traj in rollouts:
        runner, learned_from = with_rewards(runner, traj)
        seen.append(np.asarray(traj.next_obs, np.float64))
        every = np.concatenate(seen).reshape(-1, 2)
        obs = np.clip((seen[-1] - every.mean(0)) / every.std(0), -5.0, 5.0)
        nets = jax.tree.map(np.asarray, (start.extra.target.params, start.extra.predictor.params))
        errors = np.square(embedding(nets[0], obs) - embedding(nets[1], obs)).mean(-1)
        for error in errors:
            sums.append(carried + error)
            carried = float(start.hyperparams.gamma) * sums[-1]
        np.testing.assert_allclose(runner.extra.returns.variance, np.var(sums), rtol=1e-3)
        intrinsic = errors / np.std(sums)
        reward = np.asarray(traj.reward) + 0.3 * intrinsic
        np.testing.assert_allclose(learned_from.reward, reward, rtol=1e-3)
        np.testing.assert_allclose(learned_from.extra["intrinsic_reward"], intrinsic, rtol=1e-3)
    assert not trees.equal(
        start.extra.predictor.extra_variables, runner.extra.predictor.extra_variables
    )


def test_the_predictor_comes_to_know_what_it_sees_and_the_target_stays(agent):
    fast = rnd.OptimizerParams(learning_rate=1e-2)
    start = agent.start(KEY, CASE.hyperparams(predictor_optimizer_params=fast, predictor_share=0.5))
    target = jax.tree.map(np.asarray, start.extra.target.params)
    early = agent.advance(start, 2)
    first = {name: float(x) for name, x in early.info.items()}
    late = agent.advance(early, 60)
    assert late.info["predictor_loss"] < 0.1 * first["predictor_loss"]
    assert first["predictor_gradient_norm"] > 0.0
    assert late.info["intrinsic_reward"] < 0.3 * first["intrinsic_reward"]
    trees.assert_equal(jax.tree.map(np.asarray, late.extra.target.params), target)
    assert late.extra.predictor.step == 62 * 2 * 2  # updates, epochs, minibatches


def test_a_predictor_without_samples_stays_and_reports(agent):
    start = agent.start(KEY, CASE.hyperparams(predictor_share=0.0))
    before = jax.tree.map(np.asarray, start.extra.predictor.params)
    after = agent.advance(start, 2)
    trees.assert_equal(jax.tree.map(np.asarray, after.extra.predictor.params), before)
    assert np.isfinite(after.info["actor_loss"])
    assert after.info["intrinsic_reward"] > 0.0


@pytest.mark.slow  # ten seconds; nothing else splits what predicts over devices
def test_two_devices_make_the_training_of_one():
    agent = CASE.make(MatchSign, False, n_groups=2, replicated_updates=True)
    alone, shared = (
        agent.train(KEY, CASE.hyperparams(), mesh=mesh, progress=False)[0]
        for mesh in (None, make_mesh(2))
    )
    trees.assert_equal(alone, shared)


class Sea(MatchSign):
    """Gives no rewards, and observes a mask."""

    def observe(self, state):
        return {"observation": super().observe(state), "action_mask": jnp.array([True, False])}


def test_masks_of_actions_are_not_new():
    agent = RND(Sea(), None, rnd.AgentConfig(n_steps=2, batch_size=4, rollout_length=4))
    runner = jax.eval_shape(agent.start, KEY, rnd.HyperParameters())
    kernel = runner.extra.target.params["network"]["network"]["Torso_0"]["MLP_0"]["Dense_0"][
        "kernel"
    ]
    assert kernel.shape == (2, 128)


class Table(nn.Module):
    @nn.compact
    def __call__(self, obs):
        return nn.Dense(6)(obs).reshape(2, 3)


@pytest.mark.parametrize(
    ("network", "error", "message"),
    [
        (WithMemory(CategoricalActor(2), nn.GRUCell(4)), TypeError, "has a memory"),
        (Table(), ValueError, r"must output a vector for one observation, got the shape \(2, 3\)"),
    ],
)
def test_says_what_an_embedding_must_be(network, error, message):
    with pytest.raises(error, match=message):
        CASE.make(MatchSign, embedding_network=network)
