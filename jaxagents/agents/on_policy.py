"""Base class of agents that learn from rollouts of their current policy."""

import abc
import functools
from typing import TypeVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops, sharding
from jaxagents.agents import targets
from jaxagents.agents.actor_and_critic import (
    EXPLAINED_VARIANCE,
    features_at,
    fits_of,
    network_of,
    numbers_of,
    own_network,
    share_trunk,
    with_parameters,
)
from jaxagents.agents.agent import Agent
from jaxagents.agents.checks import check_observation_on_error, check_single
from jaxagents.agents.collect import (
    DRAWING_HOOKS,
    AdvantageInput,
    ReturnInput,
    Sequence,
    Transition,
    collect,
    collection_on_host,
    distribution_at,
    log_probs_of_rollout,
    outputs_of,
    playing,
    to_learn_from,
)
from jaxagents.agents.config import OnPolicyConfig, OnPolicyHyperparameters
from jaxagents.agents.on_policy_checks import check_agent, check_learned
from jaxagents.agents.runners import MOST_REWARD, Runner, observe_rewards, whole_critic
from jaxagents.core.arrays import in_32_bits, repeated
from jaxagents.core.hook_names import is_own
from jaxagents.core.hyperparameters import Traced
from jaxagents.core.report import OBSERVATIONS, REWARDS, Report, nonfinite_environments
from jaxagents.engine.host_rollout import HostCollection
from jaxagents.envs.environment import Environment
from jaxagents.learners.fit import fit
from jaxagents.learners.memory import initial_carry
from jaxagents.learners.optimizer import set_optimizer_params, trained_by
from jaxagents.learners.train_state import Info, TrainState
from jaxagents.networks import remembers

OnPolicyConfigT = TypeVar("OnPolicyConfigT", bound=OnPolicyConfig)
OnPolicyHyperparametersT = TypeVar("OnPolicyHyperparametersT", bound=OnPolicyHyperparameters)

_GIVEN_BY = {
    "_actor_minibatch": ("_actor_loss_input",),
    "_actor_loss": ("_actor_loss_input", "_actor_minibatch"),
    "_critic_loss": ("_critic_loss_input",),
}
"""Hooks of losses, and the hooks that create their inputs."""


class OnPolicyBase(Agent[OnPolicyConfigT, OnPolicyHyperparametersT, Runner]):
    """Collects a rollout in every environment, estimates advantages and returns, and learns from them.

    A subclass defines the policy with four hooks, `_sample_actions`, `_log_prob`, `_entropy` and
    `policy`, or with one, `_distribution`. Hooks take one observation; they are vmapped over time and
    environments. In a multi-agent environment their outputs have a leading `n_actors` axis. A policy
    with a [`Recurrent`][jaxagents.networks.Recurrent] network defines `_distribution_of` instead. To
    change the update itself, rather than a loss, override `_learn`.
    """

    _config_type = OnPolicyConfig
    _hyperparams_type = OnPolicyHyperparameters
    split_fields = ("envstate", "obs", "carry", "received", "critic_carry")
    _hooks = (
        *Agent._hooks,
        *DRAWING_HOOKS,
        "_distribution",
        "_distribution_of",
        "_actor_network",
        "_critic_network",
        "_trajectory_returns",
        "_trajectory_advantages",
        "_gae_lambda",
        "_actor_loss",
        "_critic_loss",
        "_actor_minibatch",
        "_actor_loss_input",
        "_critic_loss_input",
        "_kl_threshold",
        "_rollout_environment",
    )

    # The update.

    def _training_step(self, runner: Runner) -> tuple[Runner, Report]:
        return self._update_from(*self._collect(runner))

    @property
    def host_collection(self) -> HostCollection:
        """How the agent acts and learns if environments are stepped on the host; see `Behaviour`."""
        return collection_on_host(self)

    def _collect(self, runner: Runner) -> tuple[Runner, Transition, Key[Array, "epochs n_groups"]]:
        """Collects a rollout in compiled environments.

        Args:
            runner: The runner before the rollout.

        Returns:
            The runner after the rollout, the rollout, shaped `(time, environments, ...)`, without
            values or advantages, and random keys of the epochs that learn from it.
        """
        return collect(self, runner)

    def _update_from(
        self, runner: Runner, traj: Transition, rngs: Key[Array, "epochs n_groups"]
    ) -> tuple[Runner, Report]:
        """Performs an update from a rollout in compiled environments or on the host.

        Args:
            runner: The runner after the rollout.
            traj: The rollout as collected, shaped `(time, environments, ...)`.
            rngs: Random keys, one for each epoch and group of environments.

        Returns:
            The runner after the update, and the report.
        """
        given = {REWARDS: traj.reward, OBSERVATIONS: (traj.obs, traj.next_obs)}
        nonfinite = nonfinite_environments(given, axis=1)
        if self.config.replicated_updates:
            # On some processors, the rounding of log-probabilities depends on the batch size.
            traj = sharding.whole(traj)
            log_prob = log_probs_of_rollout(self, runner.actor_training, traj)
            traj = traj._replace(log_prob=log_prob)
        runner, traj = self._with_rewards(runner, traj)
        runner, traj = self._with_targets(runner, traj)
        explained = targets.explained_variance(self, traj)
        outcome = self._learn(runner, traj, rngs)
        runner, numbers = check_learned(outcome, type(self).__name__)
        obs = sharding.in_one_order(traj.obs, self.config.replicated_updates)
        runner = runner.replace(
            actor_training=runner.actor_training.observe(obs),
            critic_training=runner.critic_training.observe(obs),
        )
        numbers = jax.tree.map(jnp.asarray, {EXPLAINED_VARIANCE: explained, **numbers})
        return runner, Report(in_32_bits(numbers), nonfinite)

    def _with_rewards(self, runner: Runner, traj: Transition) -> tuple[Runner, Transition]:
        """Scales the rewards of a rollout if `config.normalise_rewards` is set.

        Args:
            runner: The runner after the rollout.
            traj: The rollout, shaped `(time, environments, ...)`.

        Returns:
            The runner, with updated statistics of returns, and the rollout.
        """
        if not self.config.normalise_rewards:
            return runner, traj
        over, gamma = traj.terminated | traj.truncated, runner.hyperparams.gamma
        replicated, weights = self.config.replicated_updates, playing(traj.obs)
        runner = observe_rewards(runner, traj.reward, over, gamma, replicated, weights)
        reward = ops.scale_rewards(traj.reward, runner.returns, MOST_REWARD)
        return runner, traj._replace(reward=reward)

    def _with_targets(self, runner: Runner, traj: Transition) -> tuple[Runner, Transition]:
        """Adds advantages, returns and the current critic's values to a rollout.

        Args:
            runner: The runner after the rollout.
            traj: The rollout, shaped `(time, environments, ...)`.

        Returns:
            The runner, with the critic's memories after the rollout, and the rollout.
        """
        runner, traj = targets.with_values(self, runner, traj)
        return runner, targets.with_advantages(self, runner, traj)

    def _learn(
        self, runner: Runner, traj: Transition, rngs: Key[Array, "epochs n_groups"]
    ) -> tuple[Runner, Info]:
        """Trains actor and critic on a rollout, in epochs of minibatches.

        Override it to change the update rather than a loss. Its caller does everything else, such as
        updating statistics of observations and reporting non-finite values.

        Args:
            runner: The runner after the rollout.
            traj: The rollout with advantages and targets, shaped `(time, environments, ...)`.
            rngs: Random keys, one for each epoch and group of environments.

        Returns:
            The runner with the trained networks, and the metrics to report, by name.
        """
        config = self.config
        actor, critic = fit(
            fits_of(self, runner, traj),
            rngs,
            n_minibatches=config.n_minibatches,
            replicated=config.replicated_updates,
            share=None if config.trunk is None else share_trunk,
        )
        runner = runner.replace(
            actor_training=actor.training,
            critic_training=critic.training,
            targets=targets.targets_after(config, runner, traj),
        )
        return runner, numbers_of(actor.info, critic.info)

    # The policy.

    def _distribution(self, training: TrainState, params: PyTree, obs: PyTree) -> ops.Distribution:
        """The distribution of actions.

        Args:
            training: Train state of the actor.
            params: Actor parameters to use.
            obs: One observation.

        Returns:
            The distribution.
        """
        return self._distribution_of(training(obs, params=params))

    def _distribution_of(self, output: PyTree) -> ops.Distribution:
        """The distribution of actions for an output of the actor network.

        Args:
            output: Output for one observation.

        Returns:
            The distribution.
        """
        raise NotImplementedError

    def _sample_actions(self, rng: Key[Array, ""], training: TrainState, obs: PyTree) -> PyTree:
        """Draws the actions for one observation.

        Args:
            rng: Random key.
            training: Train state of the actor.
            obs: One observation.

        Returns:
            One action (per actor).
        """
        return self._distribution(training, training.params, obs).sample(rng)

    def _log_prob(
        self, training: TrainState, params: PyTree, obs: PyTree, actions: PyTree
    ) -> Float[Array, "..."]:
        """Log-probability of actions.

        Args:
            training: Train state of the actor.
            params: Actor parameters to use.
            obs: One observation.
            actions: One action (per actor).

        Returns:
            The log-probability (of each actor), in nats.
        """
        return self._distribution(training, params, obs).log_prob(actions)

    def _entropy(self, training: TrainState, obs: PyTree) -> Float[Array, "..."]:
        """Entropy of the policy.

        Args:
            training: Train state of the actor.
            obs: One observation.

        Returns:
            The entropy (of each actor), in nats.
        """
        return self._distribution(training, training.params, obs).entropy()

    def policy(self, training: PyTree, obs: PyTree = None) -> PyTree:
        """The greedy action: `policy(obs)` of the trained actor, or `policy(training, obs)`.

        Args:
            training: Train state of the actor; the observation, if that is the only argument.
            obs: One observation.

        Returns:
            One action (per actor). For a NumPy observation, as Gymnasium returns it, `policy(obs)`
                returns an action that `env.step` accepts: a NumPy array within the space, or an `int`.

        Raises:
            RuntimeError: No train state is given, and the agent has not been trained.
            TypeError: The policy has a memory.
            ValueError: `obs` is a batch, or has a different shape.
        """
        if obs is None:
            return self._action_as_trained(training)
        if remembers(network_of(self, "actor_network")):
            raise TypeError(
                f"The policy of {type(self).__name__} has a memory: call act(training, carry, "
                "obs), which returns the next memory and the action; initial_carry(training) "
                "is the first memory."
            )
        check_single(obs, self._observation)
        with check_observation_on_error(obs, self._observation):
            return self._distribution(training, training.params, obs).mode()

    def initial_carry(self, training: TrainState) -> PyTree:
        """The memory of the policy at the start of an episode; `()` if it has none.

        Args:
            training: Train state of the actor.

        Returns:
            The memory.
        """
        return initial_carry(training.model_def)

    def act(
        self, training: TrainState, carry: PyTree, obs: PyTree, rng: Key[Array, ""] | None = None
    ) -> tuple[PyTree, PyTree]:
        """The action of a policy with or without a memory.

        Args:
            training: Train state of the actor.
            carry: The memory: first `initial_carry(training)`, then the one that the last call returned.
            obs: One observation.
            rng: Random key to sample the action with; `None` takes the greedy action.

        Returns:
            The new memory, and one action (per actor).
        """
        if rng is None and not remembers(training.model_def):
            return carry, self.policy(training, obs)
        carry, distribution = distribution_at(self, training, carry, obs)
        return carry, distribution.mode() if rng is None else distribution.sample(rng)

    def _log_probs_and_entropies(
        self, training: TrainState, obs: PyTree, actions: PyTree
    ) -> tuple[Float[Array, "samples ..."], Float[Array, "samples ..."]]:
        """Log-probabilities of a minibatch's actions, and entropies of the policy, in nats.

        Args:
            training: Train state of the actor.
            obs: The observations that `_actor_loss` receives.
            actions: The actions, samples first.

        Returns:
            Both, per sample (and actor).
        """
        in_order = isinstance(obs, Sequence)

        def of_sample(seen: PyTree, action: PyTree) -> tuple[Array, Array]:
            if in_order:
                distribution = self._distribution_of(seen)
            else:
                _, distribution = distribution_at(self, training, (), seen)
            return distribution.log_prob(action), distribution.entropy()

        seen = outputs_of(training, obs) if in_order else obs
        log_probs, entropies = jax.vmap(of_sample)(seen, actions)
        shape = len(log_probs), *self.episodes.actors_shape
        return log_probs.reshape(shape), entropies.reshape(shape)

    def _gives(self, hook: str) -> bool:
        """Whether a hook is overridden, in the class or as an attribute of the object."""
        return hook in vars(self) or getattr(type(self), hook) is not getattr(OnPolicyBase, hook)

    # Values, returns and advantages.

    def _values(self, training: TrainState, obs: PyTree) -> Float[Array, "samples ..."]:
        """The critic's values of a minibatch.

        Args:
            training: Train state of the critic.
            obs: The observations that `_critic_loss` receives.

        Returns:
            The value of each sample (and actor).
        """
        if isinstance(obs, Sequence):
            return targets.values_from(self, outputs_of(training, obs))
        one_by_one = jax.vmap(functools.partial(self._value, training, training.params))
        return targets.values_from(self, one_by_one(obs))

    def _value(self, training: TrainState, params: PyTree, obs: PyTree) -> Float[Array, "..."]:
        """The value of one observation (per actor), from a critic without a memory.

        Raises:
            TypeError: The critic has a memory.
        """
        if remembers(training.model_def):
            raise TypeError(
                f"The critic of {type(self).__name__} has a memory: call _values(training, "
                "obs), which computes the values of a whole minibatch."
            )
        return training(obs, params=params).reshape(self.episodes.actors_shape)

    def _trajectory_returns(
        self, value: Float[Array, "..."], traj: ReturnInput
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """One step of the backward recursion for the returns that the critic learns.

        If the episode is truncated or the rollout ends after this step, `value` is the value
        of the true next state.

        Args:
            value: Return of the following step, over environments (and actors).
            traj: Reward, discount (zero at termination), value of the next state, and lambda.

        Returns:
            The return of this step, twice: as the carry and as the output.
        """
        value = ops.lambda_return_step(value, *traj)
        return value, value

    def _trajectory_advantages(
        self, advantage: Float[Array, "..."], traj: AdvantageInput
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """One step of the backward recursion for the advantages.

        If the episode is truncated or the rollout ends after this step, `advantage` is zero.

        Args:
            advantage: Advantage of the following step, over environments (and actors).
            traj: Reward, value, value of the true next state, termination, discount and lambda.

        Returns:
            The advantage of this step, twice: as the carry and as the output.
        """
        advantage = ops.gae_step(advantage, *traj)
        return advantage, advantage

    def _gae_lambda(self, hyperparams: OnPolicyHyperparametersT) -> Traced:
        """Trace decay of returns and advantages; 1 gives Monte Carlo returns."""
        return 1.0

    # Losses.

    @abc.abstractmethod
    def _actor_loss(
        self,
        training: TrainState,
        obs: PyTree,
        actions: PyTree,
        log_prob_old: Float[Array, "samples ..."],
        advantage: Float[Array, "samples ..."],
        hyperparams: OnPolicyHyperparametersT,
    ) -> tuple[Float[Array, "samples ..."], Info]:
        """The actor's losses for a minibatch.

        Args:
            training: Train state of the actor; the loss is differentiated with respect to its
                `params`.
            obs: Observations, samples first; sequences for a policy with a memory.
            actions: The actions taken.
            log_prob_old: Their log-probabilities under the policy that took them.
            advantage: Their advantages, as returned by `_actor_minibatch`.
            hyperparams: Hyperparameters.

        Returns:
            The losses of the samples, which are averaged, and a dict of arrays whose means are reported.
            Its entry `kl` is the divergence from the old policy, which `_kl_threshold` limits.
            Alternatively, one loss for the whole minibatch, and its mean KL divergence; in this case,
            `_actor_minibatch` is not called.
        """

    def _critic_loss(
        self,
        training: TrainState,
        obs: PyTree,
        targets: Float[Array, "samples ..."],
        hyperparams: OnPolicyHyperparametersT,
    ) -> Float[Array, "samples ..."]:
        """The squared errors of the values.

        Args:
            training: Train state of the critic; the loss is differentiated with respect to its
                `params`.
            obs: Observations of a minibatch, samples first; sequences for a critic with a memory.
            targets: Returns to estimate.
            hyperparams: Hyperparameters.

        Returns:
            The loss of each sample, or of the whole minibatch; optionally with a dict of arrays whose
            means are reported.
        """
        value = self._values(training, obs)
        return hyperparams.vf_coeff * ops.value_loss(value, targets)

    def _actor_loss_input(self, runner: Runner, traj: Transition) -> tuple[PyTree, ...]:
        """The arguments of `_actor_loss` between `training` and `hyperparams`, for a whole rollout.

        Args:
            runner: The runner after the rollout.
            traj: The rollout, shaped `(time, environments, ...)`.

        Returns:
            Pytrees shaped `(time, environments, ...)`.
        """
        obs = to_learn_from(traj, traj.carry)
        return obs, traj.action, traj.log_prob, traj.advantage

    def _critic_loss_input(self, runner: Runner, traj: Transition) -> tuple[PyTree, ...]:
        """The arguments of `_critic_loss` between `training` and `hyperparams`, for a whole rollout.

        Args:
            runner: The runner after the rollout.
            traj: The rollout, shaped `(time, environments, ...)`.

        Returns:
            Pytrees shaped `(time, environments, ...)`.
        """
        obs = to_learn_from(traj, traj.critic_carry)
        return obs, traj.target

    def _actor_minibatch(self, *inputs: PyTree) -> tuple[PyTree, ...]:
        """The inputs of `_actor_loss` for a minibatch, computed from all its samples at once.

        Args:
            *inputs: A minibatch of the outputs of `_actor_loss_input`, samples first.

        Returns:
            The inputs for the same samples, for example with standardised advantages.
        """
        return inputs

    def _kl_threshold(self, hyperparams: OnPolicyHyperparametersT) -> Traced | None:
        """Mean KL divergence above which the actor stops its epochs early; `None` for no limit."""
        return None

    @classmethod
    def _called_alike(cls) -> tuple[str, ...]:
        """See `Behaviour`; excludes hooks whose arguments come from the subclass itself."""
        free = {hook for hook, by in _GIVEN_BY.items() if any(is_own(cls, it) for it in by)}
        return tuple(hook for hook in super()._called_alike() if hook not in free)

    # Environments and networks.

    def _rollout_environment(self, runner: Runner) -> Environment:
        """The environment of the next rollout; override it if the environment changes during training.

        Evaluations still use the agent's own environment.

        Args:
            runner: The runner before the rollout.

        Returns:
            An environment with states, observations and actions of the same structure, shapes and
            dtypes as the agent's own. Its attributes may be arrays from the runner.
        """
        return self.episodes.env

    def _actor_network(self) -> nn.Module:
        """The actor network, if `config.actor_network` is `None`."""
        raise ValueError(f"{type(self).__name__} has no default: set config.actor_network.")

    def _critic_network(self) -> nn.Module:
        """The critic network, if `config.critic_network` is `None`."""
        raise ValueError(f"{type(self).__name__} has no default: set config.critic_network.")

    def _for_observation(self, field: str, network: nn.Module) -> nn.Module:
        """Adapts the network of a configuration field to observations with entries it does not see."""
        return network

    def _create_networks(
        self, actor_rng: Key[Array, ""], critic_rng: Key[Array, ""], obs: PyTree
    ) -> tuple[TrainState, TrainState]:
        """Actor and critic with fresh parameters, without optimizers; a trunk belongs to the actor."""
        actor = with_parameters(network_of(self, "actor_network"), actor_rng, obs)
        if self.config.trunk is None:
            return actor, with_parameters(network_of(self, "critic_network"), critic_rng, obs)
        own = own_network(self, "critic_network")
        return actor, with_parameters(own, critic_rng, features_at(actor, obs))

    # The runner.

    def _create_runner(self, rng: Key[Array, ""], hyperparams: OnPolicyHyperparametersT) -> Runner:
        rngs = jax.random.split(rng, 3 + self.config.batch_size)
        rng, actor_rng, critic_rng = rngs[:3]
        obs, envstate = jax.vmap(self.episodes.reset)(rngs[3:])
        first_obs = jax.tree.map(lambda x: x[0], obs)
        actor, critic = self._create_networks(actor_rng, critic_rng, first_obs)
        config, optimizer = self.config, self.config.optimizer
        critic_memory = initial_carry(whole_critic(self.config, actor, critic).model_def)
        shape = self.episodes.actors_shape
        counts = shape if playing(first_obs) is not None else ()
        received, returns, of_targets = (), (), ()
        if config.normalise_rewards:
            received = jnp.zeros((config.batch_size, *shape), jnp.float32)
            returns = ops.no_moments(shape, counts)
        if config.normalise_values:
            shared = targets.shares_params(critic.model_def)
            of_targets = ops.no_moments() if shared else ops.no_moments(shape, counts)
        return Runner(
            actor_training=trained_by(optimizer, actor, hyperparams.actor_optimizer_params),
            critic_training=trained_by(optimizer, critic, hyperparams.critic_optimizer_params),
            envstate=envstate,
            obs=obs,
            rng=rng,
            hyperparams=hyperparams,
            update_step=jnp.zeros((), jnp.int32),
            carry=repeated(initial_carry(actor.model_def), config.batch_size),
            received=received,
            returns=returns,
            critic_carry=repeated(critic_memory, config.batch_size),
            targets=of_targets,
        )

    def _with_hyperparams(self, runner: Runner, hyperparams: OnPolicyHyperparametersT) -> Runner:
        return runner.replace(
            hyperparams=hyperparams,
            actor_training=set_optimizer_params(
                runner.actor_training, hyperparams.actor_optimizer_params
            ),
            critic_training=set_optimizer_params(
                runner.critic_training, hyperparams.critic_optimizer_params
            ),
        )

    def _acting(self, runner: Runner) -> TrainState:
        return runner.actor_training

    @property
    def actor_training(self) -> TrainState:
        """The trained actor.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self._last.usable_runner.actor_training

    @property
    def critic_training(self) -> TrainState:
        """The trained critic; with a trunk, it has no optimizer.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        runner = self._last.usable_runner
        return whole_critic(self.config, runner.actor_training, runner.critic_training)

    def vital_arrays(self, runner: Runner) -> dict[str, PyTree]:
        """The parameters of both networks, and the observations; see `Behaviour`."""
        return {
            "parameters of the actor": runner.actor_training.params,
            "parameters of the critic": runner.critic_training.params,
            OBSERVATIONS: runner.obs,
        }

    def _validate(self) -> None:
        check_agent(self)
