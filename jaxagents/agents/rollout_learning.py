"""The learning of on-policy agents from a rollout: targets, and networks fitted to them."""

import math
from collections.abc import Callable
from typing import TypedDict

import jax
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops, sharding
from jaxagents.agents import sequences, shared_trunk
from jaxagents.agents.acting_hooks import OnPolicyConfigT, OnPolicyHyperparametersT
from jaxagents.agents.critic import RecurrentCritic
from jaxagents.agents.learning_hooks import LearningHooks
from jaxagents.agents.playing import (
    playing,
    shares_of,
    weighed,
    without_values_of_departed,
)
from jaxagents.agents.reports import (
    OF_EVERY_UPDATE,
    explained_variance,
    info_of_update,
)
from jaxagents.agents.reward_scale import MOST_REWARD, observe_rewards
from jaxagents.agents.runners import Runner
from jaxagents.agents.sequences import check_inputs, first_of, n_samples_of
from jaxagents.agents.targets import with_targets
from jaxagents.agents.transitions import Transition
from jaxagents.agents.value_scale import (
    in_units_of_critic,
    observe_targets,
    with_true_values,
)
from jaxagents.core.clashes import check_not_taken
from jaxagents.learners.fit import Fit, Share, fewest_parts, fit, with_examples
from jaxagents.learners.losses import Info, check_shape, losses_and_info
from jaxagents.learners.train_state import TrainState


class _Minibatches(TypedDict):
    n_minibatches: int
    replicated: bool


class RolloutLearning(LearningHooks[OnPolicyConfigT, OnPolicyHyperparametersT]):
    """Learning from a rollout: values, advantages and returns, then epochs of both losses."""

    def _learn(
        self, runner: Runner, traj: Transition, rngs: Key[Array, "epochs n_groups"]
    ) -> Runner:
        fits = self._fits(runner, traj)
        self._check_divergence(fits[0])
        actor, critic = fit(fits, rngs, share=self._share, **self._minibatches)
        obs = self._observed(traj.obs)
        return runner.replace(
            actor_training=actor.training.observe(obs),
            critic_training=critic.training.observe(obs),
            targets=self._targets_after(runner, traj),
            info=info_of_update(actor.info, critic.info, self._explained_variance(traj)),
        )

    def _explained_variance(self, traj: Transition) -> Float[Array, ""]:
        """The share of the variance of returns that the values of a rollout explain."""
        value, target, weights = traj.value, traj.target, playing(traj.obs)
        if self.config.replicated_updates:
            value, target, weights = jax.tree.map(
                lambda x: x[:, None], sharding.in_one_order((value, target, weights))
            )
        return explained_variance(value, target, weights)

    @property
    def _minibatches(self) -> "_Minibatches":
        config = self.config
        return {"n_minibatches": config.n_minibatches, "replicated": config.replicated_updates}

    @property
    def _share(self) -> Share | None:
        """The part that actor and critic have in common; see `fit`."""
        return None if self.config.trunk is None else shared_trunk.share

    def _fits(self, runner: Runner, traj: Transition) -> tuple[Fit, Fit]:
        """How actor and critic are fitted to a rollout."""
        config, hyperparams = self.config, runner.hyperparams
        fitted = traj
        if config.normalise_values:
            fitted = in_units_of_critic(traj, runner.targets, self._targets_after(runner, traj))
        learns_in_order = isinstance(self._critic, RecurrentCritic)
        dealt = sequences if learns_in_order else self._policy

        def loss_of(hook: Callable) -> Callable[..., tuple[Array, Info]]:
            def loss(*samples_and_weights: PyTree) -> tuple[Array, Info]:
                *samples, weights = samples_and_weights
                return weighed(losses_and_info(hook(*samples, hyperparams)), weights)

            return loss

        def samples(*elements: PyTree) -> tuple[PyTree, ...]:
            *inputs, weights = dealt.samples(elements)
            return *inputs, shares_of(weights)

        def samples_of_actor(*elements: PyTree) -> tuple[PyTree, ...]:
            *inputs, weights = samples(*elements)
            given = self._actor_minibatch(*inputs)
            check_inputs(f"{name}._actor_minibatch", given, {"samples": n_samples_of(inputs)})
            return *given, weights

        name, (n_steps, n_envs) = type(self).__name__, traj.terminated.shape
        inputs_of_actor = self._actor_loss_input(runner, traj)
        inputs_of_critic = self._critic_loss_input(runner, fitted)
        for hook, inputs in (("actor", inputs_of_actor), ("critic", inputs_of_critic)):
            lead = {"time": n_steps, "environments": n_envs}
            check_inputs(f"{name}._{hook}_loss_input", inputs, lead)
        actor = Fit(
            runner.actor_training,
            loss_of(self._actor_loss),
            dealt.elements((*inputs_of_actor, playing(traj.obs))),
            config.actor_epochs,
            self._kl_threshold(hyperparams),
            samples,
        )
        critic = Fit(
            runner.critic_training,
            loss_of(self._critic_loss),
            dealt.elements((*inputs_of_critic, playing(traj.obs))),
            config.critic_epochs,
            prepare=samples,
        )
        actor, critic = with_examples((actor, critic), config.n_minibatches, self._share)
        self._check_losses(actor, critic, n_steps * n_envs // config.n_minibatches)
        if actor.example.is_per_sample:
            actor = actor._replace(prepare=samples_of_actor)
        return actor, critic

    def _check_losses(self, actor: Fit, critic: Fit, n_samples: int) -> None:
        """Raises unless losses are of samples, or one number, and report under names of their own."""
        for hook, of_network in (("_actor_loss", actor), ("_critic_loss", critic)):
            name, example = f"{type(self).__name__}.{hook}", of_network.example
            check_shape(name, example.losses.shape, n_samples, self._actors_shape)
            reported = sorted(example.info)
            check_not_taken(
                f"{name} reports", reported, OF_EVERY_UPDATE, "which updates report themselves"
            )

    def _check_divergence(self, actor: Fit) -> None:
        """Raises unless the actor's loss reports what stops its epochs."""
        if actor.kl_threshold is not None and "kl" not in actor.example.info:
            raise TypeError(
                f"{type(self).__name__}._actor_loss must report 'kl', by which _kl_threshold stops its "
                f"epochs, but reports {sorted(actor.example.info)}: give its dict an entry "
                "'kl': ops.approximate_kl(log_prob, log_prob_old), or override _kl_threshold to return "
                "None."
            )

    def _with_learning_targets(self, runner: Runner, traj: Transition) -> tuple[Runner, Transition]:
        """A rollout with all that is learned from it.

        With `replicated_updates`, log-probabilities are computed again of the whole rollout: some
        processors round them otherwise where a device acts in fewer environments.
        """
        if self.config.replicated_updates:
            traj = sharding.whole(traj)
            traj = traj._replace(log_prob=self._log_probs(runner.actor_training, traj))
        runner, traj = self._with_values(*self._with_rewards(runner, traj))
        return runner, self._with_targets(runner, traj)

    def _targets_after(self, runner: Runner, traj: Transition) -> PyTree:
        """The moments of returns after those of a rollout; `()` unless values are normalised."""
        if not self.config.normalise_values:
            return runner.targets
        targets, weights = self._observed((traj.target, playing(traj.obs)))
        return observe_targets(targets, weights, runner.targets)

    def _log_probs(self, actor: TrainState, traj: Transition) -> Float[Array, "..."]:
        """Log-probabilities of the actions of a rollout under an actor."""

        def of_environment(carry: PyTree, traj: Transition, first: Array) -> Array:
            distributions = self._policy.unroll(actor, carry, traj.obs, first)
            log_probs = jax.vmap(lambda it, action: it.log_prob(action))(distributions, traj.action)
            return log_probs.reshape(traj.log_prob.shape)

        start = jax.tree.map(lambda x: x[0], traj.carry)
        return jax.vmap(of_environment, (0, 1, 1), 1)(start, traj, first_of(traj))

    def _with_rewards(self, runner: Runner, traj: Transition) -> tuple[Runner, Transition]:
        """A rollout with the rewards to learn from, normalised by those of all steps until its end."""
        if not self.config.normalise_rewards:
            return runner, traj
        received, returns = observe_rewards(
            traj.reward,
            traj.terminated | traj.truncated,
            runner.received,
            runner.returns,
            runner.hyperparams.gamma,
            self.config.replicated_updates,
            playing(traj.obs),
        )
        reward = ops.scale_rewards(traj.reward, returns, MOST_REWARD)
        return runner.replace(received=received, returns=returns), traj._replace(reward=reward)

    def _with_values(self, runner: Runner, traj: Transition) -> tuple[Runner, Transition]:
        """A rollout with its values, and the runner with the critic's memories after it."""
        carry, steps_at_once = runner.critic_carry, self._steps_at_once()
        placed = sharding.whole if self.config.replicated_updates else lambda carry: carry
        critic = self._whole_critic(runner.actor_training, runner.critic_training)
        carry, traj = self._critic.judge(critic, placed(carry), traj, steps_at_once)
        carry = placed(carry)
        if self.config.normalise_values:
            traj = with_true_values(traj, runner.targets)
        return runner.replace(critic_carry=carry), traj

    def _whole_critic(self, actor: TrainState, critic: TrainState) -> TrainState:
        """The critic from observations to values, of what is trained by itself."""
        return critic if self._share is None else shared_trunk.critic_behind(actor, critic)

    def _with_targets(self, runner: Runner, traj: Transition) -> Transition:
        hyperparams = runner.hyperparams
        traj, gae_lambda = without_values_of_departed(traj, self._gae_lambda(hyperparams))
        return with_targets(
            traj,
            hyperparams.gamma,
            gae_lambda,
            advantages=self._trajectory_advantages,
            returns=self._trajectory_returns,
        )

    def _steps_at_once(self) -> int:
        """Number of steps of a rollout whose values are computed at once."""
        config = self.config
        n_devices = 1 if config.replicated_updates else sharding.n_devices()
        n_samples = config.rollout_length * config.batch_size // n_devices
        n_parts = max(config.n_minibatches, fewest_parts(n_samples))
        return math.ceil(config.rollout_length / n_parts)
