"""The base of every agent: frozen behaviour, the lifecycle, and the waist that families fill in."""

import abc
import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, ArrayLike

from jaxagents.agents.checks import check_eval_rng, check_single
from jaxagents.agents.config import Config
from jaxagents.checkpoints import records as checkpoint
from jaxagents.core import processes
from jaxagents.core.arrays import without_weak_types
from jaxagents.core.compilation import (
    Programs,
    compile_meanwhile,
    compiled,
    is_tracing,
)
from jaxagents.core.describe import describe, name_of
from jaxagents.core.fingerprint import fingerprint
from jaxagents.core.hyperparameters import Hyperparameters
from jaxagents.core.keys import as_key
from jaxagents.core.metrics import Metrics, MetricStats
from jaxagents.core.numbers import positive
from jaxagents.envs.checks import check_environment_methods
from jaxagents.envs.episodes import Episodes, EpisodeState
from jaxagents.envs.play import play_episodes
from jaxagents.loggers import Logger
from jaxagents.running import driver as training
from jaxagents.running import sweeps
from jaxagents.running.programs import OnDevice, OnMesh
from jaxagents.running.sweeps import SweepResult

_DEFAULT_N_EVALS = 32


class AgentMeta(abc.ABCMeta):
    """Seals an agent once its whole constructor, a subclass's included, has run."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes an agent."""
        agent = super().__call__(*args, **kwargs)
        agent._seal()
        return agent


class Agent(metaclass=AgentMeta):
    """Behaviour in an environment, with the lifecycle train, restore, eval and summarize.

    An agent is frozen: assigning to an attribute raises once its constructor has run. Agents of one
    class with equal environments, parameters and configurations are equal and share compiled
    programs. What is learned is not part of the agent but of the `Runner`, which training takes and
    returns; for convenience the agent remembers the last one.

    A family of agents says how a fresh `Runner` is made (`_create_runner`), what one update is
    (`_training_step`), what of a runner acts (`_acting`), and how hyperparameters are replaced
    (`_with_hyperparams`).

    Attributes:
        env: The environment.
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

    config: Any
    data: Any = ()
    split_fields: tuple[str, ...] = ()
    collects_at_start: bool = False
    _config_type: type[Config] = Config
    _hyperparams_type: type[Hyperparameters] = Hyperparameters

    def __init__(
        self, env: Any, env_params: Any, config: Any, eval_during_training: bool = True
    ) -> None:
        """Makes an agent and validates everything that can be validated before training.

        Args:
            env: Environment with `reset_env(key, params)` and `step_env(key, state, action,
                params)`; `n_actors` makes it multi-agent.
            env_params: Its parameters; `None` takes `env.default_params`.
            config: Static configuration.
            eval_during_training: Whether the agent is evaluated at each evaluation point of
                training.

        Raises:
            TypeError: The configuration is of another agent, or a method or hook is missing.
            ValueError: The environment, the networks and the configuration do not fit together.
            FileExistsError: The checkpoint folder already holds checkpoints.
        """
        check_environment_methods(env)
        if not isinstance(config, self._config_type):
            raise TypeError(
                f"{type(self).__name__} takes a {name_of(self._config_type)}, "
                f"got a {name_of(type(config))}."
            )
        self.env = env
        self.env_params = getattr(env, "default_params", None) if env_params is None else env_params
        self.config = config
        self.eval_during_training = bool(eval_during_training)
        self.n_actors = int(getattr(env, "n_actors", 1))
        self.episodes = Episodes(
            self.env, self.env_params, config.max_episode_steps, self._actors_shape
        )

    # The waist: what a family of agents fills in.

    @abc.abstractmethod
    def _create_runner(self, rng: Any, hyperparams: Any) -> Any:
        """Makes a fresh runner."""

    @abc.abstractmethod
    def _training_step(self, runner: Any) -> Any:
        """Makes one update."""

    @abc.abstractmethod
    def _with_hyperparams(self, runner: Any, hyperparams: Any) -> Any:
        """Replaces the hyperparameters of a runner."""

    @abc.abstractmethod
    def _acting(self, runner: Any) -> Any:
        """What `policy` is given of a runner."""

    @abc.abstractmethod
    def policy(self, training: Any, obs: Any) -> Any:
        """The greedy action.

        Args:
            training: What acts of a runner.
            obs: One observation.

        Returns:
            One action (of all actors).
        """

    @property
    def _actors_shape(self) -> tuple[int, ...]:
        """Axes of the actors in rewards and values."""
        return ()

    def _complete(self, runner: Any) -> Any:
        """A runner to go on from, with what a checkpoint may have left out."""
        return runner

    def _validate(self) -> None:
        """Raises if the environment, the networks and the configuration do not fit together."""

    def _eval_metrics(
        self, terminated: Array, truncated: Array, final_rewards: Array, returns: Array
    ) -> Metrics:
        """The metrics of an evaluation; override it to add more.

        Args:
            terminated: Whether the environment ended each episode, shaped `(n_evals,)`.
            truncated: Whether a time limit cut each episode, shaped `(n_evals,)`.
            final_rewards: Rewards of the last steps, shaped `(n_evals, *actors)`.
            returns: Undiscounted returns, shaped `(n_evals, *actors)`.

        Returns:
            Arrays by name.
        """
        return {
            "terminated": terminated,
            "truncated": truncated,
            "final_rewards": final_rewards,
            "returns": returns,
        }

    # Training.

    def train(
        self,
        rng: Any,
        hyperparams: Any,
        runner: Any = None,
        *,
        n_steps: int | None = None,
        progress: bool | None = None,
        loggers: Sequence[Logger] = (),
        mesh: Mesh | None = None,
    ) -> tuple[Any, Metrics]:
        """Trains for `config.n_steps` updates.

        Called plainly, it shows progress, writes checkpoints and logs, returns what it has on
        Ctrl-C, and leaves the agent ready for [`eval`][jaxagents.agents.agent.Agent.eval]. Called
        inside of `jax.jit` or `jax.vmap` it is pure and does none of that. Inside of `jax.jit`, what
        is learned is the same, and what is reported of it may be rounded otherwise.

        Args:
            rng: Random key of a fresh training; not used when going on from a runner.
            hyperparams: Hyperparameters; `None` keeps those of the runner.
            runner: Where to go on from.
            n_steps: Number of updates, if other than `config.n_steps`.
            progress: Whether to show progress: by default plainly, but not inside of `jit` or
                `vmap`, where `True` gives a jax-tqdm bar (single device only).
            loggers: Receive the mean metrics of each evaluation point; not inside of `jit` or
                `vmap`.
            mesh: Devices that share the training, such as
                [`make_mesh()`][jaxagents.sharding.make_mesh]: the axis `"data"` splits environments.
                Not inside of `jit` or `vmap`.

        Returns:
            The final runner, and metrics with a leading axis of evaluation points, the first of
            them before any update: `update_step`, the losses, and, if `eval_during_training`,
            `returns`, `final_rewards` (points, episodes, *actors), `terminated`, `truncated`,
            `lengths` (points, episodes).

        Raises:
            ValueError: A hyperparameter is out of range, or the devices of the mesh cannot share the
                work equally.
            FileExistsError: The checkpoint folder holds checkpoints of later updates.
        """
        n_steps = positive("n_steps", self.config.n_steps if n_steps is None else n_steps)
        if is_tracing((rng, hyperparams, runner)):
            if mesh is not None:
                raise ValueError("Inside of jit or vmap, train takes no mesh: call it plainly.")
            return self._train_compiled(
                rng, hyperparams, runner, self.data, n_steps=n_steps, progress=bool(progress)
            )
        self._check_hyperparams(hyperparams, optional=runner is not None)
        program = OnDevice(self) if mesh is None else OnMesh(self, mesh)
        goes_on = runner is not None and runner is self.training_runner
        earlier = self.training_metrics if goes_on else None
        runner = self._starting_point(rng, hyperparams, runner, program)
        check_single(runner)
        return training.train(
            self, program, runner, earlier, n_steps, progress is not False, loggers
        )

    def resume(
        self,
        rng: Any,
        hyperparams: Any,
        *,
        progress: bool = True,
        loggers: Sequence[Logger] = (),
        mesh: Mesh | None = None,
    ) -> tuple[Any, Metrics]:
        """Makes what is missing of `config.n_steps` updates, from the last checkpoint if there is one.

        The same script can so be started again until its training is complete. Needs
        `restore_agent=True` in the configuration.

        Args:
            rng: Random key, as for a fresh training.
            hyperparams: Hyperparameters.
            progress: Whether to show progress.
            loggers: Receive the mean metrics of each evaluation point.
            mesh: Devices that share the training; they need not be as many as before.

        Returns:
            The final runner, and the metrics of the whole training.
        """
        runner = None
        if self.config.checkpoint_dir and checkpoint.saved_steps(self.config.checkpoint_dir):
            runner, _ = self.restore("last", hyperparams=hyperparams)
        missing = self.config.n_steps - (0 if runner is None else int(runner.update_step))
        if missing > 0:
            self.train(
                rng,
                hyperparams,
                runner,
                n_steps=missing,
                progress=progress,
                loggers=loggers,
                mesh=mesh,
            )
        return self.training_runner, self.training_metrics or {}

    def start(self, rng: Any, hyperparams: Any) -> Any:
        """Makes a fresh runner.

        While this is compiled, `advance` is traced, so that it is compiled sooner.

        Args:
            rng: Random key.
            hyperparams: Hyperparameters.

        Returns:
            The runner before any update.
        """
        without_jit = jax.config.jax_disable_jit  # pyright: ignore[reportAttributeAccessIssue]
        if not (without_jit or is_tracing((rng, hyperparams))):
            self._compile_start(rng, hyperparams)
        return self._start(rng, hyperparams)

    def _compile_start(self, rng: Any, hyperparams: Any) -> None:
        methods: Any = type(self)
        start = methods._start.lower(self, rng, hyperparams)
        advance_args = self, start.out_info, self.data, np.int32(1)
        compile_meanwhile(start, lambda: methods._advance.lower(*advance_args))

    @compiled(quick=lambda agent: not agent.collects_at_start)
    def _start(self, rng: Any, hyperparams: Any) -> Any:
        return without_weak_types(self._create_runner(as_key(rng), _float32_copy(hyperparams)))

    @compiled
    def restart(self, runner: Any, hyperparams: Any) -> Any:
        """Replaces the hyperparameters of a runner.

        Args:
            runner: Any runner.
            hyperparams: New hyperparameters.

        Returns:
            The runner with them.
        """
        return self._with_hyperparams(runner, _float32_copy(hyperparams))

    def advance(self, runner: Any, n_updates: Any) -> Any:
        """Makes updates, in the memory of the runner that it is given.

        Args:
            runner: Any runner. Its arrays are used up: go on with those that are returned, or give a
                copy, `jax.tree.map(jnp.copy, runner)`.
            n_updates: Number of updates; one program serves every number.

        Returns:
            The runner after them.
        """
        return self._advance(runner, self.data, n_updates)

    @compiled(donated=("runner",))
    def _advance(self, runner: Any, data: Any, n_updates: Any) -> Any:
        agent = self.with_data(data)
        return jax.lax.fori_loop(
            0, n_updates, lambda _, runner: agent._training_step(runner), runner
        )

    @compiled
    def evaluate(self, runner: Any) -> Metrics:
        """The metrics of one evaluation point.

        Args:
            runner: Any runner.

        Returns:
            The update step, the losses of the last update and, if `eval_during_training`, the
            outcomes of `config.n_evals` greedy episodes.
        """
        metrics = {"update_step": runner.update_step, **runner.info}
        if self.eval_during_training:
            rng = jax.random.key(0) if self.config.eval_rng is None else self.config.eval_rng
            n_evals = self.config.n_evals or _DEFAULT_N_EVALS
            metrics |= self._play(as_key(rng), self._acting(runner), n_evals)
        return metrics

    @compiled(static=("n_steps", "progress"))
    def _train_compiled(
        self, rng: Any, hyperparams: Any, runner: Any, data: Any, *, n_steps: int, progress: bool
    ) -> tuple[Any, Metrics]:
        agent = self.with_data(data)
        runner = agent._starting_point(rng, hyperparams, runner, OnDevice(agent))
        return training.train_in_one_program(agent, runner, n_steps, progress)

    def _starting_point(self, rng: Any, hyperparams: Any, runner: Any, program: Any) -> Any:
        if runner is None:
            return program.start(as_key(rng), hyperparams)
        runner = program.place(self._complete(runner))
        return runner if hyperparams is None else self.restart(runner, hyperparams)

    def with_data(self, data: Any) -> Self:
        """The same agent, reading other data.

        Args:
            data: Arrays in the place of those of the attribute, of the same shapes.

        Returns:
            The agent.
        """
        agent = copy.copy(self)
        object.__setattr__(agent, "data", data)
        return agent

    def sweep(
        self, rngs: Any, hyperparams: Any, *, n_steps: int | None = None, progress: bool = True
    ) -> SweepResult:
        """Trains every seed with every set of hyperparameters, over all cores or accelerators.

        On a CPU each member is bit for bit the training that `train` makes alone.

        Args:
            rngs: Random keys with a leading axis of seeds.
            hyperparams: Hyperparameters, whose array leaves have a common leading axis of sets;
                scalar leaves are shared by all sets.
            n_steps: Number of updates, if other than `config.n_steps`.
            progress: Whether to show progress.

        Returns:
            Runners and metrics with leading axes `(n_sets, n_seeds)`, and the best set.

        Raises:
            ValueError: The leading axes do not fit together, or a value is out of range.
        """
        self._check_hyperparams(hyperparams)
        n_steps = positive("n_steps", self.config.n_steps if n_steps is None else n_steps)
        return sweeps.sweep(self, as_key(rngs), hyperparams, n_steps, progress)

    def checkpointed(self, runner: Any) -> Any:
        """What a checkpoint holds of a runner.

        Args:
            runner: Any runner.

        Returns:
            The runner, without what is left out.
        """
        return runner

    def collect_training(
        self, runner: Any, metrics: Metrics, previous_training_max_step: int | None = None
    ) -> None:
        """Makes the agent remember a runner and its metrics, as a plain `train` does by itself.

        Args:
            runner: Runner of one training (not a stack of several).
            metrics: Its metrics.
            previous_training_max_step: Number of updates made, if other than the runner's own
                count.
        """
        check_single(runner)
        self._memory["runner"] = runner
        self._memory["metrics"] = jax.tree.map(np.asarray, metrics)
        self._memory["max_step"] = previous_training_max_step

    # After training.

    def restore(
        self,
        mode: str | int = "best",
        best_fn: Callable[[Metrics], Any] | None = None,
        hyperparams: Any = None,
    ) -> tuple[Any, Metrics]:
        """Reads a checkpoint of `config.checkpoint_dir` and leaves the agent ready for `eval`.

        Going on from there is `agent.train(None, hyperparams, runner=runner)`.

        Args:
            mode: `"best"`, `"last"`, or the number of an update step.
            best_fn: Maps the metrics at the kept checkpoints to the index of the best; by default
                the highest mean return.
            hyperparams: Hyperparameters structured as those that were saved; only needed for types
                of one's own.

        Returns:
            The runner, and the history of metrics up to it.

        Raises:
            FileNotFoundError: There is no checkpoint, or none at that step.
            ValueError: The checkpoint is of another agent, environment or network.
        """
        hyperparams = self._hyperparams_type() if hyperparams is None else hyperparams
        runner, metrics = checkpoint.restore(self, mode, best_fn, hyperparams)
        self.collect_training(runner, metrics)
        return runner, metrics

    def eval(self, rng: Any, n_evals: int = _DEFAULT_N_EVALS) -> Metrics:
        """Plays greedy episodes with the agent as trained or restored.

        Args:
            rng: Random key.
            n_evals: Number of episodes.

        Returns:
            `returns`, `final_rewards` (n_evals, *actors), `terminated`, `truncated`, `lengths`
            (n_evals,), and what `_eval_metrics` adds.

        Raises:
            RuntimeError: The agent has not been trained.
        """
        n_evals = positive("n_evals", n_evals)
        acting = self._acting(self._trained_runner())
        return self._evaluate_policy(as_key(rng), acting, n_evals=n_evals)

    @compiled(static=("n_evals",))
    def _evaluate_policy(self, rng: Any, acting: Any, *, n_evals: int) -> Metrics:
        return self._play(rng, acting, n_evals)

    def _play(self, rng: Any, acting: Any, n_evals: int) -> Metrics:
        policy = functools.partial(self.policy, acting)
        outcomes = play_episodes(self.episodes, policy, rng, n_evals)
        metrics = self._eval_metrics(
            outcomes.terminated, outcomes.truncated, outcomes.final_rewards, outcomes.returns
        )
        return {**metrics, "lengths": outcomes.lengths}

    def summarize(self, metric: ArrayLike) -> MetricStats:
        """Statistics of a metric over its last axis.

        Args:
            metric: Any metric, such as `metrics["returns"]`.

        Returns:
            The statistics.
        """
        return MetricStats.of(metric)

    @compiled
    def env_reset(self, rng: Any) -> tuple[Array, Any, EpisodeState]:
        """Starts an episode.

        Args:
            rng: Random key.

        Returns:
            A new random key, the first observation and the environment's state.
        """
        rng, reset_rng = jax.random.split(rng)
        return rng, *self.episodes.reset(as_key(reset_rng))

    @compiled
    def env_step(
        self, rng: Any, envstate: EpisodeState, actions: Any
    ) -> tuple[Array, Any, EpisodeState, Array, Array, dict]:
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

    @property
    def program(self) -> Any:
        """The same agent without files and memory, of which its methods are compiled."""
        return self._program

    @property
    def programs(self) -> Programs[Any] | None:
        """What is compiled of the agent; nothing within a program, which itself is compiled."""
        return self._programs

    @property
    def agent_trained(self) -> bool:
        """Whether the agent remembers a training."""
        return "runner" in self._memory

    @property
    def training_runner(self) -> Any:
        """The last runner."""
        return self._memory.get("runner")

    @property
    def training_metrics(self) -> Metrics | None:
        """The metrics of the last training, with those of the trainings that it went on from."""
        return self._memory.get("metrics")

    @property
    def previous_training_max_step(self) -> int:
        """Number of updates behind the last runner; zero before any training."""
        if not self.agent_trained:
            return 0
        given = self._memory.get("max_step")
        return int(self.training_runner.update_step) if given is None else given

    @property
    def eval_steps_in_training(self) -> np.ndarray | None:
        """Update steps of the evaluation points of `training_metrics`."""
        metrics = self.training_metrics
        return None if metrics is None else metrics["update_step"]

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

    # Identity.

    def _seal(self) -> None:
        twin = copy.copy(self)
        twin.config = self.config.without_files()
        twin.data = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), self.data)
        twin._key = (type(self), fingerprint(vars(twin)))
        twin._program = twin
        twin._programs = None
        twin._sealed = True
        check_eval_rng(self.config.eval_rng)
        twin._validate()
        if self.config.checkpoint_dir is not None:
            checkpoint.check_folder(self.config.checkpoint_dir, self.config.restore_agent)

        identities = [id(array) for array in jax.tree.leaves(self.data)]
        self._key = (type(self), fingerprint({**vars(self), "data": identities}))
        self._program = twin
        self._programs = Programs.of(twin)
        self._memory: dict[str, Any] = {}
        self._sealed = True

    def _check_hyperparams(self, hyperparams: Any, optional: bool = False) -> None:
        if isinstance(hyperparams, self._hyperparams_type):
            hyperparams.check_ranges()
        elif not (optional and hyperparams is None):
            raise TypeError(
                f"{type(self).__name__} takes a {name_of(self._hyperparams_type)}, got {hyperparams!r}."
            )

    def _trained_runner(self) -> Any:
        if not self.agent_trained:
            raise RuntimeError(
                "This agent has not been trained: call train or restore first, or collect_training "
                "with the results of a compiled train."
            )
        return self.training_runner

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_sealed", False):
            raise AttributeError(
                f"{type(self).__name__} is frozen: '{name}' cannot be set, since compiled programs "
                "would not see the change. Make a new agent instead."
            )
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: '{name}' cannot be deleted.")

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Agent) and self._key == other._key

    def __str__(self) -> str:
        env_name = getattr(self.env, "name", type(self.env).__name__)
        title = f"{type(self).__name__} on {env_name}"
        return describe(title, self.config)

    def __repr__(self) -> str:
        return f"<{str(self).splitlines()[0].rstrip(':')}>"


def _float32_copy(hyperparams: Any) -> Any:
    """Hyperparameters as arrays that are not the user's own, which updates would use up."""
    return jax.tree.map(lambda x: jnp.array(x, jnp.float32), hyperparams)
