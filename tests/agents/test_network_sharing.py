"""The parameters that default networks of several actors have in common."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Allowed, MatchSign
from registry import AGENTS

from jaxagents import IPPO, MAPPO, PPO
from jaxagents.ppo import AgentConfig

KEY = jax.random.key(0)
CASE = next(case for case in AGENTS if case.name == "IPPO")


class Rows(MatchSign):
    """Each of two actors has a row of its own."""

    def observe(self, state):
        return jnp.broadcast_to(super().observe(state), (2, 2))


def config(sharing, **fields):
    sizes = {"n_steps": 40, "batch_size": 8, "rollout_length": 8, "minibatch_size": 4}
    return AgentConfig(network_sharing=sharing, **{**sizes, **fields})


def make(sharing, env=Rows, agent=IPPO, **fields):
    return agent(env(2), None, config(sharing, **fields), False)


def size(training):
    return sum(x.size for x in jax.tree.leaves(training.params))


HIDDEN = (2 * 64 + 64) + (64 * 64 + 64)
LAST = {"actor": 64 * 2 + 2, "critic": 64 + 1}


@pytest.mark.parametrize("env", [Rows, MatchSign])
@pytest.mark.parametrize("sharing", ["separate", "shared", "torso"])
def test_the_number_of_parameters(sharing, env):
    runner = jax.eval_shape(make(sharing, env).program.start, KEY, CASE.hyperparams())
    n_hidden, n_last = {"separate": (2, 2), "shared": (1, 1), "torso": (1, 2)}[sharing]
    networks = {"actor": runner.actor_training, "critic": runner.critic_training}
    for name, training in networks.items():
        assert size(training) == n_hidden * HIDDEN + n_last * LAST[name]


def test_actors_that_share_a_network_learn():
    """In which actions are masked, and those that are not allowed are worth NaN."""
    agent = make("shared", Allowed, normalise_observations=True, normalise_values=True)
    runner = agent.advance(agent.start(KEY, CASE.hyperparams()), np.int32(80))
    assert runner.targets.count == 80 * 64 * 2
    act = jax.jit(
        lambda obs: (agent.policy(runner.actor_training, obs), runner.critic_training(obs))
    )
    masks = np.array([[True, False, True, False], [True, True, False, False]])
    for sign, best in ((1, 1), (-1, 2)):
        seen = np.float32([sign, 0.0])
        mask = np.tile(masks[(sign + 1) // 2], (2, 1))
        actions, values = act({"observation": seen, "action_mask": mask})
        np.testing.assert_array_equal(actions, best)
        assert values[0] == values[1]


@pytest.mark.parametrize(("sharing", "shape"), [("shared", ()), ("torso", (2,))])
def test_actors_that_share_a_critic_share_the_moments_of_its_targets(sharing, shape):
    program = make(sharing, normalise_values=True).program
    assert jax.eval_shape(program.start, KEY, CASE.hyperparams()).targets.mean.shape == shape


def test_actors_that_share_a_memory_may_be_masked():
    program = make("shared", Allowed, memory="gru").program
    runner = jax.eval_shape(program.start, KEY, CASE.hyperparams())
    jax.eval_shape(program.advance, runner, np.int32(1))


def test_the_centralised_critic_of_mappo_is_one_network_anyhow():
    sizes = [
        size(jax.eval_shape(agent.program.start, KEY, CASE.hyperparams()).critic_training)
        for agent in (make("separate", agent=MAPPO), make("shared", agent=MAPPO))
    ]
    assert sizes[0] == sizes[1]


def test_refuses_what_means_nothing():
    with pytest.raises(ValueError, match=r"network_sharing must be one of .* got 'all'"):
        config("all")
    given = {name: CASE.config().__dict__[name] for name in ("actor_network", "critic_network")}
    with pytest.raises(ValueError, match="network_sharing='shared' is for default networks"):
        config("shared", **given)
    with pytest.raises(
        ValueError, match="network_sharing='torso' is for networks without a memory"
    ):
        config("torso", memory="gru")
    with pytest.raises(
        ValueError, match=r"PPO has one actor, so that config\.network_sharing='shared'"
    ):
        PPO(MatchSign(), None, config("shared"))
