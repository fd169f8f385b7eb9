"""How agents with a replay buffer play and learn where environments are stepped on the host."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Key, PyTree

from jaxagents.agents.replay import CARRIES
from jaxagents.agents.runners import OffPolicyRunner
from jaxagents.core.finite import OBSERVATIONS
from jaxagents.core.report import REWARDS, Report, nonfinite_environments
from jaxagents.engine.host_play import begun_again
from jaxagents.engine.host_rollout import HostCollection, HostRollout
from jaxagents.learners.learner import Learner

if TYPE_CHECKING:
    from jaxagents.agents.off_policy import OffPolicyBase, Played


def replay_on_host(agent: "OffPolicyBase") -> HostCollection:
    """The parts of an off-policy agent's update between which environments are stepped.

    Transitions are stored in the replay buffer on the device, in the program that learns from it.

    Args:
        agent: The agent.

    Returns:
        The parts.
    """
    from jaxagents.agents.off_policy import Played, check_explored, keys_of_statistics

    config, units_of = agent.config, agent._units
    n_envs, n_steps = config.batch_size, config.rollout_length

    def keys_of(runner: OffPolicyRunner) -> tuple[Key[Array, ""], Key[Array, ""], Key[Array, ""]]:
        """The keys of the next runner, of the steps, and of the gradient steps."""
        rngs = jax.random.split(runner.rng, 3)
        return rngs[0], rngs[1], rngs[2]

    def draw(runner: OffPolicyRunner, block: ArrayLike) -> PyTree:
        _, key, _ = keys_of(runner)
        earlier = (runner.update_step + block) * n_steps
        return {
            "keys": jax.random.split(jax.random.fold_in(key, block), n_steps),
            "n_steps": n_envs * (earlier + jnp.arange(n_steps)).astype(jnp.float32),
        }

    def acting_by(choose: Callable[..., Array]) -> Callable[..., tuple[PyTree, PyTree, PyTree]]:
        def act(
            learner: Learner, carry: PyTree, obs: PyTree, noise: PyTree
        ) -> tuple[PyTree, PyTree, PyTree]:
            seen = agent._seen(carry, obs)
            units = choose(noise["keys"], learner, seen, noise["n_steps"])
            check_explored(agent, units)
            units = units_of.within_bounds(units)
            return learner.memory_after(seen, units), units_of.to_environment(units), ()

        return act

    def begin(runner: OffPolicyRunner, where: Bool[np.ndarray, "environments"]) -> OffPolicyRunner:
        if not where.any():
            return runner
        nothing = jax.tree.map(lambda x: np.zeros(x.shape[1:], x.dtype), runner.received)
        received = begun_again(runner.received, nothing, where)
        return interrupt(runner.replace(received=jax.tree.map(jnp.asarray, received)), where)

    def interrupt(
        runner: OffPolicyRunner, where: Bool[np.ndarray, "environments"]
    ) -> OffPolicyRunner:
        return runner.replace(buffer=runner.buffer.end_episodes(jnp.asarray(where)))

    def store(runner: OffPolicyRunner, rollout: HostRollout) -> "tuple[OffPolicyRunner, Played]":
        rows = {
            "observations": rollout.obs,
            "actions": rollout.action,
            "rewards": rollout.reward,
            "next_observations": rollout.next_obs,
            "masks": 1.0 - rollout.terminated,
            "ends": rollout.terminated | rollout.truncated,
            **({CARRIES: rollout.carry} if rollout.carry else {}),
        }
        buffer, _ = jax.lax.scan(lambda buffer, row: (buffer.add(row), None), runner.buffer, rows)
        given = {REWARDS: rollout.reward, OBSERVATIONS: rollout.next_obs}
        in_statistics = keys_of_statistics(config, runner.learner)
        played = Played(
            jax.vmap(nonfinite_environments)(given), {key: rows[key] for key in in_statistics}
        )
        return agent._with_returns(runner.replace(buffer=buffer), played)

    def store_first(runner: OffPolicyRunner, rollout: HostRollout) -> OffPolicyRunner:
        rng, _, _ = keys_of(runner)
        return agent._after_observing(*store(runner.replace(rng=rng), rollout))

    def learn(runner: OffPolicyRunner, rollout: HostRollout) -> tuple[Any, Report]:
        rng, _, key = keys_of(runner)
        runner, played = store(runner.replace(rng=rng), rollout)
        runner, numbers = agent._learn(runner, jax.random.split(key, config.gradient_steps))
        return agent._after_observing(runner, played), Report(numbers, played.nonfinite)

    return HostCollection(
        lambda learner: agent._initial_memories(),
        draw,
        acting_by(agent._explore),
        begin,
        learn,
        interrupt,
        n_first=config.n_warmup_steps,
        act_first=acting_by(agent._act_randomly),
        store=store_first,
    )
