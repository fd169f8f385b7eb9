"""Networks in training with and without a memory, used in one way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn

from jaxagents.core.observed import Remembered, Steps, Successors
from jaxagents.learners.memory import FromMemory, initial_carry, step, unroll
from jaxagents.learners.train_state import TrainState
from jaxagents.networks import (
    CategoricalActor,
    DiscreteCritic,
    Masked,
    NetworkWrapper,
    Normalised,
    ObservationOnly,
    PerActor,
    Torso,
    WithMemory,
    remembers,
)
from jaxagents.networks.encoding import BehindTrunk
from jaxagents.networks.initialisation import initialise

KEY = jax.random.key(0)
FIRST = jnp.array([False, False, True, False, True])
OBS = {
    "observation": jax.random.normal(KEY, (5, 3)),
    "action_mask": jnp.ones((5, 2), bool).at[1, 0].set(False),
}


class Doubled(NetworkWrapper):
    """A user's own: sees twice the observation, and doubles the output."""

    def view_of(self, obs):
        return jax.tree.map(lambda x: x * 2, obs)

    def output_for(self, obs, output):
        return output * 2.0


WRAPPERS = {
    "mask": Masked,
    "own and statistics": lambda network: Normalised(ObservationOnly(Doubled(network))),
    "actors": lambda network: ObservationOnly(PerActor(network, 2, own_observations=False)),
    "trunk": lambda network: BehindTrunk(Masked(CategoricalActor(2)), ObservationOnly(network)),
}
REMEMBERING = WithMemory(CategoricalActor(2, features=()), nn.GRUCell(4), Torso((4,)))


def at(tree, t):
    return jax.tree.map(lambda x: x[t], tree)


def state_of(network):
    carry = (initial_carry(network),) if remembers(network) else ()
    return TrainState.from_variables(network, initialise(network, KEY, *carry, at(OBS, 0)))


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_a_memory_goes_through_every_wrapper(wrap):
    network = wrap(REMEMBERING)
    assert remembers(network)
    state = state_of(network)
    carry = initial = initial_carry(network)
    carries, outputs = jax.jit(unroll)(state, carry, OBS, FIRST)
    for t in range(len(FIRST)):
        carry = initial if FIRST[t] else carry
        carry, output = jax.jit(step)(state, carry, at(OBS, t))
        trees.assert_close((carry, output), at((carries, outputs), t))
    assert max(jnp.abs(x).max() for x in jax.tree.leaves(carry)) > 0.0


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_what_remembers_nothing_costs_nothing(wrap):
    network = wrap(CategoricalActor(2, features=(4,)))
    assert not remembers(network)
    assert initial_carry(network) == ()
    state = trees.zeros(lambda: state_of(network))

    def program(function, *inputs):
        return str(jax.make_jaxpr(function)(*inputs))

    one = at(OBS, 0)
    alone = program(lambda s, x: ((), s(x)), state, one)
    assert program(lambda s, x: step(s, (), x), state, one) == alone
    alone = program(lambda s, x: ((), jax.vmap(s)(x)), state, OBS)
    assert program(lambda s, x: unroll(s, (), x, FIRST), state, OBS) == alone
    by_method = program(lambda s, x: s((), x, FIRST, method="unroll"), state, OBS)
    assert by_method == program(lambda s, x: unroll(s, (), x, FIRST), state, OBS)


def test_parameters_may_be_given():
    state = state_of(ObservationOnly(REMEMBERING))
    zeros = jax.tree.map(jnp.zeros_like, state.params)
    carry = initial_carry(state.model_def)
    _, output = step(state, carry, at(OBS, 0), params=zeros)
    _, outputs = unroll(state, carry, OBS, FIRST, params=zeros)
    np.testing.assert_array_equal(output, np.zeros(2))
    np.testing.assert_array_equal(outputs, np.zeros((5, 2)))


class Valued(nn.Module):
    """Two critics of the memory and of an action, which draw what they drop for each sample."""

    @nn.compact
    def __call__(self, hidden, action, train=False):
        dropped = nn.Dropout(0.5, deterministic=not train)(hidden)
        return jnp.stack([dropped @ action, -(dropped @ action)])


def test_several_critics_of_a_learner_take_actions_behind_one_memory():
    network = FromMemory(WithMemory(Valued(), nn.GRUCell(4), Torso((4,))), "own", samples_axis=1)
    obs, actions, carry = OBS["observation"], jnp.ones((5, 4)), jnp.ones((5, 4))
    one = Remembered({"own": carry[0]}, obs[0])
    state = TrainState.from_variables(network, initialise(network, KEY, one, actions[0]))
    steps = Steps({"own": carry}, obs, FIRST, length=5, burn_in=2)
    values = state(steps, actions)
    assert values.shape == (2, 5)
    at_once = state(Remembered({"own": carry}, obs), actions)
    np.testing.assert_allclose(values[:, 0], at_once[:, 0], rtol=1e-6)
    np.testing.assert_allclose(values[:, 0], state(one, actions[0]), rtol=1e-6)
    after = {"own": state(one, actions[0], method="after")}
    np.testing.assert_allclose(
        values[:, 1], state(Remembered(after, obs[1]), actions[1]), rtol=1e-6
    )
    dropped = state(steps, actions, train=True, rngs={"dropout": KEY})
    assert len(np.unique(dropped / values)) > 2


def test_a_network_without_a_memory_sees_observations_alone():
    network = FromMemory(DiscreteCritic(features=(4,), n_actions=2))
    state = TrainState.from_variables(network, initialise(network, KEY, OBS["observation"][0]))
    steps = Steps({}, OBS["observation"], FIRST, length=5, burn_in=2)
    expected = state(OBS["observation"])
    np.testing.assert_array_equal(state(steps), expected)
    np.testing.assert_array_equal(state(Successors(steps, OBS["observation"])), expected)
