"""Environments of Gymnasium, in which agents play on the host."""

import gymnasium
import jax
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from gymnasium_probes import Line

from jaxagents import PPO, check_env, ppo
from jaxagents.envs import FrameStack, Gymnasium
from mistakes.entries import Theme
from mistakes.things import ON_POLICY, hyperparams, make_ppo

mistake = Theme("Environments of Gymnasium")


@mistake(ValueError, r"Line is not registered with Gymnasium.*Gymnasium\(lambda: MyEnv\(\)\)")
def one_environment_that_is_not_registered():
    """One environment that Gymnasium knows no way to make more of, for many to be played."""
    make_ppo(Line())


class Plain(gymnasium.Wrapper):
    """A wrapper that does not tell Gymnasium how it was made."""


@mistake(
    ValueError,
    r"CartPole-v1 has wrappers .* \(Plain wrapper does not inherit .*Gymnasium\(lambda: MyEnv\(\)\)",
)
def wrapper_that_is_not_recorded():
    """A wrapper of one's own that Gymnasium cannot put around more, for many to be played."""
    make_ppo(Plain(gymnasium.make("CartPole-v1")))


@mistake(ValueError, r"CartPole-v1 has wrappers .*Plain wrapper .*eval_env=lambda: MyEnv\(\)")
def wrapper_that_is_not_recorded_for_evaluations():
    """A wrapper of one's own that Gymnasium cannot put around one for evaluations."""
    env = gymnasium.make("CartPole-v1")
    make_ppo(Gymnasium(env, eval_env=Plain(env)))


@mistake(ValueError, r"none can be made for evaluations.*eval_env=lambda: MyEnv\(\)")
def vector_without_an_environment_for_evaluations():
    """A vector of environments that are not registered, without one for evaluations."""
    make_ppo(SyncVectorEnv([Line] * 4))


@mistake(ValueError, r"actions of Discrete\(2\), but env has .*\): give one with the same spaces")
def other_spaces_in_evaluations():
    """An environment for evaluations with other observations or actions."""
    make_ppo(Gymnasium(gymnasium.make("Acrobot-v1"), eval_env=gymnasium.make("CartPole-v1")))


@mistake(ValueError, r"actions of Box\(-1.0, 1.0, .*, but env has .* Box\(-2.0, 2.0, ")
def other_bounds_in_evaluations():
    """An environment for evaluations whose actions have other bounds, such as behind a wrapper."""
    pendulum = gymnasium.make("Pendulum-v1")
    make_ppo(Gymnasium(pendulum, eval_env=gymnasium.wrappers.RescaleAction(pendulum, -1, 1)))


@mistake(ValueError, r"The vector has 3 environments, .*n_envs=4: set n_envs=3")
def vector_of_another_size():
    """A vector of more or fewer environments than the configuration has."""
    make_ppo(Gymnasium(SyncVectorEnv([Line] * 3), eval_env=Line))


@mistake(ValueError, r"The same Line is there twice, .* `lambda: MyEnv\(\)`")
def one_environment_as_a_whole_vector():
    """A vector of one and the same environment."""
    line = Line()
    make_ppo(Gymnasium(SyncVectorEnv([lambda: line] * 4), eval_env=Line))


@mistake(ValueError, r"vectorization_mode must be one of \['sync', 'async'\], got 'thread'")
def unknown_vectorization_mode():
    """Another way to step environments than there is."""
    Gymnasium(Line, vectorization_mode="thread")


@mistake(ValueError, r"Discrete actions must start at 0, got Discrete\(2, start=1\)")
def actions_from_one():
    """Discrete actions of Gymnasium that do not start at 0."""
    Gymnasium(lambda: Line(action_space=spaces.Discrete(2, start=1)))


class Blind(Line):
    """An environment in which there is nothing to see."""

    observation_space = spaces.Box(-1, 1, (0,))


@mistake(ValueError, r"Blind\.reset returns an observation with .*of no numbers, .*\(0,\): leave")
def observations_of_no_numbers():
    """Observations of Gymnasium that are empty arrays."""
    make_ppo(Gymnasium(Blind))


@mistake(ValueError, r"Actions must be Discrete, .*got MultiBinary\(2\)")
def binary_actions():
    """Actions of Gymnasium of a space that no agent acts in."""
    Gymnasium(lambda: Line(action_space=spaces.MultiBinary(2)))


@mistake(TypeError, r"The function must return an environment of Gymnasium, got int")
def function_that_makes_something_else():
    """A function that makes no environment."""
    Gymnasium(lambda: 3)


@mistake(TypeError, r"check_env checks compiled.*gymnasium\.utils\.env_checker\.check_env\(env\)")
def check_of_an_environment_of_gymnasium():
    """`check_env` of an environment of Gymnasium."""
    check_env(Gymnasium(Line))


@mistake(NotImplementedError, r"Line runs on the host.*Train one seed after another")
def sweep_on_the_host():
    """A sweep in an environment of Gymnasium."""
    agent = PPO(Gymnasium(Line), None, ppo.AgentConfig(**ON_POLICY))
    agent.sweep(jax.random.split(jax.random.key(0), 2), hyperparams())


@mistake(ValueError, r"final_info and summed_info name \['returns'\], which name another metric")
def info_on_the_host():
    """An entry of the info of an environment of Gymnasium that is named as another metric."""
    PPO(Gymnasium(Line), None, ppo.AgentConfig(**ON_POLICY, final_info=("returns",)))


class Twice(PPO):
    def _training_step(self, runner):
        return super()._training_step(super()._training_step(runner))


@mistake(
    TypeError, r"Twice overrides _training_step, .* runs on the host: override _learn, or a hook"
)
def own_update_on_the_host():
    """An update of one's own that plays, in an environment of Gymnasium."""
    Twice(Gymnasium(Line), None, ppo.AgentConfig(**ON_POLICY))


@mistake(TypeError, r"FrameStack goes around compiled .* Line runs on .*gymnasium\.wrappers")
def wrapper_of_an_environment_of_gymnasium():
    """A wrapper of compiled environments around an environment of Gymnasium."""
    FrameStack(Gymnasium(Line), 4)
