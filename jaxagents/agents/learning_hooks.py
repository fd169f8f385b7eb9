"""The hooks by which on-policy agents learn: returns, advantages, losses and critic, with defaults."""

import abc

from flax import linen as nn
from jaxtyping import Array, Float, PyTree

from jaxagents import ops
from jaxagents.agents.acting_hooks import (
    ActingHooks,
    OnPolicyConfigT,
    OnPolicyHyperparametersT,
)
from jaxagents.agents.critic import Critic, MemorylessCritic, RecurrentCritic
from jaxagents.agents.runners import Runner
from jaxagents.agents.transitions import AdvantageInput, ReturnInput, Transition
from jaxagents.core.hook_names import is_own
from jaxagents.core.hyperparameters import Traced
from jaxagents.learners.losses import Info
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import remembers

_GIVEN_BY = {
    "_actor_minibatch": ("_actor_loss_input",),
    "_actor_loss": ("_actor_loss_input", "_actor_minibatch"),
    "_critic_loss": ("_critic_loss_input",),
}
"""The hooks of a loss, and those that say what it is given."""


class LearningHooks(ActingHooks[OnPolicyConfigT, OnPolicyHyperparametersT]):
    """The returns, advantages, losses and critic of on-policy agents, as hooks."""

    _hooks = (
        *ActingHooks._hooks,
        "_trajectory_returns",
        "_trajectory_advantages",
        "_gae_lambda",
        "_actor_loss",
        "_critic_loss",
        "_actor_minibatch",
        "_actor_loss_input",
        "_critic_loss_input",
        "_kl_threshold",
        "_critic_network",
    )

    @classmethod
    def _called_alike(cls) -> tuple[str, ...]:
        """See `Behaviour`: not those for which a subclass makes the arguments itself."""
        free = {hook for hook, by in _GIVEN_BY.items() if any(is_own(cls, it) for it in by)}
        return tuple(hook for hook in super()._called_alike() if hook not in free)

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
            log_prob_old: Their log-probabilities under the policy that took them; of a rollout that was
                collected ahead, under that of before the update.
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

    def _actor_minibatch(self, *inputs: PyTree) -> tuple[PyTree, ...]:
        """The inputs of `_actor_loss` for a minibatch, computed from all its samples at once.

        Args:
            *inputs: The minibatch of what `_actor_loss_input` returned, samples first.

        Returns:
            The inputs of as many samples, with standardised advantages for instance.
        """
        return inputs

    def _actor_loss_input(self, runner: Runner, traj: Transition) -> tuple[PyTree, ...]:
        """The inputs of `_actor_loss` from a rollout, between `training` and `hyperparams`.

        Args:
            runner: The runner after the rollout.
            traj: The rollout, shaped `(time, environments, ...)`.

        Returns:
            Pytrees shaped `(time, environments, ...)`.
        """
        return self._policy.inputs(traj), traj.action, traj.log_prob, traj.advantage

    def _critic_loss_input(self, runner: Runner, traj: Transition) -> tuple[PyTree, ...]:
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

    @property
    def _critic(self) -> Critic:
        """How the agent estimates values."""
        if remembers(self._network_of_critic()):
            return RecurrentCritic(self._per_actor)
        return MemorylessCritic(self._value)

    def _values(self, training: TrainState, obs: PyTree) -> Float[Array, "samples ..."]:
        """The critic's values of a minibatch.

        Args:
            training: State of the critic's training.
            obs: The observations that `_critic_loss` is given.

        Returns:
            The value of each sample (and actor).
        """
        return self._critic.values(training, obs)

    def _value(self, training: TrainState, params: PyTree, obs: PyTree) -> Float[Array, "..."]:
        """The value of one observation (for each actor), of a critic without a memory.

        Raises:
            TypeError: The critic has a memory.
        """
        if remembers(training.model_def):
            raise TypeError(
                f"The critic of {type(self).__name__} has a memory: call _values(training, obs), which "
                "gives the values of a whole minibatch."
            )
        return self._per_actor(training.apply_fn(params, obs))

    def _check_value_is_called(self) -> None:
        """Raises if a subclass has values of one observation, but a critic with a memory.

        Raises:
            TypeError: It has.
        """
        is_given = "_value" in vars(self) or is_own(type(self), "_value")
        if is_given and remembers(self._network_of_critic()):
            name = type(self).__name__
            raise TypeError(
                f"{name} has a critic network with a memory, for which {name}._value would never be "
                "called: put what it computes into critic_network, or give the critic no memory."
            )

    def _critic_network(self) -> nn.Module:
        """The critic, if the configuration names none."""
        raise ValueError(f"{type(self).__name__} has no default: set config.critic_network.")

    def _network_of_critic(self) -> nn.Module:
        return self._network_for("critic_network", self._critic_network)
