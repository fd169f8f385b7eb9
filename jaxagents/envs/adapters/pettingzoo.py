"""The adapter for PettingZoo: parallel multi-agent environments on the host."""

import dataclasses
import importlib
import importlib.util
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pettingzoo
from jaxtyping import PyTree
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.env_registry.exceptions import FailedToImport

from jaxagents.core.observed import CRITIC_STATE
from jaxagents.envs.adapters.native import Native
from jaxagents.envs.episodes import LONGEST
from jaxagents.envs.on_host.copying import PickledEnvironment, copier_or_warning
from jaxagents.envs.on_host.environment import HostEnvironment, Terms
from jaxagents.envs.on_host.parallel import Actors, ParallelCopies

MakeParallel = Callable[..., ParallelEnv]
_PARTICLES = "mpe"
"""The family of environments from `mpe2`, which does not register them."""


class PettingZoo(HostEnvironment, Native):
    """A PettingZoo parallel environment, for multi-agent training on the host.

    ```python
    env = pettingzoo.make("parallel", "butterfly/pistonball-v6")
    agent = IPPO(env, None, ippo.AgentConfig(n_envs=8))
    ```

    Its possible agents are the actors, in the same order. `actor_mask` marks the actors that are
    playing: steps of actors that leave early or join late are masked out while they are away. An episode
    is over once no actor is left. It counts as truncated if an actor that played to the end was
    truncated.

    Observations that are not identical boxes are flattened and padded with zeros. If actors have
    different numbers of actions, missing ones are masked, and extra components of continuous actions are
    dropped. Action masks are read from an entry `"action_mask"` in observations or infos.
    [`MAPPO`][jaxagents.mappo.MAPPO] feeds `state()` to its critic.

    An agent plays in `config.n_envs` copies, stepped one after another. Each episode has its own seed,
    so a resumed run continues as if it had never been interrupted.

    Attributes:
        env: The environment, environments or function, as passed to the constructor.
        agents: The possible agents.
    """

    def __init__(
        self,
        env: ParallelEnv | AECEnv | MakeParallel | Sequence[ParallelEnv],
        *,
        eval_env: ParallelEnv | MakeParallel | None = None,
    ) -> None:
        """Wraps an environment, which agents copy.

        Args:
            env: A parallel environment, which is copied by pickling; a function that creates one; or a
                sequence of `n_envs` environments.
            eval_env: The environment for evaluations, if not `env`.

        Raises:
            TypeError: `env` or `eval_env` is none of the above, its agents take turns (`AECEnv`), or
                they have different kinds of action spaces.
            ValueError: Actions or observations are not supported, or environments differ.
        """
        super().__init__(env)
        self._make = _maker_of(env)
        self._make_eval = self._make if eval_env is None else _maker_of(eval_env)
        self._identity = _identity_of(env, self._make), _identity_of(eval_env, self._make_eval)
        given = env if isinstance(env, Sequence) else [env] if isinstance(env, ParallelEnv) else []
        self._n_given = len(env) if isinstance(env, Sequence) else None
        self._given: tuple[ParallelEnv, ...] = tuple(given)
        first = self._given[0] if self._given else _made_by(self._make)
        metadata = getattr(first, "metadata", {})
        own_name = str(metadata.get("name", type(first.unwrapped).__qualname__))
        self._name = env.name if isinstance(env, _Recipe) else own_name
        options = env.options if isinstance(env, _Recipe) else {}
        self.params = {name: x for name, x in options.items() if name != "render_mode"}
        self._actors = Actors(first, self._name)
        self._example = self._actors.example()
        others = {f"Environment {i}": each for i, each in enumerate(self._given)}
        if eval_env is not None:
            is_one = isinstance(eval_env, ParallelEnv)
            others["eval_env"] = eval_env if is_one else _made_by(self._make_eval)
        expected = _spaces_of(first)
        for name, other in others.items():
            if _spaces_of(other) != expected:
                raise ValueError(
                    f"{name} has the agents and spaces {_spaces_of(other)}, but the first has "
                    f"{expected}: all must have the same."
                )
        limit = getattr(first.unwrapped, "max_cycles", None)
        if isinstance(limit, int) and limit > LONGEST:
            self.max_steps = limit + 1  # some count from 0
        self.agents = self._actors.agents
        self.n_actors = len(self.agents)
        self.action_space = self._actors.action_space
        self.observation_space = self._actors.observation_space
        self.render_fps = metadata.get("render_fps", Native.render_fps)
        # Environments made by name get a render mode; others keep their own.
        is_named = isinstance(self._make_eval, _Recipe)
        own = (getattr(first, "render_mode", None),)
        modes = metadata.get("render_modes", ()) if is_named else own
        self._draws = self._make_eval is not None and "rgb_array" in modes

    @classmethod
    def named(cls, name: str, **options: Any) -> "PettingZoo":
        """Creates an environment registered with PettingZoo, or one from `mpe2`.

        Args:
            name: Name of the environment, such as `"butterfly/pistonball-v6"` or
                `"mpe/simple_spread-v3"`.
            **options: Passed to its constructor.

        Returns:
            The environment.
        """
        return cls(_Recipe(name, options))

    @classmethod
    def names(cls) -> list[str]:
        """The names of all registered parallel environments, and of the ones in `mpe2`."""
        modules = []
        if importlib.util.find_spec("mpe2") is not None:
            modules = importlib.import_module("mpe2.all_modules").mpe_environments
        return sorted([*pettingzoo.parallel_registry, *(x.replace("_v", "-v") for x in modules)])

    def critic_state(self, state: PyTree) -> PyTree:
        """Zeros shaped like the result of `state()`; `None` if there is none."""
        return jax.tree.map(jnp.asarray, self._actors.state)

    def to_agent(self, obs: PyTree, like: PyTree) -> PyTree:
        """Converts an observation, which may be a dict keyed by agent; see `HostEnvironment`."""
        if not self._is_by_agent(obs):
            return super().to_agent(obs, like)
        if self._actors.masks_in_infos:
            raise ValueError(
                f"{self.name} gives its masks of actions in infos, which policy(observations) does not "
                "see: have the environment add an entry 'action_mask' to its observations."
            )
        playing = np.array([agent in obs for agent in self.agents])
        state = self._actors.state if CRITIC_STATE in like else None
        return self._actors.observation(obs, {}, playing, state)

    def from_agent(self, obs: PyTree, action: PyTree) -> PyTree:
        """Converts the actions, to a dict if the observation is one; see `HostEnvironment`."""
        rows = super().from_agent(obs, action)
        return self._actors.actions(rows, [*obs]) if self._is_by_agent(obs) else rows

    def _is_by_agent(self, obs: PyTree) -> bool:
        return isinstance(obs, Mapping) and obs.keys() <= {*self.agents}

    def _why_no_more(self, evaluated: bool) -> str:
        return f"{self.name} cannot be pickled"

    def _given_copies(self, n_envs: int, terms: Terms) -> ParallelCopies | None:
        """The given environments; see `HostEnvironment`."""
        if len(self._given) != n_envs:
            return None
        return ParallelCopies(self._given, self._actors, terms, self._given[0].unwrapped)

    def _more_copies(self, purpose: str, n_envs: int, terms: Terms) -> ParallelCopies:
        """Copies of the environment; see `HostEnvironment`."""
        make = self._make if purpose == "training" else self._maker_for_evaluation()
        assert make is not None
        draws = purpose == "film" and isinstance(make, _Recipe)
        options = {"render_mode": "rgb_array"} if draws else {}
        return ParallelCopies([make(**options) for _ in range(n_envs)], self._actors, terms)


# Making copies of a given environment.


@dataclasses.dataclass(frozen=True)
class _Recipe:
    """Creates an environment by name, with options."""

    name: str
    options: dict[str, Any]

    def __call__(self, **more: Any) -> ParallelEnv:
        options = self.options | more
        family, _, name = self.name.partition("/")
        if family != _PARTICLES:
            try:
                return pettingzoo.make("parallel", self.name, **options)
            except FailedToImport as error:
                raise ImportError(str(error)) from error
        module = importlib.import_module(f"mpe2.{name.replace('-v', '_v')}")
        return module.parallel_env(**options)

    def __hash__(self) -> int:
        return hash(self.name)


def _maker_of(env: object) -> MakeParallel | None:
    """Returns a function that creates such environments; `None` if there is none."""
    if isinstance(env, Sequence) and not isinstance(env, str) and env:
        for each in env:
            _check_parallel(each)
        env = env[0]
    if callable(env) and not isinstance(env, ParallelEnv | AECEnv):
        return cast(MakeParallel, env)
    _check_parallel(env)
    return copier_or_warning(env, type(env).__qualname__, "PettingZoo")


def _made_by(make: MakeParallel | None) -> ParallelEnv:
    env = make() if make else None
    _check_parallel(env)
    return cast(ParallelEnv, env)


def _identity_of(env: object, make: MakeParallel | None) -> Hashable:
    """The pickled bytes of an environment, or the environment itself."""
    if isinstance(make, PickledEnvironment) and isinstance(env, ParallelEnv):
        return make.pickled
    return tuple(env) if isinstance(env, Sequence) else cast(Hashable, env)


def _check_parallel(env: object) -> None:
    if isinstance(env, AECEnv):
        raise TypeError(
            f"In {env} agents take turns, but they must act at the same time: pass its parallel "
            "form, parallel_env() of its module, or "
            "pettingzoo.utils.conversions.aec_to_parallel(env) if its metadata say that it is "
            "parallelizable."
        )
    if not isinstance(env, ParallelEnv):
        raise TypeError(
            "PettingZoo takes a parallel environment, a function that makes one, or a sequence of them, "
            f"got {env!r}."
        )


def _spaces_of(env: ParallelEnv) -> list[tuple[Any, ...]]:
    agents = env.possible_agents
    return [(agent, env.observation_space(agent), env.action_space(agent)) for agent in agents]
