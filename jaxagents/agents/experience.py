"""Collecting transitions for a replay buffer, with statistics of rewards and observations."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, Key, PyTree

from jaxagents import sharding
from jaxagents.agents.config import OffPolicyConfig
from jaxagents.agents.runners import OffPolicyRunner, observe_rewards
from jaxagents.agents.sampling import CARRIES, Sampling
from jaxagents.core.arrays import select
from jaxagents.core.compilation import jit_in_place
from jaxagents.core.hyperparameters import values_at
from jaxagents.core.report import OBSERVATIONS, REWARDS, Flags, Report, nonfinite_environments
from jaxagents.data.device_buffer import DeviceBuffer
from jaxagents.engine.host_play import reset_memories
from jaxagents.engine.host_rollout import HostCollection, HostRollout, HostStorage
from jaxagents.envs.episodes import Timestep
from jaxagents.learners.learner import Batch, Learner

if TYPE_CHECKING:
    from jaxagents.agents.off_policy import OffPolicyBase

Explore = Callable[[Key[Array, ""], Learner, PyTree, Float[Array, ""]], Array]
"""Draws actions, given a random key, the learner, observations and the number of steps so far."""


class Experience(NamedTuple):
    """Results of steps in all environments, time first.

    Attributes:
        nonfinite: Whether each environment returned non-finite values, per step or over all steps.
        seen: The parts of transitions that statistics are computed from.
    """

    nonfinite: Flags
    seen: dict[str, PyTree]


class UpdateKeys(NamedTuple):
    """Random keys of an update.

    Attributes:
        next_runner: The key of the next runner.
        steps: Keys of the steps in all environments; the first of each row is for the actions.
        gradient_steps: Keys of the gradient steps.
    """

    next_runner: Key[Array, ""]
    steps: Key[Array, "steps keys"]
    gradient_steps: Key[Array, "gradient_steps"]


def keys_of_update(
    config: OffPolicyConfig, rng: Key[Array, ""], n_steps: int, n_gradient_steps: int
) -> UpdateKeys:
    """Splits the random keys of an update.

    It splits only once: on a CPU, a split takes about as long as a step of a small environment.

    Args:
        config: Configuration of the agent.
        rng: The key of the runner before the update.
        n_steps: Number of steps in each environment.
        n_gradient_steps: Number of gradient steps.

    Returns:
        The keys.
    """
    of_step = 1 + 2 * config.batch_size
    rngs = jax.random.split(rng, 1 + n_steps * of_step + n_gradient_steps)
    first, steps, gradient_steps = jnp.split(rngs, [1, 1 + n_steps * of_step])
    return UpdateKeys(first[0], steps.reshape(n_steps, of_step), gradient_steps)


def collect(
    agent: "OffPolicyBase",
    runner: OffPolicyRunner,
    rngs: Key[Array, "steps keys"],
    explore: Explore,
) -> tuple[OffPolicyRunner, Experience]:
    """Takes steps in every compiled environment, and stores them in the replay buffer.

    Args:
        agent: The agent.
        runner: The runner before the steps.
        rngs: Random keys of the steps.
        explore: Draws the actions.

    Returns:
        The runner after the steps, and their results.
    """
    n_envs, learner = agent.config.batch_size, runner.learner
    n_before = runner.update_step.astype(jnp.float32) * (agent.config.rollout_length * n_envs)
    initial = agent._initial_memories()

    def act_and_step(players: tuple, x: tuple) -> tuple[tuple, Experience]:
        buffer, obs, envstate, carry = players
        n_steps, rngs = x
        after, actions = act(agent, explore, rngs[0], learner, carry, obs, n_before + n_steps)
        step_rngs = sharding.whole(rngs[1:].reshape(n_envs, 2))
        step = agent.episodes.step_all(step_rngs, envstate, actions)
        rows = transitions(obs, actions, step, carry)
        carry = jax.vmap(select, (0, None, 0))(rows["ends"], initial, after)
        given = {REWARDS: step.reward, OBSERVATIONS: step.next_obs}
        played = Experience(nonfinite_environments(given), seen_of(agent.config, learner, rows))
        return (buffer.add(rows), step.obs, step.envstate, carry), played

    players = runner.buffer, runner.obs, runner.envstate, runner.carry
    n_steps = n_envs * jnp.arange(len(rngs), dtype=jnp.float32)
    players, played = jax.lax.scan(act_and_step, players, (n_steps, rngs))
    buffer, obs, envstate, carry = players
    runner = runner.replace(buffer=buffer, obs=obs, envstate=envstate, carry=carry)
    nonfinite = jax.tree.map(lambda x: x.any(axis=0), played.nonfinite)
    seen = sharding.whole(played.seen) if agent.config.replicated_updates else played.seen
    return with_returns(agent.config, runner, seen), Experience(nonfinite, seen)


def act(
    agent: "OffPolicyBase",
    explore: Explore,
    rng: Key[Array, ""],
    learner: Learner,
    carry: PyTree,
    obs: PyTree,
    n_steps: Float[Array, ""],
) -> tuple[PyTree, Array]:
    """Draws the actions for observations of all environments; also returns the new memories."""
    seen = agent._seen(carry, obs)
    units = explore(rng, learner, seen, n_steps)
    hooks, zero = f"{type(agent).__name__}._explore and _act_randomly", agent._units.zero
    shape, dtype = (agent.config.batch_size, *zero.shape), jnp.result_type(units)
    if jnp.shape(units) != shape:
        raise ValueError(
            f"{hooks} must return one action of the learner for each environment, shape "
            f"{shape}, got shape {jnp.shape(units)}."
        )
    if not jnp.can_cast(dtype, zero.dtype, "same_kind"):
        raise TypeError(f"{hooks} must return integers for discrete actions, got {dtype}.")
    units = agent._units.within_bounds(units)
    return learner.memory_after(seen, units), agent._units.to_environment(units)


def transitions(
    obs: PyTree, actions: PyTree, step: Timestep | HostRollout, carry: PyTree
) -> dict[str, PyTree]:
    """Transitions by the keys of the replay buffer, with unchanged shapes."""
    return {
        "observations": obs,
        "actions": actions,
        "rewards": step.reward,
        "next_observations": step.next_obs,
        "masks": 1.0 - step.terminated,
        "ends": step.terminated | step.truncated,
        **({CARRIES: carry} if carry else {}),
    }


def seen_of(
    config: OffPolicyConfig, learner: Learner, rows: dict[str, PyTree]
) -> dict[str, PyTree]:
    """The parts of transitions that statistics are computed from."""
    observations = ("observations",) if learner.observes else ()
    rewards = ("rewards", "ends") if config.normalise_rewards else ()
    return {key: rows[key] for key in (*observations, *rewards)}


def with_returns(
    config: OffPolicyConfig, runner: OffPolicyRunner, seen: dict[str, PyTree]
) -> OffPolicyRunner:
    """Updates a runner's statistics of returns with rewards, if it has any."""
    if not config.normalise_rewards:
        return runner
    gamma, replicated = runner.hyperparams.gamma, config.replicated_updates
    return observe_rewards(runner, seen["rewards"], seen["ends"], gamma, replicated)


def after_observing(
    agent: "OffPolicyBase", runner: OffPolicyRunner, played: Experience
) -> OffPolicyRunner:
    """Updates the running statistics of a runner's networks with observations, if they have any."""
    if not runner.learner.observes:
        return runner
    observed = sharding.in_one_order(played.seen["observations"], agent.config.replicated_updates)
    return runner.replace(learner=runner.learner.observe(observed))


def empty_buffer(agent: "OffPolicyBase") -> DeviceBuffer:
    """An empty replay buffer for transitions in the environment's units.

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
        Sampling.of(config).length,
        config.n_groups,
        agent.episodes.action_space,
    )


_end_episodes = jit_in_place(DeviceBuffer.end_episodes)


def replay_on_host(agent: "OffPolicyBase") -> HostCollection:
    """Splits an agent's update into parts that run between steps of environments on the host.

    The gradient steps learn from the transitions of earlier updates, so that the device computes them
    while the environments step.

    Args:
        agent: The agent.

    Returns:
        The parts.
    """
    config, n_envs, n_steps = agent.config, agent.config.batch_size, agent.config.rollout_length

    def keys_of(rng: Key[Array, ""]) -> tuple[Key[Array, ""], Key[Array, ""], Key[Array, ""]]:
        """Keys of the next runner, of the steps, and of the gradient steps."""
        rngs = jax.random.split(rng, 3)
        return rngs[0], rngs[1], rngs[2]

    def draw(runner: OffPolicyRunner, block: ArrayLike) -> PyTree:
        _, key, _ = keys_of(runner.rng)
        earlier = (runner.update_step + block) * n_steps
        return {
            "keys": jax.random.split(jax.random.fold_in(key, block), n_steps),
            "n_steps": n_envs * (earlier + jnp.arange(n_steps)).astype(jnp.float32),
        }

    def acting_by(explore: Explore) -> Callable[..., tuple[PyTree, PyTree, PyTree]]:
        def act_at(
            learner: Learner, carry: PyTree, obs: PyTree, noise: PyTree
        ) -> tuple[PyTree, PyTree, PyTree]:
            present, keys, n_before = learner._at_present(), noise["keys"], noise["n_steps"]
            return *act(agent, explore, keys, present, carry, obs, n_before), ()

        return act_at

    def begin(runner: OffPolicyRunner, where: Bool[np.ndarray, "environments"]) -> OffPolicyRunner:
        if not where.any():
            return runner
        nothing = jax.tree.map(lambda x: np.zeros(x.shape[1:], x.dtype), runner.received)
        received = reset_memories(runner.received, nothing, where)
        return interrupt(runner.replace(received=jax.tree.map(jnp.asarray, received)), where)

    def interrupt(
        runner: OffPolicyRunner, where: Bool[np.ndarray, "environments"]
    ) -> OffPolicyRunner:
        with storage.near:
            return runner.replace(buffer=_end_episodes(runner.buffer, where))

    def read(runner: OffPolicyRunner) -> OffPolicyRunner:
        reads_learner = config.normalise_rewards or runner.learner.observes
        return runner.replace(buffer=None, learner=runner.learner if reads_learner else None)

    def store(
        buffer: DeviceBuffer, runner: OffPolicyRunner, rollout: HostRollout
    ) -> tuple[dict[str, PyTree], Report]:
        rows = transitions(rollout.obs, rollout.action, rollout, rollout.carry)
        buffer, _ = jax.lax.scan(lambda buffer, row: (buffer.add(row), None), buffer, rows)
        nonfinite = nonfinite_environments(
            {REWARDS: rollout.reward, OBSERVATIONS: rollout.next_obs}, axis=1
        )
        changed = {"buffer": buffer, "rng": keys_of(runner.rng)[0]}
        if runner.learner is None:
            return changed, Report({}, nonfinite)
        seen = seen_of(config, runner.learner, rows)
        present = runner.replace(learner=runner.learner._at_present())
        after = with_returns(config, present, seen).replace(learner=runner.learner)
        after = after_observing(agent, after, Experience(nonfinite, seen))
        changed |= {"received": after.received, "returns": after.returns}
        if runner.learner.observes:
            changed["learner"] = after.learner
        return changed, Report({}, nonfinite)

    def batches(
        buffer: DeviceBuffer, rng: Key[Array, ""], hyperparams: PyTree, n_updates: Int[Array, ""]
    ) -> Batch:
        replay, gamma = Sampling.of(config), values_at(hyperparams, n_updates).gamma
        keys = jax.random.split(keys_of(rng)[2], config.gradient_steps)
        return jax.lax.map(
            lambda key: replay.sample(buffer, key, config.minibatch_size, gamma), keys
        )

    def learn(runner: OffPolicyRunner, *drawn: Batch) -> tuple[OffPolicyRunner, Report]:
        if drawn:
            runner, numbers = agent._learn_from(runner, *drawn)
        else:
            keys = jax.random.split(keys_of(runner.rng)[2], config.gradient_steps)
            runner, numbers = agent._learn(runner, keys)
        return runner, Report(numbers)

    storage = HostStorage(
        config.n_warmup_steps,
        acting_by(agent._act_randomly),
        read,
        store,
        interrupt,
        functools.partial(empty_buffer, agent),
        batches if config.buffer_on_host else None,
    )
    return HostCollection(
        lambda learner: agent._initial_memories(),
        draw,
        acting_by(agent._explore),
        begin,
        learn,
        storage,
    )
