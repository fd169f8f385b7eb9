"""The hooks of subclasses: their names and arguments."""

import functools

import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn
from probes import MatchSign

from jaxagents import DQN, IPPO, MAPPO, PPO, PQN, RND, TD3, DQNLearner, PQNLearner
from jaxagents.core.hook_names import FORMER_HOOKS
from jaxagents.ppo import HyperParameters

KEY = jax.random.key(0)
OF_Q_LEARNING = ("act_randomly", "_select_action", "_q_state_action", "_update_target_network")
SIZES = {"n_steps": 1, "rollout_length": 6, "batch_size": 4, "minibatch_size": 2}


def own(base=PPO, **hooks):
    """A subclass with some hooks."""
    return type("Own", (base,), hooks)


def make(agent, env=MatchSign, **fields):
    sizes = {"features": (4,)} if agent._hyperparams_type is not HyperParameters else SIZES
    return agent(env(), None, agent._config_type(**{**sizes, **fields}), False)


def update_of(agent, *args, **fields):
    """The shapes of a runner after an update, for which nothing is compiled."""
    agent = make(agent, *args, **fields)
    start, advance = agent.program.start, agent.program.advance
    return jax.eval_shape(lambda: advance(start(KEY, agent._hyperparams_type()), 1))


@pytest.mark.parametrize("hook", FORMER_HOOKS)
def test_hooks_of_0_2_5_that_are_gone_are_refused(hook):
    agent = own(DQN if hook in OF_Q_LEARNING else PPO, **{hook: lambda self, *args: args})
    with pytest.raises(
        TypeError, match=rf"Own\.{hook} would never be called: it was a hook in 0\.2"
    ):
        make(agent)


@pytest.mark.parametrize("agent", [PPO, IPPO, MAPPO, RND])
def test_minibatches_of_one_sample_are_refused_where_advantages_are_standardised(agent):
    sizes = {"batch_size": 4, "rollout_length": 3, "minibatches_per_epoch": 12}
    env = MatchSign() if agent in (PPO, RND) else MatchSign(2)
    with pytest.raises(
        ValueError, match=r"batch_size \(4\) \* rollout_length \(3\) in 12 minibatches"
    ):
        agent(env, None, agent._config_type(**sizes))
    unscaled = own(agent, _actor_minibatch=lambda self, *samples: samples)
    unscaled(env, None, agent._config_type(**sizes))


class OtherLoss(PPO):
    """Has the advantages before the log-probabilities."""

    def _actor_loss(self, training, obs, actions, advantage, log_prob_old, hyperparams):
        return super()._actor_loss(training, obs, actions, log_prob_old, advantage, hyperparams)


class Reordered(OtherLoss):
    """Passes its loss the arguments that it takes."""

    def _actor_loss_input(self, runner, traj):
        return traj.obs, traj.action, traj.advantage, traj.log_prob

    def _actor_minibatch(self, obs, actions, advantage, log_prob_old):
        return obs, actions, advantage, log_prob_old


class Constructed(PPO):
    """Sets hooks in its constructor, one of them misspelt."""

    def __init__(self, *args):
        self._actor_losses = self._sharpened = lambda *args: None
        super().__init__(*args)


def nothing(self, *args):
    """A hook."""


NETWORK = "_network must return a flax.linen module, .*got {}."
METHOD = r"{0} must be a method, {0}\(self, hyperp"


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (OtherLoss, r"OtherLoss\._actor_loss must be .*obs, actions, log_prob_old, advantage, hyp"),
        (
            own(_trajectory_advantages=staticmethod(lambda traj, advantage: advantage)),
            r"Own\._trajectory_advantages must be .*\(self, advantage, traj\), got",
        ),
        (own(PQN, _trajectory_returns=nothing), "_trajectory_returns would never be called: it is"),
        (
            own(TD3, _actor_loss=nothing),
            r"\(TD3Learner\):\n *def _actor_loss\(self, params, critic",
        ),
        (Constructed, r"Constructed\._actor_losses would .*Did you mean _actor_loss\?"),
        (own(_actor_network=nothing), NETWORK.format("None")),
        (own(_critic_network=lambda self: nn.Dense), NETWORK.format("the class Dense")),
        (own(_kl_threshold=0.5), METHOD.format("_kl_threshold")),
        (own(_gae_lambda=property(lambda self: 0.5)), METHOD.format("_gae_lambda")),
        (own(_hyperparams_type=HyperParameters()), "_config_type and _hyp.* classes, got an obj"),
    ],
)
def test_hooks_that_would_not_serve_are_named(agent, message):
    with pytest.raises(TypeError, match=message):
        agent(MatchSign(continuous=agent.__base__ is TD3), None, agent._config_type(), False)


def test_values_of_one_observation_are_refused_where_the_critic_has_a_memory():
    valued = own(_value=lambda self, training, params, obs: 2.0)
    make(valued)
    with pytest.raises(TypeError, match=r"with a memory, for which Own\._value would never be"):
        make(valued, memory="gru")


class TeamReward(IPPO):
    """Rewards all actors with the mean of their rewards."""

    keepdims = True

    def _with_targets(self, runner, traj):
        reward = traj.reward.mean(axis=-1, keepdims=self.keepdims)
        return super()._with_targets(runner, traj._replace(reward=reward))


PAIR = {"env": functools.partial(MatchSign, 2), "batch_size": 2}
"""As many environments as actors."""
HALVED = functools.partialmethod(
    lambda self, advantage, traj, scale: (scale * traj.reward, scale * traj.reward), scale=0.5
)


def flags_and_counts(self, advantage, traj):
    return traj.reward > 0.0, (traj.reward > 0.0).astype(int)


def without_divergence(self, *inputs):
    return PPO._actor_loss(self, *inputs)[0]


NUMBERS = {
    "_sample_actions": lambda self, rng, training, obs: 1,
    "policy": lambda self, training, obs: 1,
    "_log_prob": lambda self, training, params, obs, actions: 0.0,
    "_entropy": lambda self, training, obs: 0.0,
}


@pytest.mark.parametrize(
    ("agent", "fields"),
    [
        (Reordered, {}),
        (TeamReward, PAIR),
        (own(_trajectory_advantages=HALVED), {}),
        (own(_trajectory_advantages=flags_and_counts), {}),
        (own(**NUMBERS), {}),
        (own(_actor_loss=without_divergence, _kl_threshold=nothing), {}),
    ],
    ids=[
        "another order",
        "of all actors",
        "partial method",
        "flags and counts",
        "numbers",
        "alone",
    ],
)
def test_hooks_may_have_many_forms(agent, fields):
    update_of(agent, **fields)


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


class ReportingLearner(PQNLearner):
    def _loss(self, params, batch, targets):
        losses, info = super()._loss(params, batch, targets)
        return losses, {**info, "critic_loss": losses}


def inputs_of_critic(inputs):
    return own(_critic_loss_input=lambda self, runner, traj: inputs(traj))


def reporting(self, training, obs, targets, hyperparams):
    losses = PPO._critic_loss(self, training, obs, targets, hyperparams)
    return losses, {"explained_variance": targets}


def critic_loss(errors):
    """A critic loss computed from errors, which should be per sample."""

    def loss(self, training, obs, targets, hyperparams):
        return errors(self._values(training, obs), targets) ** 2

    return own(_critic_loss=loss)


OF_SAMPLES = r"Own\._critic_loss must return one loss .* shape \(12,\), .* got shape "


def several(self, runner, traj, rngs):
    runner, numbers = PPO._learn(self, runner, traj, rngs)
    return runner, {**numbers, "mine": jnp.zeros(4)}


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (
            inputs_of_critic(lambda traj: (traj.obs, traj.target.T)),
            r"Own\._critic_loss_input must .*environments\) of \(6, 4\), got .* \(4, 6\)",
        ),
        (
            inputs_of_critic(lambda traj: traj.target),
            r"_critic_loss_input must .*a tuple of the loss's arguments",
        ),
        (
            own(_actor_minibatch=lambda self, *inputs: jax.tree.map(lambda x: x[:1], inputs)),
            r"Own\._actor_minibatch must .*leading axes \(samples\) of \(12,\), got one of shape \(1",
        ),
        (critic_loss(lambda x, y: x[:, None] - y[None]), OF_SAMPLES + r"\(12, 12\)"),
        (own(_actor_loss=without_divergence), r"Own\._actor_loss must report 'kl'.*approximate_kl"),
        (own(_critic_loss=reporting), r"_critic_loss reports \['explained_variance'\], which up"),
        (own(_trajectory_advantages=lambda self, advantage, traj: advantage), "return two arrays"),
        (
            own(_trajectory_advantages=lambda self, advantage, traj: (0.0, 0.0)),
            r"must return two arrays of shape \(4,\), .* got shapes \[\(\), \(\)",
        ),
        (own(_learn=lambda self, runner, *args: runner), r"_learn must return the .* a Runner"),
        (own(_training_step=nothing), r"Own\._training_step.* must return .* NoneType"),
        (own(_learn=several), r"Own: .* single numbers, got the shapes \{'mine': \(4,\)\}"),
        (own(TeamReward, keepdims=False), r"of \(6, 2, 2\), got shape \(6, 2\)"),
        (Remembering, r"adds or drops the arrays \['.*actor_training.*Have _create_networks or"),
        (
            own(PQN, _discrete_learner=RememberingLearner),
            r"adds or drops the arrays \['.*critic.*RememberingLearner._init",
        ),
        (
            own(PQN, _discrete_learner=ReportingLearner),
            r"ReportingLearner\._loss reports \['critic_loss'\], which updates",
        ),
    ],
)
def test_what_hooks_give_and_remember_must_fit(agent, message):
    with pytest.raises((TypeError, ValueError), match=message):
        update_of(agent, **(PAIR if issubclass(agent, TeamReward) else {}))


def test_hooks_of_learners_that_take_arguments_in_another_order_are_named():
    learner = own(DQNLearner, _loss=lambda self, batch, params, targets: (targets, {}))
    message = r"Own\._loss must be _loss\(self, params, batch, targets\)"
    with pytest.raises(TypeError, match=message):
        learner.create(0, jnp.zeros(2), 0, n_actions=2)
