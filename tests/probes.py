"""Environments small enough to know what an agent must learn."""

import copy
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from jaxagents.envs import Environment, Step


class Discrete(NamedTuple):
    """Space of the integers below `n`."""

    n: int
    shape: tuple[int, ...] = ()
    dtype: Any = jnp.int32


class Box(NamedTuple):
    """Space of the arrays between two bounds."""

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: Any = jnp.float32


class ProbeState(struct.PyTreeNode):
    """The state of a probe: the time, and the sign that is observed."""

    time: Any
    sign: Any


class Probe:
    """Base class: observes a sign and the time; subclasses define rewards and terminations.

    With `n_actors`, all actors observe the same, and each is rewarded for its own action. If actions are
    `continuous`, positive ones stand for action 1.
    """

    n_steps = 1

    def __init__(self, n_actors: int | None = None, continuous: bool = False) -> None:
        self.continuous = continuous
        if n_actors is not None:
            self.n_actors = n_actors

    @property
    def default_params(self) -> None:
        return None

    def action_space(self, params: None) -> Any:
        return Box(-1.0, 1.0, (1,)) if self.continuous else Discrete(2)

    def choice(self, action: Any) -> Any:
        return action[0] > 0.0 if self.continuous else action

    def action(self, choice: Any) -> Any:
        return jnp.where(choice, 0.7, -0.7)[None] if self.continuous else jnp.asarray(choice, int)

    def random_action(self, key: Any) -> Any:
        if self.continuous:
            return jax.random.uniform(key, (1,), minval=-1.0, maxval=1.0)
        return jax.random.randint(key, (), 0, 2)

    def best(self, state: ProbeState) -> Any:
        """The choice that is rewarded most."""
        return jnp.ones((), bool)

    def reset_env(self, key: Any, params: None) -> tuple[Any, ProbeState]:
        sign = jnp.where(jax.random.bernoulli(key), 1.0, -1.0)
        state = ProbeState(time=jnp.zeros((), jnp.int32), sign=sign)
        return self.observe(state), state

    def step_env(self, key: Any, state: ProbeState, action: Any, params: None) -> tuple:
        reward = self.reward(state, action)
        if hasattr(self, "n_actors"):
            reward = jnp.broadcast_to(reward, (self.n_actors,))
        state = state.replace(time=state.time + 1)
        return self.observe(state), state, reward, self.terminated(state), {}

    def observe(self, state: ProbeState) -> Any:
        return jnp.stack([state.sign, state.time.astype(float)])

    def reward(self, state: ProbeState, action: Any) -> Any:
        return jnp.ones(())

    def terminated(self, state: ProbeState) -> Any:
        return state.time >= self.n_steps


class Endless(Probe):
    """Rewards 1 forever; only the agent's time limit ends episodes. The value is 1 / (1 - gamma)."""

    def observe(self, state: ProbeState) -> Any:
        return jnp.ones(2)

    def terminated(self, state: ProbeState) -> Any:
        return jnp.zeros((), bool)


class KindState(ProbeState):
    """A state of one of several kinds of episodes."""

    kind: Any


class KnownValues(Probe):
    """Episodes of four kinds with known values, independent of the actions.

    Kind 0 rewards 1 at once: the value is 1. Kind 1 rewards the observed sign: the value is the sign.
    Kind 2 rewards 1 after the second step: the values are gamma and 1. Kind 3 rewards 1 forever, and
    only the agent's time limit ends it: the value is 1 / (1 - gamma) if the agent bootstraps there.
    """

    @staticmethod
    def observation(kind: int, sign: float = 1.0, time: float = 0.0) -> list[float]:
        """An observation in an episode of a kind."""
        return [sign, time, *(float(kind == other) for other in range(4))]

    def reset_env(self, key: Any, params: None) -> tuple[Any, KindState]:
        bits = jax.random.bits(key, (), jnp.uint32)  # one draw, as each is much to compile
        sign, kind = 1.0 - 2.0 * (bits % 2), (bits // 2 % 4).astype(jnp.int32)
        state = KindState(jnp.zeros((), jnp.int32), sign, kind)
        return self.observe(state), state

    def observe(self, state: ProbeState) -> Any:
        kind = getattr(state, "kind", jnp.zeros((), jnp.int32))
        time = jnp.where(kind == 3, 0, state.time).astype(float)
        return jnp.concatenate([jnp.stack([state.sign, time]), jax.nn.one_hot(kind, 4)])

    def reward(self, state: Any, action: Any) -> Any:
        delayed = (state.time == 1).astype(float)
        return jnp.select([state.kind == 1, state.kind == 2], [state.sign, delayed], 1.0)

    def terminated(self, state: Any) -> Any:
        n_steps = jnp.select([state.kind == 2, state.kind == 3], [2, 2**30], 1)
        return state.time >= n_steps


class KnownBest(KnownValues):
    """The same, except that kind 0 rewards the choice that matches the sign; the best value is 1.

    A continuous action of the wrong sign reduces the reward by its size. The returns of kinds 1, 2 and 3
    are the sign, 1 and, if the agent's time limit is 3 steps, 3.
    """

    def reward(self, state: Any, action: Any) -> Any:
        return jnp.where(state.kind == 0, self.match(state, action), super().reward(state, action))

    def match(self, state: ProbeState, action: Any) -> Any:
        """The reward of an action for a sign."""
        if self.continuous:
            return 1.0 - jnp.clip(-state.sign * action[0], 0.0, 1.0)
        return jnp.asarray(action == self.best(state), float)

    def best(self, state: ProbeState) -> Any:
        return state.sign > 0


class BestAction(Probe):
    """Rewards action 1, whatever is observed."""

    def reward(self, state: ProbeState, action: Any) -> Any:
        return jnp.asarray(self.choice(action) == 1, float)


class Recall(Probe):
    """Shows a sign first; two steps later, rewards action 1 if the sign was positive.

    The reward of a continuous action is its size, negated if the action has the other sign.
    """

    n_steps = 3

    def observe(self, state):
        shown = jnp.where(state.time == 0, state.sign, 0.0)
        return jnp.stack([shown, state.time.astype(float)])

    def reward(self, state, action):
        is_last = state.time == self.n_steps - 1
        if self.continuous:
            return jnp.where(is_last, state.sign * action[0], 0.0)
        return jnp.where(is_last, (action == (state.sign > 0)).astype(float), 0.0)


class MatchSign(Probe):
    """Rewards action 1 where the sign is positive and action 0 where it is negative."""

    def reward(self, state: ProbeState, action: Any) -> Any:
        return jnp.asarray(self.choice(action) == self.best(state), float)

    def best(self, state: ProbeState) -> Any:
        return state.sign > 0


class Allowed(Probe):
    """Allows two of four actions, depending on the sign, and rewards their number; others give NaN.

    After the end of an episode, no action is allowed.
    """

    n_steps = 2

    def action_space(self, params: None) -> Any:
        return Discrete(4)

    def action_mask(self, state: ProbeState, params: None) -> Any:
        positive, negative = jnp.array([[True, True, False, False], [True, False, True, False]])
        mask = jnp.where(state.sign > 0, positive, negative) & ~self.terminated(state)
        return mask if not hasattr(self, "n_actors") else jnp.stack([mask] * self.n_actors)

    def best(self, state: ProbeState) -> Any:
        return jnp.where(state.sign > 0, 1, 2)

    def reward(self, state: ProbeState, action: Any) -> Any:
        allowed = jnp.take_along_axis(self.action_mask(state, None), action[..., None], axis=-1)
        return jnp.where(allowed[..., 0], action.astype(float), jnp.nan)


class Images(Probe):
    """Shows the sign in an image of bytes, with a number."""

    def observe(self, state: ProbeState) -> Any:
        image = jnp.broadcast_to(jnp.where(state.sign > 0, 255, 0), (5, 5, 1))
        return {"image": image.astype(jnp.uint8), "time": state.time}


class Target(Probe):
    """Rewards being near the point 0.5 * sign in each of two dimensions."""

    def action_space(self, params: None) -> Any:
        return Box(-2.0, 1.0, (2,))

    def reward(self, state: ProbeState, action: Any) -> Any:
        return -jnp.square(action - 0.5 * state.sign).sum(axis=-1)


class Pennies(Environment):
    """Two players choose one of four actions at once, three times; the first player wants a match.

    The opponent observes the time, like the agent.
    """

    action_space = Discrete(4)
    n_steps = 3

    def __init__(self, opponent: Any = lambda key, obs, allowed: jnp.int32(0)) -> None:
        self.opponent = opponent

    def against(self, opponent: Any) -> "Pennies":
        twin = copy.copy(self)
        twin.opponent = opponent
        return twin

    def reset(self, key: Any) -> tuple[Any, Any]:
        return jax.nn.one_hot(0, self.n_steps + 1), jnp.int32(0)

    def step(self, key: Any, state: Any, action: Any) -> Step:
        theirs = self.opponent(key, jax.nn.one_hot(state, self.n_steps + 1), jnp.ones(4, bool))
        reward = jnp.where(action == theirs, 1.0, -1.0)
        obs, over = jax.nn.one_hot(state + 1, self.n_steps + 1), state + 1 == self.n_steps
        return Step(obs, state + 1, reward, over, jnp.bool(False), {})

    def action_mask(self, state: Any) -> Any:
        return jnp.ones(4, bool)
