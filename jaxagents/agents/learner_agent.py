"""The base of agents around a learner."""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from jaxagents import sharding
from jaxagents.agents.agent import Agent
from jaxagents.agents.checks.hooks import check_no_hooks, check_no_hooks_of_rollouts
from jaxagents.agents.checks.observations import naming_observations
from jaxagents.agents.config import LearnerAgentConfig
from jaxagents.agents.recall import Memoryless, Recall
from jaxagents.agents.runners import LearnerRunner
from jaxagents.core.arrays import atleast_nd
from jaxagents.core.hook_names import is_ours
from jaxagents.core.remembered import observation_of
from jaxagents.core.schedules import has_schedules, is_schedule
from jaxagents.engine.checks import check_same_arrays
from jaxagents.engine.program import HyperparametersT
from jaxagents.envs.checks import check_action_mask, check_environment, check_one_actor
from jaxagents.envs.spaces import box_bounds, check_components, is_bounded, is_box, is_discrete
from jaxagents.learners.config import Example, LearnerConfig
from jaxagents.learners.learner import Batch, Info, Learner, LearnerT
from jaxagents.networks import observation_encoder

LearnerConfigT = TypeVar("LearnerConfigT", bound=LearnerAgentConfig)
LearnerRunnerT = TypeVar("LearnerRunnerT", bound=LearnerRunner)


class LearnerAgent(Agent[LearnerConfigT, HyperparametersT, LearnerRunnerT]):
    r"""An agent whose networks and update rule are a [`Learner`][jaxagents.learners.learner.Learner].

    A learner's actions are discrete, or lie in $[-1, 1]^n$, which stands for the environment's box.

    A subclass names its learners, `_continuous_learner` and `_discrete_learner`, one for each kind of
    actions that it takes. Its base gets the batches. Its configuration and hyperparameters inherit from
    those of its learners, which receive the whole of both. Hooks of the update rule are methods of the
    learner alone.
    """

    _config_type = LearnerAgentConfig
    _continuous_learner: type[Learner] | None = None
    _discrete_learner: type[Learner] | None = None
    _hooks = (*Agent._hooks, "_continuous_learner", "_discrete_learner")

    @property
    def learner(self) -> Learner:
        """The trained learner.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        return self._trained_runner().learner

    def policy(self, training: PyTree, obs: PyTree = None) -> Array:
        """The greedy action: `policy(obs)` as trained, or `policy(learner, obs)`.

        Args:
            training: The learner; the observation, if that is the only argument.
            obs: One observation, or a batch of them.

        Returns:
            One action, or as many.

        Raises:
            RuntimeError: The observation is alone, but the agent has not been trained.
            TypeError: The learner has a memory.
            ValueError: The observation does not fit the environment.
        """
        if obs is None:
            training, obs = self._acting(self._trained_runner()), training
        with naming_observations(observation_of(obs), self._observation, batches=True):
            return self._to_environment(training.sample_actions(obs))

    def initial_carry(self, training: Learner) -> PyTree:
        """The memory of the learner at the start of an episode; `()` if it has none.

        Args:
            training: The learner.

        Returns:
            The memory.
        """
        return self._recall.initial()

    def act(
        self, training: Learner, carry: PyTree, obs: PyTree, rng: Key[Array, ""] | None = None
    ) -> tuple[PyTree, Array]:
        """The action of the policy; see `Behaviour`.

        Drawn actions are those of the learner's `sample_actions`: of DQN and its like, one in `epsilon`
        is random.
        """
        recall = self._recall
        with naming_observations(obs, self._observation, batches=True):
            seen = recall.seen(carry, obs)
            if rng is None:
                action = self.policy(training, seen)
            else:
                action = self._to_environment(training.sample_actions(seen, seed=rng))
            return recall.after(training, seen), action

    def vital_arrays(self, runner: LearnerRunnerT) -> dict[str, PyTree]:
        """The networks of the learner, with its optimizers; see `Behaviour`."""
        networks = runner.learner.replace(hyperparams=None, rng=None, n_updates=None)
        return {"the networks of the learner": networks}

    def _acting(self, runner: LearnerRunnerT) -> Learner:
        return runner.learner

    def _with_hyperparams(
        self, runner: LearnerRunnerT, hyperparams: HyperparametersT
    ) -> LearnerRunnerT:
        learner = self._with_schedules(runner, hyperparams).learner
        return runner.replace(learner=learner.replace(n_updates=None))

    def _with_schedules(
        self, runner: LearnerRunnerT, hyperparams: HyperparametersT
    ) -> LearnerRunnerT:
        learner = runner.learner
        kept = jax.tree.map(
            lambda new, old: old if new is None else new,
            hyperparams,
            learner.hyperparams,
            is_leaf=lambda x: x is None or isinstance(x, Mapping) or is_schedule(x),
        )
        n_updates = runner.update_step if has_schedules(kept) else None
        return runner.replace(learner=learner.replace(hyperparams=kept, n_updates=n_updates))

    def _update(self, learner: LearnerT, batch: Batch) -> tuple[LearnerT, Info]:
        """One update of the learner; with `replicated_updates`, each device makes the whole of it."""
        replicated = self.config.replicated_updates
        after, info = learner.update(sharding.whole(batch) if replicated else batch)
        name = type(learner).__name__
        check_same_arrays(after, learner, f"{name}._update", f"{name}._initial")
        return sharding.whole((after, info)) if replicated else (after, info)

    # Making the learner.

    @property
    def _learner_type(self) -> type[Learner]:
        discrete = is_discrete(self.episodes.action_space)
        learner = self._discrete_learner if discrete else self._continuous_learner
        assert learner is not None
        return learner

    def _create_learner(self, rng: Key[Array, ""], hyperparams: HyperparametersT) -> Learner:
        """The learner before its first update."""
        space = self.episodes.action_space
        return self._learner_type.from_config(
            self._learner_config(),
            hyperparams,
            rng,
            Example(
                observations=self._example_observation(),
                actions=self._zero_action(),
                n_actions=int(space.n) if is_discrete(space) else None,
            ),
        )

    def _example_observation(self) -> PyTree:
        """An observation as the learner is given it."""
        obs = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), self._observation)
        return self._recall.seen(self._recall.initial(), obs)

    @property
    def _recall(self) -> Recall:
        """How the learner remembers."""
        return Memoryless()

    def _learner_config(self) -> LearnerConfig:
        """The agent's configuration, with an encoder for its observations if they need one."""
        config: Any = self.config.updates()  # inherits from the learner's configuration too
        if not config.has_default_networks:
            return config
        encoder = observation_encoder(self._observation, self.episodes.n_categories)
        return config.replace(encoder=encoder)

    # Actions in the learner's units and in those of the environment.

    def _zero_action(self) -> Array:
        """An action of the learner."""
        space = self.episodes.action_space
        if is_discrete(space):
            return jnp.zeros((), jnp.int32)
        return jnp.zeros(math.prod(space.shape), jnp.float32)

    def _to_environment(self, actions: Array) -> Array:
        """Actions of the environment, from those of the learner."""
        space = self.episodes.action_space
        if is_discrete(space):
            return actions
        low, high = box_bounds(space)
        actions = actions.reshape(*actions.shape[:-1], *space.shape)
        low, high = (atleast_nd(bound, actions.ndim) for bound in (low, high))
        return actions * (0.5 * (high - low)) + 0.5 * (low + high)

    def _to_learner(self, actions: Array) -> Array:
        """Actions of the learner, from those of the environment."""
        space = self.episodes.action_space
        if is_discrete(space):
            return actions
        low, high = box_bounds(space)
        batch = actions.shape[: actions.ndim - low.ndim]
        low, high = (atleast_nd(bound, actions.ndim) for bound in (low, high))
        units = ((actions * 2.0 - (high + low)) / (high - low)).clip(-1.0, 1.0)
        return units.reshape(*batch, -1)

    # Checks.

    def _validate(self) -> None:
        check_one_actor(self.episodes.env, type(self).__name__)
        self._check_action_space()
        check_no_hooks(type(self), self._learner_type)
        if not is_ours(type(self)):
            from jaxagents.agents.on_policy import OnPolicyBase  # only for the names of its hooks

            hooks = [hook for hook in OnPolicyBase._hooks if hook not in self._hooks]
            check_no_hooks_of_rollouts(type(self), hooks)
        key, hyperparams = jax.eval_shape(lambda: jax.random.key(0)), self._hyperparams_type()
        self._learner_type.check_kinds(self.config, hyperparams)
        learner = jax.eval_shape(self._create_learner, key, hyperparams)
        _, action = jax.eval_shape(
            lambda learner, obs: self.act(learner, self.initial_carry(learner), obs),
            learner,
            self._observation,
        )
        check_environment(self.episodes, action)

    def _check_action_space(self) -> None:
        name, env_name = type(self).__name__, self.episodes.env.wording.environment
        space = self.episodes.action_space
        if space is None:
            raise ValueError(f"{name} needs {env_name}.action_space, which it lacks.")
        check_action_mask(self.episodes)
        kinds = {"discrete": self._discrete_learner, "box": self._continuous_learner}
        acts_in = " and ".join(kind for kind, learner in kinds.items() if learner is not None)
        kind = "discrete" if is_discrete(space) else "box" if is_box(space) else "other"
        if kinds.get(kind) is None:
            raise ValueError(
                f"{name} acts in {acts_in} spaces, but {env_name}.action_space is {space!r}."
            )
        check_components(space, f"{env_name}.action_space")
        if kind == "box" and not (is_bounded(space) and math.prod(space.shape)):
            raise ValueError(
                f"{name} needs a box of actions with finite bounds, but {env_name}.action_space is "
                f"{space!r}."
            )
