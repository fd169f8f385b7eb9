"""The hooks by which on-policy agents act: the policy and its network, with defaults."""

from collections.abc import Callable
from typing import TypeVar

import jax
from flax import linen as nn
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.agent import Agent
from jaxagents.agents.checks.actions import check_distribution
from jaxagents.agents.checks.observations import naming_observations
from jaxagents.agents.chosen_network import make_network
from jaxagents.agents.config import OnPolicyConfig, OnPolicyHyperparameters
from jaxagents.agents.hooks_policy import Hooks, HooksPolicy
from jaxagents.agents.policy import DistributionPolicy, Policy
from jaxagents.agents.recurrent_policy import RecurrentPolicy
from jaxagents.agents.runners import Runner
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import normalised, remembers
from jaxagents.networks.encoding import BehindTrunk

DRAWING_HOOKS = ("_sample_actions", "_log_prob", "_entropy")
POLICY_HOOKS = (*DRAWING_HOOKS, "policy")

OnPolicyConfigT = TypeVar("OnPolicyConfigT", bound=OnPolicyConfig)
OnPolicyHyperparametersT = TypeVar("OnPolicyHyperparametersT", bound=OnPolicyHyperparameters)


class ActingHooks(Agent[OnPolicyConfigT, OnPolicyHyperparametersT, Runner]):
    """The policy of on-policy agents, as hooks."""

    _hooks = (
        *Agent._hooks,
        *DRAWING_HOOKS,
        "_distribution",
        "_distribution_of",
        "_actor_network",
    )

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

    def policy(self, training: PyTree, obs: PyTree = None) -> PyTree:
        """The greedy action: `policy(obs)` as trained, or `policy(training, obs)`.

        Args:
            training: State of the actor's training; the observation, if that is the only argument.
            obs: One observation.

        Returns:
            One action (of all actors).

        Raises:
            RuntimeError: The observation is alone, but the agent has not been trained.
            TypeError: The policy has a memory.
            ValueError: There is a batch of observations, or one of another shape.
        """
        if obs is None:
            training, obs = self._acting(self._trained_runner()), training
        if isinstance(self._policy, RecurrentPolicy):
            raise TypeError(
                f"The policy of {type(self).__name__} has a memory: call act(training, carry, obs), "
                "which gives the memory afterwards and the action; initial_carry(training) is the first."
            )
        with naming_observations(obs, self._observation):
            return self._distribution(training, training.params, obs).mode()

    @property
    def _policy(self) -> Policy:
        """How the agent acts, by whichever hooks are given."""
        if remembers(self._network_of_actor()):
            return RecurrentPolicy(self._distribution_of)
        if any(self._gives(hook) for hook in DRAWING_HOOKS):
            hooks = Hooks(self._sample_actions, self._log_prob, self._entropy, self.policy)
            return HooksPolicy(hooks)
        return DistributionPolicy(self._distribution, self.policy)

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
    ) -> tuple[PyTree, PyTree]:
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

    def _actor_network(self) -> nn.Module:
        """The actor, if the configuration names none."""
        raise ValueError(f"{type(self).__name__} has no default: set config.actor_network.")

    def _network_of_actor(self) -> nn.Module:
        return self._network_for("actor_network", self._actor_network)

    def _network_for(self, field: str, default: Callable[[], nn.Module]) -> nn.Module:
        """The whole network of a field of the configuration, behind the trunk if there is one."""
        network = self._own_network(field, default)
        if self.config.trunk is None:
            return self._seeing(network)
        return BehindTrunk(network, self._seeing(self._own_network("trunk")))

    def _own_network(self, field: str, default: Callable[[], nn.Module] | None = None) -> nn.Module:
        """The network of a field of the configuration by itself."""
        return self._for_observation(field, make_network(field, default, self.config))

    def _seeing(self, network: nn.Module) -> nn.Module:
        """A network that sees observations as the configuration has them."""
        return normalised(network) if self.config.normalise_observations else network

    def _for_observation(self, field: str, network: nn.Module) -> nn.Module:
        """The network of a field of the configuration, for observations that say more than it sees."""
        return network

    def _per_actor(self, x: Array) -> Array:
        return x.reshape(self._actors_shape)

    def _check_policy_hooks(self) -> None:
        """Raises unless the hooks that are given make a policy."""
        name = type(self).__name__
        hooks = [hook for hook in POLICY_HOOKS if self._gives(hook)]
        missing = [hook for hook in POLICY_HOOKS if hook not in hooks]
        if missing and not (self._gives("_distribution") or self._gives("_distribution_of")):
            raise TypeError(
                f"{name} has no policy: give the hooks {', '.join(missing)}, or "
                "_distribution instead of all of them; or, for an actor network with a memory, "
                "_distribution_of(output), which makes a distribution of actions of what it emits."
            )
        blind = [*hooks, *["_distribution"] * self._gives("_distribution")]
        if remembers(self._network_of_actor()) and blind:
            raise TypeError(
                f"{name} has an actor network with a memory, which {', '.join(blind)} would know "
                "nothing of: give _distribution_of(output) alone."
            )

    def _check_distribution(self, distribution: PyTree) -> None:
        """Raises unless what the hook of a distribution returns is one."""
        is_recurrent = isinstance(self._policy, RecurrentPolicy)
        hook = "_distribution_of" if is_recurrent else "_distribution"
        methods = ["sample", "log_prob", "entropy", *["mode"] * (not self._gives("policy"))]
        check_distribution(distribution, methods, f"{type(self).__name__}.{hook}")

    def _gives(self, hook: str) -> bool:
        """Whether a hook is given, by the class or as an attribute of the object."""
        return hook in vars(self) or getattr(type(self), hook) is not getattr(ActingHooks, hook)
