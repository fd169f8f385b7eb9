"""Agents with a replay buffer, and offline agents, in Gymnasium environments."""

import gymnasium
import jax
import numpy as np
import pytest
import trees
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium_probes import Masked, Steered, Walks

from jaxagents import BC, DQN, SAC, bc, dqn, load_policy, sac
from jaxagents.data import Dataset
from jaxagents.engine.observers import NotFiniteError
from jaxagents.envs import Gymnasium

KEY = jax.random.key(0)
SIZES = {"n_steps": 6, "n_envs": 2, "features": (8,), "minibatch_size": 4, "buffer_size": 60}
SIZES |= {"learning_starts": 8, "eval_frequency": 6, "n_evals": 2}
STATISTICS = {"normalise_observations": True, "normalise_rewards": True}


def make(env=None, **changes):
    """A small SAC, with running statistics of observations and rewards."""
    env = Walks(Steered) if env is None else env
    return SAC(env, None, sac.AgentConfig(**{**SIZES, **STATISTICS, **changes}))


def make_dqn(env, **changes):
    return DQN(env, None, dqn.AgentConfig(**{**SIZES, **changes}), eval_during_training=False)


@pytest.fixture(scope="module")
def learnt():
    sizes = {"n_steps": 400, "eval_frequency": 200, "n_evals": 4, "minibatch_size": 32}
    config = sac.AgentConfig(**{**SIZES, **sizes, "features": (16,), "buffer_size": 2_000})
    agent = SAC(Walks(lambda: Steered("rgb_array")), None, config)
    rates = ("actor_learning_rate", "critic_learning_rate", "temperature_learning_rate")
    agent.train(KEY, sac.HyperParameters(**dict.fromkeys(rates, 1e-2), tau=0.05), progress=False)
    return agent


def test_learns_and_is_evaluated_in_episodes_of_its_own(learnt):
    outcomes = learnt.eval(jax.random.key(3), n_evals=6)
    assert (outcomes["returns"] > 1.5 * outcomes["lengths"]).all()
    assert (outcomes["lengths"] <= 5).all()
    trees.assert_equal(learnt.eval(jax.random.key(3), n_evals=6), outcomes)


def test_films_and_exports(learnt, tmp_path):
    key = jax.random.key(4)
    frames = learnt.render_episode(key)
    (length,) = learnt.eval(key, n_evals=1)["lengths"]
    np.testing.assert_array_equal(frames[:, 0, 0, 0], np.arange(length + 1))
    learnt.export_policy(tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors")
    assert policy(np.array([0.3, 1, 1], np.float32)) > 1.5  # in the environment's units


def test_every_transition_is_stored_in_the_units_of_the_environment(learnt):
    stored = learnt.training_runner.buffer.to_dataset()
    assert len(stored) == 8 + 2 * 400
    np.testing.assert_array_equal(stored["rewards"], stored["actions"][:, 0])
    ends, masks = stored["ends"], stored["masks"]
    assert ends[masks == 0].all()
    assert (masks[ends] == 1).any()  # time limits
    follows = ~ends[:-1]
    np.testing.assert_array_equal(
        stored["observations"][1:][follows], stored["next_observations"][:-1][follows]
    )


@pytest.fixture(scope="module")
def uninterrupted():
    agent = make()
    return agent.train(KEY, progress=False)


def test_a_resumed_training_is_the_same_bit_for_bit(uninterrupted, tmp_path):
    folder = {"checkpoint_dir": tmp_path, "restore_agent": True}
    make(**folder).train(KEY, n_steps=3, progress=False)
    runner, metrics = make(**folder).resume(KEY, progress=False)
    trees.assert_equal(runner, uninterrupted[0])
    np.testing.assert_array_equal(metrics["returns"][-1], uninterrupted[1]["returns"][-1])


def test_statistics_are_of_all_transitions_and_rewards_stay_true(uninterrupted):
    runner, metrics = uninterrupted
    stored = runner.buffer.to_dataset()
    np.testing.assert_array_equal(stored["rewards"], stored["actions"][:, 0])
    np.testing.assert_array_equal(metrics["returns"], metrics["returns"].astype(np.float32))
    assert (np.abs(metrics["returns"]) <= 2 * metrics["lengths"]).all()
    assert runner.returns.count == len(stored)
    counts = {
        int(leaf)
        for path, leaf in jax.tree.leaves_with_path(runner.learner.actor)
        if "count" in jax.tree_util.keystr(path) and np.ndim(leaf) == 0
    }
    assert len(stored) in counts


def test_an_earlier_runner_goes_on_as_before(uninterrupted):
    agent = make()
    earlier, _ = agent.train(KEY, n_steps=3, progress=False)
    for _ in range(2):
        runner, _ = agent.train(None, None, earlier, n_steps=3, progress=False)
        trees.assert_equal(runner, uninterrupted[0])


def test_a_buffer_that_checkpoints_leave_out_is_filled_anew(tmp_path):
    folder = {"checkpoint_dir": tmp_path, "restore_agent": True, "checkpoint_buffer": False}
    make(**folder).train(KEY, n_steps=3, progress=False)
    runner, _ = make(**folder).resume(KEY, progress=False)
    assert runner.update_step == 6
    assert len(runner.buffer.to_dataset()) == 8 + 2 * 3


@pytest.mark.parametrize("mode", AutoresetMode)
def test_in_vectors_rows_follow_one_another_until_an_episode_ends(uninterrupted, mode):
    """Also where some environments wait for others, and their steps are left out."""
    env = SyncVectorEnv([Steered] * 2, autoreset_mode=mode)
    agent = make(Walks(env, eval_env=Steered))
    runner, _ = agent.train(KEY, progress=False)
    if mode == AutoresetMode.DISABLED:
        trees.assert_equal(runner, uninterrupted[0])
    runner, _ = agent.train(None, None, runner, n_steps=20, progress=False)
    names, n_rows = ("observations", "next_observations", "ends"), 8 + 2 * 26
    obs, successors, ends = (np.asarray(runner.buffer.storage[name])[:n_rows] for name in names)
    follows = ~ends[:-2]
    np.testing.assert_array_equal(obs[2:][follows], successors[:-2][follows])
    assert follows.any()
    assert ends.any()


def test_masks_and_memory():
    """Each action that `Masked` is not allowed is refused by it."""
    agent = make_dqn(Gymnasium(Masked), memory="gru", memory_size=4, sequence_length=4)
    runner, _ = agent.train(KEY, progress=False)
    assert set(np.unique(runner.buffer.to_dataset()["actions"])) <= {1, 3}
    begins = np.asarray(runner.envstate.step) == 0
    for carry in jax.tree.leaves(runner.carry):
        np.testing.assert_array_equal((np.asarray(carry) == 0).all(axis=-1), begins)


class Spoilt(Steered):
    """Gives a reward that is not a number in the third step of each episode."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, np.nan if self._time == 3 else reward, *rest


def test_rewards_that_are_not_finite_are_reported():
    with pytest.raises(
        NotFiniteError, match=r"finite, since update 2: rewards of environments \[0\]"
    ):
        make(Walks(Spoilt, eval_env=Steered), learning_starts=2).train(KEY, progress=False)


def test_an_evaluation_that_is_not_finite_is_reported():
    with pytest.warns(
        UserWarning, match=r"evaluation after update 0 .* not finite, in episodes \["
    ):
        _, metrics = make(Walks(Steered, eval_env=Spoilt), n_evals=8).train(KEY, progress=False)
    np.testing.assert_array_equal(np.isnan(metrics["returns"]), metrics["lengths"] >= 3)


def test_offline_agents_are_evaluated(learnt):
    data = {**learnt.training_runner.buffer.to_dataset()}
    config = bc.AgentConfig(n_steps=2, features=(8,), minibatch_size=4, eval_frequency=1, n_evals=2)
    env = Walks(lambda: Steered("rgb_array"))
    agent = BC(env, None, config, dataset=Dataset(data))
    _, metrics = agent.train(KEY, progress=False)
    assert metrics["returns"].shape == (3, 2)
    assert (metrics["lengths"] <= 5).all()
    frames = agent.render_episode(KEY)
    assert len(frames) == 1 + agent.eval(KEY, n_evals=1)["lengths"][0]


class OwnUpdate(SAC):
    def _training_step(self, runner):
        return super()._training_step(runner)


def test_what_cannot_be_done_on_the_host_is_refused():
    agent, keys = make(), jax.random.split(KEY, 2)
    attempts = {
        "vmap": lambda: jax.vmap(lambda key: agent.train(key))(keys),
        "sweep": lambda: agent.sweep(keys),
    }
    for attempt in attempts.values():
        with pytest.raises(NotImplementedError, match=r"runs on the host.*one seed after another"):
            attempt()
    with pytest.raises(TypeError, match=r"OwnUpdate overrides _training_step, .*override _learn"):
        OwnUpdate(Walks(Steered), None, sac.AgentConfig(**SIZES))
    with pytest.raises(ValueError, match=r"SAC|3 environments"):
        make(SyncVectorEnv([Steered] * 3))


def test_equal_environments_make_equal_agents():
    """Whether they are named or made; a made one is copied."""
    first, second = (
        SAC(env, None, sac.AgentConfig(**SIZES))
        for env in (gymnasium.make("Pendulum-v1"), "gymnasium:Pendulum-v1")
    )
    assert first == second
    assert first.programs is second.programs
