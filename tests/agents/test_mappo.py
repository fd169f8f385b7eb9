"""The centralised critic of MAPPO."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import registry
from flax import linen as nn
from probes import Probe

from jaxagents import IPPO, MAPPO
from jaxagents.networks import StateCritic
from jaxagents.ppo import AgentConfig

KEY = jax.random.key(0)
CASE = next(case for case in registry.ON_POLICY if case.name == "MAPPO")


class Hidden(Probe):
    """Rewards a sign that the actors do not see, whatever they do: each actor another multiple of it."""

    def __init__(self, state="method"):
        super().__init__(2)
        self.state = state

    def observe(self, state):
        seen = jnp.zeros((2, 1))
        if self.state == "observation":
            return {"observation": seen, "critic_state": state.sign[None]}
        return seen

    def critic_state(self, state, params):
        return state.sign[None] if self.state == "method" else None

    def step_env(self, key, state, action, params):
        obs, after, _, terminated, info = super().step_env(key, state, action, params)
        return obs, after, state.sign * jnp.array([1.0, 2.0]), terminated, info


def make(env, agent=MAPPO, **switches):
    """An agent of default networks, which learn in as many epochs and thus in one loop."""
    networks = {"actor_network": None, "critic_network": None, "actor_epochs": 2}
    return agent(env, None, CASE.config(**networks, **switches), False)


class Masked(Hidden):
    """Each actor has one action."""

    def action_mask(self, state, params):
        return jnp.array([[True, False], [False, True]])


def test_the_critic_knows_what_the_actors_do_not_see():
    """Be they masked and normalised, too."""
    agent = make(Masked(), normalise_observations=True)
    runner = agent.advance(agent.start(KEY, CASE.hyperparams()), np.int32(100))
    mask = np.array([[True, False], [False, True]])

    @jax.jit
    def values_and_scores(sign):
        obs = {"observation": jnp.zeros((2, 1)), "critic_state": sign, "action_mask": mask}
        actor = runner.actor_training
        return runner.critic_training(obs), actor(obs), agent.policy(actor, obs)

    scores = []
    for sign in (1.0, -1.0):
        values, of_actions, actions = values_and_scores(np.float32([sign]))
        np.testing.assert_allclose(values, [sign, 2 * sign], atol=0.15)
        np.testing.assert_array_equal(actions, [0, 1])
        scores.append(of_actions)
    np.testing.assert_array_equal(*scores)
    assert set(runner.obs) == {"observation", "critic_state", "action_mask"}


def n_inputs(training):
    """The number of inputs of a network's first layer."""
    (shape,) = (
        x.shape
        for path, x in jax.tree_util.tree_leaves_with_path(training.params)
        if jax.tree_util.keystr(path).endswith("['MLP_0']['Dense_0']['kernel']")
    )
    return shape[-2]


@pytest.mark.parametrize(
    ("env", "n_seen"),
    [(Hidden(), 1), (Hidden("observation"), 1), (Hidden("nowhere"), 2)],
    ids=["method", "observation", "of all actors"],
)
def test_the_critic_sees_the_state_or_else_what_all_actors_observe(env, n_seen):
    runner = jax.eval_shape(make(env).program.start, KEY, CASE.hyperparams())
    assert n_inputs(runner.critic_training) == n_seen
    assert n_inputs(runner.actor_training) == 1


def test_independent_critics_do_not():
    """They are given no more than their actors observe."""
    agent = make(Hidden(), IPPO)
    runner = jax.eval_shape(agent.program.start, KEY, CASE.hyperparams())
    assert runner.obs.shape == (8, 2, 1)


def test_critics_with_one_value_for_all_are_refused():
    with pytest.raises(
        ValueError, match=r"the critic's value must have shape \(2,\), got shape \(\)"
    ):
        MAPPO(Hidden(), None, AgentConfig(critic_network=StateCritic()))
    given = AgentConfig(critic_network=nn.Dense(2))
    assert MAPPO(Hidden(), None, given).config is given
