"""The base of agents that learn from rollouts of their current policy."""

import abc
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Key

from jaxagents import ops, sharding
from jaxagents.agents.agent import Agent
from jaxagents.agents.config import OnPolicyConfig
from jaxagents.agents.program import HyperparametersT
from jaxagents.agents.rollout import AdvantageInput, ReturnInput, Transition
from jaxagents.agents.runners import Runner
from jaxagents.core.trees import check_same_tree, check_size
from jaxagents.envs.checks import check_environment, check_one_actor
from jaxagents.envs.episodes import EpisodeState
from jaxagents.learners.fitting import Fit, fewest_parts, fit
from jaxagents.learners.losses import as_mean, mean_over_samples
from jaxagents.learners.optimizer import make_optimizer, set_optimizer_params
from jaxagents.learners.train_state import TrainState
from jaxagents.networks.initialisation import initialise

OnPolicyConfigT = TypeVar("OnPolicyConfigT", bound=OnPolicyConfig)

_POLICY_HOOKS = ("_sample_actions", "_log_prob", "_entropy", "policy")
_MOST_NOISE = 64
"""Random numbers drawn ahead for a step of an environment. More would take too much memory."""


class OnPolicyBase(Agent[OnPolicyConfigT, HyperparametersT, Runner]):
    """Collects a rollout in every environment, estimates advantages and returns, and learns from them.

    A subclass gives the policy as four hooks, `_sample_actions`, `_log_prob`, `_entropy` and
    `policy`, or as one, `_distribution`. Hooks are written for one observation; time and
    environments are vmapped around them. In an environment of several actors their outputs have a
    leading `n_actors` axis.
    """

    _config_type = OnPolicyConfig
    _info_names: tuple[str, ...] = ("actor_loss", "critic_loss")
    split_fields = ("envstate", "obs")

    # The policy.

    def _distribution(self, training: TrainState, params: Any, obs: Any) -> ops.Distribution:
        """The distribution of actions.

        Args:
            training: State of the actor's training.
            params: Parameters of the actor to use.
            obs: One observation.

        Returns:
            The distribution.
        """
        raise NotImplementedError

    def _sample_actions(self, rng: Key[Array, ""], training: TrainState, obs: Any) -> Any:
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
        self, training: TrainState, params: Any, obs: Any, actions: Any
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

    def _entropy(self, training: TrainState, obs: Any) -> Float[Array, "..."]:
        """Entropy of the policy.

        Args:
            training: State of the actor's training.
            obs: One observation.

        Returns:
            The entropy (of each actor), in nats.
        """
        return self._distribution(training, training.params, obs).entropy()

    def policy(self, training: TrainState, obs: Any) -> Any:
        """The greedy action.

        Args:
            training: State of the actor's training.
            obs: One observation.

        Returns:
            One action (of all actors).
        """
        return self._distribution(training, training.params, obs).mode()

    @property
    def actor_training(self) -> TrainState:
        """The trained state of the actor.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self._trained_runner().actor_training

    @property
    def critic_training(self) -> TrainState:
        """The trained state of the critic.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self._trained_runner().critic_training

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

    def _gae_lambda(self, hyperparams: Any) -> Any:
        """Weight of the trace in returns and advantages; 1 gives Monte-Carlo returns."""
        return 1.0

    # Learning.

    @abc.abstractmethod
    def _actor_loss(
        self,
        training: TrainState,
        obs: Any,
        actions: Any,
        log_prob_old: Float[Array, "samples ..."],
        advantage: Float[Array, "samples ..."],
        hyperparams: Any,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The loss of the actor over a minibatch.

        Args:
            training: State of the actor's training; differentiated in its `params`.
            obs: Observations, samples first.
            actions: Their actions.
            log_prob_old: Their log-probabilities under the policy that took them.
            advantage: Their advantages.
            hyperparams: Hyperparameters.

        Returns:
            The loss and the mean KL divergence from the old policy.
        """

    @mean_over_samples
    def _critic_loss(
        self, training: TrainState, obs: Any, targets: Float[Array, "samples ..."], hyperparams: Any
    ) -> Float[Array, ""]:
        """The mean squared error of the values.

        Args:
            training: State of the critic's training; differentiated in its `params`.
            obs: Observations of a minibatch, samples first.
            targets: Returns to be estimated.
            hyperparams: Hyperparameters.

        Returns:
            The loss.
        """
        value = jax.vmap(lambda o: self._value(training, training.params, o))(obs)
        return hyperparams.vf_coeff * ops.value_loss(value, targets).mean()

    def _actor_loss_input(self, runner: Runner, traj: Transition) -> tuple[Any, ...]:
        """What `_actor_loss` is given of a rollout, between `training` and `hyperparams`.

        Args:
            runner: The runner after the rollout.
            traj: The rollout, shaped `(time, environments, ...)`.

        Returns:
            Pytrees shaped `(time, environments, ...)`.
        """
        return traj.obs, traj.action, traj.log_prob, traj.advantage

    def _critic_loss_input(self, runner: Runner, traj: Transition) -> tuple[Any, ...]:
        """What `_critic_loss` is given of a rollout, between `training` and `hyperparams`.

        Args:
            runner: The runner after the rollout.
            traj: The rollout, shaped `(time, environments, ...)`.

        Returns:
            Pytrees shaped `(time, environments, ...)`.
        """
        return traj.obs, traj.target

    def _kl_threshold(self, hyperparams: Any) -> Any:
        """Mean KL divergence after which no further actor epoch is made, `None` for no limit."""
        return None

    def _learn(
        self, runner: Runner, traj: Transition, rngs: Key[Array, "epochs n_groups"]
    ) -> Runner:
        config, hyperparams = self.config, runner.hyperparams

        def actor_loss(*inputs: Any) -> tuple[Array, Array]:
            return actor_hook(*inputs, hyperparams)

        def critic_loss(*inputs: Any) -> tuple[Array, Array]:
            return critic_hook(*inputs, hyperparams), jnp.zeros(())

        actor_hook, actor_mean_of = self._loss("_actor_loss")
        critic_hook, critic_mean_of = self._loss("_critic_loss")
        fits = (
            Fit(
                runner.actor_training,
                actor_loss,
                self._actor_loss_input(runner, traj),
                config.actor_epochs,
                self._kl_threshold(hyperparams),
                actor_mean_of,
            ),
            Fit(
                runner.critic_training,
                critic_loss,
                self._critic_loss_input(runner, traj),
                config.critic_epochs,
                mean_of=critic_mean_of,
            ),
        )
        actor, critic = fit(
            fits,
            rngs,
            n_minibatches=config.n_minibatches,
            replicated=config.replicated_updates,
        )
        info = {"actor_loss": actor.loss, "critic_loss": critic.loss, "kl": actor.kl}
        return runner.replace(
            actor_training=actor.training,
            critic_training=critic.training,
            info={name: info[name] for name in self._info_names},
        )

    def _loss(self, hook: str) -> tuple[Callable, Callable[..., tuple] | None]:
        """A loss, and of what it is the mean over samples, if it is marked as one."""
        mean = as_mean(getattr(type(self), hook))
        if mean is None:
            return getattr(self, hook), None
        return functools.partial(mean.loss, self), mean.of

    def _log_probs_and_entropies(
        self, training: TrainState, obs: Any, actions: Any
    ) -> tuple[Float[Array, "samples ..."], Float[Array, "samples ..."]]:
        """Of a minibatch; from one distribution if the policy is one, which halves the backward pass."""

        def from_distribution(obs: Any, actions: Any) -> tuple[Array, Array]:
            distribution = self._distribution(training, training.params, obs)
            return distribution.log_prob(actions), distribution.entropy()

        def from_hooks(obs: Any, actions: Any) -> tuple[Array, Array]:
            log_prob = self._log_prob(training, training.params, obs, actions)
            return log_prob, self._entropy(training, obs)

        given = self._gives("_log_prob") or self._gives("_entropy")
        outputs = jax.vmap(from_hooks if given else from_distribution)(obs, actions)
        return jax.tree.map(jax.vmap(self._per_actor), outputs)

    def _actor_network(self) -> nn.Module:
        """The actor, if the configuration names none."""
        raise ValueError(f"{type(self).__name__} has no default: set config.actor_network.")

    def _critic_network(self) -> nn.Module:
        """The critic, if the configuration names none."""
        raise ValueError(f"{type(self).__name__} has no default: set config.critic_network.")

    def _create_runner(self, rng: Key[Array, ""], hyperparams: Any) -> Runner:
        rngs = jax.random.split(rng, 3 + self.config.batch_size)
        rng, actor_rng, critic_rng = rngs[:3]
        obs, envstate = jax.vmap(self.episodes.reset)(rngs[3:])
        first_obs = jax.tree.map(lambda x: x[0], obs)
        actor, critic = self._create_networks(actor_rng, critic_rng, first_obs)
        return Runner(
            actor_training=self._with_optimizer(actor, hyperparams.actor_optimizer_params),
            critic_training=self._with_optimizer(critic, hyperparams.critic_optimizer_params),
            envstate=envstate,
            obs=obs,
            rng=rng,
            hyperparams=hyperparams,
            update_step=jnp.zeros((), jnp.int32),
            info={name: jnp.full((), jnp.nan) for name in self._info_names},
        )

    def _create_networks(
        self, actor_rng: Key[Array, ""], critic_rng: Key[Array, ""], obs: Any
    ) -> tuple[TrainState, TrainState]:
        """Actor and critic with fresh parameters, without optimizers."""
        actor = _make_network(self.config.actor_network, self._actor_network, self.config)
        critic = _make_network(self.config.critic_network, self._critic_network, self.config)
        return _with_parameters(actor, actor_rng, obs), _with_parameters(critic, critic_rng, obs)

    def _with_optimizer(self, network: TrainState, optimizer_params: Any) -> TrainState:
        optimizer = make_optimizer(self.config.optimizer, optimizer_params)
        training = network.replace(tx=optimizer, opt_state=optimizer.init(network.params))
        return set_optimizer_params(training, optimizer_params)

    def _with_hyperparams(self, runner: Runner, hyperparams: Any) -> Runner:
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

    def _training_step(self, runner: Runner) -> Runner:
        n_epochs = max(self.config.actor_epochs, self.config.critic_epochs)
        shape = (n_epochs, self.config.n_groups)
        rngs = jax.random.split(runner.rng, 2 + math.prod(shape))
        runner, traj = self._rollout(runner.replace(rng=rngs[0]), rngs[1])
        if self.config.replicated_updates:
            traj = sharding.whole(traj)
        traj = self._with_targets(runner, traj)
        runner = self._learn(runner, traj, rngs[2:].reshape(shape))
        return runner.replace(update_step=runner.update_step + 1)

    def _rollout(self, runner: Runner, rng: Key[Array, ""]) -> tuple[Runner, Transition]:
        actor = runner.actor_training
        draw, action_of = self._sampling(actor, jax.tree.map(lambda x: x[0], runner.obs))

        def act(noise: Array, obs: Any) -> tuple[Any, Array]:
            action = action_of(noise, actor, obs)
            return action, self._per_actor(self._log_prob(actor, actor.params, obs, action))

        def act_and_step(
            carry: tuple[Any, EpisodeState],
            noise_and_keys: tuple[Array, Key[Array, "environments 2"]],
        ) -> tuple[tuple[Any, EpisodeState], Transition]:
            obs, envstate = carry
            noise, keys = noise_and_keys
            action, log_prob = jax.vmap(act)(noise, obs)
            step = self.episodes.step_all(keys, envstate, action)
            transition = Transition(
                obs=obs,
                action=action,
                value=None,
                log_prob=log_prob,
                reward=step.reward,
                next_obs=step.next_obs,
                terminated=step.terminated,
                truncated=step.truncated,
            )
            return (step.obs, step.envstate), transition

        shape = (self.config.rollout_length, self.config.batch_size)
        rngs = jax.random.split(rng, 1 + 2 * math.prod(shape))
        given = draw(rngs[0], shape), rngs[1:].reshape(*shape, 2)
        carry, traj = jax.lax.scan(act_and_step, (runner.obs, runner.envstate), given)
        obs, envstate = carry
        return runner.replace(obs=obs, envstate=envstate), traj

    def _sampling(self, training: TrainState, obs: Any) -> tuple[Callable, Callable]:
        """What a rollout draws for all steps at once, and what makes an action of a draw.

        It draws the noise of the distribution, if that is few numbers, and otherwise keys.
        """

        def action_of(noise: Array, training: TrainState, obs: Any) -> Any:
            distribution: Any = self._distribution(training, training.params, obs)
            return distribution.sample_from(noise)

        by_keys = jax.random.split, self._sample_actions
        if self._gives("_sample_actions"):
            return by_keys
        distribution = jax.eval_shape(self._distribution, training, training.params, obs)
        if getattr(type(distribution), "sample", None) is not ops.Reparametrised.sample:
            return by_keys
        noise = jax.eval_shape(distribution.noise, jax.random.key(0))
        return (distribution.noise, action_of) if noise.size <= _MOST_NOISE else by_keys

    def _with_targets(self, runner: Runner, traj: Transition) -> Transition:
        critic, hyperparams = runner.critic_training, runner.hyperparams
        values = jax.vmap(functools.partial(self._value, critic, critic.params))
        value, next_value = jax.lax.map(
            lambda at_t: (values(at_t[0]), values(at_t[1])),
            (traj.obs, traj.next_obs),
            batch_size=self._steps_at_once(),
        )
        terminated, truncated = (
            jnp.broadcast_to(_append_axes(flag, value.ndim), value.shape)
            for flag in (traj.terminated, traj.truncated)
        )
        gamma, gae_lambda = (
            jnp.broadcast_to(x, value.shape)
            for x in (hyperparams.gamma, self._gae_lambda(hyperparams))
        )

        def step(
            after: tuple[Array, Array], inputs: tuple[AdvantageInput, ReturnInput]
        ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
            advantage, advantage_out = self._trajectory_advantages(after[0], inputs[0])
            target, target_out = self._trajectory_returns(after[1], inputs[1])
            return (advantage, target), (advantage_out, target_out)

        inputs = (
            AdvantageInput(traj.reward, value, next_value, terminated, gamma, gae_lambda),
            ReturnInput(traj.reward, gamma * (1.0 - terminated), next_value, gae_lambda),
        )
        bootstrap = (jnp.zeros_like(value), next_value)
        advantage, target = ops.scan_backwards(step, inputs, bootstrap, truncated)
        return traj._replace(value=value, next_value=next_value, advantage=advantage, target=target)

    def _steps_at_once(self) -> int:
        """Of how many steps of a rollout values are computed at once."""
        config = self.config
        n_devices = 1 if config.replicated_updates else sharding.n_devices()
        n_samples = config.rollout_length * config.batch_size // n_devices
        n_parts = max(config.n_minibatches, fewest_parts(n_samples))
        return math.ceil(config.rollout_length / n_parts)

    def _value(self, training: TrainState, params: Any, obs: Any) -> Float[Array, "..."]:
        """The critic's value of one observation (for each actor)."""
        return self._per_actor(training.apply_fn(params, obs))

    def _per_actor(self, x: Array) -> Array:
        return x.reshape(self._actors_shape)

    def _validate(self) -> None:
        self._check_hooks()
        self._check_actors()
        key = jax.eval_shape(lambda: jax.random.key(0))
        obs, _ = jax.eval_shape(self.episodes.reset, key)
        actor, critic = jax.eval_shape(self._create_networks, key, key, obs)
        outputs = {
            "the critic's value": jax.eval_shape(lambda critic, obs: critic(obs), critic, obs),
            "_entropy": jax.eval_shape(self._entropy, actor, obs),
        }
        action = jax.eval_shape(self._sample_actions, key, actor, obs)
        outputs["_log_prob"] = jax.eval_shape(self._log_prob, actor, actor.params, obs, action)
        for what, output in outputs.items():
            check_size(output, self._actors_shape, f"{type(self).__name__}: {what}")
        greedy = jax.eval_shape(self.policy, actor, obs)
        check_same_tree(
            action, greedy, f"{type(self).__name__}: the action", "_sample_actions", "policy"
        )
        check_environment(self.episodes, action)

    def _check_actors(self) -> None:
        env_name, several = type(self.env).__name__, hasattr(self.env, "n_actors")
        if self._actors_shape and not several:
            raise ValueError(
                f"{type(self).__name__} needs an environment of several actors, but {env_name} has no "
                "n_actors. Use PPO for one actor."
            )
        if not self._actors_shape:
            check_one_actor(self.env, type(self).__name__)

    def _gives(self, hook: str) -> bool:
        return getattr(type(self), hook) is not getattr(OnPolicyBase, hook)

    def _check_hooks(self) -> None:
        missing = [hook for hook in _POLICY_HOOKS if not self._gives(hook)]
        if missing and not self._gives("_distribution"):
            raise TypeError(
                f"{type(self).__name__} has no policy: give the hooks {', '.join(missing)}, or "
                "_distribution instead of all of them."
            )


def _make_network(given: Any, default: Callable[[], nn.Module], config: Any) -> nn.Module:
    if given is None:
        return default()
    network = given if isinstance(given, nn.Module) else given(config)
    if not isinstance(network, nn.Module):
        raise TypeError(
            "A network must be a flax.linen module, or be called with the configuration to make one; "
            f"{given!r} gave {network!r}."
        )
    return network


def _with_parameters(network: nn.Module, rng: Key[Array, ""], obs: Any) -> TrainState:
    return TrainState.from_variables(network, initialise(network, rng, obs))


def _append_axes(x: Array, ndim: int) -> Array:
    return x.reshape(*x.shape, *[1] * (ndim - x.ndim))
