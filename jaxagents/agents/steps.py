"""The compiled steps of agents, for users who write their own loops."""

import contextlib
from collections.abc import Iterator
from typing import Any, SupportsIndex, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, PyTree

from jaxagents.agents.behaviour import Behaviour, ConfigT, HyperparametersT, RunnerT
from jaxagents.agents.continuing import (
    check_fits,
    check_not_used_up,
    check_same_metrics,
    check_single,
)
from jaxagents.agents.program import Program
from jaxagents.core.keys import RandomKey, Seed, as_key, single_key
from jaxagents.core.metrics import Metrics
from jaxagents.core.numbers import not_negative
from jaxagents.core.shared_programs import compiled
from jaxagents.envs.episodes import EpisodeState
from jaxagents.running.on_host import OnHost
from jaxagents.running.programs import OnDevice
from jaxagents.running.trainable import programs_of
from jaxagents.running.where import program_of


class Stepwise(Behaviour[ConfigT, HyperparametersT, RunnerT]):
    """The steps that a training consists of, and those of an environment, compiled on one device."""

    @property
    def _steps(
        self,
    ) -> OnDevice[RunnerT] | OnHost[Any] | Program[HyperparametersT, RunnerT]:
        """The compiled program; within a program, the program as it stands."""
        return self.program if self.programs is None else program_of(self)

    def start(self, rng: Seed, hyperparams: HyperparametersT | None = None) -> RunnerT:
        """Makes a fresh runner.

        While this is compiled, `advance` is traced, so that it is compiled sooner.

        Args:
            rng: Random key, or its seed.
            hyperparams: Hyperparameters; `None` takes the default ones.

        Returns:
            The runner before any update.

        Raises:
            TypeError: An argument is of another type.
            ValueError: There are several random keys, or a hyperparameter is out of range or an array.
        """
        hyperparams = self._or_default(hyperparams)
        self._check_hyperparams(hyperparams)
        return self._steps.start(single_key(rng, "start"), hyperparams)

    def restart(self, runner: RunnerT, hyperparams: HyperparametersT) -> RunnerT:
        """Replaces the hyperparameters of a runner.

        Args:
            runner: Any runner.
            hyperparams: New hyperparameters.

        Returns:
            The runner with them.

        Raises:
            TypeError: It is no runner of such an agent, or these are no hyperparameters of it.
            ValueError: The runner is used up or does not fit, or a hyperparameter is out of range or an
                array.
        """
        self._check_hyperparams(hyperparams)
        with self._naming_misfits(runner):
            return self._steps.restart(runner, hyperparams)

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> RunnerT:
        """Makes updates, in the memory of the runner that it is given.

        Args:
            runner: Any runner. Its arrays are used up: go on with those that are returned, or give a
                copy, `jax.tree.map(jnp.copy, runner)`. What a checkpoint left out of it, as with
                `checkpoint_buffer=False`, is made anew, as in `train`.
            n_updates: Number of updates; one program serves every number.

        Returns:
            The runner after them.

        Raises:
            TypeError: It is no runner of such an agent, or the number is none of updates.
            ValueError: The runner is used up or does not fit, or the number is negative.
        """
        if not isinstance(n_updates, jax.Array):
            not_negative("n_updates", cast(SupportsIndex, n_updates))
        with self._naming_misfits(runner):
            return self._steps.advance(self._complete(runner), n_updates)

    def evaluate(self, runner: RunnerT) -> Metrics:
        """The metrics of one evaluation point.

        Args:
            runner: Any runner.

        Returns:
            The update step, the losses of the last update and, if `eval_during_training`, the
            outcomes of `config.n_evals` greedy episodes.

        Raises:
            TypeError: It is no runner of such an agent.
            ValueError: The runner is used up, or does not fit.
        """
        with self._naming_misfits(runner):
            return self._steps.evaluate(runner)

    @contextlib.contextmanager
    def _naming_misfits(self, runner: RunnerT) -> Iterator[None]:
        """Where a step fails since a runner does not fit the agent, raises an error that says so.

        To compare the shapes of all arrays before each step would take longer than many steps.
        """
        check_not_used_up(runner)
        try:
            yield
        except Exception:
            self._check_fits(runner)
            raise

    def _check_fits(self, runner: RunnerT) -> None:
        """Raises unless a runner is shaped like those of the agent."""
        if hasattr(runner, "update_step"):
            check_single(runner)  # with the hyperparameters of several, no fresh runner can be made
        fresh = self._fresh_runner(getattr(runner, "hyperparams", None))
        check_fits(runner, fresh, repr(self).strip("<>"))

    def _check_same_metrics(self, earlier: Metrics, hyperparams: object) -> None:
        """Raises unless a training that goes on has the metrics that it had, points first."""
        fresh = self._fresh_runner(hyperparams)
        key = "metrics", jax.tree.structure(fresh)
        point = programs_of(self).get(key, lambda it: it.program.shapes_of_metrics(fresh))
        check_same_metrics(earlier, point)

    def _fresh_runner(self, hyperparams: object) -> RunnerT:
        """A fresh runner, as shapes."""
        kind = self._hyperparams_type
        given = hyperparams if isinstance(hyperparams, kind) else kind()
        key = "fresh runner", jax.tree.structure(given)
        return programs_of(self).get(
            key, lambda it: jax.eval_shape(it.program.start, jax.random.key(0), given)
        )

    @compiled
    def env_reset(self, rng: Seed) -> tuple[RandomKey, PyTree, EpisodeState]:
        """Starts an episode.

        Args:
            rng: Random key, or its seed.

        Returns:
            A new random key, the first observation and the environment's state.
        """
        self.episodes.env.check_compiled()
        key = as_key(rng)
        new_rng, reset_rng = jax.random.split(rng if jnp.ndim(rng) else key)  # raw keys stay raw
        return new_rng, *self.episodes.reset(as_key(reset_rng))

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
