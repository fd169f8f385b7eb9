"""The base of every agent: train, resume, restore, eval, sweep and the rest of its life."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, ArrayLike, Bool, Float, PyTree, UInt8

from jaxagents.agents.last_run import (
    LastRun,
    as_own,
    check_same_metrics,
    naming_misfits,
    select_run,
)
from jaxagents.callbacks import Callback, Progress, as_callbacks
from jaxagents.checkpoints import records as checkpoint
from jaxagents.checkpoints.records import restore_members
from jaxagents.core import processes
from jaxagents.core.arrays import RandomKey, Seed, as_key, as_keys, single_key
from jaxagents.core.compilation import Programs, compiled, is_tracing, nan_is_allowed
from jaxagents.core.describe import describe
from jaxagents.core.fingerprint import fingerprint
from jaxagents.core.grid import Grid
from jaxagents.core.hyperparameters import Hyperparameters
from jaxagents.core.metrics import Metrics, MetricStats, RunResult
from jaxagents.core.names import METHODS, missing_attribute, named_elsewhere
from jaxagents.core.numbers import flag, not_negative, positive
from jaxagents.engine import run, sweep
from jaxagents.engine.behaviour import Behaviour, ConfigT, without_files
from jaxagents.engine.executors import OnDevice, OnMesh
from jaxagents.engine.host import OnHost
from jaxagents.engine.loop import Interruption
from jaxagents.engine.program import HyperparametersT, RunnerT
from jaxagents.engine.run import Replay, replay
from jaxagents.engine.sweep import SweepResult
from jaxagents.envs.drawings import Frames, check_can_film, draw_states, write_film
from jaxagents.envs.episodes import EpisodeState
from jaxagents.exporting import export_policy
from jaxagents.loggers import Logger, as_loggers


class Agent(Behaviour[ConfigT, HyperparametersT, RunnerT]):
    """Behaviour in an environment, with the lifecycle train, restore, eval and summarize.

    An agent is frozen: assigning to an attribute raises once its constructor has run. Agents of one
    class with equal environments, parameters and configurations are equal and share compiled
    programs, as long as one of them is held, or is among the eight whose programs were used last. Agents
    with code of their user in them, such as an environment or a hook, have programs of their own. What
    is learned is not part of the agent but of the `Runner`, which training takes and returns; for
    convenience the agent remembers the last one.

    A family of agents fills in the hooks of [`Behaviour`][jaxagents.engine.behaviour.Behaviour]; its
    [`Program`][jaxagents.engine.program.Program] calls them.

    Attributes:
        env: The environment, as it was given.
        env_params: Its parameters.
        config: The static configuration.
        eval_during_training: Whether the agent is evaluated during training.
        n_actors: Number of actors in the environment.
        episodes: The environment with its time limit and resets.
        data: Arrays that updates read and never change, such as a dataset. Compiled programs are
            given them, and depend on their shapes alone.
        split_fields: Fields of a runner whose arrays have a first axis of environments, over which the
            devices of a mesh split them.
        collects_at_start: Whether fresh runners have played in the environment, which is a loop.
    """

    _last: LastRun[RunnerT]

    @named_elsewhere(
        total_timesteps="give it to the configuration, or n_steps updates to train",
        callback="give a list of callbacks, callbacks=[...]",
        seed="the first argument is the seed, train(0)",
        progress_bar="it is progress",
        tb_log_name="loggers=[TensorBoardLogger(folder)] writes for TensorBoard",
        log_interval="eval_frequency in the configuration says how often metrics are logged",
    )
    def train(
        self,
        rng: Seed | None = None,
        hyperparams: HyperparametersT | None = None,
        runner: RunnerT | None = None,
        *,
        n_steps: int | None = None,
        progress: bool | None = None,
        loggers: Sequence[Logger] = (),
        mesh: Mesh | None = None,
        callbacks: Sequence[Callback | Callable[[Progress], bool | None]] = (),
    ) -> RunResult[RunnerT]:
        """Trains for `config.n_steps` updates.

        Called plainly, it shows progress, writes checkpoints and logs, returns what it has on
        Ctrl-C, and leaves the agent ready for [`eval`][jaxagents.agents.agent.Agent.eval]. Called
        inside of `jax.jit` or `jax.vmap` it is pure and does none of that. Inside of `jax.jit`, what
        is learned is the same, and its reports may be rounded otherwise.

        Args:
            rng: Random key of a fresh training, or its seed: an integer, which stands for
                `jax.random.key` of it. Not used when going on from a runner.
            hyperparams: Hyperparameters; `None` takes the default ones, or keeps the runner's.
            runner: Where to go on from: its arrays, in the networks and with the optimizers of this
                agent. At the end of the training that the agent remembers, be it with other
                hyperparameters, the metrics that it keeps and saves go on as well.
            n_steps: Number of updates, if other than `config.n_steps`.
            progress: Whether to show progress: by default plainly, but not inside of `jit` or
                `vmap`, where `True` gives a jax-tqdm bar (single device only).
            loggers: Receive the mean metrics of each evaluation point; not inside of `jit` or
                `vmap`.
            mesh: Devices that share the training, such as
                [`make_mesh()`][jaxagents.sharding.make_mesh]: the axis `"data"` splits environments.
                Not inside of `jit` or `vmap`.
            callbacks: Are told how the training goes, and may end it: each a
                [`Callback`][jaxagents.callbacks.Callback], or a function of a
                [`Progress`][jaxagents.callbacks.Progress] that is called after each evaluation. Not
                inside of `jit` or `vmap`.

        Returns:
            The final runner, and metrics with a leading axis of evaluation points, the first of
            them before any update: `update_step`, the losses, and, if `eval_during_training`,
            `returns`, `final_rewards` (points, episodes, *actors), `terminated`, `truncated`,
            `lengths` (points, episodes).

        Raises:
            TypeError: An argument is of another type.
            ValueError: A hyperparameter is out of range or an array, there are several random keys, the
                runner is used up or of another agent, or the devices of the mesh cannot share the work
                equally.
            FileExistsError: The checkpoint folder holds checkpoints of later updates.
        """
        n_steps = positive("n_steps", self.config.n_steps if n_steps is None else n_steps)
        key = None if runner is not None else single_key(rng, "train")
        if runner is None or hyperparams is not None:
            hyperparams = self._hyperparams(hyperparams)
        is_traced = is_tracing((key, hyperparams, runner))
        shown = flag("progress", not is_traced if progress is None else progress)
        if is_traced:
            plain = ("callbacks", callbacks), ("loggers", loggers), ("mesh", mesh is not None)
            for what, is_given in plain:
                if is_given:
                    raise ValueError(
                        f"Inside of jit or vmap, train takes no {what}: call it plainly."
                    )
            return RunResult(*OnDevice(self).train(key, hyperparams, runner, n_steps, shown))
        return self._train(key, hyperparams, runner, n_steps, shown, loggers, mesh, callbacks)

    def _train(
        self,
        key: RandomKey | None,
        hyperparams: HyperparametersT | None,
        runner: RunnerT | None,
        n_steps: int,
        progress: bool,
        loggers: Sequence[Logger],
        mesh: Mesh | None,
        callbacks: Sequence[Callback | Callable[[Progress], bool | None]],
    ) -> RunResult[RunnerT]:
        """`train`, where it is not traced; with no updates to make, it only evaluates."""
        loggers, callbacks = as_loggers(loggers), as_callbacks(callbacks)
        if mesh is not None:
            self.episodes.env.check_compiled()
        executor = _executor_of(self) if mesh is None else OnMesh(self, mesh)
        earlier = None if runner is None else self._last.metrics_until(runner, self)
        first_key = key if runner is None else None
        with Interruption() as interruption, executor.keeps_environments():
            if runner is None:
                key = single_key(key, "train")
                executor.compile(key, hyperparams)
                runner = executor.start(key, hyperparams)
            else:
                own = runner if runner is self.training_runner else as_own(self, runner)
                runner = executor.place(self._complete(own))
                if hyperparams is not None:
                    runner = _executor_of(self).restart(runner, hyperparams)
            outcome = run.train(
                self,
                executor,
                runner,
                earlier,
                n_steps,
                progress,
                loggers,
                callbacks,
                interruption,
                first_key,
            )
        return RunResult(*outcome)

    def resume(
        self,
        rng: Seed,
        hyperparams: HyperparametersT | None = None,
        *,
        progress: bool = True,
        loggers: Sequence[Logger] = (),
        mesh: Mesh | None = None,
        callbacks: Sequence[Callback | Callable[[Progress], bool | None]] = (),
    ) -> RunResult[RunnerT]:
        """Makes the missing updates of `config.n_steps`, from the last checkpoint if there is one.

        The same script can so be started again until its training is complete. Needs
        `restore_agent=True` in the configuration.

        Args:
            rng: Random key, or its seed, as for a fresh training. Where there are checkpoints, the
                training must have begun with it.
            hyperparams: Hyperparameters; `None` takes the default ones, or the checkpoint's.
            progress: Whether to show progress.
            loggers: Receive the mean metrics of each evaluation point.
            mesh: Devices that share the training; they need not be as many as before.
            callbacks: Are told how the training goes, and may end it; see `train`.

        Returns:
            The final runner, and the metrics of the whole training.

        Raises:
            ValueError: There is no `checkpoint_dir`, or its training began with another random key; or
                see `train`.
        """
        progress = flag("progress", progress)
        if self.config.checkpoint_dir is None:
            raise ValueError(
                "resume needs a checkpoint_dir in the configuration, with restore_agent=True; without "
                "one, call train."
            )
        key, runner = None if rng is None else single_key(rng, "resume"), None
        if checkpoint.saved_steps(self.config.checkpoint_dir):
            checkpoint.check_first_key(self.config.checkpoint_dir, key)
            runner, _ = self.restore("last", hyperparams=hyperparams)
        else:
            hyperparams = self._hyperparams(hyperparams)
        missing = self.config.n_steps - (0 if runner is None else int(runner.update_step))
        if missing > 0 or (missing == 0 and not self._last.is_evaluated):
            self._train(key, hyperparams, runner, missing, progress, loggers, mesh, callbacks)
        return RunResult(self._last.usable_runner, self.training_metrics or {})

    def sweep(
        self,
        rngs: RandomKey | Sequence[int],
        hyperparams: HyperparametersT | None = None,
        *,
        n_steps: int | None = None,
        progress: bool = True,
        callbacks: Sequence[Callback | Callable[[Progress], bool | None]] = (),
    ) -> SweepResult:
        """Trains every seed with every set of hyperparameters, over all cores or accelerators.

        On a CPU each member is bit for bit the training that `train` makes alone.

        With a `checkpoint_dir` in the configuration, the sweep keeps checkpoints and metrics in the
        folder `sweep` there. With `restore_agent=True` it makes the missing updates, from
        the last checkpoint if there is one, as `resume` does for one training.

        Args:
            rngs: Random keys with a leading axis of seeds, or a sequence of integers, such as `[0, 1]`.
            hyperparams: Hyperparameters, whose array leaves have a common leading axis of sets;
                scalar leaves are shared by all sets. `None` takes the default ones, as one set.
            n_steps: Number of updates in all, if other than `config.n_steps`.
            progress: Whether to show progress.
            callbacks: Are told of all members at once, and may end the sweep; see `train`.

        Returns:
            Runners and metrics with leading axes `(n_sets, n_seeds)`, and the best set.

        Raises:
            ValueError: The leading axes do not fit together, a value is out of range, or the checkpoints
                are of other seeds, sets, or another agent.
            FileExistsError: There are checkpoints, but `restore_agent` is not set; or something else is
                writing to the folder.
        """
        self.episodes.env.check_compiled()
        hyperparams = self._hyperparams(hyperparams, several=True)
        callbacks, progress = as_callbacks(callbacks), flag("progress", progress)
        n_steps = positive("n_steps", self.config.n_steps if n_steps is None else n_steps)
        grid = Grid.of(as_keys(rngs), hyperparams)
        earlier = restore_members(self, grid)
        if earlier is not None:
            metrics, runner = sweep.first_member(earlier, grid)
            check_same_metrics(self, metrics, runner)
        return sweep.sweep(self, grid, earlier, n_steps, progress, callbacks)

    @nan_is_allowed
    def restore(
        self,
        mode: str | int = "best",
        best_fn: Callable[[Metrics], ArrayLike] | None = None,
        hyperparams: HyperparametersT | None = None,
        *,
        strict: bool = True,
    ) -> RunResult[RunnerT]:
        """Reads a checkpoint of `config.checkpoint_dir` and leaves the agent ready for `eval`.

        Going on from there is `agent.train(runner=runner)`.

        Args:
            mode: `"best"`, `"last"`, or the number of an update step.
            best_fn: Maps the metrics at the kept checkpoints to the index of the best; by default
                the highest mean return. Only with `"best"`.
            hyperparams: Hyperparameters structured as the saved ones; only needed for types of
                one's own.
            strict: Whether to refuse a checkpoint of networks that have the same arrays but compute
                something else, such as with another activation, or that was made with other parameters
                of the environment; otherwise a warning tells the difference.

        Returns:
            The runner, and the history of metrics up to it.

        Raises:
            TypeError: `mode`, `best_fn` or `strict` is of another type.
            FileNotFoundError: There is no checkpoint, or none at that step.
            ValueError: The checkpoint is of another agent, environment or network.
        """
        if isinstance(mode, bool) or not (isinstance(mode, str) or hasattr(mode, "__index__")):
            raise TypeError(
                f"restore takes 'best', 'last' or the number of an update step, got {mode!r}."
            )
        if not (best_fn is None or callable(best_fn)):
            raise TypeError(
                f"best_fn must be a function of metrics, got {best_fn!r}: such as "
                "lambda metrics: metrics['returns'].mean(-1).argmax()."
            )
        given, strict = self._hyperparams(hyperparams), flag("strict", strict)
        runner, metrics = checkpoint.restore(self, mode, best_fn, given, strict)
        self.collect_training(runner, metrics)
        return RunResult(runner, metrics)

    def replay(
        self, step: int, n_updates: int = 1, hyperparams: HyperparametersT | None = None
    ) -> Replay:
        """Makes a stretch of a training once more, from the nearest checkpoint, update by update.

        Trainings are the same bit for bit when they are repeated on the same machine, so that this shows
        what happened. The agent remembers the training as before.

        ```python
        stretch = agent.replay(1200, n_updates=50)
        print(stretch.metrics["actor_gradient_norm"], stretch.not_finite_since)
        ```

        Args:
            step: Number of updates made before the stretch.
            n_updates: Number of updates in it.
            hyperparams: Hyperparameters structured as the saved ones; only needed for types of one's
                own.

        Returns:
            Its runner, the reports of its updates, and since when numbers are not finite.

        Raises:
            FileNotFoundError: No checkpoint was made so early, or it is no longer kept.
            ValueError: The checkpoints were made without their replay buffers, or are of another agent.
        """
        step, n_updates = not_negative("step", step), positive("n_updates", n_updates)
        return replay(self, step, n_updates, self._hyperparams(hyperparams))

    @named_elsewhere(
        n_eval_episodes="it is n_evals",
        n_episodes="it is n_evals",
        seed="the first argument is the seed, eval(0)",
        render="render_episode films an episode",
    )
    def eval(self, rng: Seed, n_evals: int = 32, *, deterministic: bool = True) -> Metrics:
        """Plays episodes with the agent as trained or restored.

        Args:
            rng: Random key, or its seed.
            n_evals: Number of episodes.
            deterministic: Whether to take greedy actions, rather than to draw them from the policy (of
                DQN and its like: epsilon-greedily).

        Returns:
            `returns` (NaN where observations or rewards were not finite), `final_rewards`
            (n_evals, *actors), `terminated`, `truncated`, `lengths` (n_evals,), and what
            `_eval_metrics` adds.

        Raises:
            TypeError: `n_evals` is no integer, or `deterministic` no boolean.
            ValueError: `n_evals` is not positive, or `advance` has used up the agent's runner.
            RuntimeError: The agent has not been trained.
        """
        n_evals, deterministic = positive("n_evals", n_evals), flag("deterministic", deterministic)
        runner = self._last.usable_runner
        acting, moment = self._acting(runner), self.moment(runner)
        key = single_key(rng, "eval")
        return _executor_of(self).player.play(key, acting, n_evals, deterministic, moment)

    def render_episode(
        self,
        rng: Seed,
        path: str | os.PathLike | None = None,
        *,
        max_steps: int = 1_000,
        deterministic: bool = True,
        fps: float | int | None = None,
        runner: RunnerT | None = None,
    ) -> UInt8[np.ndarray, "time height width 3"]:
        """Films an episode of the agent as trained or restored.

        It is the episode that `eval(rng, n_evals=1)` plays, in a compiled program; its states are drawn
        afterwards, by the [`render`][jaxagents.envs.Environment.render] of the environment.

        ```python
        agent.render_episode(0, "episode.gif")
        ```

        Args:
            rng: Random key, or its seed.
            path: The file to write, which must not exist; it ends in `.gif` or `.mp4`. None is written
                by default.
            max_steps: Number of steps after which the film ends, if the episode has not.
            deterministic: Whether to take greedy actions, as in `eval`.
            fps: Steps a second of the film; by default the environment's `render_fps`. A GIF of more
                than 50 leaves out frames, so that time passes as it should.
            runner: The runner that plays, if other than as trained or restored, such as the runner of a
                [`replay`][jaxagents.agents.agent.Agent.replay].

        Returns:
            The frames, one for the start and one for each step: red, green and blue as bytes. A notebook
            plays them.

        Raises:
            NotImplementedError: The environment does not draw.
            TypeError: `deterministic` is no boolean, or `runner` no runner of such an agent.
            ValueError: `path` has another ending, a number is not positive, or the runner is used up or
                does not fit, such as a stack of several seeds.
            FileExistsError: The file exists.
            FileNotFoundError: Its folder does not exist.
            ImportError: A library is not installed.
            RuntimeError: The agent has not been trained, and no runner is given.
        """
        deterministic, env = flag("deterministic", deterministic), self.episodes.env
        rate = env.render_fps if fps is None else fps
        check_can_film(env, path, rate)
        longest = min(positive("max_steps", max_steps), self.episodes.max_steps)
        playing = self._last.usable_runner if runner is None else runner
        key = single_key(rng, "render_episode")
        with naming_misfits(self, playing):
            acting, moment = self._acting(playing), self.moment(playing)
            states, n_steps = _executor_of(self).player.record(
                key, acting, longest, deterministic, moment
            )
        frames = draw_states(env.at_update(*moment), states, 1 + int(n_steps))
        if path is not None:
            write_film(path, frames, rate)
        shown = frames.view(Frames)
        shown.fps = rate
        return shown

    def export_policy(self, path: str | os.PathLike) -> None:
        """Writes the policy as trained or restored to one file, which needs no agent to be used.

        [`load_policy`][jaxagents.load_policy] reads it. The file is one of safetensors, with the weights
        that the policy acts by under `weights/...`, and its program as `jax.export` gives it.

        What centralised critics see, the entry `"critic_state"`, is no part of the observations that it
        takes, since no actor reads it.

        Args:
            path: The file, such as `policy.safetensors`.

        Raises:
            ValueError: The name of the file has another ending, or `advance` has used up the agent's
                runner.
            FileExistsError: The file exists.
            FileNotFoundError: Its folder does not exist.
            ImportError: safetensors is not installed.
            RuntimeError: The agent has not been trained.
        """
        acting = jax.device_get(self._acting(self._last.usable_runner))
        names = {"agent": type(self).__name__, "environment": self.episodes.env.name}
        carry = self.initial_carry(acting)
        export_policy(path, self.behaviour.act, acting, carry, self._observation, names)

    def summarize(self, metric: ArrayLike) -> MetricStats:
        """Statistics of a metric over its last axis.

        Args:
            metric: Any metric, such as `metrics["returns"]`.

        Returns:
            The statistics.
        """
        return MetricStats.of(metric)

    def log_hyperparams(self, hyperparams: Hyperparameters) -> str:
        """Describes hyperparameters, and writes them beside the checkpoints if there is a folder.

        Args:
            hyperparams: Hyperparameters.

        Returns:
            A readable description.
        """
        if self.config.checkpoint_dir is not None and processes.leads():
            checkpoint.write_description(self.config.checkpoint_dir, "hyperparameters", hyperparams)
        return describe("Hyperparameters", hyperparams)

    def collect_training(
        self, runner: RunnerT, metrics: Metrics, previous_training_max_step: int | None = None
    ) -> None:
        """Makes the agent remember a runner and its metrics, as a plain `train` does by itself.

        Args:
            runner: Runner of one training (not a stack of several).
            metrics: Its metrics, or `{}`.
            previous_training_max_step: Number of updates made, if other than the runner's own
                count.

        Raises:
            TypeError: It is no runner, or the metrics are no dict.
            ValueError: The runner or the metrics are of several trainings, or of none.
        """
        self._last.note(runner, metrics, previous_training_max_step)

    def select(
        self, trainings: tuple[RunnerT, Metrics] | SweepResult, *index: int
    ) -> RunResult[RunnerT]:
        """Takes one training out of many, which the agent then remembers.

        ```python
        result = agent.sweep(keys, sets)
        agent.select(result, result.best, 0)  # the first seed of the best set
        agent.eval(key)
        ```

        Args:
            trainings: Runners and metrics with leading axes, as `sweep` or `jax.vmap(agent.train)` gives
                them.
            *index: Position along each of these axes; for a sweep, the set and the seed.

        Returns:
            The runner and the metrics of that training.

        Raises:
            TypeError: The trainings are missing.
            IndexError: There is no such training, or there are not as many positions as axes.
        """
        runner, metrics = select_run(trainings, index)
        self.collect_training(runner, metrics)
        return RunResult(runner, metrics)

    @property
    def agent_trained(self) -> bool:
        """Whether the agent remembers a training."""
        return self._last.runner is not None

    @property
    def training_runner(self) -> RunnerT | None:
        """The last runner."""
        return self._last.runner

    @property
    def training_metrics(self) -> Metrics | None:
        """A copy of the metrics of the last training, which begin with the trainings before it."""
        return self._last.metrics

    @property
    def previous_training_max_step(self) -> int:
        """Number of updates behind the last runner; zero before any training."""
        return self._last.n_updates

    @property
    def eval_steps_in_training(self) -> np.ndarray | None:
        """Update steps of the evaluation points of `training_metrics`."""
        metrics = self._last.metrics
        return None if metrics is None else metrics["update_step"]

    def start(self, rng: Seed, hyperparams: HyperparametersT | None = None) -> RunnerT:
        """Makes a fresh runner.

        Args:
            rng: Random key, or its seed.
            hyperparams: Hyperparameters; `None` takes the default ones.

        Returns:
            The runner before any update.

        Raises:
            TypeError: An argument is of another type.
            ValueError: There are several random keys, or a hyperparameter is out of range or an array.
        """
        hyperparams = self._hyperparams(hyperparams)
        return _executor_of(self).start(single_key(rng, "start"), hyperparams)

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
        hyperparams = self._hyperparams(hyperparams)
        with naming_misfits(self, runner):
            return _executor_of(self).restart(runner, hyperparams)

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> RunnerT:
        """Makes updates, in the memory of the runner that it is given.

        Args:
            runner: Any runner. Its arrays are used up: go on with the returned ones, or give a
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
        with naming_misfits(self, runner):
            return _executor_of(self).advance(self._complete(runner), n_updates)[0]

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
        with naming_misfits(self, runner):
            return _executor_of(self).evaluate(runner)

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
            rng: Random key, or its seed.
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

    if not TYPE_CHECKING:  # a type checker would believe that any attribute exists

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, METHODS)

    def _seal(self) -> None:
        if "episodes" not in vars(self):
            name = type(self).__name__
            raise TypeError(
                f"{name}.__init__ must call super().__init__(env, env_params, config), which makes the "
                "agent."
            )
        behaviour, may_change = without_files(self)
        if self.config.checkpoint_dir is not None:
            store = checkpoint.AgentStore(self.config.checkpoint_dir)
            store.check(may_be_filled=self.config.restore_agent)
        identities = [id(array) for array in jax.tree.leaves(self.data)]
        key = type(self), fingerprint({**vars(self), "data": identities})
        self.programs = Programs.of(behaviour, may_change)
        self._last = LastRun()
        self._key = key


def _executor_of(agent: Agent[Any, Any, RunnerT]) -> OnDevice[RunnerT]:
    """The programs of an agent: whole, or around environments that are stepped on the host."""
    plays_on_host = agent.episodes.env.on_host and agent.host_collection is not None
    return OnHost(agent) if plays_on_host else OnDevice(agent)
