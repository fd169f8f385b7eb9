"""The adapter for JaxMARL."""

import io
import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from jaxagents.core.extras import require
from jaxagents.envs.adapters.native import Native, flag, reset_shapes, space_like
from jaxagents.envs.environment import Environment, Step
from jaxagents.envs.spaces import is_discrete, size_of, widest_space

_LIMITS = "max_steps", "episode_length"
_BONUS = "won_battle_bonus"


class _State(NamedTuple):
    """A state with the time and which actors play; `None` if no actor can leave before the others."""

    native: PyTree
    time: Int[Array, ""]
    playing: Bool[Array, "actors"] | None


class JaxMARL(Native):
    """A JaxMARL environment; its agents are the actors, in the same order.

    Observations of different sizes are flattened and padded with zeros. If actors have different numbers
    of actions, missing ones are masked, and extra components of continuous actions are dropped. Action
    masks are read from `get_avail_actions`.

    JaxMARL terminates episodes at its `max_steps`; here that counts as truncation. JaxMARL does the
    counting, and its particle environments end one step later. An actor that leaves early, as in SMAX,
    or in JaxNav if robots evaporate, still chooses actions until the episode ends for all, as in
    JaxMARL; `actor_mask` marks it as gone. In SMAX, the info entry `"won"` marks the actors of a team
    that has just won.
    """

    def __init__(self, env: Any) -> None:
        """Wraps an environment.

        Args:
            env: The environment.

        Raises:
            TypeError: Only some agents have discrete actions, or boxes have different bounds.
        """
        super().__init__(env)
        self.agents = tuple(env.agents)
        self.n_actors = len(self.agents)
        self._limit = _limit(env)
        spaces = [env.action_space(agent) for agent in self.agents]
        self._sizes = tuple(map(size_of, spaces))
        self.action_space = widest_space(spaces, self.wording.environment)
        self._heeds_masks = False
        _, state = reset_shapes(self)
        self._heeds_masks = is_discrete(self.action_space) and _has_masks(env, state.native)
        self.observation_space = space_like(reset_shapes(self)[0])

    @classmethod
    def named(cls, name: str, **options: Any) -> Environment:
        """Creates an environment by name.

        Args:
            name: One of `names()`.
            **options: Passed to `jaxmarl.make`. SMAX's `scenario` and Overcooked's `layout` can be
                names, such as `"3m"` and `"cramped_room"`.

        Returns:
            The environment.
        """
        return cls(_jaxmarl().make(name, **_resolve_names(name, options)))

    @classmethod
    def names(cls) -> list[str]:
        """The names of the suite's environments."""
        return list(_jaxmarl().registered_envs)

    @property
    def name(self) -> str:
        """The environment's name in JaxMARL."""
        return str(self.env.name)

    def reset(self, key: Key[Array, ""]) -> tuple[PyTree, PyTree]:
        """Starts an episode; see `Environment`."""
        obs, state = self.env.reset(key)
        playing = jnp.ones(self.n_actors or 0, bool) if _may_leave(self.env) else None
        return self._stack(obs), _State(state, jnp.int32(0), playing)

    def step(self, key: Key[Array, ""], state: _State, action: Array) -> Step:
        """Takes one step; see `Environment`."""
        actions = {
            agent: action[i] if is_discrete(self.action_space) else action[i, : self._sizes[i]]
            for i, agent in enumerate(self.agents)
        }
        obs, native, rewards, dones, info = self.env.step_env(key, state.native, actions)
        time, over = state.time + 1, flag(dones["__all__"])
        is_cut = jnp.bool_(False) if self._limit is None else over & (time >= self._limit)
        reward = jnp.stack([jnp.asarray(x, jnp.float32).reshape(()) for x in self._each(rewards)])
        info = info if isinstance(info, Mapping) else {}
        info = {str(name): self._joint(x) for name, x in info.items()}
        if hasattr(self.env, _BONUS):
            info["won"] = over & (reward >= getattr(self.env, _BONUS))
        return Step(
            self._stack(obs),
            _State(native, time, self._still_playing(state.playing, dones)),
            reward,
            over & ~is_cut,
            is_cut,
            info,
        )

    def action_mask(self, state: _State) -> Bool[Array, "actors n_actions"] | None:
        """Which actions each actor has and may take; see `Environment`."""
        if not is_discrete(self.action_space):
            return None
        n_actions = self.action_space.n
        has = np.arange(n_actions) < np.asarray(self._sizes)[:, None]
        if not self._heeds_masks:
            return None if has.all() else jnp.asarray(has)
        masks = self._each(self.env.get_avail_actions(state.native))
        return jnp.stack([_pad(mask, (n_actions,)).astype(bool) for mask in masks]) & has

    def critic_state(self, state: _State) -> PyTree:
        """The world state, which SMAX and some others provide; see `Environment`."""
        see = getattr(self.env, "get_world_state", None)
        return None if see is None else see(state.native)

    def actor_mask(self, state: _State) -> Bool[Array, "actors"] | None:
        """Which actors were not done before the others; `None` if none can leave early."""
        return state.playing

    def _still_playing(
        self, before: Bool[Array, "actors"] | None, dones: dict[str, Array]
    ) -> Bool[Array, "actors"] | None:
        """Which actors play on after a step; at the end of an episode, none counts as leaving early."""
        if before is None:
            return None
        done = jnp.stack([flag(x) for x in self._each(dones)])
        return before & ~(done & ~flag(dones["__all__"]))

    def _each(self, values: PyTree) -> list[Any]:
        """The values of all actors, from a dict or along the first axis."""
        if isinstance(values, Mapping):
            return [values[agent] for agent in self.agents]
        return [values[i] for i in range(self.n_actors or 0)]

    def _joint(self, entry: PyTree) -> PyTree:
        """An info entry, stacked into one array if it holds one array per actor."""
        if not (isinstance(entry, Mapping) and set(entry) == set(self.agents)):
            return entry
        each = self._each(entry)
        shapes = {getattr(x, "shape", None) for x in each}
        return jnp.stack(each) if len(shapes) == 1 and None not in shapes else entry

    def _stack(self, obs: PyTree) -> Array:
        """Observations of all actors in one array of floats: integers would be read as pixels."""
        each = [jnp.asarray(x, jnp.float32) for x in self._each(obs)]
        shapes = {x.shape for x in each}
        if len(shapes) > 1:
            size = max(map(math.prod, shapes))
            each = [_pad(x.reshape(-1), (size,)) for x in each]
        return jnp.stack(each)


def _jaxmarl() -> Any:
    """Imports the suite silently.

    The import prints, and resets `sys.stdout` and `sys.stderr` to the process's streams, which would
    lose a notebook's or a caller's.
    """
    streams = {name: getattr(sys, name) for name in ("stdout", "stderr", "__stdout__")}
    printed = io.StringIO()
    sys.__dict__.update(stdout=printed, __stdout__=printed)
    try:
        return require("jaxmarl", "jaxmarl")
    finally:
        sys.__dict__.update(streams)


def _resolve_names(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Replaces names of scenarios and layouts in options by the scenarios and layouts themselves."""
    tables = {
        "scenario": ("jaxmarl.environments.smax", "map_name_to_scenario"),
        "layout": (f"jaxmarl.environments.{name}", f"{name}_layouts"),
    }
    resolved = dict(options)
    for option, (module, table) in tables.items():
        if isinstance(options.get(option), str) and (option != "layout" or name == "overcooked"):
            found = getattr(require(module, "jaxmarl"), table)
            value = options[option]
            resolved[option] = found(value) if callable(found) else found[value]
    return resolved


def _limit(env: Any) -> int | None:
    """The environment's time limit, in steps."""
    limits = (getattr(env, name, None) for name in _LIMITS)
    return next((int(limit) for limit in limits if limit is not None), None)


def _may_leave(env: Any) -> bool:
    """Whether actors can leave before the others: units that die, robots that evaporate."""
    names = [cls.__name__ for cls in type(env).__mro__]
    return any(name.endswith("SMAX") for name in names) or getattr(env, "evaporating", False)


def _has_masks(env: Any, state: PyTree) -> bool:
    """Whether an environment provides action masks."""
    try:
        return isinstance(jax.eval_shape(env.get_avail_actions, state), Mapping)
    except (NotImplementedError, AttributeError):
        return False


def _pad(x: Array, shape: tuple[int, ...]) -> Array:
    """Pads a vector with zeros."""
    return jnp.pad(jnp.asarray(x), (0, shape[0] - x.shape[0]))
