"""Games of pgx."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from suite_checks import KEY, check_suite_environment, lasts, trace_updates

import jaxagents
from jaxagents import DQN, PPO, dqn, ppo
from jaxagents.envs import Episodes, Opponents

pytest.importorskip("pgx")
pytestmark = pytest.mark.filterwarnings("ignore")


def first_allowed(key, obs, allowed):
    return jnp.argmax(allowed)


def last_allowed(key, obs, allowed):
    return allowed.size - 1 - jnp.argmax(allowed[::-1])


def test_plays_by_turns_as_pgx_does_and_shows_the_own_side_at_the_end():
    """With moves that depend on the board alone."""
    env = jaxagents.make("pgx:tic_tac_toe", opponent=last_allowed)
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    begin, native_step = jax.jit(env.env.init), jax.jit(env.env.step)
    last_moves = set()

    def move(native, choose):
        native = native_step(native, choose(None, None, native.legal_action_mask))
        return native, native.rewards[0]

    for key in jax.random.split(KEY, 4):
        obs, state = reset(key)
        native, over = begin(jax.random.split(key)[0]), False
        begins = native.current_player == 0
        while not over:
            expected = 0.0
            if native.current_player != 0:
                native, expected = move(native, last_allowed)
            np.testing.assert_array_equal(state.legal_action_mask, native.legal_action_mask)
            np.testing.assert_array_equal(obs, native.observation)
            action = first_allowed(None, None, native.legal_action_mask)
            native, reward = move(native, first_allowed)
            expected, by_us = expected + reward, bool(native.terminated)
            if not by_us:
                native, reward = move(native, last_allowed)
                expected += reward
            taken = step(key, state, action)
            obs, state, over = taken.obs, taken.state, bool(taken.terminated)
            assert over == bool(native.terminated)
            assert taken.reward == expected
        last_moves.add(by_us)
        mine, theirs = int(obs[..., 0].sum()), int(obs[..., 1].sum())
        assert mine - theirs in ((0, 1) if begins else (-1, 0))
    assert last_moves == {True, False}


def test_masks_are_the_rules_and_are_heeded():
    env = jaxagents.make("pgx:connect_four")
    obs, _ = jax.eval_shape(Episodes(env, 100).reset, KEY)
    assert obs["action_mask"].shape == (7,)
    assert env.max_steps is None
    assert check_suite_environment(env).env is env


def test_games_of_one_player_ask_nobody():
    env = jaxagents.make("pgx:minatar-breakout")
    assert env.opponent is None
    assert not any(map(any, lasts(env, 0, 2)))
    trace_updates(PPO(env, None, ppo.AgentConfig()))


def test_equal_games_are_equal():
    import pgx

    config = dqn.AgentConfig()
    games = [pgx.make("tic_tac_toe"), "pgx:tic_tac_toe", jaxagents.make("pgx:tic_tac_toe")]
    first, *others = (DQN(game, None, config) for game in games)
    assert others == [first, first]
    assert first != DQN(jaxagents.make(games[1], opponent=first_allowed), None, config)


def test_opponents_can_be_replaced():
    env = jaxagents.make("pgx:tic_tac_toe")
    others = [env.against(last_allowed), jaxagents.make("pgx:tic_tac_toe", opponent=last_allowed)]
    keys = jax.random.split(KEY, 8)
    boards = [jax.jit(jax.vmap(game.reset))(keys)[0] for game in (env, *others)]
    assert (boards[0] != boards[1]).any()
    np.testing.assert_array_equal(boards[1], boards[2])
    obs, _ = jax.eval_shape(Opponents(env, 2).reset, KEY)
    assert obs.shape == boards[0].shape[1:]
    with pytest.raises(ValueError, match="2048 has one player"):
        jaxagents.make("pgx:2048").against(last_allowed)
