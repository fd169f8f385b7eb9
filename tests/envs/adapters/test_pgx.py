"""Games of pgx."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from suite_checks import KEY, check_suite_environment, lasts

import jaxagents
from jaxagents import DQN, dqn
from jaxagents.envs import Episodes, Opponents

pytest.importorskip("pgx")
pytestmark = pytest.mark.filterwarnings("ignore")


def first_allowed(key, obs, allowed):
    return jnp.argmax(allowed)


def last_allowed(key, obs, allowed):
    return allowed.size - 1 - jnp.argmax(allowed[::-1])


def replayed(env, player, key):
    """Plays a game by the adapter and by pgx, with moves that depend on the board alone."""
    obs, state = env.reset(key)
    native = env.env.init(jax.random.split(key)[0])
    over, reward = False, 0.0
    while not over:
        expected = 0.0
        if native.current_player != 0:
            native = env.env.step(native, env.opponent(key, None, native.legal_action_mask))
            expected += native.rewards[0]
        np.testing.assert_array_equal(state.legal_action_mask, native.legal_action_mask)
        np.testing.assert_array_equal(obs, native.observation)
        action = player(key, None, native.legal_action_mask)
        native = env.env.step(native, action)
        expected += native.rewards[0]
        if not native.terminated:
            native = env.env.step(native, env.opponent(key, None, native.legal_action_mask))
            expected += native.rewards[0]
        step = env.step(key, state, action)
        obs, state, over, reward = step.obs, step.state, bool(step.terminated), step.reward
        assert over == bool(native.terminated)
        assert reward == expected
    return float(reward)


def test_plays_by_turns_as_pgx_does_and_says_who_won():
    env = jaxagents.make("pgx:tic_tac_toe", opponent=last_allowed)
    results = [replayed(env, first_allowed, key) for key in jax.random.split(KEY, 4)]
    assert set(results) <= {-1.0, 0.0, 1.0}


def test_the_agent_sees_its_own_side_at_the_end_of_a_game():
    env = jaxagents.make("pgx:tic_tac_toe", opponent=first_allowed)
    obs, state = env.reset(KEY)
    while not state.terminated:
        step = env.step(KEY, state, last_allowed(None, None, state.legal_action_mask))
        obs, state = step.obs, step.state
    mine, theirs = int(obs[..., 0].sum()), int(obs[..., 1].sum())
    begins = int(env.env.init(jax.random.split(KEY)[0]).current_player) == 0
    assert (mine - theirs) in ((0, 1) if begins else (-1, 0))


def test_masks_are_the_rules_and_are_heeded():
    env = jaxagents.make("pgx:connect_four")
    obs, _ = Episodes(env, 100).reset(KEY)
    assert obs["action_mask"].shape == (7,)
    assert env.max_steps is None
    assert check_suite_environment(env).env is env


def test_games_of_one_player_ask_nobody():
    env = jaxagents.make("pgx:minatar-breakout")
    assert env.opponent is None
    assert not any(map(any, lasts(env, 0, 2)))
    check_suite_environment(env)


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
