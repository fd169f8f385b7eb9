"""Q-learning from batches: hooks that learners and agents share, and the base of its learners."""

import dataclasses
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from jaxagents import ops
from jaxagents.core.hyperparameters import Hyperparameters, Traced, hyperparameter
from jaxagents.learners.batches import check_values_of_actions, weighted_mean
from jaxagents.learners.learner import Batch, Info, Learner, LearnerConfig
from jaxagents.learners.optimizer import optimized
from jaxagents.learners.train_state import TrainState, target_update
from jaxagents.networks import DiscreteCritic, DuelingCritic
from jaxagents.networks.initialisation import initialise


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QConfig(LearnerConfig):
    """What the configurations of Q-learning share, of learners and of agents.

    Attributes:
        features: Widths of the hidden layers of the default network.
        dueling: Whether the default network has streams for the value and for the advantages; see
            [`DuelingCritic`][jaxagents.networks.DuelingCritic].
        target_update_period: Number of updates between moves of the target network. With a `tau` of 1
            they are copies ("hard" updates); with a period of 1 and a small `tau` it follows slowly
            ("soft" updates).
    """

    actor_network: ClassVar[None] = None
    features: tuple[int, ...] = (128, 128)
    dueling: bool = False
    target_update_period: int = 1

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive("target_update_period")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class QLearnerConfig(QConfig):
    """What the configurations of Q-learners share.

    Attributes:
        n_actions: Number of actions.
        rule: What gives the hooks of Q-learning in the place of the learner, such as an agent.
    """

    n_actions: int
    rule: Any = None

    def __post_init__(self) -> None:
        """Validates the fields."""
        super().__post_init__()
        self._check_positive("n_actions")


class QHyperparameters(Hyperparameters):
    """Traced hyperparameters of Q-learning.

    Attributes:
        gamma: Discount.
        tau: Step size of the target network.
        epsilon: Probability of a random action, where a learner acts at a temperature of 1.
        critic_learning_rate: Step size of the network.
    """

    gamma: Traced = hyperparameter(0.99, 0.0, 1.0)
    tau: Traced = hyperparameter(0.005, 0.0, 1.0)
    epsilon: Traced = hyperparameter(0.05, 0.0, 1.0)
    critic_learning_rate: Traced = hyperparameter(3e-4, 0.0)


class QLearning:
    """The rule of Q-learning as hooks, for batches of observations.

    Watkins, 1989, "Learning from delayed rewards"; Mnih et al., 2015, "Human-level control through deep
    reinforcement learning", algorithm 1.
    """

    def _q(self, learner: Any, params: Any, obs: Any) -> Float[Array, "*batch n_actions"]:
        """The values of all actions.

        Args:
            learner: The learner, of whose `critic` this is the output.
            params: Parameters to use: those in training, or those of the target.
            obs: One observation, or a batch of them.

        Returns:
            The values.
        """
        return learner.critic(obs, params=params)

    def _q_target(self, learner: Any, batch: Batch) -> Any:
        r"""What the values of the batch's actions are fitted to.

        $$y = r + \gamma \max_a Q_{\theta'}(s', a)$$

        Args:
            learner: The learner, with its `target_critic` and `hyperparams`.
            batch: Transitions.

        Returns:
            Targets, samples first.
        """
        params = learner.target_critic.params
        next_values = self._q(learner, params, batch["next_observations"]).max(axis=-1)
        return td_targets(learner, batch, next_values)

    def _loss(
        self, learner: Any, params: Any, batch: Batch, targets: Any
    ) -> tuple[Float[Array, "batch"], Info]:
        """The loss of each sample: the Huber loss of the temporal-difference error.

        Args:
            learner: The learner.
            params: Parameters of its `critic`, in which the loss is differentiated.
            batch: Transitions.
            targets: What `_q_target` gave.

        Returns:
            The losses, and arrays shaped as these, whose means are reported. One of them,
            `td_errors`, is the priority with which prioritised replay draws the samples again.
        """
        values = self._q(learner, params, batch["observations"])
        q = ops.values_of(values, batch["actions"])
        return optax.huber_loss(q, targets), {"q": q, "td_errors": jnp.abs(q - targets)}

    def learned(self, learner: Any, batch: Batch) -> tuple[Any, Info]:
        """One update of a learner by these hooks.

        Args:
            learner: The learner.
            batch: Transitions; `weights` weigh their losses.

        Returns:
            The learner after the update, and scalars that describe it; with `weights` also `td_errors`
            of all samples.
        """
        targets = self._q_target(learner, batch)

        def loss_fn(params: Any) -> tuple[Array, Info]:
            losses, details = self._loss(learner, params, batch, targets)
            loss = weighted_mean(losses, batch)
            return loss, {"critic_loss": loss, **details}

        critic, info = learner.critic.apply_loss_fn(loss_fn=loss_fn, has_aux=True)
        reported = {name: x.mean() for name, x in info.items() if name != "td_errors"}
        if "weights" in batch:
            reported["td_errors"] = info["td_errors"]
        target_critic = _moved(learner, critic)
        return learner.replace(critic=critic, target_critic=target_critic), reported

    def exploring(self, learner: Any, obs: Any, epsilon: Any) -> ops.EpsilonGreedy:
        """The distribution of actions of which a share is drawn uniformly.

        Args:
            learner: The learner.
            obs: One observation, or a batch of them.
            epsilon: Probability of a random action.

        Returns:
            The distribution.
        """
        return ops.EpsilonGreedy(self._q(learner, learner.critic.params, obs), epsilon)


class DoubleQLearning(QLearning):
    """Q-learning in which the network in training chooses the actions whose target values count.

    Van Hasselt et al., 2016, "Deep reinforcement learning with double Q-learning", equation 4.
    """

    def _q_target(self, learner: Any, batch: Batch) -> Float[Array, "batch"]:
        r"""What the values of the batch's actions are fitted to.

        $$y = r + \gamma \, Q_{\theta'}(s', \arg\max_a Q_\theta(s', a))$$

        Args:
            learner: The learner, with its `critic`, `target_critic` and `hyperparams`.
            batch: Transitions.

        Returns:
            Targets.
        """
        obs = batch["next_observations"]
        chosen = self._q(learner, learner.critic.params, obs).argmax(axis=-1)
        next_values = ops.values_of(self._q(learner, learner.target_critic.params, obs), chosen)
        return td_targets(learner, batch, next_values)


class QLearner(QLearning, Learner):
    r"""A network of action values with a target copy, for discrete actions.

    Attributes:
        critic: The network.
        target_critic: Its slowly moving copy.
    """

    critic: TrainState
    target_critic: TrainState

    _config_type = QLearnerConfig
    _hyperparams_type = QHyperparameters
    batch_keys = ("observations", "actions", "rewards", "next_observations", "masks")
    discrete_actions = True

    @classmethod
    def _n_outputs(cls, config: Any) -> int | None:
        """Numbers that the network gives for each action; `None` for its value alone."""
        return None

    @classmethod
    def _initial(
        cls,
        config: QLearnerConfig,
        hyperparams: Any,
        rng: Key[Array, ""],
        observations: Any,
        actions: Any,
    ) -> Self:
        rng, key = jax.random.split(rng)
        default = DuelingCritic if config.dueling else DiscreteCritic
        critic = config.encoded(
            config.critic_network
            or default(
                features=config.features,
                n_actions=config.n_actions,
                n_outputs=cls._n_outputs(config),
            )
        )
        variables = initialise(critic, key, observations)
        return cls(
            config=config,
            hyperparams=hyperparams,
            rng=rng,
            critic=optimized(critic, variables, config.optimizer, hyperparams.critic_learning_rate),
            target_critic=TrainState.from_variables(critic, variables),
        )

    def _update(self, batch: Batch) -> tuple[Self, Info]:
        return self._rule.learned(self, batch)

    def _policy(self, observations: Any, temperature: Any) -> ops.EpsilonGreedy:
        epsilon = jnp.clip(temperature * self.hyperparams.epsilon, 0.0, 1.0)
        return self._rule.exploring(self, observations, epsilon)

    def _check_networks(self, observations: Any, actions: Any) -> None:
        values = self.exploring(self, observations, 0.0).values
        check_values_of_actions(values.shape, self.config.n_actions)
        super()._check_networks(observations, actions)

    @property
    def _rule(self) -> QLearning:
        return self if self.config.rule is None else self.config.rule


def td_targets(
    learner: Any, batch: Batch, next_values: Float[Array, "batch ..."]
) -> Float[Array, "batch ..."]:
    """One-step (or n-step) targets of values, or of arrays of them.

    Args:
        learner: The learner, whose discount is taken where the batch has no `discounts`.
        batch: Transitions.
        next_values: Values of the successors, samples first.

    Returns:
        The targets, shaped as the values.
    """
    discounts = jnp.broadcast_to(learner.discounts(batch), batch["rewards"].shape)
    target = ops.td_target
    for _ in next_values.shape[1:]:
        target = jax.vmap(target, (None, None, None, -1), -1)
    return target(batch["rewards"], discounts, batch["masks"], next_values)


def outputs_of(
    outputs: Float[Array, "batch n_actions n_outputs"], actions: Int[Array, "batch"]
) -> Float[Array, "batch n_outputs"]:
    """The outputs of a network for the actions that were taken.

    Args:
        outputs: Several numbers for every action.
        actions: One action of each sample.

    Returns:
        The numbers for each.
    """
    return jax.vmap(ops.values_of, (-1, None), -1)(outputs, actions)


def _moved(learner: QLearner, critic: TrainState) -> TrainState:
    """The target network after an update."""
    target, tau = learner.target_critic, learner.hyperparams.tau
    period = learner.config.target_update_period
    if period == 1:
        return target_update(critic, target, tau)
    return jax.lax.cond(
        critic.step % period == 0,
        lambda critic, target: target_update(critic, target, tau),
        lambda critic, target: target,
        critic,
        target,
    )
