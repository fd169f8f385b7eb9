"""The behaviour of an agent: environment, configuration, and the hooks that families implement."""

import abc
import copy
import functools
import inspect
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PyTree

from jaxagents.core.arrays import is_traced, written_in_jax
from jaxagents.core.compilation import Programs
from jaxagents.core.describe import describe, name_of
from jaxagents.core.fingerprint import fingerprint_and_users_own
from jaxagents.core.hook_names import FORMER_HOOKS, check_hook_forms, check_hook_names
from jaxagents.core.hyperparameters import Hyperparameters, values_at
from jaxagents.core.metrics import Metrics
from jaxagents.core.numbers import flag, positive
from jaxagents.core.report import Report
from jaxagents.engine.checks import SealedAtTheEnd
from jaxagents.engine.config import Config
from jaxagents.engine.host_rollout import HostCollection
from jaxagents.engine.program import HyperparametersT, Program, RunnerT
from jaxagents.envs.adapters import as_environment
from jaxagents.envs.checks import check_numbers, traced_reset
from jaxagents.envs.environment import Environment, Moment
from jaxagents.envs.episodes import Episodes, InfoNames
from jaxagents.envs.on_host.environment import HostEnvironment

ConfigT = TypeVar("ConfigT", bound=Config)
BehaviourT = TypeVar("BehaviourT", bound="Behaviour")


class FunctionalEnvironment(Protocol):
    """A gymnax environment, or any other with these methods."""

    def reset_env(self, key: Key[Array, ""], params: PyTree, /) -> tuple[PyTree, PyTree]:
        """Starts an episode; returns its first observation and state."""
        ...

    def step_env(
        self, key: Key[Array, ""], state: PyTree, action: PyTree, params: PyTree, /
    ) -> tuple[PyTree, ...]:
        """Takes one step; returns observation, state, reward, whether the episode ended, and a dict."""
        ...


class HostedEnvironment(Protocol):
    """A Gymnasium or PettingZoo environment, or a vector of them."""

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Starts an episode; returns its first observation and a dict."""
        ...

    def step(self, action: Any, /) -> Any:
        """Takes one step; returns observation, reward, terminated, truncated and a dict."""
        ...


GivenEnvironment = Environment | FunctionalEnvironment | HostedEnvironment | str
"""Any environment that an agent accepts."""


class Behaviour(Generic[ConfigT, HyperparametersT, RunnerT], metaclass=SealedAtTheEnd):
    """The part of an agent that algorithms implement, and that its programs are compiled from.

    It is frozen after construction, and compares by value.

    A family of agents implements `_create_runner` for a fresh `Runner`, `_training_step` for one
    update, `_acting` for the part of a runner that acts, and `_with_hyperparams` to replace
    hyperparameters.
    """

    config: ConfigT
    env: Any
    data: PyTree = ()
    split_fields: tuple[str, ...] = ()
    collects_at_start: bool = False
    _config_type: type[Config] = Config
    _hyperparams_type: type[Hyperparameters] = Hyperparameters
    _is_of_actors: ClassVar[bool] = False
    """Whether rewards and values have an actor axis."""
    _shows_critic_state: ClassVar[bool] = False
    """Whether observations include the state for a centralised critic."""
    _hooks: tuple[str, ...] = ("_eval_metrics", "_config_type", "_hyperparams_type")
    programs: Programs[Self] = cast(Any, None)
    """The compiled programs; `None` inside a compiled program."""
    _key: Hashable = None
    """Key for comparison; once set, the object is frozen."""

    def __init__(
        self,
        env: GivenEnvironment,
        env_params: PyTree,
        config: ConfigT,
        eval_during_training: bool = True,
    ) -> None:
        """Creates an agent, and validates everything that can be validated before training.

        Args:
            env: An environment of gymnax, Gymnasium or another suite, a name for
                [`make`][jaxagents.make], any object with `reset_env(key, params)` and
                `step_env(key, state, action, params)`, or an
                [`Environment`][jaxagents.envs.Environment]. An attribute `n_actors` makes an
                environment multi-agent.
            env_params: The environment's parameters; `None` uses `env.default_params`. An `Environment`
                already holds its parameters: pass `None`.
            config: Static configuration.
            eval_during_training: Whether to evaluate the agent at each evaluation point of training.

        Raises:
            TypeError: The configuration belongs to a different agent, or a method or hook is missing.
            ValueError: The environment, the networks and the configuration do not fit together.
            FileExistsError: The checkpoint folder already holds checkpoints.
        """
        for kind in (self._config_type, self._hyperparams_type):
            if not isinstance(kind, type):
                raise TypeError(
                    f"{type(self).__name__}._config_type and _hyperparams_type must be classes, got an "
                    f"object of {name_of(type(kind))}: leave out the parentheses."
                )
        _check_kind(type(self).__name__, self._config_type, config)
        if any(map(is_traced, jax.tree.leaves(env_params))):
            raise TypeError(
                "The env_params of an agent are static, but these are traced. Make the agent "
                "outside jax.vmap and jax.jit, and pass what varies as hyperparameters, such "
                "as agent.train(rng, HyperParameters(env_params={'gravity': gravity}))."
            )
        environment = as_environment(env, env_params)
        if isinstance(environment, HostEnvironment):
            environment = environment.for_agent()
        self.env = environment if isinstance(env, str) or environment.on_host else env
        self.env_params = environment.params
        self.config = config
        self.eval_during_training = flag("eval_during_training", eval_during_training)
        self.n_actors = 1
        if environment.n_actors is not None:
            name = f"{environment.wording.environment}.n_actors"
            self.n_actors = positive(name, environment.n_actors)
        info_names = InfoNames(config.final_info, config.summed_info)
        self.episodes = Episodes(
            environment,
            config.max_episode_steps,
            (self.n_actors,) if self._is_of_actors else (),
            info_names,
            self._shows_critic_state,
            config.terminate_at_limits,
        )

    # What a family of agents implements.

    @abc.abstractmethod
    def _create_runner(self, rng: Key[Array, ""], hyperparams: HyperparametersT) -> RunnerT:
        """Creates a fresh runner."""

    @abc.abstractmethod
    def _training_step(self, runner: RunnerT) -> tuple[RunnerT, Report]:
        """Performs one update. The caller counts it, and records the report's metrics."""

    @abc.abstractmethod
    def _with_hyperparams(self, runner: RunnerT, hyperparams: HyperparametersT) -> RunnerT:
        """Replaces the hyperparameters of a runner."""

    def _with_schedules(self, runner: RunnerT, hyperparams: HyperparametersT) -> RunnerT:
        """A runner with the given hyperparameters, which may include schedules, for its next update."""
        return runner.replace(hyperparams=hyperparams)

    def moment(self, runner: RunnerT) -> Moment:
        """The update step of a runner, and its environment's parameters at that step.

        Args:
            runner: Any runner.

        Returns:
            The update step, and the environment parameters that its hyperparameters set.
        """
        params = dict(runner.hyperparams.env_params)
        return Moment(runner.update_step, values_at(params, runner.update_step))

    def at(self, moment: Moment) -> Self:
        """The same agent, with its environment at a given update.

        Args:
            moment: The update step, and the environment parameters.

        Returns:
            The agent; the same object if the environment does not change.
        """
        episodes = self.episodes.at_update(*moment)
        if episodes is self.episodes:
            return self
        agent = copy.copy(self)
        object.__setattr__(agent, "episodes", episodes)
        return agent

    @abc.abstractmethod
    def _acting(self, runner: RunnerT) -> PyTree:
        """The part of a runner that acts, such as the actor; passed to `policy`."""

    @abc.abstractmethod
    def policy(self, training: PyTree, obs: PyTree) -> PyTree:
        """The greedy action.

        Args:
            training: The part of a runner that acts.
            obs: One observation.

        Returns:
            One action, or one per actor.
        """

    def initial_carry(self, training: PyTree) -> PyTree:
        """The memory of the policy at the start of an episode; `()` if it has none.

        Args:
            training: The part of a runner that acts.

        Returns:
            The memory.
        """
        return ()

    def act(
        self, training: PyTree, carry: PyTree, obs: PyTree, rng: Key[Array, ""] | None = None
    ) -> tuple[PyTree, PyTree]:
        """The action of a policy with or without a memory.

        Args:
            training: The part of a runner that acts.
            carry: The memory: `initial_carry` at first, then the one that the last call returned.
            obs: One observation.
            rng: Random key to sample the action with; `None` takes the greedy action.

        Returns:
            The new memory, and one action.

        Raises:
            NotImplementedError: A random key is given, but agents of this family do not sample actions.
        """
        if rng is not None:
            raise NotImplementedError(
                f"{type(self).__name__} does not sample actions: override act(training, carry, "
                "obs, rng), or evaluate with deterministic=True."
            )
        return carry, self.policy(training, obs)

    @classmethod
    def _called_alike(cls) -> tuple[str, ...]:
        """Names of the hooks that take the same arguments in every subclass."""
        return (*cls._hooks, "policy")

    @functools.cached_property
    def _observation(self) -> PyTree[jax.ShapeDtypeStruct]:
        """The shapes and dtypes of one observation."""
        return jax.eval_shape(lambda: self.episodes.reset(jax.random.key(0))[0])

    def _refill_missing(self, runner: RunnerT) -> RunnerT:
        """Recreates anything that the runner's checkpoint left out."""
        return runner

    def _validate(self) -> None:
        """Raises if the environment, the networks and the configuration do not fit together."""

    def checkpointed(self, runner: RunnerT) -> PyTree:
        """The part of a runner to save in checkpoints.

        Args:
            runner: Any runner.

        Returns:
            The runner, without the fields that checkpoints leave out.
        """
        return runner

    @property
    def host_collection(self) -> HostCollection | None:
        """How the agent acts and learns if environments are stepped on the host.

        `None` for agents that do not act during training.
        """
        return None

    def vital_arrays(self, runner: RunnerT) -> dict[str, PyTree]:
        """The arrays of a runner that must stay finite for training to continue.

        Args:
            runner: Any runner.

        Returns:
            Pytrees of arrays, by description.
        """
        return {}

    def _eval_metrics(
        self,
        terminated: Bool[Array, "n_evals"],
        truncated: Bool[Array, "n_evals"],
        final_rewards: Float[Array, "n_evals *actors"],
        returns: Float[Array, "n_evals *actors"],
    ) -> Metrics:
        """The metrics of an evaluation; override it to add more.

        An override may take an additional argument `info`, a dict of the info entries named in
        `config.final_info` and `config.summed_info`, episodes first.

        Args:
            terminated: Whether the environment ended each episode.
            truncated: Whether a time limit ended each episode.
            final_rewards: Rewards of the last steps.
            returns: Undiscounted returns.

        Returns:
            Arrays by name.
        """
        return {
            "terminated": terminated,
            "truncated": truncated,
            "final_rewards": final_rewards,
            "returns": returns,
        }

    # The parts of an agent.

    @property
    def behaviour(self) -> Self:
        """The same agent without its files and its last run, for compiling programs."""
        return self if self.programs is None else self.programs.behaviour

    @property
    def program(self) -> Program[HyperparametersT, RunnerT]:
        """Training, as pure functions of a runner."""
        return Program(self.behaviour)

    def with_data(self, data: PyTree) -> Self:
        """The same agent with different data.

        Args:
            data: Arrays of the same shapes.

        Returns:
            The agent.
        """
        agent = copy.copy(self)
        object.__setattr__(agent, "data", data)
        return agent

    def _hyperparams(
        self, given: HyperparametersT | None, several: bool = False
    ) -> HyperparametersT:
        """Checks hyperparameters and returns them as arrays; `None` uses the defaults."""
        default: Any = self._hyperparams_type
        hyperparams = default() if given is None else given
        _check_kind(type(self).__name__, self._hyperparams_type, hyperparams)
        hyperparams.check_ranges(single=not several)
        if hyperparams.env_params:
            check_numbers(self.episodes, hyperparams.env_params)
        return jax.tree.map(
            lambda x: x if isinstance(x, Array) else np.asarray(x, np.float32), hyperparams
        )

    def __str__(self) -> str:
        title = f"{type(self).__name__} on {self.episodes.env.name}"
        return describe(title, self.config)

    def __repr__(self) -> str:
        return f"<{str(self).splitlines()[0].rstrip(':')}>"

    @abc.abstractmethod
    def _seal(self) -> None:
        """Completes the object after its constructor; sets `_key` last."""

    def __setattr__(self, name: str, value: object) -> None:
        if self._key is not None:
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
        return isinstance(other, Behaviour) and self._key == other._key


def without_files(agent: BehaviourT) -> tuple[BehaviourT, list[Any]]:
    """Validates an agent and copies it without files and data.

    Also returns its parts that contain user code.
    """
    twin = copy.copy(agent)
    twin.config = agent.config.without_files()
    twin.data = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), agent.data)
    parts = {name: part for name, part in vars(twin).items() if name != "_key"}
    twin._key, may_change = fingerprint_and_users_own((type(agent), parts))
    if Programs.are_known(twin):  # then it has been validated
        return twin, may_change
    check_hook_names(type(agent), agent._hooks, FORMER_HOOKS, vars(agent))
    check_hook_forms(agent, agent._called_alike())
    info = inspect.signature(agent._eval_metrics).parameters.get("info")
    needs_info = info is not None and info.default is inspect.Parameter.empty
    if needs_info and not (agent.config.final_info or agent.config.summed_info):
        raise ValueError(
            f"{type(agent).__name__}._eval_metrics takes info, but the configuration keeps "
            "none: name its entries in final_info or summed_info, such as final_info=('won',), "
            "or give the argument a default."
        )
    env = agent.episodes.env
    traced_reset(env)
    if isinstance(env, HostEnvironment):
        n_envs = None if agent.host_collection is None else agent.config.batch_size
        env.check(n_envs, agent.eval_during_training)
    with written_in_jax(f"The agent {type(agent).__name__}"):
        twin._validate()
    return twin, may_change


def _check_kind(owner: str, expected: type, given: object) -> None:
    """Raises unless an agent's argument is an instance of the expected class."""
    if isinstance(given, expected):
        return
    name, found, hint = expected.__name__, f"a {name_of(type(given))}", ""
    if isinstance(given, type):
        found, hint = f"the class {name_of(given)}", f": pass {name}()"
    elif isinstance(given, Mapping):
        found, hint = f"a {type(given).__name__}", f": pass {name}(**fields)"
    elif type(given).__module__ == "builtins":
        found = repr(given)
        if isinstance(given, int) and issubclass(expected, Hyperparameters):
            hint = (
                ": pass a number of updates as n_steps, or set total_timesteps in the configuration"
            )
    raise TypeError(f"{owner} takes a {name_of(expected)}, got {found}{hint}.")
