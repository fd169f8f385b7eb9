"""The pure part of an agent whose environments are stepped on the host."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Int, Key, PyTree

from jaxagents.agents.program import HyperparametersT, Program, RunnerT
from jaxagents.core.compilation import nan_is_allowed
from jaxagents.core.metrics import Metrics
from jaxagents.core.report import Report
from jaxagents.envs.play import EpisodeOutcomes
from jaxagents.running.host_rollout import HostRollout

if TYPE_CHECKING:
    from jaxagents.agents.behaviour import Behaviour


_DEFAULT_N_EVALS = 10


class ProgramOnHost(Program[HyperparametersT, RunnerT]):
    """A training as functions between which its environments are stepped.

    What it has of a [`Program`][jaxagents.agents.program.Program] that plays by itself raises.
    """

    behaviour: "Behaviour[Any, HyperparametersT, RunnerT]"

    @property
    def n_evals(self) -> int:
        """Number of episodes of an evaluation point."""
        return self.config.n_evals or _DEFAULT_N_EVALS

    @nan_is_allowed
    def shapes_of_metrics(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point, as shapes, of a runner that may be of shapes too.

        Hooks that make them need not be traceable, so that they are given episodes of one step.
        """
        metrics = jax.eval_shape(self.report, runner)
        if not self.evaluates:
            return metrics
        episodes = self.behaviour.episodes
        ends = jnp.ones(self.n_evals, bool)
        numbers = jnp.ones((self.n_evals, *episodes.actors_shape), jnp.float32)
        names = episodes.info_names
        info = dict.fromkeys([*names.final, *names.summed], numbers)
        outcomes = EpisodeOutcomes(numbers, numbers, ends, ends, ends.astype(jnp.int32), info)
        return metrics | self.metrics_of(outcomes)

    def initial_carry(self, acting: PyTree) -> PyTree:
        """The memory of what acts at the start of an episode."""
        return self.behaviour.initial_carry(acting)

    def draw(self, runner: RunnerT, block: ArrayLike) -> PyTree:
        """Random numbers of as many steps of all environments as a rollout has."""
        return self.behaviour._draw_on_host(runner, block)

    def act(
        self, acting: PyTree, carry: PyTree, obs: PyTree, draws: PyTree, time: ArrayLike
    ) -> tuple[PyTree, PyTree, Array]:
        """The memories after a step, the actions of all environments, and their log-probabilities."""
        noise = jax.tree.map(lambda x: x[time], draws)
        return self.behaviour._act_on_host(acting, carry, obs, noise)

    def act_greedily(self, acting: PyTree, carry: PyTree, obs: PyTree) -> tuple[PyTree, PyTree]:
        """The memories after a step, and the greedy actions of all environments."""
        return jax.vmap(self.behaviour.act, (None, 0, 0))(acting, carry, obs)

    def act_at_random(
        self,
        acting: PyTree,
        carry: PyTree,
        obs: PyTree,
        rng: Key[Array, ""],
        episodes: Int[Array, "environments"],
        time: ArrayLike,
    ) -> tuple[PyTree, PyTree]:
        """The memories after a step, and actions of all environments that are drawn."""

        def act(carry: PyTree, obs: PyTree, episode: Array) -> tuple[PyTree, PyTree]:
            key = jax.random.fold_in(jax.random.fold_in(rng, episode), time)
            return self.behaviour.act(acting, carry, obs, key)

        return jax.vmap(act)(carry, obs, episodes)

    def begin_episodes(self, runner: RunnerT, where: Bool[np.ndarray, "environments"]) -> RunnerT:
        """The runner before a rollout that begins with new episodes in some environments."""
        return self.behaviour._begin_episodes(runner, where)

    def learn(self, runner: RunnerT, rollout: HostRollout) -> tuple[RunnerT, Report]:
        """The runner after an update that learns from a rollout, and its report."""
        runner = runner.replace(info={})
        present = self.behaviour._at_present(runner)
        return self._counted(self.behaviour._learn_from_host(present, rollout), runner)
