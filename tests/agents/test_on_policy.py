"""On-policy agents: rollouts, and the targets computed from them."""

import functools
import math

import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn

from jaxagents import PPO, ops
from jaxagents.agents import collect
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)


CONFIG = AgentConfig(n_steps=1, rollout_length=5, batch_size=6, minibatch_size=2)


def make(agent=PPO, config=CONFIG, name="CartPole-v1"):
    return agent(*gymnax.make(name), config, eval_during_training=False)


@functools.cache
def started(agent):
    """A fresh runner, without compiling its updates."""
    return jax.jit(agent.program.start)(KEY, HyperParameters())


def updated(agent):
    """The shapes of a runner after an update, for which nothing is compiled."""
    program = agent.program
    return jax.eval_shape(lambda: program.advance(program.start(KEY, HyperParameters()), 1))[0]


def with_targets(agent):
    """A function that collects a rollout and computes its targets."""
    return lambda runner: agent._with_targets(*agent._collect(runner)[:2])


@pytest.mark.parametrize(("name", "ahead"), [("CartPole-v1", False), ("Pendulum-v1", True)])
def test_actions_are_of_noise_drawn_ahead_or_of_keys_and_values_the_critics_in_parts(
    monkeypatch, name, ahead
):
    """By keys where there would be much noise, and in parts that do not divide the rollout."""
    monkeypatch.setattr(collect, "_MOST_NOISE", 2 if ahead else 0)
    monkeypatch.setattr("jaxagents.learners.fit._SAMPLES_OF_A_PART", 30)
    agent = make(name=name, config=CONFIG.replace(max_episode_steps=3))
    runner = started(agent)
    actor, shape = runner.actor_training, (CONFIG.rollout_length, CONFIG.batch_size)
    of_rollout = collect.keys_of_update(CONFIG, runner.rng)[1]
    key = jax.random.split(of_rollout, 1 + 2 * math.prod(shape))[0]

    def action(drawn, obs):
        policy = agent._distribution(actor, actor.params, obs)
        return policy.sample_from(drawn) if ahead else policy.sample(drawn)

    @jax.jit
    def found_and_expected(runner):
        _, traj = agent._with_targets(*agent._collect(runner)[:2])
        policy = agent._distribution(actor, actor.params, traj.obs[0, 0])
        drawn = policy.noise(key, shape) if ahead else jax.random.split(key, shape)
        values = jax.vmap(jax.vmap(runner.critic_training))
        expected = (
            jax.vmap(jax.vmap(action))(drawn, traj.obs),
            values(traj.obs),
            values(traj.next_obs),
        )
        return (traj.action, traj.value, traj.next_value), expected

    found, expected = jax.tree.map(np.asarray, found_and_expected(runner))
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), found, expected
    )
    assert len(np.unique(found[0])) > 1


class FirstOfCategorical(ops.Categorical):
    """Draws in its own way."""

    def sample(self, key):
        return jnp.zeros((), int)


class FirstActionOfAnAttribute(PPO):
    """Draws actions by a hook that its constructor sets."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._sample_actions = lambda rng, training, obs: jnp.zeros((), int)


class ByCategorical(PPO):
    """Has a custom policy by inheritance."""

    def _distribution(self, training, params, obs):
        return FirstOfCategorical(training.apply_fn(params, obs))


def test_policies_draw_in_their_own_way():
    agents = [make(kind) for kind in (FirstActionOfAnAttribute, ByCategorical)]
    drawn = jax.jit(lambda runner: [agent._collect(runner)[1].action for agent in agents])
    np.testing.assert_array_equal(drawn(started(make())), np.zeros((2, 5, 6)))


def halved_on_a_plateau(learning_rate, optimizer=optax.adam):
    plateau = optax.contrib.reduce_on_plateau(factor=0.5, patience=1)
    return optax.chain(optimizer(learning_rate), plateau)


class Reporting(PPO):
    """Reports a number of its own, and has a constant loss."""

    def _learn(self, runner, traj, rngs):
        runner, numbers = super()._learn(runner, traj, rngs)
        return runner, {**numbers, "mine": 0.5}

    def _critic_loss(self, training, obs, targets, hyperparams):
        return 3.0 + 0.0 * super()._critic_loss(training, obs, targets, hyperparams)


SIZES = {"n_steps": 1, "rollout_length": 8, "actor_epochs": 1, "critic_epochs": 2}


def reporting(optimizer=halved_on_a_plateau):
    """An agent in one environment, of more minibatches than that and half precision."""
    actor, critic = (nn.Dense(n, param_dtype=jnp.bfloat16) for n in (2, 1))
    sizes = {**SIZES, "batch_size": 1, "minibatches_per_epoch": 4}
    networks = {"actor_network": actor, "critic_network": critic}
    return make(Reporting, AgentConfig(optimizer=optimizer, **sizes, **networks))


@pytest.fixture(scope="module")
def agent():
    return reporting()


@pytest.fixture(scope="module")
def trained(agent):
    return agent.train(KEY, HyperParameters(), progress=False)


def test_minibatches_may_be_counted_and_be_more_than_environments(trained):
    by_size = AgentConfig(batch_size=4, minibatch_size=2, **SIZES)
    by_number = AgentConfig(batch_size=4, minibatches_per_epoch=2, **SIZES)
    assert by_size.n_minibatches == by_number.n_minibatches == 2
    runner, _ = trained
    assert n_gradient_steps(runner.actor_training) == 4
    assert n_gradient_steps(runner.critic_training) == 2 * 4


def n_gradient_steps(training):
    counts = [
        int(leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(training.opt_state)[0]
        if "count" in jax.tree_util.keystr(path)
    ]
    return max(counts)


def test_updates_report_what_learning_gives(trained):
    assert np.isnan(started(make()).actor_loss)
    runner, metrics = trained
    assert runner.info["mine"] == metrics["mine"][-1] == 0.5
    assert {"explained_variance", "kl", "actor_loss"} <= runner.info.keys()


class Averaged(PPO):
    """Acts with the negated parameters of its actor."""

    def _acting(self, runner):
        actor = super()._acting(runner)
        return actor.replace(params=jax.tree.map(jnp.negative, actor.params))


def test_acts_as_trained_by_what_acts():
    agent, runner = make(Averaged), started(make())
    agent.collect_training(runner, {})
    observations = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    policy = jax.jit(jax.vmap(agent.policy, (None, 0)))
    found = np.asarray(jax.vmap(agent.policy)(observations))
    np.testing.assert_array_equal(found, policy(agent._acting(runner), observations))
    assert (policy(runner.actor_training, observations) != found).any()


def test_acts_in_gymnasium_as_trained_in_gymnax():
    agent, env = make(), gymnasium.make("CartPole-v1")
    agent.collect_training(started(agent), {})
    obs, _ = env.reset(seed=0)
    action = agent.policy(obs)
    assert type(action) is int
    assert action == agent.policy(jnp.asarray(obs)) == agent.policy(agent.actor_training, obs)
    env.step(action)
    for batch in (obs[None], np.stack([obs, obs]), jnp.asarray(obs)[None]):
        with pytest.raises(
            ValueError, match=r"of shape \(4,\), got a batch of shape \([12], 4\): .*vmap"
        ):
            agent.policy(batch)


class Penalised(PPO):
    """Has its own variable among the actor's variables."""

    keeps = True

    def _create_networks(self, *args):
        actor, critic = super()._create_networks(*args)
        kept = actor.extra_variables if self.keeps else {}
        return actor.replace(extra_variables={**kept, "penalty": {"w": jnp.float32(2.0)}}), critic

    def _actor_loss(self, training, *args):
        losses, info = super()._actor_loss(training, *args)
        return training.extra_variables["penalty"]["w"] * losses, info


@pytest.mark.parametrize("trunk", [None, nn.Dense(4)], ids=["alone", "behind a trunk"])
def test_losses_see_the_variables_of_a_subclass(trunk):
    config = CONFIG.replace(trunk=trunk, normalise_observations=True)
    runner = updated(make(Penalised, config))
    assert {"penalty", "observed"} <= runner.actor_training.extra_variables.keys()

    class Careless(Penalised):
        keeps = False

    with pytest.raises(ValueError, match=r"Careless._create_networks drops \['observed'\] from"):
        make(Careless, config)


def test_networks_may_have_parameters_in_half_precision(trained):
    runner, metrics = trained
    for name in ("actor", "critic"):
        params = getattr(runner, f"{name}_training").params
        assert {x.dtype for x in jax.tree.leaves(params)} == {jnp.dtype(jnp.bfloat16)}
        assert np.isfinite(metrics[f"{name}_gradient_norm"][-1])


def test_networks_may_compute_in_half_precision():
    actor, critic = (nn.Dense(n, dtype=jnp.bfloat16) for n in (2, 1))
    agent = make(config=CONFIG.replace(actor_network=actor, critic_network=critic))
    runner = jax.eval_shape(agent.program.start, KEY, HyperParameters())
    _, traj = jax.eval_shape(with_targets(agent), runner)
    assert {traj.value.dtype, traj.next_value.dtype, traj.target.dtype} == {jnp.dtype("float32")}


def test_optimizers_are_told_the_loss(trained):
    clipped_and_optimized = trained[0].critic_training.opt_state.inner_state
    plateau = clipped_and_optimized[1][1]
    assert plateau.best_value == 3.0
    assert plateau.scale < 1.0


def test_a_runner_of_another_agent_goes_on_in_the_networks_of_this_one(agent):
    other = reporting(functools.partial(halved_on_a_plateau, optimizer=optax.nadam))
    runner, _ = agent.train(None, None, started(other), progress=False)
    own = jax.eval_shape(agent.program.start, KEY, HyperParameters())
    assert jax.tree.structure(runner.replace(info={})) == jax.tree.structure(own)
