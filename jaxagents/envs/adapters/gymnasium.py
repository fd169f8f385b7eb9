"""The adapter of Gymnasium: environments that run on the host, one or a vector of them."""

from collections.abc import Hashable
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv
from jaxtyping import PyTree

from jaxagents.envs.adapters.native import Native
from jaxagents.envs.environment import Wording
from jaxagents.envs.on_host.arrays import (
    check_action_space,
    check_evaluates,
    example_action,
    example_seen,
    own_space,
)
from jaxagents.envs.on_host.environment import HostEnvironment, Terms
from jaxagents.envs.on_host.making import (
    VECTORS,
    MakeEnv,
    identity_of,
    limit_of,
    made_by,
    maker_of,
    specification_of,
    vector_of,
    why_no_more,
)
from jaxagents.envs.on_host.vectors import Vector, spaces_of_one


class Gymnasium(HostEnvironment, Native):
    """An environment of Gymnasium, in which on-policy agents train on the host.

    ```python
    env = gymnasium.make("HalfCheetah-v5")
    agent = PPO(env, None, ppo.AgentConfig(batch_size=8))
    ```

    An agent plays in `config.batch_size` copies of the environment, each in episodes with seeds of their
    own, so that a training that is resumed goes on as if it had never been interrupted. A vector of
    environments is taken as it is, and must have as many.

    Attributes:
        env: The environment, vector or function that was given.
    """

    def __init__(
        self,
        env: gymnasium.Env | VectorEnv | MakeEnv,
        *,
        eval_env: gymnasium.Env | MakeEnv | None = None,
        vectorization_mode: str = "sync",
    ) -> None:
        """Takes an environment, of which agents have more made.

        Args:
            env: An environment as `gymnasium.make` gives it, whose specification says how to make more;
                a function that makes one; or a vector.
            eval_env: The environment of evaluations, if other than `env`; see there. Vectors with
                wrappers of their own, and those of environments that are not registered, need one
                if they are to be evaluated.
            vectorization_mode: `"sync"` steps one copy after another, `"async"` each in a process of its
                own, which pays if a step takes longer than it takes to send its outcome.

        Raises:
            TypeError: An environment is something else.
            ValueError: The mode is another, actions or observations are such as no agent takes, or those
                of `eval_env` are others.
        """
        if vectorization_mode not in VECTORS:
            raise ValueError(
                f"vectorization_mode must be one of {[*VECTORS]}, got {vectorization_mode!r}."
            )
        super().__init__(env)
        self._vectorization_mode = vectorization_mode
        self._make = maker_of(env)
        self._eval_env = eval_env
        self._make_eval = self._make if eval_env is None else maker_of(eval_env)
        self._live = {}
        first = _one_of(env)
        observation_space, action_space = spaces_of_one(first)
        check_action_space(action_space)
        if eval_env is not None:
            check_evaluates(spaces_of_one(first), spaces_of_one(_one_of(eval_env)))
        self._example = example_seen(observation_space), example_action(action_space)
        self.observation_space = own_space(observation_space)
        self.action_space = own_space(action_space)
        spec = specification_of(first)
        self.max_steps = limit_of(spec)
        self._name = type(first.unwrapped).__qualname__ if spec is None else spec.id
        self.render_fps = first.metadata.get("render_fps", Native.render_fps)
        self._render_mode = first.render_mode
        self._render_modes = first.metadata.get("render_modes", ())

    @classmethod
    def named(
        cls,
        name: str,
        *,
        vectorization_mode: str = "sync",
        **options: Any,
    ) -> "Gymnasium":
        """Makes an environment that is registered with Gymnasium.

        Args:
            name: Its name, such as `"HalfCheetah-v5"`, or that of a package and of one that it
                registers, such as `"ale_py:ALE/Pong-v5"`.
            vectorization_mode: See the constructor.
            **options: Passed on to `gymnasium.make`.

        Returns:
            The environment.

        Raises:
            ImportError: The package, or what the environment needs, is not installed.
            ValueError: There is no such environment.
        """
        try:
            env = gymnasium.make(name, **options)
        except gymnasium.error.DependencyNotInstalled as error:
            raise ImportError(str(error)) from error
        except gymnasium.error.Error as error:
            raise ValueError(str(error)) from error
        return cls(env, vectorization_mode=vectorization_mode)

    @classmethod
    def names(cls) -> list[str]:
        """The names of all environments that are registered."""
        return sorted(gymnasium.registry)

    @property
    def name(self) -> str:
        """The name under which the environment is registered, or that of its class."""
        return self._name

    @property
    def wording(self) -> Wording:
        """The environment's name and methods."""
        return Wording(self._name, "reset", "step")

    @property
    def identity(self) -> Hashable:
        """The specification of the environment, if there is one, or itself."""
        of_training = identity_of(self.env, self._make)
        of_evaluation = identity_of(self._eval_env, self._make_eval)
        return of_training, of_evaluation, self._vectorization_mode

    def example(self) -> tuple[PyTree, PyTree]:
        """An observation and an action, as arrays of zeros."""
        return self._example

    @property
    def plays_again(self) -> bool:
        """Whether each episode has a seed of its own: unless a vector that was given starts them."""
        return not (isinstance(self.env, VectorEnv) and Vector(self.env).starts_episodes)

    def check(self, n_envs: int | None, evaluates: bool) -> None:
        """Raises unless an agent can play in so many copies, and be evaluated if it is to be.

        Args:
            n_envs: Number of copies; `None` for an agent that does not play while it learns.
            evaluates: Whether the agent is evaluated.

        Raises:
            ValueError: It cannot.
        """
        if n_envs is None:
            pass
        elif isinstance(self.env, VectorEnv):
            self._check_vector(n_envs)
        elif isinstance(self.env, gymnasium.Env) and self._make is None and n_envs > 1:
            raise ValueError(
                f"{why_no_more(self.env)}, so that no more can be made of it, but batch_size is "
                f"{n_envs}. Pass a function that makes one, as in PPO(Gymnasium(lambda: MyEnv()), None, "
                "config) with jaxagents.envs.Gymnasium, or set batch_size=1."
            )
        if evaluates:
            self._check_evaluates()

    def _check_vector(self, n_envs: int) -> None:
        vector = Vector(self.env)
        if vector.n_envs != n_envs:
            raise ValueError(
                f"The vector has {vector.n_envs} environments, but the configuration says "
                f"batch_size={n_envs}: set batch_size={vector.n_envs}."
            )

    def _check_evaluates(self) -> None:
        if self._make_eval is None:
            raise ValueError(
                f"{why_no_more(self._evaluated)}, so that none can be made for evaluations. Give one, "
                "as in jaxagents.envs.Gymnasium(env, eval_env=lambda: MyEnv()), or make the agent with "
                "eval_during_training=False."
            )

    def _copies(self, purpose: str, n_envs: int, terms: Terms) -> Vector:
        """A vector of environments; see `HostEnvironment`."""
        if purpose == "film":
            vector = vector_of(self._drawing, n_envs, "sync")
            return Vector(vector, info_names=terms.info_names)
        if purpose == "training" and isinstance(self.env, VectorEnv):
            return Vector(self.env, self.env.unwrapped, terms.info_names)
        mode, make = self._vectorization_mode, self._make
        if purpose == "evaluation":
            self._check_evaluates()
            make = self._make_eval
        given = self.env.unwrapped if make is None and mode == "sync" else None
        vector = vector_of(make or (lambda: self.env), n_envs, mode)
        return Vector(vector, given, terms.info_names)

    def _drawing(self) -> gymnasium.Env:
        assert self._make_eval is not None
        if self._has_specification:
            return self._make_eval(render_mode="rgb_array")
        return self._make_eval()

    @property
    def _has_specification(self) -> bool:
        return isinstance(self._evaluated, gymnasium.Env | VectorEnv)

    @property
    def _evaluated(self) -> Any:
        """The environment for evaluations, or the function that makes it, as it was given."""
        return self.env if self._eval_env is None else self._eval_env

    @property
    def can_draw(self) -> bool:
        """Whether films can be made: of a function's environments, if they are made to draw."""
        if self._make_eval is None:
            return False
        if self._has_specification:
            return "rgb_array" in self._render_modes
        return self._render_mode == "rgb_array"

    @property
    def why_it_cannot_draw(self) -> str:
        """The message where it does not."""
        return (
            f"{self.name} does not draw: films need an environment that is registered with Gymnasium "
            'and has the render mode "rgb_array", or a function that makes one with '
            'render_mode="rgb_array".'
        )


def _one_of(env: gymnasium.Env | VectorEnv | MakeEnv) -> gymnasium.Env | VectorEnv:
    """An environment, or the one that a function makes."""
    return env if isinstance(env, gymnasium.Env | VectorEnv) else made_by(env)
