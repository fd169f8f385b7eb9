"""Parallel PettingZoo environments, for multi-agent algorithms on the host."""

from gymnasium import spaces
from mpe2 import simple_spread_v3
from parallel_probes import Relay

from jaxagents import IPPO, PPO, ippo
from jaxagents.envs import PettingZoo
from mistakes.things import ON_POLICY


def make(env, agent=IPPO, **fields):
    return agent(env, None, ippo.AgentConfig(**{**ON_POLICY, **fields}))


class Longer(Relay):
    possible_agents = ("near", "far", "farther")


class Locked(Relay):
    def __reduce__(self):
        raise TypeError("cannot pickle")


class Nameless(Relay):
    possible_agents = ()


class Blind(Relay):
    def observation_space(self, agent):
        return spaces.Box(-1, 1, (0,))


MISTAKES = {
    "An environment whose agents take turns, such as from `env()` of a module": lambda: make(
        simple_spread_v3.env()
    ),
    "A function that does not return a parallel environment": lambda: make(PettingZoo(lambda: 3)),
    "Environments that do not have the same agents": lambda: make(PettingZoo([Relay(), Longer()])),
    "Several copies of an environment that cannot be pickled": lambda: make(Locked()),
    "An environment without `possible_agents`": lambda: make(Nameless()),
    "PettingZoo observations that are empty arrays": lambda: make(PettingZoo(Blind)),
    "A PettingZoo environment for a single-agent algorithm": lambda: make(Relay(), PPO),
}
