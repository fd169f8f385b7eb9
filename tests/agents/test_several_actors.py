"""Several actors: shared parameters, and a critic that sees more than they do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Allowed, MatchSign, Probe
from registry import AGENTS

from jaxagents import IPPO, MAPPO, PPO
from jaxagents.ppo import AgentConfig

KEY = jax.random.key(0)
CASE, MAPPO_CASE = (case for case in AGENTS if case.name in ("IPPO", "MAPPO"))


def started(agent):
    """The shapes of a fresh runner."""
    return jax.eval_shape(agent.program.start, KEY, agent._hyperparams_type())


# Parameters.


class Rows(MatchSign):
    """Each of two actors has a row of its own."""

    def observe(self, state):
        return jnp.broadcast_to(super().observe(state), (2, 2))


def config(sharing, **fields):
    sizes = {"batch_size": 8, "rollout_length": 8, "minibatch_size": 4}
    return AgentConfig(network_sharing=sharing, **{**sizes, **fields})


def make(sharing, env=Rows, agent=IPPO, **fields):
    return agent(env(2), None, config(sharing, **fields), False)


def size(training):
    return sum(x.size for x in jax.tree.leaves(training.params))


HIDDEN = (2 * 64 + 64) + (64 * 64 + 64)
LAST = {"actor": 64 * 2 + 2, "critic": 64 + 1}


@pytest.mark.parametrize(
    ("sharing", "env"),
    [("separate", Rows), ("shared", Rows), ("torso", Rows), ("torso", MatchSign)],
)
def test_the_number_of_parameters(sharing, env):
    runner = started(make(sharing, env))
    n_hidden, n_last = {"separate": (2, 2), "shared": (1, 1), "torso": (1, 2)}[sharing]
    networks = {"actor": runner.actor_training, "critic": runner.critic_training}
    for name, training in networks.items():
        assert size(training) == n_hidden * HIDDEN + n_last * LAST[name]


def outputs_of(agent, *observations):
    """The initial outputs of both networks, and the greedy actions, for several observations."""

    @jax.jit
    def outputs(observations):
        actor, critic = agent._create_networks(KEY, KEY, observations[0])
        return [(actor(obs), critic(obs), agent.policy(actor, obs)) for obs in observations]

    return jax.tree.map(np.asarray, outputs(observations))


def test_actors_that_share_a_network_are_masked():
    agent = make("shared", Allowed, normalise_observations=True)
    jax.eval_shape(agent.program.advance, started(agent), np.int32(1))
    mask = np.array([[True, False, True, False], [True, True, False, False]])
    seen = np.ones((2, 2), np.float32)
    [(logits, values, _)] = outputs_of(agent, {"observation": seen, "action_mask": mask})
    np.testing.assert_array_equal(np.isfinite(logits), mask)
    assert logits[0, 0] == logits[1, 0]
    assert values[0] == values[1]


@pytest.mark.parametrize(("sharing", "shape"), [("shared", ()), ("torso", (2,))])
def test_actors_that_share_a_critic_share_the_moments_of_its_targets(sharing, shape):
    assert started(make(sharing, normalise_values=True)).targets.mean.shape == shape


def test_the_centralised_critic_of_mappo_is_one_network_anyhow():
    sizes = [
        size(started(agent).critic_training)
        for agent in (make("separate", agent=MAPPO), make("shared", agent=MAPPO))
    ]
    assert sizes[0] == sizes[1]


def test_refuses_what_means_nothing():
    with pytest.raises(ValueError, match=r"network_sharing must be one of .* got 'all'"):
        config("all")
    given = {name: CASE.config().__dict__[name] for name in ("actor_network", "critic_network")}
    with pytest.raises(ValueError, match="network_sharing='shared' is for default networks"):
        config("shared", **given)
    with pytest.raises(ValueError, match="network_sharing='torso' is for networks without a memor"):
        config("torso", memory="gru")
    with pytest.raises(ValueError, match=r"PPO has one actor, so config\.network_sharing='s"):
        PPO(MatchSign(), None, config("shared"))


# The centralised critic of MAPPO.


class Hidden(Probe):
    """Has a sign that the actors do not observe."""

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


def centralised(env, agent=MAPPO, **switches):
    """An agent of default networks, which learn in as many epochs and thus in one loop."""
    networks = {"actor_network": None, "critic_network": None, "actor_epochs": 2}
    return agent(env, None, MAPPO_CASE.config(**networks, **switches), False)


class Masked(Hidden):
    """Each actor has one action."""

    def action_mask(self, state, params):
        return jnp.array([[True, False], [False, True]])


def test_the_critic_knows_what_the_actors_do_not_see():
    """Be they masked and normalised, too."""
    agent = centralised(Masked(), normalise_observations=True)
    jax.eval_shape(agent.program.advance, started(agent), np.int32(1))
    seen = {"observation": np.zeros((2, 1), np.float32), "action_mask": np.eye(2, dtype=bool)}
    given = [{**seen, "critic_state": np.float32([sign])} for sign in (1.0, -1.0)]
    (logits, values, actions), (others, other_values, _) = outputs_of(agent, *given)
    np.testing.assert_array_equal(actions, [0, 1])
    np.testing.assert_array_equal(logits, others)
    assert (values != other_values).all()


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
    runner = started(centralised(env))
    assert n_inputs(runner.critic_training) == n_seen
    assert n_inputs(runner.actor_training) == 1
