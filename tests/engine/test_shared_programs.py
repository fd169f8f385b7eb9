"""Agents with immutable parts share programs; programs follow parts that change."""

import collections
import types
import warnings

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import compilations
from flax import linen as nn

from jaxagents import DQN, PPO, Environment, SACLearner, dqn, ppo, share_programs
from jaxagents.core import fingerprint
from jaxagents.envs.environment import Step
from jaxagents.envs.spaces import Discrete

KEY = jax.random.key(0)
CONFIG = ppo.AgentConfig(n_steps=1, batch_size=2, rollout_length=5, minibatch_size=2, n_evals=1)
factor = 1.0


class Paying(Environment):
    """Returns a reward in each of five steps."""

    action_space, max_steps = Discrete(2), 5

    def __init__(self, paid=1.0):
        self.paid = paid

    def reward(self, t):
        return self.paid

    def reset(self, key):
        return jnp.zeros(1), jnp.int32(0)

    def step(self, key, t, action):
        over = jnp.bool(False)
        return Step(jnp.zeros(1), t + 1, jnp.float32(self.reward(t)), over, over, {})


def return_of(agent):
    return agent.evaluate(agent.start(KEY))["returns"].mean()


def agent_in(env, agent=PPO):
    return agent(env, None, CONFIG)


def attribute_before_the_first_program():
    env = Paying()
    agent = agent_in(env)
    env.paid = 3.0
    assert return_of(agent) == 15.0
    return agent_in(Paying())


def attribute():
    env = Paying()
    assert return_of(agent_in(env)) == 5.0
    env.paid = 2.0
    return agent_in(env)


def part_changed(part, change):
    class Holding(Paying):
        def reward(self, t):
            return self.paid.paid if isinstance(self.paid, types.SimpleNamespace) else self.paid[0]

    assert return_of(agent_in(Holding(part))) == 5.0
    change(part)
    return agent_in(Holding(part))


def namespace():
    return part_changed(types.SimpleNamespace(paid=1.0), lambda x: setattr(x, "paid", 2.0))


def deque():
    return part_changed(collections.deque([1.0]), lambda x: x.__setitem__(0, 2.0))


def numpy_table():
    class Looking(Paying):
        def reward(self, t):
            return self.paid[0]

    table = np.ones(3, np.float32)
    assert return_of(agent_in(Looking(table))) == 5.0
    table[0] = 2.0
    return agent_in(Looking(table))


def numpy_parameters():
    env, params = gymnax.make("CartPole-v1")
    limit = np.asarray(1.0)
    agent = PPO(env, params.replace(x_threshold=limit), CONFIG)
    limit[...] = -1.0  # which ends every episode in its first step
    assert return_of(agent) > 2.0
    return PPO(env, params.replace(x_threshold=limit), CONFIG)


def class_attribute():
    class Pays(Paying):
        more = 1.0

        def reward(self, t):
            return self.more

    env = Pays()
    assert return_of(agent_in(env)) == 5.0
    Pays.more = 2.0
    return agent_in(env)


def method():
    class Pays(Paying):
        pass

    env = Pays()
    assert return_of(agent_in(env)) == 5.0
    Pays.reward = lambda self, t: 2.0
    return agent_in(env)


def module_variable():
    class Pays(Paying):
        def reward(self, t):
            return factor

    env = Pays()
    globals()["factor"] = 1.0
    assert return_of(agent_in(env)) == 5.0
    globals()["factor"] = 2.0
    return agent_in(env)


def hook_of_an_agent():
    class Doubling(PPO):
        def _eval_metrics(self, terminated, truncated, final_rewards, returns):
            return {"returns": factor * returns}

    globals()["factor"] = 1.0
    assert return_of(agent_in(Paying(), Doubling)) == 5.0
    globals()["factor"] = 2.0
    return agent_in(Paying(), Doubling)


class Preferring(nn.Module):
    """Values of two actions; the second is better by a variable of this module."""

    @nn.compact
    def __call__(self, obs, train=False):
        bias = self.param("bias", nn.initializers.zeros, ())
        return factor * jnp.arange(2.0) + bias * jnp.sum(obs)


def network_of_a_learner_in_an_agent():
    class Pays(Paying):
        def step(self, key, t, action):
            return super().step(key, t, action)._replace(reward=action.astype(jnp.float32))

    def agent():
        fields = {"n_evals": 1, "learning_starts": 2, "buffer_size": 32, "minibatch_size": 2}
        return DQN(Pays(), None, dqn.AgentConfig(critic_network=Preferring(), **fields))

    globals()["factor"] = 1.0
    assert return_of(agent()) == 5.0
    globals()["factor"] = -1.0
    return agent()


CHANGES = {
    attribute_before_the_first_program: 5.0,
    attribute: 10.0,
    namespace: 10.0,
    deque: 10.0,
    numpy_table: 10.0,
    numpy_parameters: 0.0,
    class_attribute: 10.0,
    method: 10.0,
    module_variable: 10.0,
    hook_of_an_agent: 10.0,
    network_of_a_learner_in_an_agent: 0.0,
}


@pytest.mark.parametrize(
    ("change", "expected"), CHANGES.items(), ids=lambda x: getattr(x, "__name__", "")
)
def test_a_new_agent_sees_what_has_changed(change, expected):
    assert return_of(change()) == expected


class Equal(Paying):
    """Has its own `==`, which ignores its reward."""

    def __eq__(self, other):
        return isinstance(other, Equal)

    def __hash__(self):
        return 0


@pytest.mark.parametrize("kind", [Paying, Equal])
def test_an_agent_whose_environment_has_changed_says_so_and_compiles_anew(kind):
    env = kind()
    agent = agent_in(env)
    assert return_of(agent) == 5.0
    env.paid = 2.0
    with pytest.warns(
        UserWarning, match=rf"{kind.__name__} has changed .* compiled with it: paid\. They are"
    ):
        assert return_of(agent) == 10.0
    with warnings.catch_warnings(action="error"), compilations() as made:
        assert return_of(agent) == 10.0
    assert made == []


def test_agents_of_the_library_share_programs_and_ones_with_code_of_users_do_not():
    def agents(*args):
        return PPO(*args, CONFIG), PPO(*args, CONFIG)

    first, second = agents(*gymnax.make("CartPole-v1"))
    assert first.programs is second.programs
    first, second = agents(Paying(), None)
    assert first == second
    assert first.programs is not second.programs
    first, second = (
        PPO(*gymnax.make("CartPole-v1"), CONFIG.replace(optimizer=lambda learning_rate: None))
        for _ in range(2)
    )
    assert first.programs is not second.programs


def test_packages_that_are_promised_not_to_change_share_programs(monkeypatch):
    monkeypatch.setattr(fingerprint, "_LIBRARIES", {*fingerprint._LIBRARIES})
    monkeypatch.setattr(Paying, "__module__", "my_environments.paying")
    assert agent_in(Paying()).programs is not agent_in(Paying()).programs
    share_programs("my_environments")
    assert agent_in(Paying()).programs is agent_in(Paying()).programs
    assert agent_in(Paying(2.0)).programs is not agent_in(Paying()).programs
    with pytest.raises(TypeError, match="takes names of packages, such as 'my_environments', got"):
        share_programs(np)


class Scaling(nn.Module):
    """An encoder that scales observations by a table, or by a variable of this module."""

    table: np.ndarray | None = None

    @nn.compact
    def __call__(self, obs, train=False):
        return obs * (factor if self.table is None else self.table[0])


@pytest.mark.parametrize("has_table", [False, True])
def test_a_new_learner_sees_what_has_changed(has_table):
    table, obs = np.ones(1, np.float32), np.full(1, 0.2, np.float32)

    def action(obs):
        encoder = Scaling(table if has_table else None)
        learner = SACLearner.create(0, obs, obs, encoder=encoder, features=(4,))
        return learner.sample_actions(obs)

    globals()["factor"] = 1.0
    once, twice = action(obs), action(2.0 * obs)
    assert once != twice
    globals()["factor"], table[0] = 2.0, 2.0
    assert action(obs) == twice
