"""Parallel environments of PettingZoo, in which agents of several actors play on the host."""

from gymnasium import spaces
from mpe2 import simple_spread_v3
from parallel_probes import Relay

from jaxagents import DQN, IPPO, PPO, check_env, dqn, ippo
from jaxagents.envs import PettingZoo
from mistakes.entries import Theme
from mistakes.things import ON_POLICY

mistake = Theme("Environments of PettingZoo")


def make(env, agent=IPPO, **fields):
    return agent(env, None, ippo.AgentConfig(**{**ON_POLICY, **fields}))


@mistake(TypeError, r"take turns.*pettingzoo\.utils\.conversions\.aec_to_parallel\(env\)")
def environment_of_turns():
    """An environment whose agents take turns, such as `env()` of a module makes."""
    make(simple_spread_v3.env())


@mistake(TypeError, r"a function that makes one, or a sequence of them, got 3")
def function_that_makes_no_parallel_environment():
    """A function that makes no parallel environment."""
    make(PettingZoo(lambda: 3))


@mistake(ValueError, r"There are 3 environments, .*n_envs=4: set n_envs=3")
def as_many_environments_as_another_batch():
    """More or fewer environments than the configuration has."""
    make(PettingZoo([Relay() for _ in range(3)]))


class Longer(Relay):
    possible_agents = ("near", "far", "farther")


@mistake(
    ValueError, r"Environment 1 has the agents and spaces \[\('near', .*all must have the same"
)
def environments_that_differ():
    """Environments that do not have the same agents."""
    make(PettingZoo([Relay(), Longer()]))


@mistake(ValueError, r"eval_env has the agents and spaces \[\('near', .*all must have the same")
def other_agents_in_evaluations():
    """An environment for evaluations that does not have the same agents."""
    make(PettingZoo(Relay(), eval_env=Longer))


class Locked(Relay):
    def __reduce__(self):
        raise TypeError("cannot pickle")


@mistake(ValueError, r"relay cannot be copied by pickling it.*PettingZoo\(lambda: MyEnv\(\)\)")
def environment_that_cannot_be_pickled():
    """One environment that cannot be pickled, for many to be played."""
    make(Locked())


@mistake(ValueError, r"none can be made for evaluations.*eval_env=lambda: MyEnv\(\)")
def environment_that_cannot_be_pickled_for_evaluations():
    """One environment that cannot be pickled, without one for evaluations."""
    make(Locked(), batch_size=1, minibatch_size=1)


class Nameless(Relay):
    possible_agents = ()


@mistake(ValueError, r"relay has no possible_agents")
def environment_without_possible_agents():
    """An environment that does not say which agents there may be."""
    make(Nameless())


class Blind(Relay):
    def observation_space(self, agent):
        return spaces.Box(-1, 1, (0,))


@mistake(ValueError, r"relay\.reset returns an observation with .*arrays of no numbers, .*\(2, 0\)")
def actors_that_observe_nothing():
    """Observations of PettingZoo that are empty arrays."""
    make(PettingZoo(Blind))


@mistake(ValueError, r"PPO trains one actor, but relay has 2. Use IPPO")
def parallel_environment_for_one_actor():
    """An environment of PettingZoo for an agent of one actor."""
    make(Relay(), PPO)


@mistake(ValueError, r"DQN trains one actor, but relay has 2\. Use IPPO")
def parallel_environment_for_a_replay_buffer():
    """An environment of PettingZoo for an agent with a replay buffer."""
    DQN(Relay(), None, dqn.AgentConfig())


@mistake(TypeError, r"check_env checks compiled.*pettingzoo\.test\.parallel_api_test\(env\)")
def check_of_an_environment_of_pettingzoo():
    """`check_env` of an environment of PettingZoo."""
    check_env(PettingZoo(Relay))
