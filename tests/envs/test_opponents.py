"""Games against one of several opponents."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import MatchSign, Pennies

from jaxagents.envs import Episodes, FrameStack, Opponents, WithPrevious

KEY = jax.random.key(0)


def chooses_its_number(number, key, obs, allowed):
    return number


def test_each_game_has_one_opponent_and_all_of_them_come():
    episodes = Episodes(Opponents(Pennies(), 4, chooses_its_number), 10)
    keys = jax.random.split(KEY, 40)
    _, states = jax.jit(jax.vmap(episodes.reset))(keys)
    first = states.envstate.past
    assert set(np.asarray(first)) == {0, 1, 2, 3}
    pairs, step = jax.random.split(jax.random.key(1), (40, 2)), jax.jit(episodes.step_all)
    for i in range(3):
        actions = jnp.where(i < 2, first, (first + 1) % 4)
        np.testing.assert_array_equal(states.envstate.past, first)
        timestep = step(pairs, states, actions)
        np.testing.assert_array_equal(timestep.reward, 1.0 if i < 2 else -1.0)
        states = timestep.envstate
    assert timestep.terminated.all()
    assert (states.envstate.past != first).any()  # they are drawn anew


def test_without_a_choice_they_play_as_in_the_game_that_was_given():
    env = Opponents(Pennies(), 4)
    _, state = jax.jit(env.reset)(KEY)
    assert env.step(KEY, state, jnp.int32(0)).reward == 1.0
    others = env.against(lambda *given: jnp.int32(3))
    assert others.step(KEY, state, jnp.int32(0)).reward == -1.0
    assert (env.play, env.name) == (None, "Pennies, 4 opponents")
    np.testing.assert_array_equal(env.action_mask(state), True)
    with pytest.raises(ValueError, match="n_opponents"):
        Opponents(Pennies(), 0)


@pytest.mark.parametrize("wrapper", [FrameStack, WithPrevious])
def test_wrappers_may_go_inside_and_around(wrapper):
    for env in (
        Opponents(wrapper(Pennies()), 4, chooses_its_number),
        wrapper(Opponents(Pennies(), 4)).against(chooses_its_number),
    ):
        _, state = env.reset(KEY)
        past = state.past if isinstance(env, Opponents) else state.envstate.past
        assert env.step(KEY, state, past).reward == 1.0
        assert env.step(KEY, state, (past + 1) % 4).reward == -1.0
    with pytest.raises(TypeError, match=r"MatchSign is not .* with a method against\(opponent\)"):
        Opponents(wrapper(MatchSign()), 2)
