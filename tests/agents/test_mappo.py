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


def trained(agent):
    runner = agent.advance(agent.start(KEY, CASE.hyperparams()), np.int32(150))
    agent.collect_training(runner, {})
    return agent


def config(**fields):
    """Of default networks, which learn in as many epochs and thus in one loop."""
    epochs = {"actor_epochs": 2, "critic_epochs": 2}
    return CASE.config(actor_network=None, critic_network=None, **epochs, **fields)


class Masked(Hidden):
    """Each actor has one action."""

    def action_mask(self, state, params):
        return jnp.array([[True, False], [False, True]])


MASK = {"action_mask": np.array([[True, False], [False, True]])}


@pytest.mark.parametrize(
    ("env", "mask", "switches"),
    [(Masked(), MASK, {"normalise_observations": True}), (Hidden("observation"), {}, {})],
    ids=["method", "observation"],
)
@pytest.mark.slow_except("observation")
def test_the_critic_knows_what_the_actors_do_not_see(env, mask, switches):
    """Be they masked and normalised, too."""
    agent = trained(MAPPO(env, None, config(**switches), False))

    @jax.jit
    def values_and_scores(sign):
        obs = {"observation": jnp.zeros((2, 1)), "critic_state": sign, **mask}
        return agent.critic_training(obs), agent.actor_training(obs)

    scores = []
    for sign in (1.0, -1.0):
        values, of_actions = values_and_scores(np.float32([sign]))
        np.testing.assert_allclose(values, [sign, 2 * sign], atol=0.1)
        scores.append(of_actions)
    np.testing.assert_array_equal(*scores)
    _, obs, _ = jax.jit(agent.env_reset)(KEY)
    assert set(obs) == {"observation", "critic_state", *mask}
    if mask:
        np.testing.assert_array_equal(jax.jit(agent.policy)(agent.actor_training, obs), [0, 1])


def test_independent_critics_do_not():
    """They are given no more than their actors observe."""
    agent = IPPO(Hidden(), None, config(), False)
    runner = jax.eval_shape(agent.program.start, KEY, CASE.hyperparams())
    assert runner.obs.shape == (8, 2, 1)


class Shown(Hidden):
    """The first actor sees the sign."""

    def observe(self, state):
        return jnp.stack([state.sign, 0.0])[:, None]


@pytest.mark.slow
def test_without_a_state_the_critic_sees_what_all_actors_observe():
    agent = trained(MAPPO(Shown("nowhere"), None, config(), False))
    obs = jnp.array([[-1.0], [0.0]])
    np.testing.assert_allclose(agent.critic_training(obs), [-1.0, -2.0], atol=0.1)


def test_critics_with_one_value_for_all_are_refused():
    with pytest.raises(
        ValueError, match=r"the critic's value must have shape \(2,\), got shape \(\)"
    ):
        MAPPO(Hidden(), None, AgentConfig(critic_network=StateCritic()))
    given = AgentConfig(critic_network=nn.Dense(2))
    assert MAPPO(Hidden(), None, given).config is given
