"""Gymnasium environments on the host."""

import threading

import gymnasium
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from gymnasium_probes import Line

from jaxagents import PPO, check_env, ppo
from jaxagents.envs import FrameStack, Gymnasium
from jaxagents.envs.on_host.environment import Terms
from mistakes.things import keys, make_ppo


class Plain(gymnasium.Wrapper):
    """A wrapper that does not tell Gymnasium how it was made."""

    def __reduce__(self):
        raise TypeError("cannot pickle")


class Locked(Line):
    """An environment that cannot be pickled."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class Blind(Line):
    """An environment that cannot be rendered."""

    observation_space = spaces.Box(-1, 1, (0,))


class Twice(PPO):
    def _training_step(self, runner):
        return super()._training_step(super()._training_step(runner))


def plain():
    return Plain(gymnasium.make("CartPole-v1"))


def same_four_times():
    line = Line()
    return Gymnasium(SyncVectorEnv([lambda: line] * 4), eval_env=Line)


def discrete():
    return Line(action_space=spaces.Discrete(2))


def vector_in_use():
    terms, vector = Terms(max_steps=10), SyncVectorEnv([discrete] * 4)
    with Gymnasium(vector).playing("training", 4, terms):
        make_ppo(Gymnasium(vector, eval_env=discrete)).env.playing("training", 4, terms).__enter__()


MISTAKES = {
    "One environment that is not registered and cannot be pickled, for many to be played": lambda: (
        make_ppo(Locked())
    ),
    "A wrapper of one's own that can be neither made nor pickled, for many to be played": lambda: (
        make_ppo(plain())
    ),
    "A wrapper of one's own that can be neither made nor pickled, for evaluations": lambda: (
        make_ppo(Gymnasium(gymnasium.make("CartPole-v1"), eval_env=plain()))
    ),
    "A vector of environments that are not registered, without one for evaluations": lambda: (
        make_ppo(SyncVectorEnv([Locked] * 4))
    ),
    "An environment for evaluations with other observations or actions": lambda: make_ppo(
        Gymnasium(gymnasium.make("Acrobot-v1"), eval_env=gymnasium.make("CartPole-v1"))
    ),
    "A vector of more or fewer environments than the configuration has": lambda: make_ppo(
        Gymnasium(SyncVectorEnv([Line] * 3), eval_env=Line)
    ),
    "A vector of one and the same environment": lambda: make_ppo(same_four_times()),
    "A vector in which another agent is being trained": vector_in_use,
    "Another way to step environments than there is": lambda: Gymnasium(
        Line, vectorization_mode="thread"
    ),
    "Discrete actions of Gymnasium that do not start at 0": lambda: Gymnasium(
        lambda: Line(action_space=spaces.Discrete(2, start=1))
    ),
    "Observations of Gymnasium that are empty arrays": lambda: make_ppo(Gymnasium(Blind)),
    "Actions of Gymnasium of a space that no agent acts in": lambda: Gymnasium(
        lambda: Line(action_space=spaces.MultiBinary(2))
    ),
    "A function that makes no environment": lambda: Gymnasium(lambda: 3),
    "`check_env` of an environment of Gymnasium": lambda: check_env(Gymnasium(Line)),
    "A sweep in an environment of Gymnasium": lambda: PPO(
        Gymnasium(Line), None, ppo.AgentConfig()
    ).sweep(keys(2)),
    "An entry of the info of an environment of Gymnasium that is named as another metric": lambda: (
        make_ppo(Gymnasium(Line), final_info=("returns",))
    ),
    "An update of one's own that plays, in an environment of Gymnasium": lambda: make_ppo(
        Gymnasium(Line), Twice
    ),
    "A wrapper of compiled environments around an environment of Gymnasium": lambda: FrameStack(
        Gymnasium(Line), 4
    ),
}
