"""The adapter of PettingZoo: parallel environments of several actors, which run on the host."""

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pettingzoo
from jaxtyping import PyTree
from pettingzoo import ParallelEnv

from jaxagents.envs.adapters.native import Native
from jaxagents.envs.environment import Environment, Wording
from jaxagents.envs.on_host.actors import Actors
from jaxagents.envs.on_host.environment import HostEnvironment, Terms
from jaxagents.envs.on_host.parallel import ParallelCopies
from jaxagents.envs.on_host.parallel_making import (
    MakeParallel,
    Recipe,
    check_alike,
    check_parallel,
    given_among,
    identity_of,
    made_by,
    maker_of,
    names_of_particles,
)


class PettingZoo(HostEnvironment, Native):
    """A parallel environment of PettingZoo, in which agents of several actors train on the host.

    ```python
    env = pettingzoo.make("parallel", "butterfly/pistonball-v6")
    agent = IPPO(env, None, ippo.AgentConfig(batch_size=8))
    ```

    Its possible agents are the actors, in their order. `actor_mask` says which of them are in the game:
    those that leave early, or come in late, weigh nothing while they are not. An episode is over once
    none is left; it was cut if one that played to the end was.

    Where observations are no boxes, or differ, they are flattened, and filled up with zeros. Where
    numbers of actions differ, those that an actor does not have are masked; those of boxes are cut off.
    An entry `"action_mask"`, of observations or infos, is heeded. `state()` is what
    [`MAPPO`][jaxagents.mappo.MAPPO] shows to its critic.

    An agent plays in `config.batch_size` copies, one stepped after another, in episodes with seeds of
    their own, so that a training that is resumed goes on as if it had never been interrupted.

    Attributes:
        env: The environment, environments or function that was given.
        agents: The possible agents.
    """

    def __init__(
        self,
        env: ParallelEnv | MakeParallel | Sequence[ParallelEnv],
        *,
        eval_env: ParallelEnv | MakeParallel | None = None,
    ) -> None:
        """Takes an environment, of which agents have more made.

        Args:
            env: A parallel environment, of which copies are made by pickling it; a function that makes
                one; or as many environments as there are in a batch.
            eval_env: The environment of evaluations, if other than `env`.

        Raises:
            TypeError: An environment is something else, or its agents act in spaces of several kinds.
            ValueError: Actions or observations are such as no agent takes, or environments, or that of
                evaluations, differ.
        """
        super().__init__(env)
        self._live = {}
        self._make = maker_of(env)
        self._make_eval = self._make if eval_env is None else maker_of(eval_env)
        identities = identity_of(env, self._make), identity_of(eval_env, self._make_eval)
        self._identity = identities
        self._given = given_among(env)
        first = self._given[0] if self._given else made_by(self._make)
        self._name = env.name if isinstance(env, Recipe) else _name_of(first)
        self._actors = Actors(first, self._name)
        check_alike(first, {f"Environment {i}": each for i, each in enumerate(self._given)})
        if eval_env is not None:
            evaluated = eval_env if isinstance(eval_env, ParallelEnv) else made_by(self._make_eval)
            check_alike(first, {"eval_env": evaluated})
        self.agents = self._actors.agents
        self.n_actors = len(self.agents)
        self.action_space = self._actors.action_space
        self.observation_space = self._actors.observation_space
        metadata = getattr(first, "metadata", {})
        self.render_fps = metadata.get("render_fps", Native.render_fps)
        self._draws = getattr(first, "render_mode", None) == "rgb_array"
        if isinstance(self._make_eval, Recipe):
            self._draws = "rgb_array" in metadata.get("render_modes", ())

    @classmethod
    def adapt(cls, env: Any, params: PyTree) -> Environment:
        """Takes a parallel environment; see `Native`."""
        check_parallel(env)
        return super().adapt(env, params)

    @classmethod
    def named(cls, name: str, **options: Any) -> "PettingZoo":
        """Makes an environment that is registered with PettingZoo, or one of `mpe2`.

        Args:
            name: Its name, such as `"butterfly/pistonball-v6"` or `"mpe/simple_spread-v3"`.
            **options: Passed on to what makes it.

        Returns:
            The environment.
        """
        return cls(Recipe(name, options))

    @classmethod
    def names(cls) -> list[str]:
        """The names of all parallel environments that are registered, and of those of `mpe2`."""
        return sorted([*pettingzoo.parallel_registry, *names_of_particles()])

    @property
    def name(self) -> str:
        """The name under which the environment is registered, or that it gives itself."""
        return self._name

    @property
    def wording(self) -> Wording:
        """The environment's name and methods."""
        return Wording(self._name, "reset", "step")

    @property
    def identity(self) -> Hashable:
        """The bytes that the environment is pickled to, or itself."""
        return self._identity

    @property
    def plays_again(self) -> bool:
        """Whether each episode has a seed of its own: always."""
        return True

    def example(self) -> tuple[PyTree, PyTree]:
        """An observation and an action of all actors, as arrays of zeros."""
        return self._actors.example()

    def critic_state(self, state: PyTree) -> PyTree:
        """Zeros like the result of `state()`; `None` if there is nothing."""
        return jax.tree.map(jnp.asarray, self._actors.state)

    def check(self, n_envs: int | None, evaluates: bool) -> None:
        """Raises unless an agent can play in so many copies, and be evaluated if it is to be.

        Args:
            n_envs: Number of copies; `None` for an agent that does not play while it learns.
            evaluates: Whether the agent is evaluated.

        Raises:
            ValueError: It cannot.
        """
        n_given = len(self._given)
        if n_envs is not None and isinstance(self.env, Sequence) and n_given != n_envs:
            raise ValueError(
                f"There are {n_given} environments, but the configuration says batch_size={n_envs}: set "
                f"batch_size={n_given}."
            )
        if n_envs is not None and self._make is None and n_given < n_envs:
            raise ValueError(
                f"{self.name} cannot be copied by pickling it, but batch_size is {n_envs}. Pass a "
                "function that makes one, as in IPPO(PettingZoo(lambda: MyEnv()), None, config) with "
                "jaxagents.envs.PettingZoo, or set batch_size=1."
            )
        if evaluates:
            self._check_evaluates()

    def _check_evaluates(self) -> None:
        if self._make_eval is None:
            raise ValueError(
                f"{self.name} cannot be copied by pickling it, so that none can be made for "
                "evaluations. Give one, as in jaxagents.envs.PettingZoo(env, eval_env=lambda: MyEnv()), "
                "or make the agent with eval_during_training=False."
            )

    def _copies(self, purpose: str, n_envs: int, terms: Terms) -> ParallelCopies:
        """Copies of the environment; see `HostEnvironment`."""
        is_training = purpose == "training"
        if not is_training:
            self._check_evaluates()
        make = self._make if is_training else self._make_eval
        if make is None or (is_training and isinstance(self.env, Sequence)):
            given = self._given[0].unwrapped
            return ParallelCopies(self._given, self._actors, terms, given)
        draws = purpose == "film" and isinstance(make, Recipe)
        options = {"render_mode": "rgb_array"} if draws else {}
        envs = [make(**options) for _ in range(n_envs)]
        return ParallelCopies(envs, self._actors, terms)

    @property
    def can_draw(self) -> bool:
        """Whether films can be made: unless it has a name, of environments that are made to draw."""
        return self._draws and self._make_eval is not None

    @property
    def why_it_cannot_draw(self) -> str:
        """The message where it does not."""
        return (
            f"{self.name} does not draw: films need an environment that has a name and the render mode "
            '"rgb_array", or one that is made with render_mode="rgb_array".'
        )


def _name_of(env: ParallelEnv) -> str:
    """The name in the metadata of an environment, or that of its class."""
    metadata = getattr(env, "metadata", {})
    return str(metadata.get("name", type(env.unwrapped).__qualname__))
