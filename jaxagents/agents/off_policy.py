"""Base class of agents that learn from a replay buffer."""

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from jaxagents import ops
from jaxagents.agents.checks import check_plays_on_host
from jaxagents.agents.config import OffPolicyConfig, PlayingHyperparameters
from jaxagents.agents.experience import (
    after_observing,
    collect,
    empty_buffer,
    keys_of_update,
    replay_on_host,
)
from jaxagents.agents.learner_agent import LearnerAgent, update_on
from jaxagents.agents.runners import MOST_REWARD, OffPolicyRunner
from jaxagents.agents.sampling import Sampling
from jaxagents.core.arrays import in_32_bits, repeated
from jaxagents.core.compilation import compiled, nan_is_allowed
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.observed import action_mask
from jaxagents.core.report import OBSERVATIONS, Report
from jaxagents.data.device_buffer import DeviceBuffer
from jaxagents.data.priorities import PriorityTree, importance_weights
from jaxagents.engine.host import OnHost
from jaxagents.engine.host_rollout import HostCollection
from jaxagents.engine.program import HyperparametersT, at_present, with_schedules_of
from jaxagents.learners.learner import Batch, Info, Learner, LearnerT

OffPolicyConfigT = TypeVar("OffPolicyConfigT", bound=OffPolicyConfig)

_SMALLEST_PRIORITY = 1e-6


class ReplayHyperparameters(PlayingHyperparameters):
    """Traced hyperparameters of prioritised replay; uniform replay ignores them.

    The defaults are from Castro et al., 2018, "Dopamine: a research framework for deep
    reinforcement learning".

    Attributes:
        priority_exponent: Transitions are sampled in proportion to this power of their
            temporal-difference error; 0 samples uniformly.
        importance_exponent: Exponent of the importance weights that correct for non-uniform sampling; 1
            corrects fully.
    """

    priority_exponent: Traced = hyperparameter(0.5, 0.0)
    importance_exponent: Traced = hyperparameter(0.5, 0.0, 1.0)


class OffPolicyBase(LearnerAgent[OffPolicyConfigT, HyperparametersT, OffPolicyRunner]):
    """Collects transitions into a replay buffer on the device, and learns from samples.

    Override `_explore` to change exploration.
    """

    split_fields = ("envstate", "obs", "buffer", "received", "carry")
    collects_at_start = True
    _config_type = OffPolicyConfig
    _hyperparams_type = ReplayHyperparameters
    _hooks = (*LearnerAgent._hooks, "_explore", "_act_randomly")

    def _explore(
        self, key: Key[Array, ""], learner: Learner, obs: PyTree, n_steps: Float[Array, ""]
    ) -> Array:
        """Draws actions during training.

        Args:
            key: Random key.
            learner: The learner.
            obs: Observations of all environments; a
                [`Remembered`][jaxagents.core.observed.Remembered] if the learner has a memory.
            n_steps: Number of environment steps since learning started, over all environments.

        Returns:
            The learner's actions, one per environment; continuous ones are clipped to [-1, 1].
        """
        return learner.sample_actions(obs, seed=key)

    def _validate(self) -> None:
        super()._validate()
        if self.episodes.env.on_host:
            check_plays_on_host(type(self), OffPolicyBase, ("_training_step",))
        elif self.config.buffer_on_host:
            raise ValueError(
                f"{type(self.config).__name__}.buffer_on_host is for environments that run on "
                f"the host, but {self.episodes.env.name} is compiled: keep the buffer on the "
                "device."
            )

    def checkpointed(self, runner: OffPolicyRunner) -> OffPolicyRunner:
        """The part of a runner to save in checkpoints; without the buffer if the configuration says so.

        Args:
            runner: Any runner.

        Returns:
            The runner, without its replay buffer if checkpoints leave it out.
        """
        return runner if self.config.checkpoint_buffer else runner.replace(buffer=None)

    def vital_arrays(self, runner: OffPolicyRunner) -> dict[str, PyTree]:
        """The learner's networks, the observations, and the buffer's rewards; see `Behaviour`."""
        vital = {**super().vital_arrays(runner), OBSERVATIONS: runner.obs}
        if runner.buffer is None:
            return vital
        return {**vital, "rewards in the replay buffer": runner.buffer.storage["rewards"]}

    @nan_is_allowed
    @compiled
    def refill(self, runner: OffPolicyRunner) -> OffPolicyRunner:
        """Fills a new replay buffer with `config.learning_starts` transitions.

        Args:
            runner: A runner. Its own replay buffer is ignored.

        Returns:
            The runner with the new replay buffer.
        """
        keys = keys_of_update(self.config, runner.rng, self.config.n_warmup_steps, 0)
        present = at_present(self, runner)
        present = present.replace(rng=keys.next_runner, buffer=empty_buffer(self))
        now = self.at(self.moment(runner))
        after, _ = collect(now, present, keys.steps, now._explore)
        return with_schedules_of(runner, self, after)

    @property
    def host_collection(self) -> HostCollection:
        """How the agent acts and learns if environments are stepped on the host; see `Behaviour`."""
        return replay_on_host(self)

    def _refill_missing(self, runner: OffPolicyRunner) -> OffPolicyRunner:
        if runner.buffer is not None:
            return runner
        if self.episodes.env.on_host:
            return OnHost(self).refill(runner)
        return self.refill(runner)

    def _create_runner(self, rng: Key[Array, ""], hyperparams: HyperparametersT) -> OffPolicyRunner:
        config = self.config
        learner_rng, env_rng, rng = jax.random.split(rng, 3)
        keys = keys_of_update(config, rng, config.n_warmup_steps, 0)
        obs, envstate = jax.vmap(self.episodes.reset)(jax.random.split(env_rng, config.batch_size))
        runner = OffPolicyRunner(
            learner=self._create_learner(learner_rng, hyperparams),
            buffer=empty_buffer(self),
            envstate=envstate,
            obs=obs,
            rng=keys.next_runner,
            update_step=jnp.zeros((), jnp.int32),
            info={},
            carry=repeated(self._initial_memories(), config.batch_size),
        )
        if config.normalise_rewards:
            received = jnp.zeros(config.batch_size, jnp.float32)
            runner = runner.replace(received=received, returns=ops.no_moments())
        if self.episodes.env.on_host:
            return runner
        runner, played = collect(self, runner, keys.steps, self._act_randomly)
        return after_observing(self, runner, played)

    def _act_randomly(
        self, key: Key[Array, ""], learner: Learner, obs: PyTree, n_steps: Float[Array, ""]
    ) -> Array:
        """Draws allowed actions uniformly."""
        units, n_envs = self._units, self.config.batch_size
        if units.n_actions is not None:
            return ops.random_actions(key, units.n_actions, action_mask(obs), (n_envs,))
        return jax.random.uniform(key, (n_envs, *units.zero.shape), jnp.float32, -1.0, 1.0)

    def _training_step(self, runner: OffPolicyRunner) -> tuple[OffPolicyRunner, Report]:
        config = self.config
        keys = keys_of_update(config, runner.rng, config.rollout_length, config.gradient_steps)
        runner, played = collect(self, runner, keys.steps, self._explore)
        runner, info = self._learn(runner.replace(rng=keys.next_runner), keys.gradient_steps)
        return after_observing(self, runner, played), Report(info, played.nonfinite)

    def _learn(
        self, runner: OffPolicyRunner, rngs: Key[Array, "gradient_steps"]
    ) -> tuple[OffPolicyRunner, Info]:
        """Takes gradient steps; also returns their mean metrics."""
        buffer = runner.buffer

        def step(carry: tuple, rng: Key[Array, ""]) -> tuple[tuple, Info]:
            learner, priorities = carry
            current = buffer.replace(priorities=priorities)
            return gradient_step(self, learner, current, rng, runner.returns)

        carry = runner.learner, buffer.priorities
        (learner, priorities), infos = jax.lax.scan(step, carry, rngs)
        runner = runner.replace(learner=learner, buffer=buffer.replace(priorities=priorities))
        return runner, _means(infos)

    def _learn_from(self, runner: OffPolicyRunner, batches: Batch) -> tuple[OffPolicyRunner, Info]:
        """Like `_learn`, but from batches that are already drawn, one per gradient step."""

        def step(learner: Learner, batch: Batch) -> tuple[Learner, Info]:
            return step_on(self, learner, batch, runner.returns)

        learner, infos = jax.lax.scan(step, runner.learner, batches)
        return runner.replace(learner=learner), _means(infos)


def _means(infos: Info) -> Info:
    return in_32_bits(jax.tree.map(lambda x: x.mean(axis=0), infos))


def gradient_step(
    agent: OffPolicyBase,
    learner: LearnerT,
    buffer: DeviceBuffer,
    rng: Key[Array, ""],
    returns: PyTree,
) -> tuple[tuple[LearnerT, PriorityTree | None], Info]:
    """Takes a gradient step on a batch from the replay buffer.

    Args:
        agent: The agent.
        learner: Its learner.
        buffer: The replay buffer.
        rng: Random key.
        returns: Moments of returns, if rewards are scaled by their standard deviation.

    Returns:
        The new learner and priorities, and metrics of the step.
    """
    config, hyperparams, replay = agent.config, learner.hyperparams, Sampling.of(agent.config)
    if not config.prioritised_replay:
        batch = replay.sample(buffer, rng, config.minibatch_size, hyperparams.gamma)
        learner, info = step_on(agent, learner, batch, returns)
        return (learner, buffer.priorities), info
    n_drawn = config.minibatch_size // replay.length
    drawn, probabilities = buffer.sample_prioritised(rng, n_drawn)
    weights = importance_weights(probabilities, hyperparams.importance_exponent)
    batch = replay.batch(buffer, replay.rows_from(buffer, drawn), hyperparams.gamma)
    batch = {**_in_units(agent, batch, returns), "weights": replay.weights_of(weights, batch)}
    learner, info = update_on(config, learner, batch)
    _check_errors(type(learner).__name__, info, config.minibatch_size)
    errors = replay.errors_of(jnp.abs(info.pop("td_errors")))
    priorities = (errors + _SMALLEST_PRIORITY) ** hyperparams.priority_exponent
    return (learner, buffer.with_priorities(drawn, priorities).priorities), info


def step_on(
    agent: OffPolicyBase, learner: LearnerT, batch: Batch, returns: PyTree
) -> tuple[LearnerT, Info]:
    """Takes a gradient step on a uniformly sampled batch.

    Args:
        agent: The agent.
        learner: Its learner.
        batch: Rows of the replay buffer.
        returns: Moments of returns, if rewards are scaled by their standard deviation.

    Returns:
        The new learner, and metrics of the step.
    """
    learner, info = update_on(agent.config, learner, _in_units(agent, batch, returns))
    info.pop("td_errors", None)
    return learner, info


def _in_units(agent: OffPolicyBase, batch: Batch, returns: PyTree) -> Batch:
    """Converts the actions and rewards of a batch to the learner's units."""
    rewards = batch["rewards"]
    if agent.config.normalise_rewards:
        rewards = ops.scale_rewards(rewards, returns, MOST_REWARD)
    return {**batch, "actions": agent._units.to_learner(batch["actions"]), "rewards": rewards}


def _check_errors(learner: str, info: Info, n_samples: int) -> None:
    """Raises unless a learner reports one temporal-difference error per sample."""
    if "td_errors" not in info:
        raise TypeError(
            "prioritised_replay needs a learner that takes weights and reports td_errors, and "
            f"{learner} does not."
        )
    shape, given = (n_samples,), jnp.shape(info["td_errors"])
    if given != shape:
        raise ValueError(
            f"{learner} must report one td_error for each sample, shape {shape}, got shape {given}."
        )
