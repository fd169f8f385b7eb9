"""Agents in environments with action masks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import registry
import trees
from probes import Allowed, Box, Discrete

from jaxagents import A2C, PPO, Environment, a2c, check_env
from jaxagents.envs import Step
from jaxagents.ppo import AgentConfig

KEY = jax.random.key(0)
CASE = registry.VALUE_BASED[0]
"""The other agents sample actions with the same code. In training, masked actions are worth NaN."""
FOUR = Discrete(4)
BEST = {1.0: 1, -1.0: 2}
"""The best of the allowed actions, by the sign."""


def observation_of(sign, time=0):
    allowed = ([True, False, True, False], [True, True, False, False])[int(sign > 0)]
    mask = np.array(allowed) & (time < 2)
    return {"observation": np.float32([sign, time]), "action_mask": mask}


def test_no_other_actions_are_taken_and_the_best_are_found():
    agent = CASE.make(Allowed)
    runner = agent.advance(agent.start(KEY, CASE.hyperparams()), np.int32(160))
    policy = jax.jit(agent.policy)
    for sign, best in BEST.items():
        assert policy(runner.learner, observation_of(sign)) == best
    assert np.isfinite(runner.buffer.to_dataset()["rewards"]).all()


class Own(Environment):
    """The same as a user's environment, with the mask in the observation."""

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
    agent = A2C(Own(), None, a2c.AgentConfig(n_steps=1), eval_during_training=False)
    _, obs, _ = agent.env_reset(KEY)
    actor = trees.zeros(lambda: agent._create_networks(KEY, KEY, obs)[0])
    np.testing.assert_array_equal(np.isfinite(actor(obs)), [True, True, False, False])
    n_inputs = {x.shape[0] for x in jax.tree.leaves(actor.params) if x.ndim == 2}
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


def test_a_check_finds_states_that_allow_no_action():
    with pytest.raises(ValueError, match="allows no action after 0 steps"):
        check_env(Own(allowed=(False,) * 4))
