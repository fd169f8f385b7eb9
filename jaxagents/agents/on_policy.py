"""The base of agents that learn from rollouts of their current policy."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, ArrayLike, Bool, Key, PyTree

from jaxagents import ops
from jaxagents.agents import shared_trunk
from jaxagents.agents.acting_hooks import OnPolicyConfigT, OnPolicyHyperparametersT
from jaxagents.agents.checks.actions import check_discrete_action
from jaxagents.agents.checks.networks import (
    check_behind_trunk,
    check_memory,
    check_variables_are_kept,
)
from jaxagents.agents.checks.updates import check_runner
from jaxagents.agents.config import OnPolicyConfig, OnPolicyHyperparameters
from jaxagents.agents.playing import playing
from jaxagents.agents.reports import info_of_update
from jaxagents.agents.rollout import Players, blank_step, drawing, rollout
from jaxagents.agents.rollout_learning import RolloutLearning
from jaxagents.agents.runners import Runner
from jaxagents.agents.transitions import NOT_YET, Transition
from jaxagents.agents.value_scale import no_targets
from jaxagents.core.finite import OBSERVATIONS
from jaxagents.core.first_spoilt import REWARDS, spoilt_environments, with_flags, without_flags
from jaxagents.core.trees import check_same_tree, check_size
from jaxagents.envs.checks import (
    check_alike,
    check_environment,
    check_names_are_free,
    check_one_actor,
    check_several_actors,
)
from jaxagents.envs.declarations import check_actor_mask
from jaxagents.envs.environment import Environment
from jaxagents.envs.episodes import Episodes
from jaxagents.envs.on_host.environment import HostEnvironment
from jaxagents.learners.losses import Info
from jaxagents.learners.optimizer import set_optimizer_params, trained_by
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import remembers
from jaxagents.networks.initialisation import initialise
from jaxagents.running.host_play import begun_again
from jaxagents.running.host_rollout import HostRollout


class _Collected(NamedTuple):
    """A rollout, the runner after it, and the keys of the epochs that learn from it."""

    runner: Runner
    traj: Transition
    rngs: Key[Array, "epochs n_groups"]


class _Keys(NamedTuple):
    next_runner: Key[Array, ""]
    rollout: Key[Array, ""]
    epochs: Key[Array, "epochs n_groups"]


class OnPolicyBase(RolloutLearning[OnPolicyConfigT, OnPolicyHyperparametersT]):
    """Collects a rollout in every environment, estimates advantages and returns, and learns from them.

    A subclass gives the policy as four hooks, `_sample_actions`, `_log_prob`, `_entropy` and
    `policy`, or as one, `_distribution`. Hooks are written for one observation; time and
    environments are vmapped around them. In an environment of several actors their outputs have a
    leading `n_actors` axis. A policy whose network is [`Recurrent`][jaxagents.networks.Recurrent] is
    given by `_distribution_of`.
    """

    _config_type = OnPolicyConfig
    _plays_on_host = True
    _hooks = (*RolloutLearning._hooks, "_rollout_environment")
    _hyperparams_type = OnPolicyHyperparameters
    split_fields = ("envstate", "obs", "carry", "received", "critic_carry")

    @property
    def actor_training(self) -> TrainState:
        """The trained state of the actor.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self._trained_runner().actor_training

    @property
    def critic_training(self) -> TrainState:
        """The trained state of the critic; behind a trunk, without an optimizer.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        runner = self._trained_runner()
        return self._whole_critic(runner.actor_training, runner.critic_training)

    def vital_arrays(self, runner: Runner) -> dict[str, PyTree]:
        """The parameters of both networks, and the observations; see `Behaviour`."""
        return {
            "parameters of the actor": runner.actor_training.params,
            "parameters of the critic": runner.critic_training.params,
            OBSERVATIONS: runner.obs,
        }

    def _reports_of_minibatches(self, runner: Runner) -> Info:
        return self._reports_of_rollout(*self._collect(runner))

    def _create_runner(self, rng: Key[Array, ""], hyperparams: OnPolicyHyperparametersT) -> Runner:
        rngs = jax.random.split(rng, 3 + self.config.batch_size)
        rng, actor_rng, critic_rng = rngs[:3]
        obs, envstate = jax.vmap(self.episodes.reset)(rngs[3:])
        first_obs = jax.tree.map(lambda x: x[0], obs)
        actor, critic = self._create_networks(actor_rng, critic_rng, first_obs)
        with_optimizer = functools.partial(trained_by, self.config.optimizer)
        runner = Runner(
            actor_training=with_optimizer(actor, hyperparams.actor_optimizer_params),
            critic_training=with_optimizer(critic, hyperparams.critic_optimizer_params),
            envstate=envstate,
            obs=obs,
            rng=rng,
            hyperparams=hyperparams,
            update_step=jnp.zeros((), jnp.int32),
            info={},
            carry=_broadcast(self._policy.initial(actor), (self.config.batch_size,)),
            critic_carry=_broadcast(
                self._critic.initial(self._whole_critic(actor, critic)), (self.config.batch_size,)
            ),
        )
        runner = self._with_statistics(runner, playing(first_obs) is not None)
        info = jax.eval_shape(self._info_names, runner)
        return runner.replace(info={name: jnp.full((), jnp.nan, jnp.float32) for name in info})

    def _with_statistics(self, runner: Runner, some_leave: bool) -> Runner:
        """A runner with statistics, of nothing yet, of what the configuration has normalised."""
        shape = self._actors_shape
        if self.config.normalise_rewards:
            received = jnp.zeros((self.config.batch_size, *shape), jnp.float32)
            counts = shape if some_leave else ()
            runner = runner.replace(received=received, returns=ops.no_moments(shape, counts))
        if self.config.normalise_values:
            network = self._network_of_critic()
            runner = runner.replace(targets=no_targets(network, shape, some_leave))
        return runner

    def _info_names(self, runner: Runner) -> Info:
        """The names of the numbers that an update reports, found without playing."""
        shape = self.config.rollout_length, self.config.batch_size
        players = Players(runner.obs, runner.envstate, runner.carry)
        act = functools.partial(self.act, runner.actor_training)
        step = blank_step(self._policy, act, runner.actor_training, self.episodes, players)
        step = step._replace(critic_carry=jax.tree.map(lambda x: x[0], runner.critic_carry))
        names = [fit.example.names for fit in self._fits(runner, _broadcast(step, shape))]
        actor, critic = (dict.fromkeys(of_fit, jnp.zeros(())) for of_fit in names)
        return info_of_update(actor, critic, jnp.zeros(()))

    def _create_networks(
        self, actor_rng: Key[Array, ""], critic_rng: Key[Array, ""], obs: PyTree
    ) -> tuple[TrainState, TrainState]:
        """Actor and critic with fresh parameters, without optimizers."""
        actor = _with_parameters(self._network_of_actor(), actor_rng, obs)
        if self._share is None:
            return actor, _with_parameters(self._network_of_critic(), critic_rng, obs)
        critic = self._own_network("critic_network", self._critic_network)
        return actor, _with_parameters(critic, critic_rng, shared_trunk.features_at(actor, obs))

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

    def _training_step(self, runner: Runner) -> Runner:
        return self._learn_from(*self._collect(runner))

    def _collect(self, runner: Runner) -> "_Collected":
        """A rollout with advantages and targets."""
        return self._ready_to_learn(self._rollout(runner))

    def _learn_from(
        self, runner: Runner, traj: Transition, rngs: Key[Array, "epochs n_groups"]
    ) -> Runner:
        """Learns from a rollout, after which the runner stands already."""
        _, flags = without_flags(runner.info)
        after = self._learn(runner, traj, rngs)
        check_runner(after, runner, f"{type(self).__name__}._learn")
        info = with_flags(after.info, flags)
        return after.replace(update_step=after.update_step + 1, info=info)

    @property
    def _n_watched_environments(self) -> int:
        return self.config.batch_size

    def _rollout_environment(self, runner: Runner) -> Environment:
        """The environment of the next rollout; override it if that changes as training goes on.

        Evaluations stay in the agent's own environment.

        Args:
            runner: The runner before the rollout.

        Returns:
            An environment whose states, observations and actions have the structure, shapes and dtypes
            of those of the agent's own. Its attributes may hold arrays of the runner.
        """
        return self.episodes.env

    def _rollout_episodes(self, runner: Runner) -> Episodes:
        """The episodes of the next rollout, which go on from those of the one before.

        Raises:
            TypeError: `_rollout_environment` gives no environment.
            ValueError: Its states or observations are structured otherwise than the agent's own.
        """
        own, now = self.episodes, self.episodes.within(self._rollout_environment(runner))
        if now is not own:
            check_alike(own, now, f"{type(self).__name__}._rollout_environment")
        return now

    def _rollout(self, runner: Runner) -> "_Collected":
        """A rollout as it was played."""
        keys = self._keys(runner)
        players, traj = rollout(
            self._policy,
            runner.actor_training,
            self._rollout_episodes(runner),
            Players(runner.obs, runner.envstate, runner.carry),
            keys.rollout,
            self.config.rollout_length,
        )
        runner = runner.replace(rng=keys.next_runner, **players._asdict())
        return _Collected(runner, traj, keys.epochs)

    def _keys(self, runner: Runner) -> "_Keys":
        n_epochs = max(self.config.actor_epochs, self.config.critic_epochs)
        shape = (n_epochs, self.config.n_groups)
        rngs = jax.random.split(runner.rng, 2 + math.prod(shape))
        return _Keys(rngs[0], rngs[1], rngs[2:].reshape(shape))

    def _ready_to_learn(self, collected: "_Collected") -> "_Collected":
        runner, traj, rngs = collected
        given = {REWARDS: traj.reward, OBSERVATIONS: (traj.obs, traj.next_obs)}
        info = with_flags(runner.info, spoilt_environments(given, axis=1))
        runner = runner.replace(info=info)
        return _Collected(*self._with_learning_targets(runner, traj), rngs)

    # The parts of an update between which environments are stepped on the host.

    def _draw_on_host(self, runner: Runner, block: ArrayLike) -> PyTree:
        draw, _ = self._drawing(runner.actor_training, runner.carry, runner.obs)
        key = jax.random.fold_in(self._keys(runner).rollout, block)
        return draw(key, (self.config.rollout_length, self.config.batch_size))

    def _act_on_host(
        self, actor: TrainState, carry: PyTree, obs: PyTree, noise: PyTree
    ) -> tuple[PyTree, PyTree, Array]:
        _, act = self._drawing(actor, carry, obs)
        return jax.vmap(act)(noise, carry, obs)

    def _begin_episodes(self, runner: Runner, where: Bool[np.ndarray, "environments"]) -> Runner:
        critic = self._whole_critic(runner.actor_training, runner.critic_training)
        past = runner.critic_carry, runner.received
        nothing = jax.tree.map(lambda x: np.zeros(x.shape[1:], x.dtype), runner.received)
        present = begun_again(past, (self._critic.initial(critic), nothing), where)
        critic_carry, received = jax.tree.map(jnp.asarray, present)
        return runner.replace(critic_carry=critic_carry, received=received)

    def _learn_from_host(self, runner: Runner, rollout: HostRollout) -> Runner:
        return self._learn_from(*self._taken_over(runner, rollout))

    def _reports_of_host(self, runner: Runner, rollout: HostRollout) -> Info:
        return self._reports_of_rollout(*self._taken_over(runner, rollout))

    def _taken_over(self, runner: Runner, rollout: HostRollout) -> "_Collected":
        """The results of `_collect`, of a rollout from the host.

        One that was collected ahead is by an earlier policy. Its log-probabilities become those under
        the policy that learns from it, so that ratios of probabilities begin at 1 in each update: the
        clip of PPO is to keep near the policy that an update starts from, the proximal policy of
        Hilton et al., 2022, "Batch size-invariance for policy optimization".
        """
        keys = self._keys(runner)
        traj = Transition(value=NOT_YET, **rollout._asdict())
        if self.episodes.env.collects_ahead:
            traj = traj._replace(log_prob=self._log_probs(runner.actor_training, traj))
        runner = runner.replace(rng=keys.next_runner)
        return self._ready_to_learn(_Collected(runner, traj, keys.epochs))

    def _drawing(self, actor: TrainState, carry: PyTree, obs: PyTree) -> tuple[Callable, Callable]:
        return drawing(self._policy, actor, carry, obs, self._actors_shape)

    def _check_plays_on_host(self) -> None:
        own = [
            name
            for name in ("_training_step", "_collect", "_rollout_environment")
            if getattr(type(self), name) is not getattr(OnPolicyBase, name)
        ]
        if own:
            raise TypeError(
                f"{type(self).__name__} overrides {' and '.join(own)}, which play in compiled "
                "environments alone, but its environment runs on the host: override _learn, or a hook."
            )

    def _check_actors(self) -> None:
        """Raises unless the environment has several actors, if the agent trains such, or else one."""
        check_actors = check_several_actors if self._actors_shape else check_one_actor
        check_actors(self.episodes.env, type(self).__name__)

    def _validate(self) -> None:
        env, name = self.episodes.env, type(self).__name__
        self._check_policy_hooks()
        self._check_value_is_called()
        if self._share is not None:
            check_behind_trunk(
                name,
                actor_network=self._own_network("actor_network", self._actor_network),
                critic_network=self._own_network("critic_network", self._critic_network),
            )
        actor, critic = self._network_of_actor(), self._network_of_critic()
        check_memory(name, self.config, actor_network=actor, critic_network=critic)
        self._check_actors()
        check_actor_mask(self.episodes)
        if isinstance(env, HostEnvironment):
            env.check(self.config.batch_size, self.eval_during_training)
            check_names_are_free(self.episodes)
            self._check_plays_on_host()
        key = jax.eval_shape(lambda: jax.random.key(0))
        obs, _ = jax.eval_shape(self.episodes.reset, key)
        actor, critic = jax.eval_shape(self._create_networks, key, key, obs)
        if type(self)._create_networks is not OnPolicyBase._create_networks:
            create = functools.partial(OnPolicyBase._create_networks, self)
            own = jax.eval_shape(create, key, key, obs)
            check_variables_are_kept(name, own, (actor, critic))
        critic = jax.eval_shape(self._whole_critic, actor, critic)
        _, value = jax.eval_shape(
            lambda critic, obs: self._critic.step(critic, self._critic.initial(critic), obs),
            critic,
            obs,
        )
        actions = self.episodes.action_space, name, env.wording.environment

        def act(key: Key[Array, ""], actor: TrainState, obs: PyTree) -> tuple[PyTree, ...]:
            carry = self.initial_carry(actor)
            _, distribution = self._policy.step(actor, carry, obs)
            self._check_distribution(distribution)
            _, greedy = self.act(actor, carry, obs)
            action = distribution.sample(key)
            check_discrete_action(action, *actions)
            return action, greedy, distribution.log_prob(action), distribution.entropy()

        action, greedy, log_prob, entropy = jax.eval_shape(act, key, actor, obs)
        outputs = {"the critic's value": value, "_entropy": entropy, "_log_prob": log_prob}
        for what, output in outputs.items():
            check_size(output, self._actors_shape, f"{name}: {what}")
        check_same_tree(action, greedy, f"{name}: the action", "_sample_actions", "policy")
        if not env.on_host:
            check_environment(self.episodes, action)


def _with_parameters(network: nn.Module, rng: Key[Array, ""], obs: PyTree) -> TrainState:
    inputs = (network.initial(), obs) if remembers(network) else (obs,)
    return TrainState.from_variables(network, initialise(network, rng, *inputs))


def _broadcast(tree: PyTree, shape: tuple[int, ...]) -> PyTree:
    """Copies of a pytree along new leading axes."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *x.shape)), tree)
