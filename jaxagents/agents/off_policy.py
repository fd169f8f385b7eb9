"""The base of agents that learn from a replay buffer."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxagents import ops, sharding
from jaxagents.agents.config import OffPolicyConfig
from jaxagents.agents.env_params import PlayingHyperparameters
from jaxagents.agents.learner_agent import LearnerAgent
from jaxagents.agents.replay import Replay, TransitionReplay
from jaxagents.agents.reward_scale import MOST_REWARD, observe_rewards
from jaxagents.agents.runners import OffPolicyRunner
from jaxagents.core.arrays import in_32_bits
from jaxagents.core.compilation import nan_is_allowed
from jaxagents.core.finite import OBSERVATIONS
from jaxagents.core.hyperparameters import Traced, hyperparameter
from jaxagents.core.observed import action_mask
from jaxagents.core.report import REWARDS, Flags, Report, nonfinite_environments
from jaxagents.core.shared_programs import compiled
from jaxagents.data.device_buffer import DeviceBuffer
from jaxagents.data.priorities import PriorityTree, importance_weights
from jaxagents.engine.program import HyperparametersT
from jaxagents.envs.spaces import is_discrete
from jaxagents.learners.learner import Batch, Discounting, Info, Learner, LearnerT

OffPolicyConfigT = TypeVar("OffPolicyConfigT", bound=OffPolicyConfig)

_SMALLEST_PRIORITY = 1e-6

Act = Callable[[Key[Array, ""], Learner, PyTree, Float[Array, ""]], Array]
"""Draws actions, given a random key, the learner, what it sees and the number of steps made before."""


RewardScale = Callable[[Batch], Batch]
"""Maps a batch to one with the rewards that a learner is given."""


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
        rng, rngs = self._split(runner.rng, self.config.n_warmup_steps)
        present = self._at_present(runner).replace(rng=rng, buffer=self._empty_buffer())
        now = self.at(self.moment(runner))
        return self._as_before(now._collect(present, rngs, now._explore)[0], runner)

    def _complete(self, runner: OffPolicyRunner) -> OffPolicyRunner:
        return self.refill(runner) if runner.buffer is None else runner

    def _create_runner(self, rng: Key[Array, ""], hyperparams: HyperparametersT) -> OffPolicyRunner:
        learner_rng, env_rng, rng = jax.random.split(rng, 3)
        rng, warmup_rngs = self._split(rng, self.config.n_warmup_steps)
        env_rngs = jax.random.split(env_rng, self.config.batch_size)
        obs, envstate = jax.vmap(self.episodes.reset)(env_rngs)
        runner = OffPolicyRunner(
            learner=self._create_learner(learner_rng, hyperparams),
            buffer=self._empty_buffer(),
            envstate=envstate,
            obs=obs,
            rng=rng,
            update_step=jnp.zeros((), jnp.int32),
            info={},
            carry=self._recall.initials(self.config.batch_size),
        )
        if self.config.normalise_rewards:
            received = jnp.zeros(self.config.batch_size, jnp.float32)
            runner = runner.replace(received=received, returns=ops.no_moments())
        runner, _, observed = self._collect(runner, warmup_rngs, self._act_randomly)
        return self._after_observing(runner, observed)

    def _empty_buffer(self) -> DeviceBuffer:
        obs = self._observation
        example = {
            "observations": obs,
            "actions": jax.eval_shape(lambda: self._to_environment(self._zero_action())),
            "rewards": jax.ShapeDtypeStruct((), jnp.float32),
            "next_observations": obs,
            "masks": jax.ShapeDtypeStruct((), jnp.float32),
            "ends": jax.ShapeDtypeStruct((), jnp.bool),
            **self._replay.stored(self._recall.initial()),
        }
        config = self.config
        sizes = (config.buffer_size, config.batch_size, config.prioritised_replay)
        return DeviceBuffer.create(example, *sizes, self._replay.length, config.n_groups)

    @property
    def _replay(self) -> Replay:
        """The entries of transitions that are kept, and how they are drawn."""
        return TransitionReplay(self.config.n_step_returns)

    def _act_randomly(
        self, key: Key[Array, ""], learner: Learner, obs: PyTree, n_steps: Float[Array, ""]
    ) -> Array:
        """Draws actions uniformly, of those that the observations allow."""
        space, n_envs = self.episodes.action_space, self.config.batch_size
        if is_discrete(space):
            return ops.random_actions(key, int(space.n), action_mask(obs), (n_envs,))
        shape = (n_envs, *self._zero_action().shape)
        return jax.random.uniform(key, shape, jnp.float32, -1.0, 1.0)

    def _training_step(self, runner: OffPolicyRunner) -> tuple[OffPolicyRunner, Report]:
        n_steps, n_gradient_steps = self.config.rollout_length, self.config.gradient_steps
        rng, collect_rngs, learn_rngs = self._split(runner.rng, n_steps, n_gradient_steps)
        runner, flags, observed = self._collect(runner, collect_rngs, self._explore)
        runner, info = self._learn(runner.replace(rng=rng), learn_rngs)
        return self._after_observing(runner, observed), Report(info, flags)

    def _after_observing(self, runner: OffPolicyRunner, observations: PyTree) -> OffPolicyRunner:
        """The runner whose networks have observed more, if they have statistics of observations."""
        if not runner.learner.observes:
            return runner
        return runner.replace(learner=runner.learner.observe(self._observed(observations)))

    def _split(
        self, rng: Key[Array, ""], n_steps: int, *sizes: int
    ) -> tuple[Key[Array, "..."], ...]:
        """A new key, the keys of the steps in all environments, and other keys, in one draw.

        On a CPU a draw takes about as long as a step of a small environment.
        """
        for_each_step = 1 + 2 * self.config.batch_size
        sizes = (1, n_steps * for_each_step, *sizes)
        rngs = jax.random.split(rng, sum(sizes))
        first, steps, *others = jnp.split(rngs, np.cumsum(sizes)[:-1])
        return first[0], steps.reshape(n_steps, for_each_step), *others

    def _collect(
        self, runner: OffPolicyRunner, rngs: Key[Array, "steps rngs"], act: Act
    ) -> tuple[OffPolicyRunner, Flags, PyTree]:
        """The runner after steps in all environments.

        There are also flags of the environments that gave what is not finite, and what was observed,
        time first, if statistics are made of it.
        """
        n_envs = self.config.batch_size
        earlier_steps = runner.update_step.astype(jnp.float32) * (
            self.config.rollout_length * n_envs
        )

        recall, replay = self._recall, self._replay
        keys_of_statistics = self._keys_of_statistics(runner.learner)

        def act_and_step(players: tuple, x: tuple) -> tuple[tuple, tuple[dict, dict]]:
            buffer, obs, envstate, carry = players
            n_steps, rngs = x
            remembered = recall.seen(carry, obs)
            units = act(rngs[0], runner.learner, remembered, earlier_steps + n_steps)
            self._check_explored(units)
            actions = self._to_environment(self._within_bounds(units))
            step_rngs = sharding.whole(rngs[1:].reshape(n_envs, 2))
            taken = self.episodes.step_all(step_rngs, envstate, actions)
            transitions = {
                "observations": obs,
                "actions": actions,
                "rewards": taken.reward,
                "next_observations": taken.next_obs,
                "masks": 1.0 - taken.terminated,
                "ends": taken.terminated | taken.truncated,
                **replay.stored(carry),
            }
            carry = recall.fresh_where(
                transitions["ends"], recall.after(runner.learner, remembered)
            )
            given = {REWARDS: taken.reward, OBSERVATIONS: taken.next_obs}
            seen = {key: transitions[key] for key in keys_of_statistics}
            flags = nonfinite_environments(given)
            return (buffer.add(transitions), taken.obs, taken.envstate, carry), (flags, seen)

        players = (runner.buffer, runner.obs, runner.envstate, runner.carry)
        n_steps = n_envs * jnp.arange(len(rngs), dtype=jnp.float32)
        players, (flags, seen) = jax.lax.scan(act_and_step, players, (n_steps, rngs))
        buffer, obs, envstate, carry = players
        runner = runner.replace(buffer=buffer, obs=obs, envstate=envstate, carry=carry)
        if self.config.replicated_updates:
            seen = sharding.whole(seen)
        if self.config.normalise_rewards:
            runner = self._with_rewards(runner, seen)
        return runner, jax.tree.map(lambda x: x.any(axis=0), flags), seen.get("observations")

    def _check_explored(self, units: Array) -> None:
        """Raises unless a hook that explores gives one action of the learner for each environment."""
        name, zero = type(self).__name__, self._zero_action()
        shape = (self.config.batch_size, *zero.shape)
        if jnp.shape(units) != shape:
            raise ValueError(
                f"{name}._explore and _act_randomly must give one action of the learner for each "
                f"environment, shape {shape}, got shape {jnp.shape(units)}."
            )
        if not jnp.can_cast(jnp.result_type(units), zero.dtype, "same_kind"):
            raise TypeError(
                f"{name}._explore and _act_randomly must give whole numbers where actions are "
                f"discrete, got {jnp.result_type(units)}."
            )

    def _within_bounds(self, units: Array) -> Array:
        """Actions of the learner, those of boxes clipped to [-1, 1], whatever a hook adds to them."""
        return units if is_discrete(self.episodes.action_space) else jnp.clip(units, -1.0, 1.0)

    def _keys_of_statistics(self, learner: Learner) -> tuple[str, ...]:
        """The parts of transitions of which there are statistics."""
        observations = ("observations",) if learner.observes else ()
        return observations + (("rewards", "ends") if self.config.normalise_rewards else ())

    def _with_rewards(self, runner: OffPolicyRunner, seen: dict[str, Array]) -> OffPolicyRunner:
        """The runner whose statistics of returns have further rewards in them."""
        received, returns = observe_rewards(
            seen["rewards"],
            seen["ends"],
            runner.received,
            runner.returns,
            runner.hyperparams.gamma,
            self.config.replicated_updates,
        )
        return runner.replace(received=received, returns=returns)

    def _learn(
        self, runner: OffPolicyRunner, rngs: Key[Array, "gradient_steps"]
    ) -> tuple[OffPolicyRunner, Info]:
        """The runner after gradient steps, and the means of the numbers that they report."""
        buffer = runner.buffer
        scale = self._reward_scale(runner)

        def gradient_step(carry: tuple, rng: Key[Array, ""]) -> tuple[tuple, Info]:
            learner, priorities = carry
            current = buffer.replace(priorities=priorities)
            return self._gradient_step(learner, current, rng, scale)

        carry = (runner.learner, buffer.priorities)
        (learner, priorities), infos = jax.lax.scan(gradient_step, carry, rngs)
        runner = runner.replace(learner=learner, buffer=buffer.replace(priorities=priorities))
        return runner, in_32_bits(jax.tree.map(lambda x: x.mean(axis=0), infos))

    def _gradient_step(
        self, learner: LearnerT, buffer: DeviceBuffer, rng: Key[Array, ""], scale: RewardScale
    ) -> tuple[tuple[LearnerT, PriorityTree | None], Info]:
        size, hyperparams, replay = self.config.minibatch_size, learner.hyperparams, self._replay
        if not self.config.prioritised_replay:
            indices = replay.sample_indices(buffer, rng, size)
            batch = scale(self._batch(buffer, indices, hyperparams))
            learner, info = self._update(learner, batch)
            info.pop("td_errors", None)
            return (learner, buffer.priorities), info
        drawn, probabilities = buffer.sample_prioritised(rng, size // replay.length)
        weights = importance_weights(probabilities, hyperparams.importance_exponent)
        batch = scale(self._batch(buffer, replay.rows_of(buffer, drawn), hyperparams))
        batch = {**batch, "weights": replay.weights_of(weights, batch)}
        learner, info = self._update(learner, batch)
        errors = replay.errors_of(self._sizes_of_errors(type(learner).__name__, info))
        info.pop("td_errors")
        priorities = (errors + _SMALLEST_PRIORITY) ** hyperparams.priority_exponent
        return (learner, buffer.with_priorities(drawn, priorities).priorities), info

    def _sizes_of_errors(self, learner: str, info: Info) -> Float[Array, "samples"]:
        """The sizes of the errors that a learner reports, which may have signs."""
        if "td_errors" not in info:
            raise TypeError(
                "prioritised_replay needs a learner that takes weights and reports td_errors, which "
                f"{learner} does not."
            )
        shape, given = (self.config.minibatch_size,), jnp.shape(info["td_errors"])
        if given != shape:
            raise ValueError(
                f"{learner} must report one of td_errors for each sample, of shape {shape}, got shape "
                f"{given}."
            )
        return jnp.abs(info["td_errors"])

    def _batch(
        self, buffer: DeviceBuffer, indices: Int[Array, "..."], hyperparams: Discounting
    ) -> Batch:
        batch = self._replay.batch(buffer, indices, hyperparams.gamma)
        return {**batch, "actions": self._to_learner(batch["actions"])}

    def _reward_scale(self, runner: OffPolicyRunner) -> RewardScale:
        """Scales the rewards of batches for the learner; those of several steps as their sum."""

        def scaled(batch: Batch) -> Batch:
            rewards = ops.scale_rewards(batch["rewards"], runner.returns, MOST_REWARD)
            return {**batch, "rewards": rewards}

        return scaled if self.config.normalise_rewards else lambda batch: batch
