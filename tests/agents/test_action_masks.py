"""Agents in environments that say which actions are allowed."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import registry
from flax import linen as nn
from probes import Allowed, Box, Discrete, Probe

from jaxagents import A2C, CQL, PPO, Environment, a2c, check_env, cql, load_policy
from jaxagents.data import Dataset
from jaxagents.envs import Step
from jaxagents.networks import CategoricalActor, PerActor, WithMemory
from jaxagents.ppo import AgentConfig

KEY = jax.random.key(0)
DRAW_AS_DQN = ["DDQN", "C51", "QRDQN", "PQN"]
"""Whose actions are drawn by the same code, and by it in training, where others would be worth NaN."""
NAMES = ["A2C", "IPPO", "DQN", "discrete SAC", *DRAW_AS_DQN]
CASES = [case for case in registry.AGENTS if case.name in NAMES]
ALLOWED, FOUR = Allowed(None), Discrete(4)
BEST = {1.0: 1, -1.0: 2}
"""The best of the allowed actions, by the sign."""


def state_of(sign, time=0):
    _, state = Probe().reset_env(KEY, None)
    return state.replace(sign=jnp.float32(sign), time=jnp.int32(time))


def observation_of(sign, time=0, env=ALLOWED):
    state = state_of(sign, time)
    mask = env.action_mask(state, None)
    return {"observation": env.observe(state), "action_mask": mask}


def train(agent, hyperparams, n_updates):
    runner = agent.advance(agent.start(KEY, hyperparams), np.int32(n_updates))
    agent.collect_training(runner, {})
    return agent


def assert_takes_the_best(agent, env=ALLOWED):
    greedy = agent.eval(KEY, n_evals=64)["returns"]
    assert set(np.unique(greedy)) == {2.0, 4.0}
    policy = jax.jit(functools.partial(agent.policy, agent._acting(agent.training_runner)))
    for sign, best in BEST.items():
        np.testing.assert_array_equal(policy(observation_of(sign, env=env)), best)


def assert_draws_what_is_allowed(agent):
    drawn = agent.eval(KEY, n_evals=64, deterministic=False)["returns"]
    assert np.isfinite(drawn).all()


def networks_of(case):
    if not isinstance(case, registry.OnPolicyCase):
        return {}
    actor = CategoricalActor(4, features=(16,))
    return {"actor_network": PerActor(actor, 2, own_observations=False) if case.n_actors else actor}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.slow_except("IPPO", "DQN", "discrete SAC")
def test_no_other_actions_are_taken_and_the_best_are_found(case):
    agent = case.make(Allowed, **networks_of(case))
    train(agent, case.hyperparams(), 80 * case.updates)
    assert_takes_the_best(agent, Allowed(case.n_actors))
    if case.name not in DRAW_AS_DQN:
        assert_draws_what_is_allowed(agent)


def test_offline_agents_value_allowed_actions_alone():
    env, rows = Allowed(None), []
    for sign, time, best in itertools.product((1.0, -1.0), (0, 1), (False, True)):
        action = BEST[sign] if best else 0
        rows.append(
            {
                "observations": observation_of(sign, time),
                "actions": np.int32(action),
                "rewards": np.float32(action),
                "next_observations": observation_of(sign, time + 1),
                "masks": np.float32(time == 0),
            }
        )
    dataset = Dataset(jax.tree.map(lambda *x: np.stack(x * 8), *rows))
    config = cql.AgentConfig(n_steps=2, features=(16,), minibatch_size=16)
    agent = CQL(env, None, config, dataset=dataset)
    hyperparams = cql.HyperParameters(gamma=0.5, critic_learning_rate=1e-2)
    assert_takes_the_best(train(agent, hyperparams, 300))
    assert_draws_what_is_allowed(agent)


@pytest.mark.slow
def test_a_policy_with_a_memory_is_masked_and_so_is_its_file(tmp_path):
    memory = WithMemory(CategoricalActor(4, features=()), nn.GRUCell(features=4))
    (case,) = [case for case in CASES if case.name == "A2C"]
    agent = case.make(Allowed, False, actor_network=memory)
    runner, _ = agent.train(KEY, case.hyperparams(), progress=False)
    for params in jax.tree.leaves(runner.actor_training.params):
        assert np.isfinite(params).all()  # so that no other action was drawn
    agent.export_policy(tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors")
    carry = policy.initial_carry()
    for seed in range(8):
        _, action = policy.act(carry, observation_of(-1.0), jax.random.key(seed))
        assert action in (0, 2)


class Own(Environment):
    """The same as an environment of a user, which observes the mask itself."""

    def __init__(self, space=FOUR, allowed=(True, True, False, False), dtype=bool):
        self.action_space = space
        self.allowed = allowed
        self.dtype = dtype

    def reset(self, key):
        return self._observe(0), jnp.zeros((), jnp.int32)

    def step(self, key, state, action):
        state = state + 1
        return Step(self._observe(state), state, 1.0, state >= 2, jnp.zeros((), bool), {})

    def _observe(self, time):
        mask = jnp.array(self.allowed, self.dtype)
        return {"position": jnp.ones(2), "time": jnp.float32(time), "action_mask": mask}


def test_masks_may_be_parts_of_observations():
    config = a2c.AgentConfig(n_steps=1, batch_size=4, rollout_length=4)
    agent = A2C(Own(), None, config, eval_during_training=False)
    agent.train(KEY, a2c.HyperParameters(), progress=False)
    _, obs, _ = agent.env_reset(KEY)
    network = jax.jit(lambda obs: agent.actor_training(obs))(obs)
    np.testing.assert_array_equal(np.isfinite(network), [True, True, False, False])
    n_inputs = {x.shape[0] for x in jax.tree.leaves(agent.actor_training.params) if x.ndim == 2}
    assert n_inputs == {3, 64}  # the mask is none of them


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"allowed": (True, False)}, r"boolean and have shape \(4,\).*got shape \(2,\)"),
        ({"dtype": jnp.float32}, "must be boolean"),
        ({"space": Box(-1.0, 1.0, (4,))}, "only discrete actions"),
    ],
)
def test_masks_that_do_not_fit_are_refused(fields, message):
    env = Own(**fields)
    for check in (lambda: check_env(env), lambda: PPO(env, None, AgentConfig())):
        with pytest.raises(ValueError, match=message):
            check()


def test_a_check_plays_allowed_actions_and_finds_states_that_allow_none():
    with pytest.warns(UserWarning, match="terminated after exactly 2 steps"):
        report = check_env(Allowed(None))
    assert np.isfinite(report.returns).all()
    with pytest.raises(ValueError, match="allows no action after 0 steps"):
        check_env(Own(allowed=(False,) * 4))


def test_a_network_for_another_number_of_actions_is_refused():
    config = AgentConfig(actor_network=CategoricalActor(3))
    with pytest.raises(ValueError, match=r"mask has 4 actions, but the network gives .*3"):
        PPO(Own(), None, config)
