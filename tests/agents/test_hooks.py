"""The hooks of subclasses: what they are called, and what they are given."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn
from probes import MatchSign
from registry import AGENTS

from jaxagents import IPPO, PPO, PQN, DQNLearner, PQNLearner, pqn
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)
CONFIG = AgentConfig(n_steps=1, rollout_length=6, batch_size=4, minibatch_size=2)
PQN_CONFIG = pqn.AgentConfig(n_steps=1, features=(4,))


def make(agent, config=CONFIG):
    return agent(MatchSign(), None, config, False)


def updated(agent):
    """The shapes of a runner after an update, for which nothing is compiled."""
    program = make(agent).program
    return jax.eval_shape(lambda: program.advance(program.start(KEY, HyperParameters()), 1))


class OtherLoss(PPO):
    """Has the advantages before the log-probabilities."""

    def _actor_loss(self, training, obs, actions, advantage, log_prob_old, hyperparams):
        return super()._actor_loss(training, obs, actions, log_prob_old, advantage, hyperparams)


class OtherPolicy(PPO):
    """Has the observation first."""

    def policy(self, obs, training):
        return jnp.int32(0)


class OtherStep(PPO):
    """Has no self, and what it is given in another order."""

    @staticmethod
    def _trajectory_advantages(traj, advantage):
        return advantage, advantage


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (OtherLoss, r"_actor_loss must be .*training, obs, actions, log_prob_old, advantage, hyp"),
        (OtherPolicy, r"policy must be .*\(self, training, obs\), got .*\(self, obs, training\)"),
        (OtherStep, r"_trajectory_advantages must be .*\(self, advantage, traj\), got"),
    ],
)
def test_hooks_that_take_arguments_in_another_order_are_named(agent, message):
    with pytest.raises(TypeError, match=rf"{agent.__name__}\.{message}"):
        make(agent)


def test_hooks_of_learners_that_take_arguments_in_another_order_are_named():
    class Other(DQNLearner):
        def _loss(self, batch, params, targets):
            return targets, {}

    with pytest.raises(
        TypeError, match=r"Other\._loss must be _loss\(self, params, batch, targets\)"
    ):
        Other.create(0, jnp.zeros(2), 0, n_actions=2)


def test_losses_take_arguments_in_the_order_of_what_a_subclass_gives_them():
    class Own(OtherLoss):
        def _actor_loss_input(self, runner, traj):
            return traj.obs, traj.action, traj.advantage, traj.log_prob

        def _actor_minibatch(self, obs, actions, advantage, log_prob_old):
            return obs, actions, advantage, log_prob_old

    make(Own)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda traj: (traj.obs, traj.target.T), r"environments\) of \(6, 4\), got .* \(4, 6\)"),
        (lambda traj: (traj.obs, 1.0), r"environments\) of \(6, 4\), got one of shape \(\)"),
        (lambda traj: traj.target, "a tuple, of what the loss takes"),
    ],
)
def test_inputs_of_losses_that_are_not_of_all_steps_are_named(inputs, message):
    class Own(PPO):
        def _critic_loss_input(self, runner, traj):
            return inputs(traj)

    with pytest.raises((TypeError, ValueError), match=rf"Own\._critic_loss_input must .*{message}"):
        updated(Own)


@pytest.mark.parametrize(
    ("some", "message"),
    [
        (
            lambda advantage: advantage[:1],
            r"leading axes \(samples\) of \(12,\), got one of shape \(1",
        ),
        (lambda advantage: advantage.mean(), r"\(samples\) of \(12,\), got one of shape \(\)"),
    ],
)
def test_minibatches_of_fewer_samples_are_named(some, message):
    class Own(PPO):
        def _actor_minibatch(self, *inputs):
            return jax.tree.map(some, inputs)

    program = make(Own).program
    runner = jax.eval_shape(program.start, KEY, HyperParameters())
    with pytest.raises(ValueError, match=rf"Own\._actor_minibatch must .*{message}"):
        jax.eval_shape(program.advance, runner, 1)


class TeamReward(IPPO):
    """Pays all actors the mean of their rewards."""

    keepdims = False

    def _with_targets(self, runner, traj):
        reward = traj.reward.mean(axis=-1, keepdims=self.keepdims)
        return super()._with_targets(runner, traj._replace(reward=reward))


def test_rewards_of_a_subclass_are_of_each_actor_or_of_all():
    class Kept(TeamReward):
        keepdims = True

    config = CONFIG.replace(batch_size=2)  # as many environments as actors
    programs = [kind(MatchSign(2), None, config, False).program for kind in (TeamReward, Kept)]
    runner = jax.eval_shape(programs[0].start, KEY, HyperParameters())
    with pytest.raises(ValueError, match=r"of \(6, 2, 2\), got shape \(6, 2\)"):
        jax.eval_shape(programs[0].advance, runner, 1)
    jax.eval_shape(programs[1].advance, runner, 1)


@pytest.mark.parametrize("name", ["loss", "gradient_norm", "explained_variance"])
def test_losses_report_under_names_of_their_own(name):
    class Reporting(PPO):
        def _critic_loss(self, training, obs, targets, hyperparams):
            return super()._critic_loss(training, obs, targets, hyperparams), {name: targets}

    with pytest.raises(
        ValueError, match=rf"Reporting\._critic_loss reports \['{name}'\], which up"
    ):
        updated(Reporting)


def test_losses_of_learners_report_under_names_of_their_own():
    class Reporting(DQNLearner):
        def _loss(self, params, batch, targets):
            losses, info = super()._loss(params, batch, targets)
            return losses, {**info, "critic_loss": losses}

    obs, numbers = jnp.zeros((3, 2)), jnp.zeros(3)
    batch = {"observations": obs, "actions": jnp.zeros(3, int), "next_observations": obs}
    learner = Reporting.create(0, obs[0], 0, n_actions=2, features=(4,))
    with pytest.raises(
        ValueError, match=r"Reporting\._loss reports \['critic_loss'\], which updates"
    ):
        learner.update({**batch, "rewards": numbers, "masks": numbers})


def test_hooks_may_be_partial_methods():
    class Halved(PPO):
        def _scaled(self, advantage, traj, scale):
            return scale * traj.reward, scale * traj.reward

        _trajectory_advantages = functools.partialmethod(_scaled, scale=0.5)

    program = make(Halved).program
    runner = jax.eval_shape(program.start, KEY, HyperParameters())
    jax.eval_shape(program.advance, runner, 1)


def test_agents_around_learners_refuse_hooks_of_other_agents():
    class Traced(PQN):
        def _trajectory_returns(self, value, traj):
            return value, value

    with pytest.raises(
        TypeError, match=r"Traced\._trajectory_returns would never be called: it is a"
    ):
        make(Traced, PQN_CONFIG)


def test_values_of_one_observation_are_refused_where_the_critic_has_a_memory():
    class Valued(PPO):
        def _value(self, training, params, obs):
            return 2.0 * super()._value(training, params, obs)

    make(Valued)
    with pytest.raises(TypeError, match=r"with a memory, for which Valued\._value would never be"):
        make(Valued, CONFIG.replace(memory="gru"))


@pytest.mark.parametrize("hook", ["_initial", "_policy"])
def test_agents_refuse_what_every_learner_gives(hook):
    agent = type("Own", (PQN,), {hook: lambda self, *args: None})
    with pytest.raises(TypeError, match=rf"Own\.{hook} would never be called: .* of the learner"):
        make(agent, PQN_CONFIG)


@pytest.mark.parametrize(
    ("name", "hook", "arguments"),
    [
        ("SAC", "_targets", "self, key, batch"),
        ("TD3", "_actor_loss", "self, params, critic, batch"),
        ("IQL", "_update_value", "self, q, batch"),
        ("AWAC", "_advantage", "self, key, critic, batch"),
    ],
)
def test_agents_refuse_the_steps_of_their_learners(name, hook, arguments):
    case = next(case for case in AGENTS if case.name == name)
    own = type("Own", (case.agent,), {hook: lambda self, *args: None})
    lines = rf"Own\.{hook} would never be called: (.|\n)*\({name}Learner\):\n *def {hook}\({arguments}\)"
    with pytest.raises(TypeError, match=lines):
        dataclasses.replace(case, agent=own).make(MatchSign)


def test_misspelt_hooks_that_a_constructor_sets_are_named():
    class Own(PPO):
        def __init__(self, *args):
            self._actor_losses = self._sharpened = lambda *args: None
            super().__init__(*args)

    with pytest.raises(TypeError, match=r"Own\._actor_losses would .*Did you mean _actor_loss\?"):
        make(Own)


def test_hooks_of_a_policy_may_return_numbers():
    class Constant(PPO):
        def _sample_actions(self, rng, training, obs):
            return 1

        def policy(self, training, obs):
            return 1

        def _log_prob(self, training, params, obs, actions):
            return 0.0

        def _entropy(self, training, obs):
            return 0.0

    program = make(Constant).program
    runner = jax.eval_shape(program.start, KEY, HyperParameters())
    jax.eval_shape(program.advance, runner, 1)


@pytest.mark.parametrize(("returned", "found"), [(None, "None"), (nn.Dense, "the class Dense")])
@pytest.mark.parametrize("hook", ["_actor_network", "_critic_network"])
def test_hooks_of_networks_that_return_none_are_named(hook, returned, found):
    agent = type("Own", (PPO,), {hook: lambda self: returned})
    with pytest.raises(
        TypeError, match=rf"{hook} must return a flax.linen module, .*got {found}\."
    ):
        make(agent)


@pytest.mark.parametrize("given", [0.5, None, property(lambda self: 0.5)])
@pytest.mark.parametrize("hook", ["_kl_threshold", "_gae_lambda"])
def test_hooks_that_are_no_methods_are_named(hook, given):
    with pytest.raises(TypeError, match=rf"Own\.{hook} must be a method, {hook}\(self, hyperp"):
        make(type("Own", (PPO,), {hook: given}))


@pytest.mark.parametrize(
    "given", [{"_config_type": CONFIG}, {"_hyperparams_type": HyperParameters()}]
)
def test_objects_in_the_place_of_classes_are_named(given):
    with pytest.raises(
        TypeError, match=r"Own\._config_type and _hyp.* classes, got an object of jax"
    ):
        make(type("Own", (PPO,), given))


class Remembering(PPO):
    def _learn(self, runner, traj, rngs):
        runner, numbers = super()._learn(runner, traj, rngs)
        actor = runner.actor_training
        extra = {**actor.extra_variables, "mine": {"mean": jnp.zeros(2)}}
        return runner.replace(actor_training=actor.replace(extra_variables=extra)), numbers


class RememberingLearner(PQNLearner):
    def _update(self, batch):
        learner, info = super()._update(batch)
        critic = learner.critic.replace(extra_variables={"mine": {"mean": jnp.zeros(2)}})
        return learner.replace(critic=critic), info


class AroundRemembering(PQN):
    _discrete_learner = RememberingLearner


@pytest.mark.parametrize(
    ("agent", "hyperparams", "config", "message"),
    [
        (Remembering, HyperParameters(), CONFIG, r"actor_training.*Have _create_networks or"),
        (AroundRemembering, pqn.HyperParameters(), PQN_CONFIG, r"critic.*RememberingLearner._init"),
    ],
)
def test_what_updates_remember_is_there_before_the_first(agent, hyperparams, config, message):
    program = make(agent, config).program

    def update():
        return program.advance(program.start(KEY, hyperparams), 1)

    with pytest.raises(ValueError, match=rf"by \['.*{message}"):
        jax.eval_shape(update)
