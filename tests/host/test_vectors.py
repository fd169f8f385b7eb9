"""Trainings in several Gymnasium environments at once."""

import functools
import os
import signal

import gymnasium
import jax
import numpy as np
import pytest
import trees
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium_probes import Unseeded, Walk
from loops import Counting, Line, Recorder, Tiny

from jaxagents.data import ReplayBuffer
from jaxagents.dqn import DQNLearner
from jaxagents.envs import Gymnasium
from jaxagents.host import OnlineConfig, example_transition, rescale_actions, train_online
from jaxagents.host.checkpoint import HostStore
from jaxagents.host.journal import Journal

N_ENVS = 3
CONFIG = OnlineConfig(
    n_steps=120, batch_size=8, buffer_size=400, start_steps=12, eval_frequency=48, log_frequency=12
)
train_online = functools.partial(train_online, progress=False)


def vector(make=Walk, mode=AutoresetMode.DISABLED, n_envs=N_ENVS):
    return SyncVectorEnv([make] * n_envs, autoreset_mode=mode)


def walker():
    return Tiny.create(np.zeros(3), 2, discrete=True)


def train(env, config=CONFIG, learner=None, **kwargs):
    """Trains, and returns learner, metrics, the buffer and the logs."""
    example = example_transition(rescale_actions(env), config.n_envs)
    buffer = ReplayBuffer.create(example, config.buffer_size)
    recorder = kwargs.pop("recorder", Recorder())
    learner = walker() if learner is None else learner
    outcome = train_online(learner, env, config, buffer=buffer, loggers=[recorder], **kwargs)
    return *outcome, buffer, recorder.logged


@pytest.fixture(scope="module")
def line():
    """The name of an environment that is registered for the tests of this file."""
    gymnasium.register("Line-v0", lambda: Line(limit=10**6), max_episode_steps=7)
    yield "Line-v0"
    del gymnasium.registry["Line-v0"]


# What is stored.


@pytest.mark.parametrize("mode", AutoresetMode)
def test_rows_lead_from_each_observation_to_its_true_successor(mode):
    _, metrics, buffer, _ = train(vector(mode=mode))
    rows = buffer.to_dataset()
    (number, time, total), after = rows["observations"].T, rows["next_observations"].T
    np.testing.assert_array_equal(after, [number, time + 1, total + rows["actions"]])
    np.testing.assert_array_equal(rows["rewards"], rows["actions"])
    terminated = rows["masks"] == 0
    cut = (time + 1 == 5) & ~terminated
    assert terminated.any()
    assert cut.any()
    last = np.append(np.diff(rows["environments"]) != 0, True)
    assert last.sum() == N_ENVS
    np.testing.assert_array_equal(rows["ends"], terminated | cut | last)
    assert (time[1:][rows["ends"][:-1]] == 0).all()
    assert (time[1:][~rows["ends"][:-1]] == 1 + time[:-1][~rows["ends"][:-1]]).all()
    n_resets = (terminated | cut).sum() if mode == AutoresetMode.NEXT_STEP else 0
    assert 0 <= len(rows) - (120 - n_resets) <= N_ENVS
    parts = np.split(rows["rewards"], np.flatnonzero(rows["ends"]) + 1)[:-1]
    whole = [part.sum() for part, end in zip(parts, np.flatnonzero(rows["ends"]), strict=True)
             if terminated[end] or cut[end]]  # fmt: skip
    assert np.nanmin(metrics["episode_return"]) >= min(whole)
    assert np.nanmax(metrics["episode_return"]) <= max(whole)


def test_rewards_are_summed_over_several_steps_of_one_environment_alone():
    *_, buffer, _ = train(vector())
    rows, of_three = buffer.to_dataset(), buffer.to_dataset().n_step(3, 0.9)
    for row in range(len(rows)):
        stop = row + 1
        while stop < row + 3 and not rows["ends"][stop - 1]:
            stop += 1
        taken = rows["rewards"][row:stop]
        assert of_three["rewards"][row] == pytest.approx(
            np.sum(taken * 0.9 ** np.arange(len(taken)))
        )
        assert of_three["next_observations"][row, 0] == rows["observations"][row, 0]


def test_copies_are_made_of_a_registered_environment(line):
    env = gymnasium.make(line)
    learner = Tiny.create(np.zeros(2), 1)
    config = CONFIG.replace(n_envs=N_ENVS)
    _, metrics, buffer, _ = train(env, config, learner, eval_env=gymnasium.make(line))
    assert metrics["returns"].shape == (4, 10)
    rows = buffer.to_dataset()
    assert set(rows["environments"]) == {*range(N_ENVS)}
    starts = rows["observations"][rows["observations"][:, 1] == 0]
    assert len(np.unique(starts, axis=0)) == len(starts) > 10
    assert (rows["observations"][:, 1] < 7).all()
    assert rows["actions"].min() < -0.9
    assert not env.unwrapped.taken
    as_vector = SyncVectorEnv([functools.partial(gymnasium.make, line)] * N_ENVS,
                              autoreset_mode=AutoresetMode.DISABLED)  # fmt: skip
    *_, same, _ = train(as_vector, learner=learner)
    trees.assert_close({**rows}, {**same.to_dataset()})


class Shaped(Walk):
    """A walk whose rewards and ends are arrays of one number."""

    def step(self, action):
        seen, *others, info = super().step(action)
        return seen, *(np.array([x]) for x in others), info


def test_copies_may_give_rewards_and_ends_as_arrays_of_one():
    gymnasium.register("Shaped-v0", Shaped)
    config = CONFIG.replace(n_steps=30, n_envs=N_ENVS)
    *_, buffer, _ = train(gymnasium.make("Shaped-v0", disable_env_checker=True), config)
    *_, same, _ = train(vector(), config)
    trees.assert_equal({**buffer.to_dataset()}, {**same.to_dataset()})
    del gymnasium.registry["Shaped-v0"]


class Mixed(Walk):
    """A walk with one of two actions masked, in a dict with a whole number."""

    observation_space = spaces.Dict(
        {"observation": spaces.Discrete(300), "action_mask": spaces.MultiBinary(2)}
    )

    def step(self, action):
        assert action == self._time % 2
        return super().step(action)

    def _observation(self):
        mask = np.eye(2, dtype=np.int8)[self._time % 2]
        return {"observation": np.int64(self._time), "action_mask": mask}


def test_only_allowed_actions_are_taken():
    example = {"observation": np.float32([0.0]), "action_mask": np.ones(2)}
    env = vector(lambda: Vectors(Mixed()))
    learner = DQNLearner.create(0, example, 0, n_actions=2, features=(8,))
    *_, buffer, _ = train(env, CONFIG.replace(n_steps=30), learner)
    rows = buffer.to_dataset()
    assert rows["observations"]["observation"].dtype == np.float32
    allowed = rows["observations"]["action_mask"][np.arange(30), rows["actions"]]
    np.testing.assert_array_equal(allowed, 1)


class Vectors(gymnasium.ObservationWrapper):
    """A walk whose number is a vector of one, as networks take it."""

    observation_space = spaces.Dict(
        {
            "observation": spaces.Box(-np.inf, np.inf, (1,), np.float64),
            "action_mask": spaces.MultiBinary(2),
        }
    )

    def observation(self, observation):
        return {**observation, "observation": np.array([observation["observation"]], float)}


# The order of acting and learning.


@pytest.mark.parametrize(("frequency", "per_call"), [(1, 1), (2, 3), (6, 2)])
def test_updates_keep_their_ratio_to_the_steps_of_all_environments(frequency, per_call):
    config = CONFIG.replace(n_steps=48, update_frequency=frequency, updates_per_call=per_call)
    learner, _, buffer, _ = train(vector(Toy), config, Counting.create(np.zeros(1), 1))
    rounds = [step for step in range(12, 48) if step % frequency == 0]
    assert learner.n_updates == per_call * len(rounds)
    turns = buffer.last(48)["actions"][:, 0].reshape(-1, N_ENVS)
    done = [per_call * sum(step < N_ENVS * turn for step in rounds) for turn in range(4, 16)]
    np.testing.assert_allclose(turns[4:], np.repeat(done, N_ENVS).reshape(-1, N_ENVS) / 1000)


class Toy(gymnasium.Env):
    """Episodes of four steps."""

    observation_space = spaces.Box(0.0, np.inf, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.float32([self.time]), 1.0, False, self.time == 4, {}


def test_environments_draw_actions_of_their_own():
    *_, buffer, _ = train(vector(Toy), learner=Tiny.create(np.zeros(1), 1))
    turns = buffer.last(120)["actions"][:, 0].reshape(-1, N_ENVS)
    for part in (turns[:4], turns[4:]):
        assert len(np.unique(part)) == part.size


def test_points_and_logs_are_at_the_ends_of_turns():
    config = CONFIG.replace(n_steps=100, eval_frequency=50, log_frequency=10)
    _, metrics, buffer, logged = train(vector(n_envs=4), config)
    np.testing.assert_array_equal(metrics["step"], [0, 52, 100])
    assert sorted(logged) == [*range(12, 100, 12), 100]
    assert len(buffer) == 100


# Going on.


@pytest.mark.parametrize("buffer_size", [400, 32, 4])
def test_goes_on_as_if_uninterrupted(tmp_path, buffer_size):
    config = CONFIG.replace(buffer_size=buffer_size, log_frequency=3)
    learner, metrics, buffer, logs = train(vector(), config)
    config = config.replace(checkpoint_dir=tmp_path)
    for at in (9, 33, 75):
        recorder = Recorder(at, lambda: os.kill(os.getpid(), signal.SIGINT))
        train(vector(), config, recorder=recorder, resume=True)
        assert HostStore(tmp_path).steps()[-1] == at
    resumed, resumed_metrics, resumed_buffer, resumed_logs = train(vector(), config, resume=True)
    trees.assert_equal((learner, metrics), (resumed, resumed_metrics))
    trees.assert_equal({**buffer.to_dataset()}, {**resumed_buffer.to_dataset()})
    for step, logged in resumed_logs.items():
        del logged["steps_per_second"], logs[step]["steps_per_second"]
        assert logged == logs[step]


@pytest.mark.parametrize(
    ("make", "mode", "match"),
    [
        (Unseeded, AutoresetMode.DISABLED, "took another course"),
        (Walk, AutoresetMode.NEXT_STEP, "starts episodes by itself"),
        (Walk, AutoresetMode.SAME_STEP, "starts episodes by itself"),
    ],
)
def test_episodes_that_cannot_go_on_are_cut_where_they_were(tmp_path, make, mode, match):
    config = CONFIG.replace(n_steps=114, checkpoint_dir=tmp_path)
    *_, first, _ = train(vector(make, mode), config.replace(n_steps=48))
    n_rows, earlier = len(first), first.last(len(first))
    for _ in range(2):  # from the first checkpoint, and from one after it
        with pytest.warns(UserWarning, match=match):
            *_, buffer, _ = train(vector(make, mode), config, resume=True)
        rows = jax.tree.map(lambda x: x[:n_rows], buffer.last(len(buffer)))
        newest = [np.flatnonzero(earlier["environments"] == i)[-1] for i in range(N_ENVS)]
        expected = earlier["ends"].copy()
        assert not expected[newest].all()
        expected[newest] = True
        np.testing.assert_array_equal(rows.pop("ends"), expected)
        trees.assert_equal({name: x for name, x in earlier.items() if name != "ends"}, rows)
        after = buffer.last(len(buffer) - n_rows)
        for i in range(N_ENVS):
            assert after["observations"][after["environments"] == i][0, 1] == 0
        config = config.replace(n_steps=150)


@pytest.mark.parametrize("size", [4, 7, 12, 100])
def test_a_journal_ends_the_episodes_of_those_environments_that_it_is_told(tmp_path, size):
    example = {"number": np.int32(0), "environments": np.int32(0), "ends": np.False_}
    buffer = ReplayBuffer.create(example, size)
    journal = Journal(tmp_path, buffer)
    for step, stop in enumerate([3, 11, 20, 20], 1):
        numbers = np.arange(buffer.state_dict()["n_added"], stop)
        rows = {"number": numbers, "environments": numbers % 3, "ends": numbers < 0}
        buffer.add_transitions(rows)
        parts = journal.write(step, {})

    def read(parts):
        held = ReplayBuffer.create(example, size)
        journal = Journal(tmp_path, held)
        journal.read(parts)
        return journal, held, held.last(len(held))

    journal, ended, _ = read(parts)
    journal.end_episodes([0, 2])
    journal.end_episodes([])
    _, _, from_disk = read(journal.write(5, {}))
    for rows in (ended.last(len(ended)), from_disk):
        np.testing.assert_array_equal(rows["number"], np.arange(20)[-size:])
        assert rows["number"][rows["ends"]].tolist() == [17, 18]


def test_a_limit_of_a_vector_says_how_long_episodes_last(tmp_path):
    gymnasium.register("Walk-v0", Walk, max_episode_steps=2)

    def walks():
        options = {"vector_kwargs": {"autoreset_mode": AutoresetMode.DISABLED}}
        return gymnasium.make_vec("Walk-v0", N_ENVS, "sync", max_episode_steps=30, **options)

    assert Gymnasium(walks()).max_steps == 30
    config = CONFIG.replace(checkpoint_dir=tmp_path)
    *_, whole, _ = train(walks())
    train(walks(), config.replace(n_steps=48))
    *_, resumed, _ = train(walks(), config, resume=True)
    trees.assert_equal({**whole.to_dataset()}, {**resumed.to_dataset()})
    del gymnasium.registry["Walk-v0"]


def test_goes_on_in_as_many_environments(tmp_path):
    config = CONFIG.replace(n_steps=24, checkpoint_dir=tmp_path)
    train(vector(), config)
    with pytest.raises(ValueError, match="environment 3 x Walk, but this is 2 x Walk"):
        train(vector(n_envs=2), config, resume=True)
    with pytest.raises(ValueError, match="environment 3 x Walk, but this is Walk"):
        train(Walk(), config, resume=True)


# Refusals.


def test_refuses_copies_that_it_cannot_make():
    with pytest.raises(ValueError, match=r"Walk is not registered.*n_envs is 3.*SyncVectorEnv"):
        train(Walk(), CONFIG.replace(n_envs=3))
    with pytest.raises(ValueError, match=r"vector has 3 environments.*n_envs=2: leave n_envs out"):
        train(vector(), CONFIG.replace(n_envs=2))


def test_refuses_to_evaluate_in_an_environment_of_the_vector():
    env = vector()
    with pytest.raises(ValueError, match="another environment"):
        train(env, eval_env=gymnasium.wrappers.TimeLimit(env.envs[1], 5))


def test_episodes_of_an_earlier_training_do_not_go_on_in_this_one():
    one_each = CONFIG.replace(
        n_steps=N_ENVS, start_steps=N_ENVS
    )  # of episodes of two steps at least
    *_, buffer, _ = train(vector(), one_each)
    assert not buffer.last(N_ENVS)["ends"].any()
    train_online(walker(), vector(), CONFIG.replace(n_steps=12, seed=1), buffer=buffer)
    oldest = {name: x[:N_ENVS] for name, x in buffer.last(len(buffer)).items()}
    np.testing.assert_array_equal(oldest["ends"], True)
    np.testing.assert_array_equal(oldest["masks"], 1.0)
    of_one = 1 + 12 // N_ENVS
    of_three = buffer.to_dataset().n_step(3, 0.9)
    np.testing.assert_array_equal(of_three["rewards"][::of_one], oldest["rewards"])


def test_refuses_a_buffer_that_does_not_tell_environments_apart():
    buffer = ReplayBuffer.create(example_transition(Walk()), 9)
    with pytest.raises(
        ValueError, match=r"'environments': \(\).*example_transition\(env, n_envs\)"
    ):
        train_online(walker(), vector(), CONFIG, buffer=buffer)
