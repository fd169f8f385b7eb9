"""The base of every agent: the lifecycle train, restore, eval and summarize, with memory and files."""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.sharding import Mesh
from jaxtyping import ArrayLike

from jaxagents.agents.behaviour import ConfigT, HyperparametersT, RunnerT
from jaxagents.agents.continuing import check_choice, check_not_used_up, is_at_end
from jaxagents.agents.habits import HABITS
from jaxagents.agents.trained import Trained
from jaxagents.callbacks import Callback, Progress, as_callbacks
from jaxagents.checkpoints import records as checkpoint
from jaxagents.checkpoints.sweep_records import restore_members
from jaxagents.core import processes
from jaxagents.core.attributes import missing_attribute
from jaxagents.core.compilation import is_tracing, nan_is_allowed
from jaxagents.core.describe import describe
from jaxagents.core.fingerprint import fingerprint
from jaxagents.core.grid import Grid
from jaxagents.core.hyperparameters import Hyperparameters
from jaxagents.core.keys import RandomKey, Seed, as_keys, single_key
from jaxagents.core.metrics import Metrics
from jaxagents.core.numbers import flag, not_negative, positive
from jaxagents.core.shared_programs import Programs
from jaxagents.loggers import Logger, as_loggers
from jaxagents.running import driver as training
from jaxagents.running import sweeps
from jaxagents.running.interruption import Interruption
from jaxagents.running.on_host import OnHost
from jaxagents.running.programs import OnDevice, OnMesh
from jaxagents.running.replay import Replay, replay
from jaxagents.running.sweeps import SweepResult
from jaxagents.running.where import program_of


class Agent(Trained[ConfigT, HyperparametersT, RunnerT]):
    """Behaviour in an environment, with the lifecycle train, restore, eval and summarize.

    An agent is frozen: assigning to an attribute raises once its constructor has run. Agents of one
    class with equal environments, parameters and configurations are equal and share compiled
    programs, as long as one of them is held, or is among the eight whose programs were used last. What
    is learned is not part of the agent but of the `Runner`, which training takes and returns; for
    convenience the agent remembers the last one.

    A family of agents fills in the hooks of its
    [`Behaviour`][jaxagents.agents.behaviour.Behaviour], of which its
    [`Program`][jaxagents.agents.program.Program] is made.

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
    ) -> tuple[RunnerT, Metrics]:
        """Trains for `config.n_steps` updates.

        Called plainly, it shows progress, writes checkpoints and logs, returns what it has on
        Ctrl-C, and leaves the agent ready for [`eval`][jaxagents.agents.agent.Agent.eval]. Called
        inside of `jax.jit` or `jax.vmap` it is pure and does none of that. Inside of `jax.jit`, what
        is learned is the same, and what is reported of it may be rounded otherwise.

        Args:
            rng: Random key of a fresh training, or its seed: an integer, which stands for
                `jax.random.key` of it. Not used when going on from a runner.
            hyperparams: Hyperparameters; `None` takes the default ones, or keeps those of the runner.
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
        if runner is None:
            hyperparams = self._or_default(hyperparams)
        is_traced = is_tracing((key, hyperparams, runner))
        shown = flag("progress", not is_traced if progress is None else progress)
        if is_traced:
            plain = {
                "callbacks": bool(callbacks),
                "loggers": bool(loggers),
                "mesh": mesh is not None,
            }
            what = next((name for name, is_given in plain.items() if is_given), None)
            if what is not None:
                raise ValueError(f"Inside of jit or vmap, train takes no {what}: call it plainly.")
            return OnDevice(self).train(key, hyperparams, runner, n_steps, shown)
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
    ) -> tuple[RunnerT, Metrics]:
        """`train`, where it is not traced; with no updates to make, it only evaluates."""
        if hyperparams is not None:
            self._check_hyperparams(hyperparams)
        loggers, callbacks = as_loggers(loggers), as_callbacks(callbacks)
        if mesh is not None:
            self.episodes.env.check_compiled()
        program = program_of(self) if mesh is None else OnMesh(self, mesh)
        earlier = None if runner is None else self._earlier_metrics(runner)
        first_key = key if runner is None else None
        with Interruption() as interruption:
            runner = self._starting_point(key, hyperparams, runner, program)
            return training.train(
                self,
                program,
                runner,
                earlier,
                n_steps,
                progress,
                loggers,
                callbacks,
                interruption,
                first_key,
            )

    def resume(
        self,
        rng: Seed,
        hyperparams: HyperparametersT | None = None,
        *,
        progress: bool = True,
        loggers: Sequence[Logger] = (),
        mesh: Mesh | None = None,
        callbacks: Sequence[Callback | Callable[[Progress], bool | None]] = (),
    ) -> tuple[RunnerT, Metrics]:
        """Makes what is missing of `config.n_steps` updates, from the last checkpoint if there is one.

        The same script can so be started again until its training is complete. Needs
        `restore_agent=True` in the configuration.

        Args:
            rng: Random key, or its seed, as for a fresh training. Where there are checkpoints, the
                training must have begun with it.
            hyperparams: Hyperparameters; `None` takes the default ones, or keeps those of the
                checkpoint.
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
            hyperparams = self._or_default(hyperparams)
        missing = self.config.n_steps - (0 if runner is None else int(runner.update_step))
        if missing > 0 or (missing == 0 and not self._is_evaluated()):
            self._train(key, hyperparams, runner, missing, progress, loggers, mesh, callbacks)
        return self._trained_runner(), self.training_metrics or {}

    def _is_evaluated(self) -> bool:
        """Whether the last point of the metrics is after the last update, and not before it."""
        metrics = self.training_metrics
        return bool(metrics) and metrics["update_step"][-1] == self.previous_training_max_step

    def _starting_point(
        self,
        key: RandomKey | None,
        hyperparams: HyperparametersT | None,
        runner: RunnerT | None,
        program: OnDevice[RunnerT] | OnHost[Any] | OnMesh[RunnerT],
    ) -> RunnerT:
        if runner is None:
            return program.start(single_key(key, "train"), hyperparams)
        placed = program.place(self._own(self._complete(runner)))
        return placed if hyperparams is None else self._steps.restart(placed, hyperparams)

    def _own(self, runner: RunnerT) -> RunnerT:
        """The arrays of a runner, in the networks and optimizers of this agent."""
        if runner is self.training_runner:
            return runner
        fresh = self._fresh_runner(runner.hyperparams)
        return jax.tree.unflatten(jax.tree.structure(fresh), jax.tree.leaves(runner))

    def _earlier_metrics(self, runner: RunnerT) -> Metrics | None:
        """The metrics that a training goes on with from a runner, if they are known.

        Raises:
            TypeError: It is no runner of such an agent.
            ValueError: It is used up or does not fit, or the metrics do not.
        """
        last = self.training_runner
        if runner is not last:
            self._check_fits(runner)
        check_not_used_up(runner)
        is_known = last is not None and is_at_end(runner, last, self.vital_arrays)
        earlier = self.training_metrics if is_known else None
        if earlier:
            self._check_same_metrics(earlier, runner.hyperparams)
        folder = self.config.checkpoint_dir
        if not earlier and folder is not None and checkpoint.saved_steps(folder):
            warnings.warn(
                "This runner is not at the end of the training that the agent remembers, so that the "
                f"metrics in {folder} begin anew. They go on from the runner of agent.restore('last').",
                stacklevel=4,
            )
        return earlier

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
        folder `sweep` there. With `restore_agent=True` it makes what is missing of its updates, from
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
        hyperparams = self._or_default(hyperparams)
        self._check_hyperparams(hyperparams, several=True)
        callbacks, progress = as_callbacks(callbacks), flag("progress", progress)
        n_steps = positive("n_steps", self.config.n_steps if n_steps is None else n_steps)
        grid = Grid.of(as_keys(rngs), hyperparams)
        earlier = restore_members(self, grid)
        if earlier is not None:
            self._check_same_metrics(*sweeps.first_member(earlier.history, grid))
        return sweeps.sweep(self, grid, earlier, self._complete, n_steps, progress, callbacks)

    @nan_is_allowed
    def restore(
        self,
        mode: str | int = "best",
        best_fn: Callable[[Metrics], ArrayLike] | None = None,
        hyperparams: HyperparametersT | None = None,
    ) -> tuple[RunnerT, Metrics]:
        """Reads a checkpoint of `config.checkpoint_dir` and leaves the agent ready for `eval`.

        Going on from there is `agent.train(runner=runner)`.

        Args:
            mode: `"best"`, `"last"`, or the number of an update step.
            best_fn: Maps the metrics at the kept checkpoints to the index of the best; by default
                the highest mean return. Only with `"best"`.
            hyperparams: Hyperparameters structured as those that were saved; only needed for types
                of one's own.

        Returns:
            The runner, and the history of metrics up to it.

        Raises:
            TypeError: `mode` or `best_fn` is of another type.
            FileNotFoundError: There is no checkpoint, or none at that step.
            ValueError: The checkpoint is of another agent, environment or network.
        """
        check_choice(mode, best_fn)
        given = self._or_default(hyperparams)
        runner, metrics = checkpoint.restore(self, mode, best_fn, given)
        self.collect_training(runner, metrics)
        return runner, metrics

    def replay(
        self, step: int, n_updates: int = 1, hyperparams: HyperparametersT | None = None
    ) -> Replay:
        """Makes a stretch of a training once more, from the nearest checkpoint, update by update.

        Trainings are the same bit for bit when they are repeated on the same machine, so that this shows
        what happened. The agent remembers the training as before.

        ```python
        stretch = agent.replay(1200, n_updates=50)
        print(stretch.metrics["actor_gradient_norm"], stretch.not_finite_since)
        print(stretch.minibatches["actor_gradient_norm"], stretch.not_finite_minibatch)
        ```

        Args:
            step: Number of updates made before the stretch.
            n_updates: Number of updates in it.
            hyperparams: Hyperparameters structured as those that were saved; only needed for types of
                one's own.

        Returns:
            Its runner, the reports of its updates and their minibatches, and since when numbers are not
            finite.

        Raises:
            FileNotFoundError: No checkpoint was made so early, or it is no longer kept.
            ValueError: The checkpoints were made without their replay buffers, or are of another agent.
        """
        step, n_updates = not_negative("step", step), positive("n_updates", n_updates)
        return replay(self, step, n_updates, self._or_default(hyperparams))

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

    if not TYPE_CHECKING:  # a type checker would believe that any attribute exists

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, HABITS)

    def _seal(self) -> None:
        if "episodes" not in vars(self):
            name = type(self).__name__
            raise TypeError(
                f"{name}.__init__ must call super().__init__(env, env_params, config), which makes the "
                "agent."
            )
        behaviour = self._without_files()
        if self.config.checkpoint_dir is not None:
            checkpoint.check_folder(self.config.checkpoint_dir, self.config.restore_agent)
        identities = [id(array) for array in jax.tree.leaves(self.data)]
        key = type(self), fingerprint({**vars(self), "data": identities})
        self._programs = Programs.of(behaviour)
        self._memory = {}
        self._freeze(key)
