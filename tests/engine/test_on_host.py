"""On-policy agents in Gymnasium environments, which are stepped on the host."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium_probes import Masked, Unseeded, Walk, Walks, walk

from jaxagents import A2C, PPO, a2c, load_policy, make
from jaxagents.envs import Gymnasium
from jaxagents.ppo import AgentConfig, HyperParameters
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
HYPERPARAMS = HyperParameters()


def config(**changes):
    small = {
        "n_steps": 5,
        "batch_size": 4,
        "rollout_length": 8,
        "minibatch_size": 2,
        "eval_frequency": 20,
        "n_evals": 6,
    }
    return AgentConfig(**{**small, **changes})


def small(env, evaluated=False, agent=A2C, **changes):
    """An agent with smaller programs, for tests that need some of their own."""
    sizes = {"n_steps": 5, "batch_size": 4, "rollout_length": 8, "eval_frequency": 20, "n_evals": 6}
    return agent(env, None, a2c.AgentConfig(**{**sizes, **changes}), evaluated)


SMALL_HYPERPARAMS = a2c.HyperParameters()


@pytest.fixture(scope="module")
def agent():
    agent = PPO(Walks(lambda: Walk("rgb_array")), None, config())
    agent.train(KEY, HYPERPARAMS, n_steps=40, progress=False)
    return agent


def test_learns(agent):
    returns, lengths = (
        agent.training_metrics[name].mean(axis=-1) for name in ("returns", "lengths")
    )
    assert returns[0] < 0.8 * lengths[0]
    np.testing.assert_allclose(returns[-1], lengths[-1], rtol=1e-6)


def test_evaluations_are_episodes_of_the_policy(agent):
    outcomes = agent.eval(jax.random.key(3), n_evals=6)
    assert outcomes["returns"].shape == outcomes["lengths"].shape == (6,)
    np.testing.assert_array_equal(outcomes["returns"], outcomes["lengths"])  # it takes action 1
    assert (outcomes["lengths"] <= 5).all()
    assert (outcomes["terminated"] ^ outcomes["truncated"]).all()
    assert not outcomes["terminated"][outcomes["lengths"] == 5].all()
    again = agent.eval(jax.random.key(3), n_evals=6)
    trees.assert_equal(again, outcomes)
    drawn = agent.eval(jax.random.key(3), n_evals=6, deterministic=False)
    np.testing.assert_array_equal(drawn["lengths"], outcomes["lengths"])


def test_films_and_exports(agent, tmp_path):
    key = jax.random.key(4)
    frames = agent.render_episode(key)
    (length,) = agent.eval(key, n_evals=1)["lengths"]
    np.testing.assert_array_equal(frames[:, 0, 0, 0], np.arange(length + 1))
    agent.export_policy(tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors")
    assert policy(np.array([0.3, 1, 1], np.float32)) == 1


@pytest.fixture(scope="module")
def uninterrupted():
    agent = PPO(walk(), None, config())
    return agent.train(KEY, HYPERPARAMS, progress=False)


def test_a_resumed_training_is_the_same_bit_for_bit(uninterrupted, tmp_path):
    folder = {"checkpoint_dir": tmp_path, "restore_agent": True}

    def agent():
        return PPO(walk(), None, config(**folder))

    agent().train(KEY, HYPERPARAMS, n_steps=3, progress=False)
    runner, metrics = agent().resume(KEY, HYPERPARAMS, progress=False)
    trees.assert_equal(runner, uninterrupted[0])
    np.testing.assert_array_equal(metrics["returns"][-1], uninterrupted[1]["returns"][-1])


def test_an_earlier_runner_goes_on_as_before(uninterrupted):
    agent = PPO(walk(), None, config())
    earlier, _ = agent.train(KEY, HYPERPARAMS, n_steps=3, progress=False)
    once, _ = agent.train(None, None, earlier, n_steps=2, progress=False)
    twice, _ = agent.train(None, None, earlier, n_steps=2, progress=False)
    trees.assert_equal(once, twice)
    trees.assert_equal(once, uninterrupted[0])


class Noting(A2C):
    """Reports what its rollouts hold of infos."""

    def _actor_loss_input(self, runner, traj):
        is_action = (traj.info["action"] == traj.action).astype(jnp.float32)
        is_left_out = jnp.isnan(traj.info["seldom"]).astype(jnp.float32)
        return *super()._actor_loss_input(runner, traj), is_action, is_left_out

    def _actor_loss(self, training, obs, actions, log_prob_old, advantage, *more):
        is_action, is_left_out, hyperparams = more
        given = training, obs, actions, log_prob_old, advantage, hyperparams
        losses, info = super()._actor_loss(*given)
        return losses, {**info, "is_action": is_action, "is_left_out": is_left_out}


def test_rollouts_hold_infos():
    names = {"summed_info": ("action",), "final_info": ("seldom",)}
    runner, _ = small(walk(), agent=Noting, n_steps=1, **names).train(
        KEY, SMALL_HYPERPARAMS, progress=False
    )
    assert runner.info["is_action"] == runner.info["is_left_out"] == 1.0


class Counting(A2C):
    def _eval_metrics(self, terminated, truncated, final_rewards, returns):
        metrics = super()._eval_metrics(terminated, truncated, final_rewards, returns)
        return {**metrics, "ended": int(np.sum(terminated))}


def test_metrics_go_on_with_the_entries_that_they_began_with():
    agent = small(walk(), True, Counting, n_steps=1, final_info=("won",))
    runner, _ = agent.train(KEY, SMALL_HYPERPARAMS, progress=False)
    runner, _ = agent.train(None, None, runner, progress=False)
    assert agent.training_metrics["won"].shape == (3, 6)
    other = small(walk(), True, Counting, n_steps=1)
    other.collect_training(runner, agent.training_metrics)
    with pytest.raises(ValueError, match=r"training had \['won'\] so far, which the agent lacks\."):
        other.train(None, None, runner, progress=False)


@pytest.fixture(scope="module")
def in_turns():
    agent = PPO(walk(), None, config())
    return agent.train(KEY, HYPERPARAMS, progress=False)[0]


def test_a_replay_shows_what_happened(tmp_path):
    agent = PPO(walk(), None, config(checkpoint_dir=tmp_path))
    runner, _ = agent.train(KEY, HYPERPARAMS, progress=False)
    stretch = agent.replay(3, n_updates=2)
    trees.assert_equal(stretch.runner, runner)
    np.testing.assert_array_equal(stretch.metrics["actor_loss"][-1], runner.info["actor_loss"])


@pytest.mark.parametrize("mode", AutoresetMode)
def test_trains_in_vectors_as_they_are(in_turns, mode):
    env = SyncVectorEnv([Walk] * 4, autoreset_mode=mode)
    agent = PPO(Walks(env, eval_env=Walk), None, config())
    runner, metrics = agent.train(KEY, HYPERPARAMS, progress=False)
    assert jnp.isfinite(runner.info["actor_loss"])
    assert metrics["lengths"].max() <= 5
    if mode == AutoresetMode.DISABLED:
        trees.assert_equal(runner.actor_training.params, in_turns.actor_training.params)
    else:  # whose later episodes have other seeds
        assert runner.envstate.envstate.actions.shape == (4, 0)


def test_agents_take_turns_in_environments_that_are_given():
    vector = SyncVectorEnv([Walk] * 2, autoreset_mode=AutoresetMode.DISABLED)
    agent, other = (small(vector, batch_size=2, rollout_length=3) for _ in range(2))
    runner = agent.advance(agent.start(KEY, SMALL_HYPERPARAMS), 1)
    other.start(jax.random.key(1), SMALL_HYPERPARAMS)
    gone_on = agent.advance(jax.device_put(runner, may_alias=False), 1)
    trees.assert_equal(gone_on, agent.advance(runner, 1))  # whose episodes are played again


def test_closing_closes_the_copies_that_were_made():
    closed = []

    class Closing(Walk):
        def close(self):
            closed.append(self)

    env = Walks(Closing)
    agent = small(env)
    for n_made in (4, 8):
        agent.start(KEY, SMALL_HYPERPARAMS)
        for _ in range(2):
            env.close()
            assert len(set(closed)) == n_made


@pytest.mark.slow
def test_environments_in_processes_make_the_same_training(in_turns):
    env = walk(vectorization_mode="async")
    agent = PPO(env, None, config(n_evals=1))
    runner, _ = agent.train(KEY, HYPERPARAMS, progress=False)
    env.close()
    trees.assert_equal(runner.actor_training.params, in_turns.actor_training.params)


@pytest.mark.slow
def test_memory_normalisation_true_rewards_and_infos():
    changes = {"memory": "gru", "normalise_observations": True, "normalise_rewards": True}
    names = {"final_info": ("won",), "summed_info": ("action",)}
    agent = small(walk(), True, memory_size=8, rollout_length=9, **changes, **names)
    runner, metrics = agent.train(KEY, SMALL_HYPERPARAMS, progress=False)
    assert (metrics["returns"] == np.round(metrics["returns"])).all()
    np.testing.assert_array_equal(metrics["action"], metrics["returns"])
    np.testing.assert_array_equal(metrics["won"], metrics["terminated"])
    begins = np.asarray(runner.envstate.step) == 0
    carries = np.asarray(jax.tree.leaves(runner.carry)[0])
    assert begins.any()
    assert not begins.all()
    np.testing.assert_array_equal((carries == 0).all(axis=1), begins)
    assert runner.received.shape == (4,)


def test_masks_of_any_type_and_limits_that_terminate():
    limits = {"max_episode_steps": 2, "terminate_at_limits": True}
    agent = small(Gymnasium(Masked), True, n_steps=2, **limits)
    runner, metrics = agent.train(KEY, SMALL_HYPERPARAMS, progress=False)
    assert runner.obs["action_mask"].dtype == bool
    assert metrics["terminated"].all()
    assert not metrics["truncated"].any()


def test_equal_environments_make_equal_agents_that_share_programs():
    first, second = (PPO("gymnasium:CartPole-v1", None, config()) for _ in range(2))
    assert first == second
    assert first.programs is second.programs
    assert repr(first) == "<PPO on CartPole-v1>"
    assert PPO(make("gymnasium:Acrobot-v1"), None, config()) != first
    assert first == PPO(gymnasium.make("CartPole-v1"), None, config())


class Plain(gymnasium.Wrapper):
    """A wrapper that does not tell Gymnasium how it was made."""


def test_environments_may_be_registered_with_a_wrapper_that_is_not_recorded():
    gymnasium.register("PlainWalk-v0", lambda: Plain(Walk()))
    agent = small(gymnasium.make("PlainWalk-v0"), True)
    _, metrics = agent.train(KEY, SMALL_HYPERPARAMS, n_steps=1, progress=False)
    assert np.isfinite(metrics["returns"]).all()
    del gymnasium.registry["PlainWalk-v0"]


def test_an_environment_in_a_wrapper_that_is_not_recorded_is_played_in_itself():
    one, other = (Plain(gymnasium.make("CartPole-v1")) for _ in range(2))
    assert Gymnasium(one) != Gymnasium(other)
    small(one, batch_size=1).train(KEY, SMALL_HYPERPARAMS, progress=False)
    assert one.unwrapped.state is not None
    assert other.unwrapped.state is None


def test_says_that_a_training_goes_on_with_other_episodes(tmp_path):
    folder = {"checkpoint_dir": tmp_path, "restore_agent": True}

    def agent():
        return PPO(Walks(Unseeded), None, config(**folder))

    agent().train(KEY, HYPERPARAMS, n_steps=1, progress=False)
    with pytest.warns(UserWarning, match="not as if it had never stopped, with new episodes"):
        agent().resume(KEY, HYPERPARAMS, progress=False)


def test_nothing_is_compiled_around_the_host(agent):
    keys = jax.random.split(KEY, 2)
    one_state = jax.tree.map(lambda x: x[0], agent.training_runner.envstate)
    attempts = {
        "vmap": lambda: jax.vmap(lambda key: agent.train(key, HYPERPARAMS))(keys),
        "jit": lambda: jax.jit(agent.train)(KEY, HYPERPARAMS),
        "sweep": lambda: agent.sweep(keys, HYPERPARAMS),
        "mesh": lambda: agent.train(KEY, HYPERPARAMS, mesh=make_mesh()),
        "env_reset": lambda: agent.env_reset(KEY),
        "env_step": lambda: agent.env_step(KEY, one_state, 0),
    }
    for attempt in attempts.values():
        with pytest.raises(NotImplementedError, match=r"runs on the host.*one seed after another"):
            attempt()


def remembering():
    """An agent that remembers, in a vector that starts episodes by itself."""
    env = SyncVectorEnv([Walk] * 4, autoreset_mode=AutoresetMode.NEXT_STEP)
    fields = {"memory": "gru", "memory_size": 4, "normalise_rewards": True}
    return small(Walks(env, eval_env=Walk), rollout_length=7, **fields)


def without_past(runner, where):
    """A runner whose critic remembers nothing in some environments, which have been rewarded nothing."""
    return runner.replace(
        critic_carry=jnp.where(where[:, None], 0.0, runner.critic_carry),
        received=jnp.where(where, 0.0, runner.received),
    )


@pytest.mark.slow
def test_episodes_that_begin_between_rollouts_are_valued_without_those_before():
    """Such as in steps that a rollout leaves out, since other environments have yet to take theirs."""
    agent, by_hand = remembering(), remembering()
    runner, same = (it.start(KEY, SMALL_HYPERPARAMS) for it in (agent, by_hand))
    n_resets = 0
    for _ in range(6):
        runner, same = agent.advance(runner, 1), by_hand.advance(same, 1)
        begins = (same.carry == 0.0).all(axis=-1)
        n_resets += int((begins & (same.critic_carry != 0.0).any(axis=-1)).sum())
        same = without_past(same, begins)
        trees.assert_equal(without_past(runner, begins), same)
    assert n_resets


@pytest.mark.filterwarnings("ignore:Training goes on, but not as if")
def test_new_episodes_in_the_place_of_others_begin_without_memories():
    agent = remembering()
    runner = agent.advance(agent.start(KEY, SMALL_HYPERPARAMS), 1)
    assert np.any(runner.carry)
    assert np.any(runner.critic_carry)
    forgotten = without_past(runner, np.ones(4, bool))
    forgotten = forgotten.replace(carry=jnp.zeros_like(runner.carry))
    after, expected = (
        remembering().advance(jax.device_put(it, may_alias=False), 1) for it in (runner, forgotten)
    )
    trees.assert_equal(after, expected)
