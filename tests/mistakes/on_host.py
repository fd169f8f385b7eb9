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
    "Several copies of an environment that is not registered and cannot be pickled": lambda: (
        make_ppo(Locked())
    ),
    "Several copies of your own wrapper that can be neither made nor pickled": lambda: make_ppo(
        plain()
    ),
    "Evaluations in your own wrapper that can be neither made nor pickled": lambda: make_ppo(
        Gymnasium(gymnasium.make("CartPole-v1"), eval_env=plain())
    ),
    "A vector of environments that are not registered, without an `eval_env`": lambda: make_ppo(
        SyncVectorEnv([Locked] * 4)
    ),
    "An `eval_env` with other observations or actions": lambda: make_ppo(
        Gymnasium(gymnasium.make("Acrobot-v1"), eval_env=gymnasium.make("CartPole-v1"))
    ),
    "A vector with another number of environments than the configuration": lambda: make_ppo(
        Gymnasium(SyncVectorEnv([Line] * 3), eval_env=Line)
    ),
    "A vector that holds the same environment twice": lambda: make_ppo(same_four_times()),
    "A vector in which another agent is being trained": vector_in_use,
    "An unknown `vectorization_mode`": lambda: Gymnasium(Line, vectorization_mode="thread"),
    "Discrete actions in Gymnasium that do not start at 0": lambda: Gymnasium(
        lambda: Line(action_space=spaces.Discrete(2, start=1))
    ),
    "Gymnasium observations that are empty arrays": lambda: make_ppo(Gymnasium(Blind)),
    "A Gymnasium action space that no agent supports": lambda: Gymnasium(
        lambda: Line(action_space=spaces.MultiBinary(2))
    ),
    "A function that does not return an environment": lambda: Gymnasium(lambda: 3),
    "`check_env` of a Gymnasium environment": lambda: check_env(Gymnasium(Line)),
    "A sweep in a Gymnasium environment": lambda: PPO(
        Gymnasium(Line), None, ppo.AgentConfig()
    ).sweep(keys(2)),
    "An entry of a Gymnasium environment's info with the name of a metric": lambda: make_ppo(
        Gymnasium(Line), final_info=("returns",)
    ),
    "A `_training_step` of your own that plays in a Gymnasium environment": lambda: make_ppo(
        Gymnasium(Line), Twice
    ),
    "A wrapper of compiled environments around a Gymnasium environment": lambda: FrameStack(
        Gymnasium(Line), 4
    ),
}
