"""The base class of every agent: train, resume, restore, eval, sweep and more."""

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
    check_fits_on_error,
    check_same_metrics,
    select_run,
    with_networks_of,
)
from jaxagents.callbacks import Callback, Progress, as_callbacks
from jaxagents.checkpoints import records as checkpoint
from jaxagents.checkpoints.records import restore_members
from jaxagents.core import processes
from jaxagents.core.arrays import (
    RandomKey,
    Seed,
    as_key,
    as_keys,
    is_on_host,
    single_key,
    to_host,
)
from jaxagents.core.compilation import Programs, compiled, is_tracing, nan_is_allowed
from jaxagents.core.describe import describe
from jaxagents.core.fingerprint import fingerprint
from jaxagents.core.grid import Grid
from jaxagents.core.hyperparameters import Hyperparameters
from jaxagents.core.metrics import MetricDict, Metrics, MetricStats, RunResult
from jaxagents.core.names import missing_attribute, says_where_arguments_belong
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
from jaxagents.envs.on_host.environment import HostEnvironment
from jaxagents.envs.on_host.episodes import fitting_actions
from jaxagents.exporting import export_policy
from jaxagents.loggers import Logger, as_loggers


class Agent(Behaviour[ConfigT, HyperparametersT, RunnerT]):
    """Base class of all agents, with `train`, `restore`, `eval` and more.

    An agent is frozen: assigning to an attribute raises an error. Agents of one class with equal
    environments, parameters and configurations are equal and share compiled programs. A program stays
    in memory while such an agent is alive, or while it is among the eight most recently used. Agents
    that contain user code, such as an environment or a hook, compile their own. An agent holds no
    learned parameters: they are in the `Runner` that `train` takes and returns. For convenience, the
    agent remembers the last one.

    Each family of agents implements the hooks of
    [`Behaviour`][jaxagents.engine.behaviour.Behaviour]; its
    [`Program`][jaxagents.engine.program.Program] calls them.

    Attributes:
        env: The object passed to the constructor; for a name, or an environment on the host, an
            [`Environment`][jaxagents.envs.Environment].
        env_params: The environment's parameters.
        config: The static configuration.
        eval_during_training: Whether the agent is evaluated during training.
        n_actors: Number of actors in the environment.
        episodes: The environment with its time limit and resets.
        data: Arrays that updates read but never change, such as a dataset. Compiled programs take them
            as arguments and depend only on their shapes.
        split_fields: Fields of a runner to split across the devices of a mesh, along their first axis
            (environments).
        collects_at_start: Whether creating a runner steps the environments, for example to start
            filling a replay buffer.
    """

    _last: LastRun[RunnerT]

    @says_where_arguments_belong
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

        Outside `jax.jit` and `jax.vmap`, it shows progress, writes checkpoints and logs, returns the
        results so far on Ctrl-C, and leaves the agent ready for
        [`eval`][jaxagents.agents.agent.Agent.eval]. Inside them it is pure and does none of this.
        Inside `jax.jit` the learned parameters are the same, but metrics may be rounded differently.

        Args:
            rng: Random key of a fresh run, or an integer seed for `jax.random.key`. Ignored when
                continuing from a runner.
            hyperparams: Hyperparameters; `None` uses the defaults, or keeps the runner's.
            runner: The runner to continue from. Its arrays are loaded into this agent's networks and
                optimizers. If it is the agent's `training_runner`, or a copy of it, the metrics continue
                too, even with different hyperparameters.
            n_steps: Number of updates; `config.n_steps` by default.
            progress: Whether to show progress: by default, only outside `jit` and `vmap`. Inside them,
                `True` shows a jax-tqdm bar (single device only).
            loggers: Loggers that receive the mean metrics of each evaluation point. Not inside `jit` or
                `vmap`.
            mesh: Devices that share the run, such as
                [`make_mesh()`][jaxagents.sharding.make_mesh]: environments are split along the axis
                `"data"`. Not inside `jit` or `vmap`.
            callbacks: Callbacks, which watch the run and may stop it: each is a
                [`Callback`][jaxagents.callbacks.Callback], or a function of a
                [`Progress`][jaxagents.callbacks.Progress], called after each evaluation. Not inside
                `jit` or `vmap`.

        Returns:
            The final runner, and metrics with a leading axis of evaluation points, starting before the
            first update: `update_step`, the losses, and, if `eval_during_training`, `returns` and
            `final_rewards` (points, episodes, *actors), `terminated`, `truncated` and `lengths`
            (points, episodes).

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: A hyperparameter is out of range or an array, there are several random keys, the
                runner was donated to `advance` or belongs to a different agent, or the devices of the
                mesh cannot share the work equally.
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
                    raise ValueError(f"Inside jit or vmap, train takes no {what}: call it outside.")
            return RunResult.of(*OnDevice(self).train(key, hyperparams, runner, n_steps, shown))
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
        """`train` outside tracing; with zero updates, it only evaluates."""
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
                own = runner if runner is self.training_runner else with_networks_of(self, runner)
                runner = executor.place(self._refill_missing(own))
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
        return RunResult.of(*outcome)

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
        """Trains up to a total of `config.n_steps` updates, from the last checkpoint if there is one.

        You can rerun the same script until its run is complete. Needs `restore_agent=True` in the
        configuration.

        Args:
            rng: Random key or seed, as for a fresh run. If there are checkpoints, it must be the one
                that the run started with.
            hyperparams: Hyperparameters; `None` uses the checkpoint's, or else the defaults.
            progress: Whether to show progress.
            loggers: Loggers that receive the mean metrics of each evaluation point.
            mesh: Devices that share the run; their number may change between runs.
            callbacks: Callbacks, which watch the run and may stop it; see `train`.

        Returns:
            The final runner, and the metrics of the whole run.

        Raises:
            ValueError: There is no `checkpoint_dir`, or its run started with a different random key;
                see also `train`.
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
        return RunResult.of(self._last.usable_runner, self.training_metrics or {})

    def sweep(
        self,
        rngs: RandomKey | Sequence[int],
        hyperparams: HyperparametersT | None = None,
        *,
        n_steps: int | None = None,
        progress: bool = True,
        callbacks: Sequence[Callback | Callable[[Progress], bool | None]] = (),
    ) -> SweepResult:
        """Trains every seed with every set of hyperparameters, in parallel on all cores or accelerators.

        On a CPU, each member is bit-for-bit identical to a single run of `train`.

        With a `checkpoint_dir` in the configuration, the sweep writes checkpoints and metrics to its
        subfolder `sweep`. With `restore_agent=True`, it continues from the last checkpoint, if there
        is one, as `resume` does for a single run.

        Args:
            rngs: Random keys with a leading axis of seeds, or a sequence of integers, such as `[0, 1]`.
            hyperparams: Hyperparameters whose array leaves share a leading axis of sets; scalar leaves
                apply to all sets. `None` uses the defaults, as one set.
            n_steps: Total number of updates; `config.n_steps` by default.
            progress: Whether to show progress.
            callbacks: Callbacks, which watch all members at once and may stop the sweep; see `train`.

        Returns:
            Runners and metrics with leading axes `(n_sets, n_seeds)`, and the best set.

        Raises:
            ValueError: The leading axes do not match, a value is out of range, or the checkpoints
                belong to different seeds, sets or agents.
            FileExistsError: There are checkpoints, but `restore_agent` is not set; or another process
                is writing to the folder.
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
        """Loads a checkpoint from `config.checkpoint_dir`, which makes the agent ready for `eval`.

        To continue training from there, call `agent.train(runner=runner)`.

        Args:
            mode: `"best"`, `"last"`, or the number of an update step.
            best_fn: Maps the metrics at the kept checkpoints to the index of the best one; by default,
                the highest mean return. Only with `"best"`.
            hyperparams: Hyperparameters with the same structure as the saved ones; only needed for
                custom types.
            strict: Whether to reject a checkpoint whose networks have the same arrays but compute
                something else, for example with another activation, or that was trained with different
                environment parameters. `False` only warns.

        Returns:
            The runner, and the metrics of the run up to that checkpoint.

        Raises:
            TypeError: `mode`, `best_fn` or `strict` has the wrong type.
            FileNotFoundError: There is no checkpoint, or none at that step.
            ValueError: The checkpoint belongs to a different agent, environment or network.
        """
        if isinstance(mode, bool) or not (isinstance(mode, str) or hasattr(mode, "__index__")):
            raise TypeError(
                f"restore takes 'best', 'last' or the number of an update, got {mode!r}."
            )
        if not (best_fn is None or callable(best_fn)):
            raise TypeError(
                "best_fn must be a function of metrics, such as lambda metrics: "
                f"metrics['returns'].mean(-1).argmax(), got {best_fn!r}."
            )
        given, strict = self._hyperparams(hyperparams), flag("strict", strict)
        runner, metrics = checkpoint.restore(self, mode, best_fn, given, strict)
        self.collect_training(runner, metrics)
        return RunResult.of(runner, metrics)

    def replay(
        self, step: int, n_updates: int = 1, hyperparams: HyperparametersT | None = None
    ) -> Replay:
        """Replays part of a run from the nearest checkpoint, update by update.

        Runs are bit-for-bit reproducible on the same machine, so this shows exactly what happened. The
        run that the agent remembers is unchanged.

        ```python
        stretch = agent.replay(1200, n_updates=50)
        print(stretch.metrics["actor_gradient_norm"], stretch.not_finite_since)
        ```

        Args:
            step: Number of updates before the replayed part.
            n_updates: Number of updates to replay.
            hyperparams: Hyperparameters with the same structure as the saved ones; only needed for
                custom types.

        Returns:
            The runner, the metrics of each update, and the update at which values became non-finite, if
            any.

        Raises:
            FileNotFoundError: There is no checkpoint at `step` or earlier.
            ValueError: The checkpoints lack their replay buffers, or belong to a different agent.
        """
        step, n_updates = not_negative("step", step), positive("n_updates", n_updates)
        return replay(self, step, n_updates, self._hyperparams(hyperparams))

    @says_where_arguments_belong
    def eval(self, rng: Seed, n_evals: int = 32, *, deterministic: bool = True) -> MetricDict:
        """Plays episodes with the trained or restored agent.

        Args:
            rng: Random key or seed.
            n_evals: Number of episodes.
            deterministic: Whether to take greedy actions instead of sampled ones (epsilon-greedy in DQN
                and its variants).

        Returns:
            `returns` (NaN where observations or rewards were non-finite) and `final_rewards`
            (n_evals, *actors), `terminated`, `truncated` and `lengths` (n_evals,), and any metrics
            that `_eval_metrics` adds.

        Raises:
            TypeError: `n_evals` is not an integer, or `deterministic` not a boolean.
            ValueError: `n_evals` is not positive, or the agent's runner was donated to `advance`.
            RuntimeError: The agent has not been trained.
        """
        n_evals, deterministic = positive("n_evals", n_evals), flag("deterministic", deterministic)
        runner = self._last.usable_runner
        acting, moment = self._acting(runner), self.moment(runner)
        key = single_key(rng, "eval")
        return MetricDict(
            _executor_of(self).player.play(key, acting, n_evals, deterministic, moment)
        )

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
        """Records a video of one episode of the trained or restored agent.

        It is the episode that `eval(rng, n_evals=1)` plays, drawn by the environment's
        [`render`][jaxagents.envs.Environment.render].

        ```python
        agent.render_episode(0, "episode.gif")
        ```

        Args:
            rng: Random key or seed.
            path: The file to write, ending in `.gif` or `.mp4`; it must not exist yet. By default, no
                file is written.
            max_steps: Maximum number of steps in the video.
            deterministic: Whether to take greedy actions, as in `eval`.
            fps: Steps per second of video; by default the environment's `render_fps`. Above 50, a GIF
                drops frames to play at the right speed.
            runner: The runner to use instead of the trained or restored one, for example from a
                [`replay`][jaxagents.agents.agent.Agent.replay].

        Returns:
            RGB frames (uint8): the initial state, then one per step. Notebooks show them as a video.

        Raises:
            NotImplementedError: The environment cannot render.
            TypeError: `deterministic` is not a boolean, or `runner` is not a runner of this agent class.
            ValueError: `path` has an unsupported extension, a number is not positive, or the runner was
                donated to `advance` or does not fit, such as a stack of several seeds.
            FileExistsError: The file exists.
            FileNotFoundError: The folder does not exist.
            ImportError: A library for drawing or for videos is not installed.
            RuntimeError: The agent has not been trained, and no runner is given.
        """
        deterministic, env = flag("deterministic", deterministic), self.episodes.env
        rate = env.render_fps if fps is None else fps
        check_can_film(env, path, rate)
        longest = min(positive("max_steps", max_steps), self.episodes.max_steps)
        playing = self._last.usable_runner if runner is None else runner
        key = single_key(rng, "render_episode")
        with check_fits_on_error(self, playing):
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
        """Writes the trained or restored policy to one file that can be used without the agent.

        [`load_policy`][jaxagents.load_policy] reads it. The safetensors file holds the policy's weights
        under `weights/...` and its program as serialised by `jax.export`.

        The exported policy takes observations without `"critic_state"`, which only centralised critics
        read.

        Args:
            path: The file, such as `policy.safetensors`.

        Raises:
            ValueError: The file has an extension other than `.safetensors`, or the agent's runner was
                donated to `advance`.
            FileExistsError: The file exists.
            FileNotFoundError: The folder does not exist.
            ImportError: safetensors is not installed.
            RuntimeError: The agent has not been trained.
        """
        acting = jax.device_get(self._acting(self._last.usable_runner))
        names = {"agent": type(self).__name__, "environment": self.episodes.env.name}
        carry = self.initial_carry(acting)
        export_policy(path, self.behaviour.act, acting, carry, self._observation, names)

    def summarize(self, metric: ArrayLike) -> MetricStats:
        """Computes statistics of a metric over its last axis.

        Args:
            metric: Any metric, such as `metrics["returns"]`.

        Returns:
            The statistics.
        """
        return MetricStats.of(metric)

    def log_hyperparams(self, hyperparams: Hyperparameters) -> str:
        """Describes hyperparameters, and writes the description to `checkpoint_dir` if there is one.

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
        """Stores a runner and its metrics in the agent, as `train` does outside `jit`.

        Args:
            runner: Runner of a single run (not a stack of several).
            metrics: Its metrics, or `{}`.
            previous_training_max_step: Number of updates made; by default, the runner's own count.

        Raises:
            TypeError: `runner` is not a runner, or `metrics` not a dict.
            ValueError: The runner or the metrics are stacks of several runs, or the metrics come from
                no run.
        """
        self._last.note(runner, metrics, previous_training_max_step)

    def select(
        self, trainings: tuple[RunnerT, Metrics] | SweepResult, *index: int
    ) -> RunResult[RunnerT]:
        """Selects one of several runs, and stores it in the agent.

        ```python
        result = agent.sweep(keys, sets)
        agent.select(result, result.best, 0)  # the first seed of the best set
        agent.eval(key)
        ```

        Args:
            trainings: Runners and metrics with leading axes, as returned by `sweep` or
                `jax.vmap(agent.train)`.
            *index: Position along each of these axes; for a sweep, the set and the seed.

        Returns:
            The runner and the metrics of that run.

        Raises:
            TypeError: The first argument is not a tuple of runners and metrics.
            IndexError: There is no such run, or the number of positions differs from the number of axes.
        """
        runner, metrics = select_run(trainings, index)
        self.collect_training(runner, metrics)
        return RunResult.of(runner, metrics)

    @property
    def agent_trained(self) -> bool:
        """Whether the agent remembers a run."""
        return self._last.runner is not None

    @property
    def training_runner(self) -> RunnerT | None:
        """The runner of the last run; `None` before any run."""
        return self._last.runner

    @property
    def training_metrics(self) -> MetricDict | None:
        """A copy of the metrics of the last run, including the runs that it continued."""
        metrics = self._last.metrics
        return None if metrics is None else MetricDict(metrics)

    @property
    def previous_training_max_step(self) -> int:
        """Number of updates that the last runner has made; zero before any run."""
        return self._last.n_updates

    @property
    def eval_steps_in_training(self) -> np.ndarray | None:
        """The update step of each evaluation point in `training_metrics`."""
        metrics = self._last.metrics
        return None if metrics is None else metrics["update_step"]

    def start(self, rng: Seed, hyperparams: HyperparametersT | None = None) -> RunnerT:
        """Creates a fresh runner.

        Args:
            rng: Random key or seed.
            hyperparams: Hyperparameters; `None` uses the defaults.

        Returns:
            The runner before any update.

        Raises:
            TypeError: An argument has the wrong type.
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
            The runner with the new hyperparameters.

        Raises:
            TypeError: The runner or the hyperparameters belong to a different agent class.
            ValueError: The runner was donated to `advance` or does not fit, or a hyperparameter is out
                of range or an array.
        """
        hyperparams = self._hyperparams(hyperparams)
        with check_fits_on_error(self, runner):
            return _executor_of(self).restart(runner, hyperparams)

    def advance(self, runner: RunnerT, n_updates: ArrayLike) -> RunnerT:
        """Runs a number of updates.

        Args:
            runner: Any runner. Its arrays are donated: continue with the returned runner, or pass a
                copy, `jax.tree.map(jnp.copy, runner)`. Anything that a checkpoint left out, as with
                `checkpoint_buffer=False`, is recreated, as in `train`.
            n_updates: Number of updates; changing it does not recompile.

        Returns:
            The runner after the updates.

        Raises:
            TypeError: The runner belongs to a different agent class, or `n_updates` is not an integer.
            ValueError: The runner was already donated or does not fit, or `n_updates` is negative.
        """
        if not isinstance(n_updates, jax.Array):
            not_negative("n_updates", cast(SupportsIndex, n_updates))
        with check_fits_on_error(self, runner):
            return _executor_of(self).advance(self._refill_missing(runner), n_updates)[0]

    def evaluate(self, runner: RunnerT) -> Metrics:
        """Computes the metrics of one evaluation point.

        Args:
            runner: Any runner.

        Returns:
            The update step, the losses of the last update and, if `eval_during_training`, the
            metrics of `config.n_evals` greedy episodes.

        Raises:
            TypeError: The runner belongs to a different agent class.
            ValueError: The runner was donated to `advance`, or does not fit.
        """
        with check_fits_on_error(self, runner):
            return _executor_of(self).evaluate(runner)

    @compiled
    def env_reset(self, rng: Seed) -> tuple[RandomKey, PyTree, EpisodeState]:
        """Starts an episode.

        Args:
            rng: Random key or seed.

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
            actions: One action, or one per actor.

        Returns:
            A new random key, the next observation, state, reward, whether the episode ended, and the
            environment's info dict with `terminated`, `truncated` and `final_observation` added.
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

    def _action_as_trained(self, obs: PyTree) -> PyTree:
        """The greedy action of the trained agent: for NumPy observations, as `env.step` takes it."""
        acting, env = self._acting(self._last.usable_runner), self.episodes.env
        if isinstance(obs, list) or not is_on_host(obs):
            return self.policy(acting, obs)
        if isinstance(env, HostEnvironment):
            action = self._greedy_action(acting, env.to_agent(obs, self._observation))
            return action if is_tracing(action) else env.from_agent(obs, action)
        action = to_host(self._greedy_action(acting, obs))
        space = self.episodes.action_space
        return action if space is None or is_tracing(action) else fitting_actions(space, action)

    @compiled
    def _greedy_action(self, acting: PyTree, obs: PyTree) -> PyTree:
        return self.policy(acting, obs)

    if not TYPE_CHECKING:  # a type checker would believe that any attribute exists

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name)

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
    """The agent's executor: `OnHost` if its environments are stepped on the host, else `OnDevice`."""
    plays_on_host = agent.episodes.env.on_host and agent.host_collection is not None
    return OnHost(agent) if plays_on_host else OnDevice(agent)
