"""The compiled steps of agents, for users who write their own loops."""

from typing import Any, SupportsIndex, cast

import jax
from jaxtyping import Array, ArrayLike, Bool, Float, PyTree

from jaxagents.agents.behaviour import Behaviour, ConfigT, HyperparametersT, RunnerT
from jaxagents.agents.continuing import check_not_used_up
from jaxagents.agents.program import Program
from jaxagents.core.keys import RandomKey, as_key
from jaxagents.core.metrics import Metrics
from jaxagents.core.numbers import not_negative
from jaxagents.core.shared_programs import compiled
from jaxagents.envs.episodes import EpisodeState
from jaxagents.running.on_host import OnHost
from jaxagents.running.programs import OnDevice
from jaxagents.running.where import program_of


class Stepwise(Behaviour[ConfigT, HyperparametersT, RunnerT]):
    """The steps that a training consists of, and those of an environment, compiled on one device."""

    @property
    def _steps(
        self,
    ) -> OnDevice[RunnerT] | OnHost[Any] | Program[HyperparametersT, RunnerT]:
        """The compiled program; within a program, the program as it stands."""
        return self.program if self.programs is None else program_of(self)

    def start(self, rng: RandomKey, hyperparams: HyperparametersT) -> RunnerT:
        """Makes a fresh runner.

        While this is compiled, `advance` is traced, so that it is compiled sooner.

        Args:
            rng: Random key.
            hyperparams: Hyperparameters.

        Returns:
            The runner before any update.
        """
        return self._steps.start(rng, hyperparams)

    def restart(self, runner: RunnerT, hyperparams: HyperparametersT) -> RunnerT:
        """Replaces the hyperparameters of a runner.

        Args:
            runner: Any runner.
            hyperparams: New hyperparameters.

        Returns:
            The runner with them.
        """
        check_not_used_up(runner)
        return self._steps.restart(runner, hyperparams)

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> RunnerT:
        """Makes updates, in the memory of the runner that it is given.

        Args:
            runner: Any runner. Its arrays are used up: go on with those that are returned, or give a
                copy, `jax.tree.map(jnp.copy, runner)`.
            n_updates: Number of updates; one program serves every number.

        Returns:
            The runner after them.

        Raises:
            TypeError: It is no runner, or the number is none of updates.
            ValueError: The runner is used up, or the number is negative.
        """
        check_not_used_up(runner)
        if not isinstance(n_updates, jax.Array):
            not_negative("n_updates", cast(SupportsIndex, n_updates))
        return self._steps.advance(runner, n_updates)

    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point.

        Args:
            runner: Any runner.

        Returns:
            The update step, the losses of the last update and, if `eval_during_training`, the
            outcomes of `config.n_evals` greedy episodes.
        """
        check_not_used_up(runner)
        return self._steps.evaluate(runner)

    @compiled
    def env_reset(self, rng: RandomKey) -> tuple[RandomKey, PyTree, EpisodeState]:
        """Starts an episode.

        Args:
            rng: Random key.

        Returns:
            A new random key, the first observation and the environment's state.
        """
        self.episodes.env.check_compiled()
        as_key(rng)  # or a TypeError says so
        rng, reset_rng = jax.random.split(rng)
        return rng, *self.episodes.reset(as_key(reset_rng))

    @compiled
    def env_step(
        self, rng: RandomKey, envstate: EpisodeState, actions: PyTree
    ) -> tuple[
        RandomKey,
        PyTree,
        EpisodeState,
        Float[Array, "*actors"],
        Bool[Array, ""],
        dict[str, PyTree],
    ]:
        """Takes one step, and starts the next episode if this one ended.

        Args:
            rng: Random key.
            envstate: State of the environment.
            actions: One action (of all actors).

        Returns:
            A new random key, the next observation, state, reward, whether the episode ended, and a
            dict that has `terminated`, `truncated` and `final_observation` besides what the
            environment reports.
        """
        rng, step_rng = jax.random.split(rng)
        step = self.episodes.step(as_key(step_rng), envstate, actions)
        info = {
            **step.info,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "final_observation": step.next_obs,
        }
        return rng, step.obs, step.envstate, step.reward, step.terminated | step.truncated, info
