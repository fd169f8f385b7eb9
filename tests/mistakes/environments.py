"""Mistakes with environments."""

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Discrete as From
from gymnasium.spaces import MultiBinary, MultiDiscrete
from probes import Box, Discrete, MatchSign, Target

from jaxagents import BC, IPPO, PPO, Environment, bc, check_env, ippo, ppo
from jaxagents.envs import Step
from mistakes.things import make_bc, make_box_ppo, make_dqn, make_ppo, make_sac, mine, train

_TWO = Discrete(2)
_PARTS = "obs", "state", "reward", "done", "info"


def wrong(*actors, **changes):
    """An environment, with functions that change parts of its steps."""

    def step_env(self, *args):
        parts = zip(_PARTS, MatchSign.step_env(self, *args), strict=True)
        return tuple(changes.get(name, lambda part: part)(part) for name, part in parts)

    return mine(MatchSign, step_env=step_env)(*actors)


class Still(Environment):
    """An environment in which nothing happens, with a given space."""

    def __init__(self, action_space=_TWO, max_steps=None):
        self.action_space = action_space
        self.max_steps = max_steps

    def reset(self, key):
        return jnp.zeros(2), jnp.zeros(2)

    def step(self, key, state, action):
        return Step(state, state, 0.0, False, False, {})


def still(**members):
    return mine(Still, **members)()


def match_sign(**members):
    return mine(MatchSign, **members)()


def boxed(*bounds):
    """An environment with other bounds of actions."""
    return mine(Target, action_space=lambda self, params: Box(*bounds))()


def stepping(**parts):
    """A step with other values."""
    return lambda self, *args: Still.step(self, *args)._replace(**parts)


def four_values(self, *args):
    return MatchSign.step_env(self, *args)[:4]


def changed_reset(change):
    def reset_env(self, *args):
        obs, state = MatchSign.reset_env(self, *args)
        return change(obs), state

    return reset_env


def writes_in_reset(self, key):
    self.start = jax.random.normal(key, (2,))
    return self.start, self.start


MISTAKES = {
    "A class instead of an environment": lambda: make_ppo(MatchSign),
    "A name that gymnax does not have": lambda: make_ppo("CartPole"),
    "An unknown suite": lambda: make_ppo("atari:Pong"),
    "Something that is not an environment": lambda: make_ppo(object()),
    "A step of four values, as of old Gym": lambda: make_ppo(match_sign(step_env=four_values)),
    "A step whose info is `None`": lambda: make_ppo(wrong(info=lambda info: None)),
    "Observations that change shape after a step": lambda: make_ppo(
        wrong(obs=lambda obs: jnp.zeros(3))
    ),
    "A state that changes structure after a step": lambda: make_ppo(
        wrong(state=lambda state: {"state": state})
    ),
    "Several rewards for one actor": lambda: make_ppo(wrong(reward=lambda reward: jnp.zeros(2))),
    "Complex rewards": lambda: make_ppo(wrong(reward=lambda reward: reward + 1j)),
    "A float for `terminated`": lambda: make_ppo(wrong(done=lambda done: jnp.float32(0.0))),
    "An entry of the info with the name of a metric of updates": lambda: train(
        make_ppo(wrong(info=lambda info: {"kl": jnp.zeros(())}), final_info=("kl",))
    ),
    "`terminated` for each actor": lambda: IPPO(
        wrong(2, done=lambda done: jnp.zeros(2, bool)), None, ippo.AgentConfig()
    ),
    "An environment without actors": lambda: make_ppo(MatchSign(0)),
    "Observations that do not fit their space": lambda: make_ppo(
        match_sign(observation_space=lambda self, params: Box(-1.0, 1.0, (3,)))
    ),
    "An environment in NumPy: `float(action)`": lambda: make_ppo(wrong(reward=float)),
    "An environment whose reset calls NumPy": lambda: make_ppo(
        match_sign(reset_env=changed_reset(np.asarray))
    ),
    "A subclass of `Environment` whose step returns a tuple": lambda: make_ppo(
        still(step=lambda self, key, state, action: (state, state, 0.0, False, {}))
    ),
    "Parameters for an `Environment`, which holds its own": lambda: PPO(
        Still(), {"gravity": 9.8}, ppo.AgentConfig()
    ),
    "A subclass of `Environment` with the step of Gymnasium": lambda: make_ppo(
        still(step=lambda self, action: (jnp.zeros(2), 0.0, False, False, {}))
    ),
    "A `step` whose arguments have another order": lambda: make_ppo(
        still(step=lambda self, state, action, key: Still.step(self, key, state, action))
    ),
    "A string in the info of a compiled environment": lambda: make_ppo(
        still(step=stepping(info={"message": "left"}))
    ),
    "An environment whose reset writes to `self`": lambda: make_ppo(still(reset=writes_in_reset)),
    "`check_env` of an environment in NumPy": lambda: check_env(
        still(reset=lambda self, key: (np.asarray(jax.random.normal(key, (2,))), jnp.zeros(2)))
    ),
    "The class of a space instead of a space": lambda: make_ppo(Still(Discrete)),
    "The number of actions instead of their space": lambda: make_dqn(Still(4)),
    "A method for the space of an `Environment`": lambda: make_ppo(
        still(__init__=lambda self: None, action_space=lambda self: Discrete(4))
    ),
    "A space as an attribute beside `reset_env` and `step_env`": lambda: make_ppo(
        match_sign(action_space=Discrete(2))
    ),
    "Episodes of no steps": lambda: make_ppo(Still(max_steps=0)),
    "PPO with `MultiBinary` actions": lambda: make_ppo(Still(MultiBinary(2))),
    "Discrete actions of a compiled environment that do not start at 0": lambda: make_dqn(
        Still(From(3, start=1))
    ),
    "Discrete observations of a compiled environment that do not start at 0": lambda: make_ppo(
        still(observation_space=From(4, start=2))
    ),
    "Observations that are empty arrays": lambda: make_dqn(
        match_sign(observe=lambda self, state: jnp.zeros(0))
    ),
    "`MultiDiscrete` actions with two axes": lambda: make_ppo(Still(MultiDiscrete([[2, 3]]))),
    "Continuous actions with a component of a single value": lambda: make_ppo(
        Still(Box(0.0, 0.0, (2,)))
    ),
    "An environment without an action space": lambda: make_ppo(match_sign(action_space=None)),
    "SAC with unbounded actions": lambda: make_sac(boxed(-jnp.inf, jnp.inf, (2,))),
    "`squash_actions` with unbounded actions": lambda: make_box_ppo(
        boxed(-jnp.inf, jnp.inf, (2,)), squash_actions=True
    ),
    "Continuous actions without components": lambda: make_box_ppo(boxed(-1.0, 1.0, (0,))),
    "DQN with continuous actions": lambda: make_dqn(Target()),
    "A dict for the dataset of an offline agent": lambda: make_bc({"actions": np.zeros(4, int)}),
    "An environment that draws its noise with `numpy.random`": lambda: make_ppo(
        match_sign(reset_env=changed_reset(lambda obs: obs + np.random.normal()))  # noqa: NPY002
    ),
    'An environment without its parameters and a configuration: `PPO("CartPole-v1")`': lambda: PPO(
        "CartPole-v1"
    ),
    "An offline agent without a dataset": lambda: BC(MatchSign(), None, bc.AgentConfig()),
}
