"""Training networks with and without a memory through one interface."""

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
    variables = trees.variables(network, *carry, at(OBS, 0))
    return TrainState.from_variables(network, jax.tree.map(np.abs, variables))


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_a_memory_goes_through_every_wrapper(wrap):
    network = wrap(REMEMBERING)
    assert remembers(network)
    state = state_of(network)
    carry = initial = initial_carry(network)
    carries, outputs = jax.jit(unroll)(state, carry, OBS, FIRST)
    one_step = jax.jit(step)
    for t in range(len(FIRST)):
        carry = initial if FIRST[t] else carry
        carry, output = one_step(state, carry, at(OBS, t))
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
    carry = initial_carry(state.model_def)

    @jax.jit
    def outputs(params):
        _, output = step(state, carry, at(OBS, 0), params=params)
        return output, unroll(state, carry, OBS, FIRST, params=params)[1]

    zeros = jax.tree.map(jnp.zeros_like, state.params)
    trees.assert_equal(outputs(zeros), (np.zeros(2, "f"), np.zeros((5, 2), "f")))


class Valued(nn.Module):
    """Two critics of the memory and of an action, which draw what they drop for each sample."""

    @nn.compact
    def __call__(self, hidden, action, train=False):
        dropped = nn.Dropout(0.5, deterministic=not train)(hidden)
        return jnp.stack([dropped @ action, -(dropped @ action)])


def test_several_critics_of_a_learner_take_actions_behind_one_memory():
    network = FromMemory(WithMemory(Valued(), nn.GRUCell(4), Torso((4,))), "own", samples_axis=1)
    obs, actions, carry = OBS["observation"], jnp.ones((5, 4)), jnp.ones((5, 4))
    one, steps = Remembered({"own": carry[0]}, obs[0]), Steps({"own": carry}, obs, FIRST, 5, 2)
    variables = trees.variables(network, one, actions[0])

    @jax.jit
    def values_of(variables):
        state = TrainState.from_variables(network, variables)
        after = {"own": state(one, actions[0], method="after")}
        return {
            "of steps": state(steps, actions),
            "at once": state(Remembered({"own": carry}, obs), actions),
            "of one": state(one, actions[0]),
            "of the next": state(Remembered(after, obs[1]), actions[1]),
            "dropped": state(steps, actions, train=True, rngs={"dropout": KEY}),
        }

    values = values_of(variables)
    of_steps = values["of steps"]
    assert of_steps.shape == (2, 5)
    np.testing.assert_allclose(of_steps[:, 0], values["at once"][:, 0], rtol=1e-5)
    np.testing.assert_allclose(of_steps[:, 0], values["of one"], rtol=1e-5)
    np.testing.assert_allclose(of_steps[:, 1], values["of the next"], rtol=1e-5)
    assert len(np.unique(np.asarray(values["dropped"]) / np.asarray(of_steps))) > 2


def test_a_network_without_a_memory_sees_observations_alone():
    network = FromMemory(DiscreteCritic(features=(4,), n_actions=2))
    obs = OBS["observation"]
    steps = Steps({}, obs, FIRST, length=5, burn_in=2)
    state = TrainState.from_variables(network, trees.variables(network, obs[0]))
    forms = (obs, steps, Successors(steps, obs))
    expected, *found = jax.jit(lambda: [state(form) for form in forms])()
    for values in found:
        np.testing.assert_array_equal(values, expected)
