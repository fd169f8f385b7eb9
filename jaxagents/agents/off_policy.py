"""The base of agents that learn from a replay buffer."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxagents import ops, sharding
from jaxagents.agents.checks.hooks import check_plays_on_host
from jaxagents.agents.config import OffPolicyConfig
from jaxagents.agents.env_params import PlayingHyperparameters
from jaxagents.agents.host_collection import replay_on_host
from jaxagents.agents.learner_agent import LearnerAgent, of_all, update_on
from jaxagents.agents.replay import CARRIES, Replay
from jaxagents.agents.reward_scale import MOST_REWARD, observe_rewards
from jaxagents.agents.runners import OffPolicyRunner
from jaxagents.core.arrays import in_32_bits, select
from jaxagents.core.compilation import nan_is_allowed
from jaxagents.core.finite import OBSERVATIONS
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.observed import action_mask
from jaxagents.core.report import REWARDS, Flags, Report, nonfinite_environments
from jaxagents.core.shared_programs import compiled
from jaxagents.data.device_buffer import DeviceBuffer
from jaxagents.data.priorities import PriorityTree, importance_weights
from jaxagents.engine.host import OnHost
from jaxagents.engine.host_rollout import HostCollection
from jaxagents.engine.program import HyperparametersT
from jaxagents.learners.learner import Info, Learner, LearnerT

OffPolicyConfigT = TypeVar("OffPolicyConfigT", bound=OffPolicyConfig)

_SMALLEST_PRIORITY = 1e-6

Act = Callable[[Key[Array, ""], Learner, PyTree, Float[Array, ""]], Array]
"""Draws actions, given a random key, the learner, what it sees and the number of steps made before."""


class ReplayHyperparameters(PlayingHyperparameters):
    """Traced hyperparameters of prioritised replay, which uniform replay does not use.

    The defaults are those of Castro et al., 2018, "Dopamine: a research framework for deep
    reinforcement learning".

    Attributes:
        priority_exponent: Power of the temporal-difference error that gives the probability of drawing a
            transition; 0 draws uniformly.
        importance_exponent: Power of the importance weights that make up for it; 1 does so fully.
    """

    priority_exponent: Traced = hyperparameter(0.5, 0.0)
    importance_exponent: Traced = hyperparameter(0.5, 0.0, 1.0)


class Played(NamedTuple):
    """What steps in all environments gave, time first.

    Attributes:
        nonfinite: Whether that of each environment was not finite; after all steps, whether any was.
        seen: The parts of transitions that statistics are made of.
    """

    nonfinite: Flags
    seen: dict[str, PyTree]


class OffPolicyBase(LearnerAgent[OffPolicyConfigT, HyperparametersT, OffPolicyRunner]):
    """Collects transitions, stores them in a replay buffer on the device, and learns from samples of it.

    A subclass may override how it explores (`_explore`).
    """

    split_fields = ("envstate", "obs", "buffer", "received", "carry")
    collects_at_start = True
    _config_type = OffPolicyConfig
    _hyperparams_type = ReplayHyperparameters
    _hooks = (*LearnerAgent._hooks, "_explore", "_act_randomly")

    def _explore(
        self, key: Key[Array, ""], learner: Learner, obs: PyTree, n_steps: Float[Array, ""]
    ) -> Array:
        """Draws the actions to take in training.

        Args:
            key: Random key.
            learner: The learner.
            obs: Observations of all environments, as
                [`Remembered`][jaxagents.core.remembered.Remembered] where the learner has a memory.
            n_steps: Number of environment steps so far, over all environments, not counting those
                before learning started.

        Returns:
            Actions of the learner, one for each environment; those of boxes are clipped to [-1, 1].
        """
        return learner.sample_actions(obs, seed=key)

    def _validate(self) -> None:
        super()._validate()
        if self.episodes.env.on_host:
            check_plays_on_host(type(self), OffPolicyBase, ("_training_step", "_collect"))

    def checkpointed(self, runner: OffPolicyRunner) -> OffPolicyRunner:
        """The part of a runner that a checkpoint holds: all, unless `config.checkpoint_buffer` is false.

        Args:
            runner: Any runner.

        Returns:
            The runner, without its replay buffer if checkpoints leave it out.
        """
        return runner if self.config.checkpoint_buffer else runner.replace(buffer=None)

    def vital_arrays(self, runner: OffPolicyRunner) -> dict[str, PyTree]:
        """The networks of the learner, observations, and rewards in the buffer; see `Behaviour`."""
        vital = {**super().vital_arrays(runner), OBSERVATIONS: runner.obs}
        if runner.buffer is None:
            return vital
        return {**vital, "rewards in the replay buffer": runner.buffer.storage["rewards"]}

    @nan_is_allowed
    @compiled
    def refill(self, runner: OffPolicyRunner) -> OffPolicyRunner:
        """Fills a new replay buffer with as many transitions as learning starts with.

        Args:
            runner: A runner, whose own replay buffer is not used.

        Returns:
            The runner with the new replay buffer.
        """
        keys = keys_of_update(self.config, runner.rng, self.config.n_warmup_steps, 0)
        present = self._at_present(runner)
        present = present.replace(rng=keys.next_runner, buffer=empty_buffer(self))
        now = self.at(self.moment(runner))
        return self._as_before(now._collect(present, keys.steps, now._explore)[0], runner)

    @property
    def host_collection(self) -> HostCollection:
        """How it plays and learns where environments are stepped on the host; see `Behaviour`."""
        return replay_on_host(self)

    def _complete(self, runner: OffPolicyRunner) -> OffPolicyRunner:
        if runner.buffer is not None:
            return runner
        if self.episodes.env.on_host:
            return OnHost(self).refill(runner.replace(buffer=empty_buffer(self)))
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
            carry=of_all(self._initial_memories(), config.batch_size),
        )
        if config.normalise_rewards:
            received = jnp.zeros(config.batch_size, jnp.float32)
            runner = runner.replace(received=received, returns=ops.no_moments())
        if self.episodes.env.on_host:
            return runner
        runner, played = self._collect(runner, keys.steps, self._act_randomly)
        return self._after_observing(runner, played)

    def _act_randomly(
        self, key: Key[Array, ""], learner: Learner, obs: PyTree, n_steps: Float[Array, ""]
    ) -> Array:
        """Draws actions uniformly, of those that the observations allow."""
        units, n_envs = self._units, self.config.batch_size
        if units.n_actions is not None:
            return ops.random_actions(key, units.n_actions, action_mask(obs), (n_envs,))
        return jax.random.uniform(key, (n_envs, *units.zero.shape), jnp.float32, -1.0, 1.0)

    def _training_step(self, runner: OffPolicyRunner) -> tuple[OffPolicyRunner, Report]:
        config = self.config
        keys = keys_of_update(config, runner.rng, config.rollout_length, config.gradient_steps)
        runner, played = self._collect(runner, keys.steps, self._explore)
        runner, info = self._learn(runner.replace(rng=keys.next_runner), keys.gradient_steps)
        return self._after_observing(runner, played), Report(info, played.nonfinite)

    def _after_observing(self, runner: OffPolicyRunner, played: Played) -> OffPolicyRunner:
        """The runner whose networks have observed more, if they have statistics of observations."""
        if not runner.learner.observes:
            return runner
        seen = self._observed(played.seen["observations"])
        return runner.replace(learner=runner.learner.observe(seen))

    def _collect(
        self, runner: OffPolicyRunner, rngs: Key[Array, "steps rngs"], act: Act
    ) -> tuple[OffPolicyRunner, Played]:
        """The runner after steps in all environments, which its buffer then has, and what was seen."""
        n_envs, learner = self.config.batch_size, runner.learner
        n_before = runner.update_step.astype(jnp.float32) * (self.config.rollout_length * n_envs)
        initial, in_statistics = self._initial_memories(), keys_of_statistics(self.config, learner)

        def act_and_step(players: tuple, x: tuple) -> tuple[tuple, Played]:
            buffer, obs, envstate, carry = players
            n_steps, rngs = x
            seen = self._seen(carry, obs)
            units = act(rngs[0], learner, seen, n_before + n_steps)
            check_explored(self, units)
            units = self._units.within_bounds(units)
            actions = self._units.to_environment(units)
            step_rngs = sharding.whole(rngs[1:].reshape(n_envs, 2))
            step = self.episodes.step_all(step_rngs, envstate, actions)
            ends = step.terminated | step.truncated
            row = {
                "observations": obs,
                "actions": actions,
                "rewards": step.reward,
                "next_observations": step.next_obs,
                "masks": 1.0 - step.terminated,
                "ends": ends,
                **({CARRIES: carry} if carry else {}),
            }
            carry = jax.vmap(select, (0, None, 0))(ends, initial, learner.memory_after(seen, units))
            given = {REWARDS: step.reward, OBSERVATIONS: step.next_obs}
            played = Played(nonfinite_environments(given), {key: row[key] for key in in_statistics})
            return (buffer.add(row), step.obs, step.envstate, carry), played

        players = runner.buffer, runner.obs, runner.envstate, runner.carry
        n_steps = n_envs * jnp.arange(len(rngs), dtype=jnp.float32)
        players, played = jax.lax.scan(act_and_step, players, (n_steps, rngs))
        buffer, obs, envstate, carry = players
        runner = runner.replace(buffer=buffer, obs=obs, envstate=envstate, carry=carry)
        return self._with_returns(runner, played)

    def _with_returns(
        self, runner: OffPolicyRunner, played: Played
    ) -> tuple[OffPolicyRunner, Played]:
        """The runner whose statistics of returns have further rewards in them, if it has any."""
        seen = sharding.whole(played.seen) if self.config.replicated_updates else played.seen
        nonfinite = jax.tree.map(lambda x: x.any(axis=0), played.nonfinite)
        if self.config.normalise_rewards:
            received, returns = observe_rewards(
                seen["rewards"],
                seen["ends"],
                runner.received,
                runner.returns,
                runner.hyperparams.gamma,
                self.config.replicated_updates,
            )
            runner = runner.replace(received=received, returns=returns)
        return runner, Played(nonfinite, seen)

    def _learn(
        self, runner: OffPolicyRunner, rngs: Key[Array, "gradient_steps"]
    ) -> tuple[OffPolicyRunner, Info]:
        """The runner after gradient steps, and the means of the numbers that they report."""
        buffer = runner.buffer

        def step(carry: tuple, rng: Key[Array, ""]) -> tuple[tuple, Info]:
            learner, priorities = carry
            current = buffer.replace(priorities=priorities)
            return gradient_step(self, learner, current, rng, runner.returns)

        carry = runner.learner, buffer.priorities
        (learner, priorities), infos = jax.lax.scan(step, carry, rngs)
        runner = runner.replace(learner=learner, buffer=buffer.replace(priorities=priorities))
        return runner, in_32_bits(jax.tree.map(lambda x: x.mean(axis=0), infos))


class Keys(NamedTuple):
    """Random keys of an update.

    Attributes:
        next_runner: The key of the runner after it.
        steps: Keys of the steps in all environments; the first of each is for their actions.
        gradient_steps: Keys of the gradient steps.
    """

    next_runner: Key[Array, ""]
    steps: Key[Array, "steps keys"]
    gradient_steps: Key[Array, "gradient_steps"]


def keys_of_update(
    config: OffPolicyConfig, rng: Key[Array, ""], n_steps: int, n_gradient_steps: int
) -> Keys:
    """The random keys of an update.

    They are drawn at once: on a CPU, a draw takes about as long as a step of a small environment.

    Args:
        config: Configuration of the agent.
        rng: The key of the runner before it.
        n_steps: Number of steps in each environment.
        n_gradient_steps: Number of gradient steps.

    Returns:
        The keys.
    """
    of_step = 1 + 2 * config.batch_size
    rngs = jax.random.split(rng, 1 + n_steps * of_step + n_gradient_steps)
    first, steps, gradient_steps = jnp.split(rngs, [1, 1 + n_steps * of_step])
    return Keys(first[0], steps.reshape(n_steps, of_step), gradient_steps)


def empty_buffer(agent: OffPolicyBase) -> DeviceBuffer:
    """A replay buffer for transitions in the environment's units, without any.

    Args:
        agent: The agent.

    Returns:
        The buffer.
    """
    config, obs, memories = agent.config, agent._observation, agent._initial_memories()
    units, number = agent._units, jax.ShapeDtypeStruct((), jnp.float32)
    example = {
        "observations": obs,
        "actions": jax.eval_shape(lambda: units.to_environment(units.zero)),
        "rewards": number,
        "next_observations": obs,
        "masks": number,
        "ends": jax.ShapeDtypeStruct((), jnp.bool),
        **({CARRIES: memories} if memories else {}),
    }
    return DeviceBuffer.create(
        example,
        config.buffer_size,
        config.batch_size,
        config.prioritised_replay,
        Replay.of(config).length,
        config.n_groups,
    )


def check_explored(agent: OffPolicyBase, units: Array) -> None:
    """Raises unless a hook that explores gives one action of the learner for each environment.

    Args:
        agent: The agent.
        units: What the hook gives.

    Raises:
        TypeError: Discrete actions are no whole numbers.
        ValueError: The shape is another one.
    """
    hooks, zero = f"{type(agent).__name__}._explore and _act_randomly", agent._units.zero
    shape = (agent.config.batch_size, *zero.shape)
    if jnp.shape(units) != shape:
        raise ValueError(
            f"{hooks} must give one action of the learner for each environment, shape {shape}, got "
            f"shape {jnp.shape(units)}."
        )
    if not jnp.can_cast(jnp.result_type(units), zero.dtype, "same_kind"):
        raise TypeError(
            f"{hooks} must give whole numbers where actions are discrete, got "
            f"{jnp.result_type(units)}."
        )


def keys_of_statistics(config: OffPolicyConfig, learner: Learner) -> tuple[str, ...]:
    """The parts of transitions that statistics are made of."""
    observations = ("observations",) if learner.observes else ()
    return observations + (("rewards", "ends") if config.normalise_rewards else ())


def gradient_step(
    agent: OffPolicyBase,
    learner: LearnerT,
    buffer: DeviceBuffer,
    rng: Key[Array, ""],
    returns: PyTree,
) -> tuple[tuple[LearnerT, PriorityTree | None], Info]:
    """A gradient step on a batch of the replay buffer.

    Args:
        agent: The agent.
        learner: Its learner.
        buffer: The replay buffer.
        rng: Random key.
        returns: Moments of returns, if rewards are in units of their standard deviation.

    Returns:
        The learner and the priorities after it, and what describes it.
    """
    config, hyperparams, replay = agent.config, learner.hyperparams, Replay.of(agent.config)

    def batch_of(indices: Int[Array, "..."]) -> dict[str, PyTree]:
        batch = replay.batch(buffer, indices, hyperparams.gamma)
        rewards = batch["rewards"]
        if config.normalise_rewards:
            rewards = ops.scale_rewards(rewards, returns, MOST_REWARD)
        return {**batch, "actions": agent._units.to_learner(batch["actions"]), "rewards": rewards}

    if not config.prioritised_replay:
        batch = batch_of(replay.draw(buffer, rng, config.minibatch_size))
        learner, info = update_on(config, learner, batch)
        info.pop("td_errors", None)
        return (learner, buffer.priorities), info
    n_drawn = config.minibatch_size // replay.length
    drawn, probabilities = buffer.sample_prioritised(rng, n_drawn)
    weights = importance_weights(probabilities, hyperparams.importance_exponent)
    batch = batch_of(replay.rows_from(buffer, drawn))
    batch["weights"] = replay.weights_of(weights, batch)
    learner, info = update_on(config, learner, batch)
    check_errors(type(learner).__name__, info, config.minibatch_size)
    errors = replay.errors_of(jnp.abs(info.pop("td_errors")))
    priorities = (errors + _SMALLEST_PRIORITY) ** hyperparams.priority_exponent
    return (learner, buffer.with_priorities(drawn, priorities).priorities), info


def check_errors(learner: str, info: Info, n_samples: int) -> None:
    """Raises unless a learner reports the error of each sample.

    Args:
        learner: Its name.
        info: What it reports.
        n_samples: Number of samples.

    Raises:
        TypeError: It reports none.
        ValueError: It reports another number of them.
    """
    if "td_errors" not in info:
        raise TypeError(
            "prioritised_replay needs a learner that takes weights and reports td_errors, which "
            f"{learner} does not."
        )
    shape, given = (n_samples,), jnp.shape(info["td_errors"])
    if given != shape:
        raise ValueError(
            f"{learner} must report one of td_errors for each sample, of shape {shape}, got shape "
            f"{given}."
        )
