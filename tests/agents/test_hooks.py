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


def own(base=PPO, **hooks):
    """A subclass with some hooks."""
    return type("Own", (base,), hooks)


def make(agent, config=CONFIG, env=MatchSign):
    return agent(env(), None, config, False)


def updated(agent, hyperparams=None):
    """The shapes of a runner after an update, for which nothing is compiled."""
    program = agent.program
    return jax.eval_shape(lambda: program.advance(program.start(KEY, hyperparams), 1))


def update_of(*args, **kwargs):
    return updated(make(*args, **kwargs), HyperParameters())


class OtherLoss(PPO):
    """Has the advantages before the log-probabilities."""

    def _actor_loss(self, training, obs, actions, advantage, log_prob_old, hyperparams):
        return super()._actor_loss(training, obs, actions, log_prob_old, advantage, hyperparams)


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (OtherLoss, r"_actor_loss must be .*training, obs, actions, log_prob_old, advantage, hyp"),
        (
            own(policy=lambda self, obs, training: 0),
            r"policy must be .*\(self, training, obs\), got .*\(self, obs, training\)",
        ),
        (
            own(_trajectory_advantages=staticmethod(lambda traj, advantage: advantage)),
            r"_trajectory_advantages must be .*\(self, advantage, traj\), got",
        ),
    ],
)
def test_hooks_that_take_arguments_in_another_order_are_named(agent, message):
    with pytest.raises(TypeError, match=rf"{agent.__name__}\.{message}"):
        make(agent)


def test_hooks_of_learners_that_take_arguments_in_another_order_are_named():
    learner = own(DQNLearner, _loss=lambda self, batch, params, targets: (targets, {}))
    message = r"Own\._loss must be _loss\(self, params, batch, targets\)"
    with pytest.raises(TypeError, match=message):
        learner.create(0, jnp.zeros(2), 0, n_actions=2)


def test_losses_take_arguments_in_the_order_of_what_a_subclass_gives_them():
    class Reordered(OtherLoss):
        def _actor_loss_input(self, runner, traj):
            return traj.obs, traj.action, traj.advantage, traj.log_prob

        def _actor_minibatch(self, obs, actions, advantage, log_prob_old):
            return obs, actions, advantage, log_prob_old

    update_of(Reordered)


def minibatch(some):
    return {"_actor_minibatch": lambda self, *inputs: jax.tree.map(some, inputs)}


def critic_input(inputs):
    return {"_critic_loss_input": lambda self, runner, traj: inputs(traj)}


def reporting(name):
    def critic_loss(self, training, obs, targets, hyperparams):
        return PPO._critic_loss(self, training, obs, targets, hyperparams), {name: targets}

    return {"_critic_loss": critic_loss}


@pytest.mark.parametrize(
    ("hooks", "error", "message"),
    [
        (
            critic_input(lambda traj: (traj.obs, traj.target.T)),
            ValueError,
            r"_critic_loss_input must .*environments\) of \(6, 4\), got .* \(4, 6\)",
        ),
        (
            critic_input(lambda traj: (traj.obs, 1.0)),
            ValueError,
            r"environments\) of \(6, 4\), got one of shape \(\)",
        ),
        (
            critic_input(lambda traj: traj.target),
            TypeError,
            r"_critic_loss_input must .*a tuple, of what the loss takes",
        ),
        (
            minibatch(lambda advantage: advantage[:1]),
            ValueError,
            r"_actor_minibatch must .*leading axes \(samples\) of \(12,\), got one of shape \(1",
        ),
        (
            minibatch(lambda advantage: advantage.mean()),
            ValueError,
            r"_actor_minibatch must .*\(samples\) of \(12,\), got one of shape \(\)",
        ),
        *(
            (reporting(name), ValueError, rf"_critic_loss reports \['{name}'\], which up")
            for name in ("loss", "gradient_norm", "explained_variance")
        ),
    ],
)
def test_hooks_whose_arrays_or_reports_do_not_fit_are_named(hooks, error, message):
    with pytest.raises(error, match=rf"Own\.{message}" if message[0] == "_" else message):
        update_of(own(**hooks))


def test_losses_of_learners_report_under_names_of_their_own():
    class Reporting(DQNLearner):
        def _loss(self, params, batch, targets):
            losses, info = super()._loss(params, batch, targets)
            return losses, {**info, "critic_loss": losses}

    obs, numbers = jnp.zeros((3, 2)), jnp.zeros(3)
    batch = {"observations": obs, "actions": jnp.zeros(3, int), "next_observations": obs}
    batch |= {"rewards": numbers, "masks": numbers}
    learner = Reporting.create(0, obs[0], 0, n_actions=2, features=(4,))
    message = r"Reporting\._loss reports \['critic_loss'\], which updates"
    with pytest.raises(ValueError, match=message):
        learner.update(batch)


class TeamReward(IPPO):
    """Pays all actors the mean of their rewards."""

    keepdims = False

    def _with_targets(self, runner, traj):
        reward = traj.reward.mean(axis=-1, keepdims=self.keepdims)
        return super()._with_targets(runner, traj._replace(reward=reward))


def test_rewards_of_a_subclass_are_of_each_actor_or_of_all():
    config = CONFIG.replace(batch_size=2)  # as many environments as actors
    env = functools.partial(MatchSign, 2)
    with pytest.raises(ValueError, match=r"of \(6, 2, 2\), got shape \(6, 2\)"):
        update_of(TeamReward, config, env)
    update_of(own(TeamReward, keepdims=True), config, env)


def scaled(self, advantage, traj, scale):
    return scale * traj.reward, scale * traj.reward


@pytest.mark.parametrize(
    "hooks",
    [
        {"_trajectory_advantages": functools.partialmethod(scaled, scale=0.5)},
        {
            "_sample_actions": lambda self, rng, training, obs: 1,
            "policy": lambda self, training, obs: 1,
            "_log_prob": lambda self, training, params, obs, actions: 0.0,
            "_entropy": lambda self, training, obs: 0.0,
        },
    ],
    ids=["partial method", "numbers"],
)
def test_hooks_may_be_partial_methods_and_return_numbers(hooks):
    update_of(own(**hooks))


def test_values_of_one_observation_are_refused_where_the_critic_has_a_memory():
    valued = own(_value=lambda self, training, params, obs: 2.0)
    make(valued)
    with pytest.raises(TypeError, match=r"with a memory, for which Own\._value would never be"):
        make(valued, CONFIG.replace(memory="gru"))


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("_initial", ".* of the learner"),
        ("_policy", ".* of the learner"),
        ("_trajectory_returns", "it is a"),
    ],
)
def test_agents_around_learners_refuse_hooks_of_others(hook, message):
    with pytest.raises(TypeError, match=rf"Own\.{hook} would never be called: {message}"):
        make(own(PQN, **{hook: lambda self, *args: None}), PQN_CONFIG)


@pytest.mark.parametrize(
    ("name", "hook", "arguments"),
    [
        ("SAC", "_targets", "self, key, batch"),
        ("TD3", "_actor_loss", "self, params, critic, batch"),
    ],
)
def test_agents_refuse_the_steps_of_their_learners(name, hook, arguments):
    case = next(case for case in AGENTS if case.name == name)
    agent = own(case.agent, **{hook: lambda self, *args: None})
    lines = rf"Own\.{hook} would never be called: (.|\n)*\({name}Learner\):\n *def {hook}\({arguments}\)"
    with pytest.raises(TypeError, match=lines):
        dataclasses.replace(case, agent=agent).make(MatchSign)


def test_misspelt_hooks_that_a_constructor_sets_are_named():
    class Own(PPO):
        def __init__(self, *args):
            self._actor_losses = self._sharpened = lambda *args: None
            super().__init__(*args)

    with pytest.raises(TypeError, match=r"Own\._actor_losses would .*Did you mean _actor_loss\?"):
        make(Own)


NETWORK = "_network must return a flax.linen module, .*got {}."
METHOD = r"{0} must be a method, {0}\(self, hyperp"


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ({"_actor_network": lambda self: None}, NETWORK.format("None")),
        ({"_critic_network": lambda self: nn.Dense}, NETWORK.format("the class Dense")),
        ({"_kl_threshold": 0.5}, METHOD.format("_kl_threshold")),
        ({"_gae_lambda": None}, METHOD.format("_gae_lambda")),
        ({"_gae_lambda": property(lambda self: 0.5)}, METHOD.format("_gae_lambda")),
        ({"_config_type": CONFIG}, "_config_type and _hyp.* classes, got an object of jax"),
        ({"_hyperparams_type": HyperParameters()}, "_config_type and _hyp.* classes, got an obj"),
    ],
)
def test_other_objects_in_the_place_of_networks_methods_and_classes_are_named(hooks, message):
    with pytest.raises(TypeError, match=message):
        make(own(**hooks))


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
    with pytest.raises(ValueError, match=rf"by \['.*{message}"):
        updated(make(agent, config), hyperparams)
