"""The hooks of on-policy agents: what a subclass may give, with defaults."""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from flax import linen as nn
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.agent import Agent
from jaxagents.agents.checks import check_one_observation
from jaxagents.agents.chosen_network import make_network
from jaxagents.agents.config import OnPolicyConfig, OnPolicyHyperparameters
from jaxagents.agents.critic import Critic, MemorylessCritic, RecurrentCritic
from jaxagents.agents.hooks_policy import Hooks, HooksPolicy
from jaxagents.agents.policy import DistributionPolicy, Policy
from jaxagents.agents.recurrent_policy import RecurrentPolicy
from jaxagents.agents.runners import Runner
from jaxagents.agents.transitions import AdvantageInput, ReturnInput, Transition
from jaxagents.core.hyperparameters import Traced
from jaxagents.learners.losses import Info
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import Recurrent, normalised

DRAWING_HOOKS = ("_sample_actions", "_log_prob", "_entropy")
POLICY_HOOKS = (*DRAWING_HOOKS, "policy")
_FURTHER_HOOKS = (
    "_distribution",
    "_distribution_of",
    "_trajectory_returns",
    "_trajectory_advantages",
    "_gae_lambda",
    "_actor_loss",
    "_critic_loss",
    "_actor_minibatch",
    "_actor_loss_input",
    "_critic_loss_input",
    "_kl_threshold",
    "_actor_network",
    "_critic_network",
)


OnPolicyConfigT = TypeVar("OnPolicyConfigT", bound=OnPolicyConfig)
OnPolicyHyperparametersT = TypeVar("OnPolicyHyperparametersT", bound=OnPolicyHyperparameters)


class OnPolicyHooks(Agent[OnPolicyConfigT, OnPolicyHyperparametersT, Runner]):
    """The policy, the returns and advantages, and the losses of on-policy agents, as hooks."""

    _hooks = (*Agent._hooks, *DRAWING_HOOKS, *_FURTHER_HOOKS)

    # The policy.

    def _distribution(self, training: TrainState, params: PyTree, obs: PyTree) -> ops.Distribution:
        """The distribution of actions.

        Args:
            training: State of the actor's training.
            params: Parameters of the actor to use.
            obs: One observation.

        Returns:
            The distribution.
        """
        return self._distribution_of(training.apply_fn(params, obs))

    def _distribution_of(self, output: PyTree) -> ops.Distribution:
        """The distribution of actions that the output of the actor's network describes.

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
            training: State of the actor's training.
            obs: One observation.

        Returns:
            One action (of all actors).
        """
        return self._distribution(training, training.params, obs).sample(rng)

    def _log_prob(
        self, training: TrainState, params: PyTree, obs: PyTree, actions: PyTree
    ) -> Float[Array, "..."]:
        """Log-probability of actions.

        Args:
            training: State of the actor's training.
            params: Parameters of the actor to use.
            obs: One observation.
            actions: One action (of all actors).

        Returns:
            The log-probability (of each actor), in nats.
        """
        return self._distribution(training, params, obs).log_prob(actions)

    def _entropy(self, training: TrainState, obs: PyTree) -> Float[Array, "..."]:
        """Entropy of the policy.

        Args:
            training: State of the actor's training.
            obs: One observation.

        Returns:
            The entropy (of each actor), in nats.
        """
        return self._distribution(training, training.params, obs).entropy()

    def policy(self, training: TrainState, obs: PyTree) -> PyTree:
        """The greedy action.

        Args:
            training: State of the actor's training.
            obs: One observation.

        Returns:
            One action (of all actors).

        Raises:
            TypeError: The policy has a memory.
            ValueError: There is a batch of observations.
        """
        if isinstance(self._policy, RecurrentPolicy):
            raise TypeError(
                f"The policy of {type(self).__name__} has a memory: call act(training, carry, obs), "
                "which gives the memory afterwards and the action; initial_carry(training) is the first."
            )
        try:
            return self._distribution(training, training.params, obs).mode()
        except Exception:
            check_one_observation(obs, self._observation)
            raise

    @property
    def _policy(self) -> Policy:
        """How the agent acts, by whichever hooks are given."""
        if isinstance(self._network_of_actor(), Recurrent):
            return RecurrentPolicy(self._distribution_of)
        if any(self._gives(hook) for hook in DRAWING_HOOKS):
            hooks = Hooks(self._sample_actions, self._log_prob, self._entropy, self.policy)
            return HooksPolicy(hooks)
        return DistributionPolicy(self._distribution, self.policy)

    @property
    def _critic(self) -> Critic:
        """How the agent estimates values."""
        if isinstance(self._network_of_critic(), Recurrent):
            return RecurrentCritic(self._per_actor)
        return MemorylessCritic(self._value)

    def initial_carry(self, training: TrainState) -> PyTree:
        """The memory of the policy at the start of an episode; `()` if it has none.

        Args:
            training: State of the actor's training.

        Returns:
            The memory.
        """
        return self._policy.initial(training)

    def act(
        self, training: TrainState, carry: PyTree, obs: PyTree, rng: Key[Array, ""] | None = None
    ) -> tuple[Any, Any]:
        """The action of a policy with or without a memory.

        Args:
            training: State of the actor's training.
            carry: The memory: first that of `initial_carry`, then the one that this returns.
            obs: One observation.
            rng: Random key of an action drawn from the policy; without one, it is the greedy one.

        Returns:
            The memory afterwards, and one action (of all actors).
        """
        if rng is None:
            return self._policy.act(training, carry, obs)
        carry, distribution = self._policy.step(training, carry, obs)
        return carry, distribution.sample(rng)

    # Returns and advantages.

    def _trajectory_returns(
        self, value: Float[Array, "..."], traj: ReturnInput
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """One backward step of the returns that the critic is fitted to.

        Where an episode is truncated, or the rollout ends, `value` is the value of the true
        successor.

        Args:
            value: Return of the following step, over environments (and actors).
            traj: Reward, discount (zero at termination), value of the successor, and lambda.

        Returns:
            The return of this step, twice (carried and collected).
        """
        value = ops.lambda_return_step(value, *traj)
        return value, value

    def _trajectory_advantages(
        self, advantage: Float[Array, "..."], traj: AdvantageInput
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """One backward step of the advantages.

        Where an episode is truncated, or the rollout ends, `advantage` is zero.

        Args:
            advantage: Advantage of the following step, over environments (and actors).
            traj: Reward, value, value of the true successor, termination, discount and lambda.

        Returns:
            The advantage of this step, twice (carried and collected).
        """
        advantage = ops.gae_step(advantage, *traj)
        return advantage, advantage

    def _gae_lambda(self, hyperparams: OnPolicyHyperparametersT) -> Traced:
        """Weight of the trace in returns and advantages; 1 gives Monte-Carlo returns."""
        return 1.0

    # Learning.

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
        """The losses of the actor in a minibatch.

        Args:
            training: State of the actor's training; differentiated in its `params`.
            obs: Observations, samples first; sequences of a policy with a memory.
            actions: Their actions.
            log_prob_old: Their log-probabilities under the policy that took them.
            advantage: Their advantages, as `_actor_minibatch` gives them.
            hyperparams: Hyperparameters.

        Returns:
            The loss of each sample, of which the mean is taken, and arrays that describe the samples,
            whose means are reported. One of them, `kl`, is the divergence from the old policy that
            `_kl_threshold` limits. Instead of both, the loss of the whole minibatch and its mean KL
            divergence: such a loss is given the minibatch as it was collected.
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
            training: State of the critic's training; differentiated in its `params`.
            obs: Observations of a minibatch, samples first; sequences of a critic with a memory.
            targets: Returns to be estimated.
            hyperparams: Hyperparameters.

        Returns:
            The loss of each sample, or that of the whole minibatch; and, if there is anything to report,
            arrays that describe the samples.
        """
        value = self._values(training, obs)
        return hyperparams.vf_coeff * ops.value_loss(value, targets)

    def _actor_minibatch(self, *inputs: PyTree) -> tuple[Any, ...]:
        """The inputs of `_actor_loss` for a minibatch, computed from all its samples at once.

        Args:
            *inputs: The minibatch of what `_actor_loss_input` returned, samples first.

        Returns:
            The inputs of as many samples, with standardised advantages for instance.
        """
        return inputs

    def _actor_loss_input(self, runner: Runner, traj: Transition) -> tuple[Any, ...]:
        """The inputs of `_actor_loss` from a rollout, between `training` and `hyperparams`.

        Args:
            runner: The runner after the rollout.
            traj: The rollout, shaped `(time, environments, ...)`.

        Returns:
            Pytrees shaped `(time, environments, ...)`.
        """
        return self._policy.inputs(traj), traj.action, traj.log_prob, traj.advantage

    def _critic_loss_input(self, runner: Runner, traj: Transition) -> tuple[Any, ...]:
        """The inputs of `_critic_loss` from a rollout, between `training` and `hyperparams`.

        Args:
            runner: The runner after the rollout.
            traj: The rollout, shaped `(time, environments, ...)`.

        Returns:
            Pytrees shaped `(time, environments, ...)`.
        """
        return self._critic.inputs(traj), traj.target

    def _kl_threshold(self, hyperparams: OnPolicyHyperparametersT) -> Traced | None:
        """Mean KL divergence after which no further actor epoch is made, `None` for no limit."""
        return None

    def _log_probs_and_entropies(
        self, training: TrainState, obs: PyTree, actions: PyTree
    ) -> tuple[Float[Array, "samples ..."], Float[Array, "samples ..."]]:
        """Log-probabilities of a minibatch's actions, and entropies of the policy, in nats.

        Args:
            training: State of the actor's training.
            obs: The observations that `_actor_loss` is given.
            actions: The actions, samples first.

        Returns:
            Both, of each sample (and actor).
        """
        outputs = self._policy.log_probs_and_entropies(training, obs, actions)
        return jax.tree.map(jax.vmap(self._per_actor), outputs)

    def _values(self, training: TrainState, obs: PyTree) -> Float[Array, "samples ..."]:
        """The critic's values of a minibatch.

        Args:
            training: State of the critic's training.
            obs: The observations that `_critic_loss` is given.

        Returns:
            The value of each sample (and actor).
        """
        return self._critic.values(training, obs)

    def _actor_network(self) -> nn.Module:
        """The actor, if the configuration names none."""
        raise ValueError(f"{type(self).__name__} has no default: set config.actor_network.")

    def _critic_network(self) -> nn.Module:
        """The critic, if the configuration names none."""
        raise ValueError(f"{type(self).__name__} has no default: set config.critic_network.")

    def _network_of_actor(self) -> nn.Module:
        return self._made("actor_network", self._actor_network)

    def _network_of_critic(self) -> nn.Module:
        return self._made("critic_network", self._critic_network)

    def _made(self, field: str, default: Callable[[], nn.Module]) -> nn.Module:
        network = self._for_observation(field, make_network(field, default, self.config))
        return normalised(network) if self.config.normalise_observations else network

    def _for_observation(self, field: str, network: nn.Module) -> nn.Module:
        """The network of a field of the configuration, for observations that say more than it sees."""
        return network

    def _value(self, training: TrainState, params: PyTree, obs: PyTree) -> Float[Array, "..."]:
        """The value of one observation (for each actor), of a critic without a memory.

        Raises:
            TypeError: The critic has a memory.
        """
        if isinstance(training.model_def, Recurrent):
            raise TypeError(
                f"The critic of {type(self).__name__} has a memory: call _values(training, obs), which "
                "gives the values of a whole minibatch."
            )
        return self._per_actor(training.apply_fn(params, obs))

    def _per_actor(self, x: Array) -> Array:
        return x.reshape(self._actors_shape)

    def _gives(self, hook: str) -> bool:
        return getattr(type(self), hook) is not getattr(OnPolicyHooks, hook)
