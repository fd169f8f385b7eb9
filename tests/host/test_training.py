"""Trainings on the host: what is stored, learned, reported and refused."""

import functools
import json

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from compilations import compilations
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from loops import Clock, Counting, Line, Picture, Recorder, Tiny

from jaxagents.bc import DiscreteBCLearner
from jaxagents.data import Dataset, ReplayBuffer
from jaxagents.dqn import DQNLearner
from jaxagents.host import (
    OfflineConfig,
    OnlineConfig,
    evaluate,
    example_transition,
    rescale_actions,
    supply_rng,
    train_offline,
    train_online,
)
from jaxagents.host.episodes import as_observation
from jaxagents.host.randomness import Stream, generator, seed_of

ONLINE = OnlineConfig(
    n_steps=60, batch_size=8, buffer_size=100, start_steps=10, eval_frequency=25, n_evals=3,
    log_frequency=10,
)  # fmt: skip
OFFLINE = OfflineConfig(
    n_updates=47, batch_size=8, updates_per_call=5, eval_frequency=20, n_evals=3, log_frequency=10
)
train_online = functools.partial(train_online, progress=False)
train_offline = functools.partial(train_offline, progress=False)


def line_learner():
    return Tiny.create(np.zeros(2), 1)


def buffer_for(env, size=100):
    return ReplayBuffer.create(example_transition(rescale_actions(env)), size)


@functools.cache
def line_data():
    buffer = buffer_for(Line())
    train_online(line_learner(), Line(), ONLINE, buffer=buffer)
    return buffer.to_dataset()


# What is stored.


def test_transitions_are_those_of_the_environment():
    env, buffer = Line(), buffer_for(Line())
    train_online(line_learner(), env, ONLINE, buffer=buffer)
    rows = buffer.to_dataset()
    assert len(rows) == 60
    assert rows["observations"].dtype == rows["rewards"].dtype == np.float32
    replayed, episode = rescale_actions(Line()), 0
    observation, _ = replayed.reset(seed=seed_of(0, Stream.EPISODES, episode))
    for row in range(60):
        np.testing.assert_array_equal(rows["observations"][row], np.float32(observation))
        action = rows["actions"][row]
        observation, reward, terminated, truncated, _ = replayed.step(action)
        np.testing.assert_array_equal(rows["next_observations"][row], np.float32(observation))
        assert rows["rewards"][row] == np.float32(reward)
        assert rows["masks"][row] == (0.0 if terminated else 1.0)
        assert rows["ends"][row] == (terminated or truncated)
        if terminated or truncated:
            episode += 1
            observation, _ = replayed.reset(seed=seed_of(0, Stream.EPISODES, episode))
    assert (rows["masks"] == 0).any()
    assert (rows["ends"] & (rows["masks"] == 1)).any()


def test_box_actions_are_rescaled_to_the_bounds():
    env, buffer = Line(), buffer_for(Line())
    train_online(line_learner(), env, ONLINE, buffer=buffer)
    stored = buffer.to_dataset()["actions"]
    assert stored.min() < -0.9
    assert stored.max() > 0.9
    np.testing.assert_allclose(np.array(env.taken), -0.5 + 0.75 * (stored + 1.0), atol=1e-6)
    assert env.taken[0].dtype == np.float32


def test_rescaled_environments_can_be_described_and_made_again():
    env = rescale_actions(gymnasium.make("Pendulum-v1"))
    described = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    assert gymnasium.make(described).action_space == env.action_space


def test_bounds_of_one_are_left_alone():
    env = Clock()
    assert rescale_actions(env) is env


def test_random_actions_come_first_and_are_uniform():
    buffer = buffer_for(Line(), 400)
    train_online(
        line_learner(), Line(), ONLINE.replace(n_steps=400, start_steps=400), buffer=buffer
    )
    actions = buffer.to_dataset()["actions"]
    assert len(np.unique(actions)) == 400
    assert abs(actions.mean()) < 0.1
    assert abs(actions.std() - 1 / np.sqrt(3)) < 0.05


class TakingTurns(gymnasium.Env):
    """Allows one of three actions, another one at each step, and fails at others."""

    action_space = spaces.Discrete(3)
    observation_space = spaces.Dict(
        {
            "observation": spaces.Box(0.0, np.inf, (1,), np.float32),
            "action_mask": spaces.MultiBinary(3),
        }
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def step(self, action):
        assert action == self.time % 3
        self.time += 1
        return self.observe(), 1.0, False, self.time == 5, {}

    def observe(self):
        mask = np.eye(3, dtype=np.int8)[self.time % 3]
        return {"observation": np.float32([self.time]), "action_mask": mask}


def test_only_allowed_actions_are_taken():
    env = TakingTurns()
    example = env.reset(seed=0)[0], env.action_space.sample()
    learner = DQNLearner.create(0, *example, n_actions=3, features=(8,))
    _, metrics = train_online(learner, env, ONLINE, eval_env=TakingTurns())
    np.testing.assert_array_equal(metrics["returns"], 5.0)


def test_discrete_actions_and_dict_observations():
    env = Picture()
    learner = Tiny.create(as_observation(env.observation_space.sample()), 2, discrete=True)
    buffer = buffer_for(env)
    _, metrics = train_online(learner, env, ONLINE, eval_env=Picture(), buffer=buffer)
    rows = buffer.to_dataset()
    assert rows["observations"]["image"].dtype == np.uint8
    assert rows["observations"]["inner"]["count"].dtype == np.float32
    np.testing.assert_array_equal(
        rows["observations"]["image"][:, 0, 0], rows["observations"]["inner"]["count"]
    )
    assert set(rows["actions"][:10]) == {0, 1}
    assert metrics["returns"].shape == (4, 3)


class BytesOfReals(Picture):
    """Returns bytes where its space has real numbers, and an entry that it does not have."""

    observation_space = spaces.Dict(
        {**Picture.observation_space.spaces, "image": spaces.Box(0, 255, (2, 2), np.float32)}
    )

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return {**observation, "besides": np.zeros(1)}, info

    def step(self, action):
        observation, *outcome = super().step(int(action))
        return {**observation, "besides": np.zeros(1)}, *outcome


@pytest.mark.parametrize("n_envs", [None, 2])
def test_learners_act_on_observations_of_the_type_that_they_learn_from(n_envs):
    seen = set()

    class Watching(Tiny):
        def sample_actions(self, observations, *, seed=None, temperature=1.0):
            seen.add((*observations, observations["image"].dtype.name))
            return super().sample_actions(observations, seed=seed, temperature=temperature)

    example = BytesOfReals.observation_space.sample()
    learner = Watching.create(as_observation(example), 2, discrete=True)
    env = BytesOfReals() if n_envs is None else SyncVectorEnv([BytesOfReals] * n_envs)
    train_online(learner, env, ONLINE, eval_env=BytesOfReals())
    assert seen == {("image", "inner", "float32")}


# The order of acting and learning.


@pytest.mark.parametrize(("frequency", "per_call"), [(1, 1), (1, 3), (4, 2)])
def test_acts_as_before_the_update_that_is_running(frequency, per_call):
    config = ONLINE.replace(
        n_steps=30, update_frequency=frequency, updates_per_call=per_call, log_frequency=frequency
    )
    buffer, recorder = buffer_for(Clock()), Recorder()
    learner = Counting.create(np.zeros(1), 1)
    learner, _ = train_online(learner, Clock(), config, buffer=buffer, loggers=[recorder])
    actions = buffer.to_dataset()["actions"][:, 0]
    rounds = [step for step in range(10, 30) if step % frequency == 0]
    expected = [per_call * sum(done < step for done in rounds) / 1000 for step in range(10, 30)]
    np.testing.assert_allclose(actions[10:], expected, atol=1e-7)
    assert learner.n_updates == per_call * len(rounds)
    newest = {
        step: metrics["training/newest"]
        for step, metrics in recorder.logged.items()
        if "training/newest" in metrics
    }
    assert len(newest) == len(rounds)
    assert all(row <= step - 2 for step, row in newest.items())


def test_learns_from_what_its_seed_draws():
    data = line_data()
    learner, _ = train_online(line_learner(), Line(), ONLINE)
    expected = line_learner()
    for step in range(10, 60):
        indices = generator(0, Stream.BATCHES, step).integers(step, size=(1, 8))
        expected, _ = expected.update_many(data.sample(8, indx=indices))
    trees.assert_equal(expected, learner)


def test_the_seed_decides():
    first, metrics = train_online(line_learner(), Line(), ONLINE, eval_env=Line())
    again, metrics_again = train_online(line_learner(), Line(), ONLINE, eval_env=Line())
    trees.assert_equal((first, metrics), (again, metrics_again))
    other, _ = train_online(line_learner(), Line(), ONLINE.replace(seed=1))
    assert not trees.equal(first, other)


def test_a_filled_buffer_is_learned_from_at_once():
    buffer = ReplayBuffer.create_from_initial_dataset(line_data(), 200)
    learner, _ = train_online(
        line_learner(), Line(), ONLINE.replace(start_steps=0, n_steps=5), buffer=buffer
    )
    assert learner.n_updates == 5
    assert len(buffer) == 65
    learner, _ = train_online(line_learner(), Line(), ONLINE.replace(start_steps=0, n_steps=5))
    assert learner.n_updates == 4  # there is nothing to learn from before the first step


def test_episodes_of_an_earlier_training_do_not_go_on_in_this_one():
    buffer = buffer_for(Line(), 200)
    short = ONLINE.replace(n_steps=4, start_steps=4)
    train_online(line_learner(), Line(), short, buffer=buffer)
    assert not buffer.to_dataset()["ends"][-1]  # in the middle of an episode
    copied = ReplayBuffer.create_from_initial_dataset(buffer.to_dataset(), 200)
    for filled in (buffer, copied):
        train_online(line_learner(), Line(), short.replace(seed=1), buffer=filled)
        rows = filled.to_dataset()
        assert rows["ends"][3]
        assert rows["masks"][3] == 1.0
        several = rows.n_step(3, 0.9)
        assert several["rewards"][3] == rows["rewards"][3]
        np.testing.assert_array_equal(several["next_observations"][3], rows["next_observations"][3])


def test_compiles_one_update():
    learner = Tiny.create(np.zeros(2), 1, discrete=False)
    with compilations() as made:
        train_online(learner, Line(), ONLINE.replace(batch_size=9))
    assert sum("backend_compile" in event and "_update" in event for event in made) == 1


# What is reported.


def test_metrics_are_means_since_the_point_before():
    buffer = buffer_for(Line())
    _, metrics = train_online(line_learner(), Line(), ONLINE, eval_env=Line(), buffer=buffer)
    np.testing.assert_array_equal(metrics["step"], [0, 25, 50, 60])
    rows, learner, values = buffer.to_dataset(), line_learner(), {}
    for step in range(10, 60):
        indices = generator(0, Stream.BATCHES, step).integers(step, size=(1, 8))
        learner, info = learner.update_many(rows.sample(8, indx=indices))
        values[step] = info["value"][0]
    expected = [np.mean([values[s] for s in range(*r)]) for r in [(10, 25), (25, 50), (50, 60)]]
    np.testing.assert_allclose(metrics["value"], [np.nan, *expected], rtol=1e-5)
    ends = np.flatnonzero(rows["ends"])
    returns = [part.sum() for part in np.split(rows["rewards"], ends + 1)[:-1]]
    between = [(ends >= a) & (ends < b) for a, b in [(0, 25), (25, 50), (50, 60)]]
    expected = [np.mean(np.array(returns)[part]) for part in between]
    np.testing.assert_allclose(metrics["episode_return"], [np.nan, *expected], rtol=1e-5)


def test_evaluates_in_the_same_episodes_by_the_mode():
    learner, metrics = train_online(line_learner(), Line(), ONLINE, eval_env=Line())
    assert metrics["returns"].shape == metrics["lengths"].shape == (4, 3)
    outcomes = evaluate(
        learner.sample_actions, rescale_actions(Line()), 3, seed=seed_of(0, Stream.EVALUATION)
    )
    for name, values in outcomes.items():
        np.testing.assert_array_equal(metrics[name][-1], values)


def test_evaluations_draw_actions_if_configured():
    drawing = {"eval_env": Line(), "config": ONLINE.replace(eval_deterministic=False)}
    learner, metrics = train_online(line_learner(), Line(), **drawing)
    greedy, of_modes = train_online(line_learner(), Line(), ONLINE, eval_env=Line())
    trees.assert_equal(learner, greedy)
    assert (metrics["returns"] != of_modes["returns"]).any(axis=1).all()
    seed = seed_of(0, Stream.EVALUATION)
    policy = supply_rng(learner.sample_actions, jax.random.key(seed))
    outcomes = evaluate(policy, rescale_actions(Line()), 3, seed=seed)
    np.testing.assert_array_equal(metrics["returns"][-1], outcomes["returns"])


def test_offline_evaluations_draw_actions_if_configured():
    config = OFFLINE.replace(eval_deterministic=False)
    _, drawn = train_offline(line_learner(), {**line_data()}, config, eval_env=Line())
    _, greedy = train_offline(line_learner(), {**line_data()}, OFFLINE, eval_env=Line())
    assert (drawn["returns"] != greedy["returns"]).any()


def test_without_another_environment_nothing_is_evaluated():
    _, metrics = train_online(line_learner(), Line(), ONLINE)
    assert set(metrics) == {"step", "value", "largest_reward", "episode_return"}


def test_loggers_receive_evaluations_and_means(tmp_path):
    recorder = Recorder()
    config = ONLINE.replace(checkpoint_dir=tmp_path)
    _, metrics = train_online(line_learner(), Line(), config, eval_env=Line(), loggers=[recorder])
    assert sorted(recorder.logged) == [0, 10, 20, 25, 30, 40, 50, 60]
    assert "training/value" not in recorder.logged[10]
    assert {"training/value", "training/episode_return"} < set(recorder.logged[20])
    assert recorder.logged[20]["steps_per_second"] > 0
    assert set(recorder.logged[25]) == {
        f"evaluation/{name}"
        for name in ("return", "length", "final_reward", "terminated", "truncated")
    }
    assert recorder.logged[50]["evaluation/return"] == pytest.approx(metrics["returns"][2].mean())
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == sorted(recorder.logged)


def test_shows_progress(capsys):
    train_online.func(line_learner(), Line(), ONLINE, eval_env=Line(), progress=True)
    shown = capsys.readouterr().err
    assert "Tiny on Line" in shown
    assert "60/60" in shown
    assert "return" in shown
    assert "training" in shown


# Datasets.


def test_offline_updates_are_those_that_the_seed_draws():
    learner, metrics = train_offline(line_learner(), {**line_data()}, OFFLINE, eval_env=Line())
    expected, values = line_learner(), []
    for update in range(47):
        indices = generator(0, Stream.BATCHES, update).integers(60, size=8)
        batch = line_data().sample(8, indx=indices[None])
        expected, info = expected.update_many(batch)
        values.append(info["value"][0])
    trees.assert_close(expected, learner)
    np.testing.assert_array_equal(metrics["step"], [0, 20, 40, 47])
    means = [np.mean(values[:20]), np.mean(values[20:40]), np.mean(values[40:])]
    np.testing.assert_allclose(metrics["value"], [np.nan, *means], rtol=1e-4)
    assert metrics["returns"].shape == (4, 3)


def test_offline_without_environment():
    _, metrics = train_offline(line_learner(), line_data(), OFFLINE)
    assert set(metrics) == {"step", "value", "largest_reward"}


# Refusals.


def test_refuses_environments_that_it_cannot_act_in():
    def refuses(action_space, match, error=ValueError):
        with pytest.raises(error, match=match):
            train_online(line_learner(), Line(action_space=action_space), ONLINE)

    refuses(spaces.Box(-np.inf, np.inf, (1,)), "finite bounds")
    refuses(spaces.MultiDiscrete([2, 2]), "Discrete, or a Box of floats")
    refuses(spaces.Box(0, 5, (1,), np.int32), "Discrete, or a Box of floats")
    refuses(spaces.Discrete(2, start=1), "must start at 0")
    refuses(spaces.Box(-1, 1, (3,)), r"Tiny gives actions of shape \(1,\).*env.action_space")
    refuses(spaces.Discrete(2), "Tiny gives actions of")
    with pytest.raises(TypeError, match=r"a vector of them, as gymnasium.make_vec does, got str"):
        train_online(line_learner(), "Pendulum-v1", ONLINE)


def test_refuses_observations_that_it_cannot_store():
    env = Line()
    env.observation_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])
    with pytest.raises(ValueError, match=r"Observations must be arrays, or dicts.*Tuple"):
        train_online(line_learner(), env, ONLINE)


def test_refuses_a_learner_of_other_shapes():
    with pytest.raises(ValueError, match=r"Tiny cannot act on observations of Box"):
        train_online(Tiny.create(np.zeros(5), 1), Line(), ONLINE)
    with pytest.raises(ValueError, match=r"Tiny cannot act on observations of Box"):
        train_online(line_learner(), Line(), ONLINE, eval_env=Clock())
    data = {**line_data(), "observations": np.zeros((60, 9))}
    with pytest.raises(ValueError, match=r"Tiny cannot learn from .*'observations': \(9,\)"):
        train_offline(line_learner(), data, OFFLINE)


def test_refuses_a_buffer_of_other_transitions():
    with pytest.raises(ValueError, match=r"'observations': \(1,\).*gives .*'observations': \(2,\)"):
        train_online(line_learner(), Line(), ONLINE, buffer=buffer_for(Clock()))


def test_refuses_a_buffer_of_images_of_another_scale():
    def wall(high, dtype):
        env = Clock()
        env.observation_space = spaces.Box(0, high, (2, 2, 3), dtype)
        return env

    learner = Counting.create(np.zeros((2, 2, 3)), 1)
    with pytest.raises(ValueError, match=r"images of float32 as 'observations', .* gives uint8"):
        train_online(learner, wall(255, np.uint8), ONLINE, buffer=buffer_for(wall(1, np.float32)))


def test_refuses_a_dataset_that_lacks_a_key():
    data = {key: value for key, value in line_data().items() if key != "masks"}
    with pytest.raises(KeyError, match="masks"):
        train_offline(line_learner(), data, OFFLINE)


def test_refuses_a_dataset_with_actions_that_its_masks_forbid():
    masks = np.eye(3, dtype=np.int8)[np.arange(8) % 3]
    masks[5] = 0  # where an episode is over
    observations = {"observation": np.zeros((8, 1), np.float32), "action_mask": masks}
    arrays = {"observations": observations, "actions": np.arange(8) % 3}
    example = jax.tree.map(lambda x: x[0], arrays)
    learner = DiscreteBCLearner.create(0, **example, n_actions=3, features=(8,))
    _, metrics = train_offline(learner, arrays, OFFLINE)
    assert np.isfinite(metrics["actor_loss"][1:]).all()
    arrays["actions"][6:] = 2
    message = r"takes action 2 in row 6.*allows only \[0\].*2 of 8 rows"
    with pytest.raises(ValueError, match=message):
        train_offline(learner, arrays, OFFLINE)


def test_refuses_to_evaluate_in_the_environment_of_training():
    env = Line()
    with pytest.raises(ValueError, match="another environment"):
        train_online(line_learner(), env, ONLINE, eval_env=gymnasium.wrappers.TimeLimit(env, 5))


def test_refuses_what_a_learner_ought_not_to_report():
    class Named(Tiny):
        @jax.jit
        def update_many(self, batches):
            learner, info = Tiny.update_many(self, batches)
            return learner, {"returns": info["value"]}

    class Large(Tiny):
        @jax.jit
        def update_many(self, batches):
            learner, info = Tiny.update_many(self, batches)
            return learner, {"value": info["value"][:, None]}

    class Growing(Tiny):
        @jax.jit
        def update_many(self, batches):
            learner, info = Tiny.update_many(self, batches)
            return learner.replace(n_updates=learner.n_updates[None]), info

    with pytest.raises(ValueError, match=r"Named's updates report \['returns'\]"):
        train_online(Named.create(np.zeros(2), 1), Line(), ONLINE)
    with pytest.raises(ValueError, match=r"Large.*one number for each update.*'value'"):
        train_online(Large.create(np.zeros(2), 1), Line(), ONLINE)
    with pytest.raises(ValueError, match=r"Growing at n_updates is shape \(\)"):
        train_online(Growing.create(np.zeros(2), 1), Line(), ONLINE)


def test_refuses_numbers_out_of_range():
    for name in ("n_steps", "buffer_size", "update_frequency", "batch_size", "updates_per_call",
                 "eval_frequency", "n_evals", "log_frequency", "keep_checkpoints"):  # fmt: skip
        with pytest.raises(ValueError, match=f"OnlineConfig.{name} must be a positive integer"):
            OnlineConfig(**{name: 0})
    for name in ("start_steps", "seed"):
        with pytest.raises(ValueError, match=f"OnlineConfig.{name} must not be negative, got -1"):
            OnlineConfig(**{name: -1})
        with pytest.raises(TypeError, match=f"OnlineConfig.{name} must be an integer, got 0.5"):
            OnlineConfig(**{name: 0.5})
    with pytest.raises(ValueError, match=r"OfflineConfig.n_updates"):
        OfflineConfig(n_updates=0)
    with pytest.raises(TypeError, match="Did you mean 'n_steps'"):
        OnlineConfig(n_step=5)


def test_to_resume_needs_a_folder():
    with pytest.raises(ValueError, match="needs a checkpoint_dir"):
        train_online(line_learner(), Line(), ONLINE, resume=True)


def test_refuses_arguments_of_other_types():
    def refuses(match, train, *args, error=TypeError, **kwargs):
        with pytest.raises(error, match=match):
            train(*args, **kwargs)

    learner, data = line_learner(), line_data()
    refuses("an OnlineConfig, got OfflineConfig", train_online, learner, Line(), OFFLINE)
    refuses("an OfflineConfig, got OnlineConfig", train_offline, learner, data, ONLINE)
    refuses(r"got dict: give OnlineConfig\(\*\*config\)", train_online, learner, Line(), {})
    refuses("the class Tiny: make one with Tiny.create", train_online, Tiny, Line(), ONLINE)
    refuses("the class Tiny", train_offline, Tiny, data, OFFLINE)
    refuses(r"but dict lacks \['update_many', 'sample_actions'\]", train_offline, {}, data, OFFLINE)
    for train, where, config in [(train_online, Line(), ONLINE), (train_offline, data, OFFLINE)]:
        refuses("a single Recorder", train, learner, where, config, loggers=Recorder())
        refuses("log.step, metrics", train, learner, where, config, loggers=[Recorder])
        refuses("a list of loggers, got NoneType", train, learner, where, config, loggers=None)
        refuses("Gymnasium environment, as", train, learner, where, config, eval_env="Pendulum-v1")
    refuses("buffer must be a ReplayBuffer", train_online, learner, Line(), ONLINE, buffer=data)
    refuses(
        r"got ReplayBuffer: give buffer.to_dataset\(\)",
        train_offline,
        learner,
        ReplayBuffer.create_from_initial_dataset(data, 60),
        OFFLINE,
    )
    refuses("a dict of arrays like one, got str", train_offline, learner, "data.npz", OFFLINE)
    empty = data.get_subset(slice(0, 0))
    refuses("has no rows", train_offline, learner, empty, OFFLINE, error=ValueError)


class Chooser(Tiny):
    """Says how many actions it has, as learners of discrete actions do."""

    discrete_actions = True
    n_actions = 2


def test_refuses_actions_that_a_learner_cannot_have_taken():
    def refuses(match, learner, actions):
        with pytest.raises(ValueError, match=match):
            train_offline(learner, {**line_data(), "actions": actions}, OFFLINE)

    ours = line_data()["actions"]
    refuses(r"in \[-1, 1\].*lie in \[-1\.\d.*from_minari\(..., resc", line_learner(), 2 * ours)
    refuses(r"lie in \[nan, nan\]", line_learner(), np.full_like(ours, np.nan))
    chooser = Chooser.create(np.zeros(2), 2, discrete=True)
    refuses("whole numbers, but those of the dataset are float32", chooser, ours)
    refuses(r"0, 1, ..., 1, but .* lie in \[0, 2\]", chooser, np.arange(60) % 3)
    refuses(r"0, 1, ..., but .* lie in \[-1, 0\]", line_learner(), np.arange(60) % 2 - 1)
    for learner, actions in [(chooser, np.arange(60) % 2), (line_learner(), ours * (1 + 5e-6))]:
        train_offline(learner, {**line_data(), "actions": actions}, OFFLINE.replace(n_updates=1))


@pytest.mark.parametrize("n_actions", [1, 3])
def test_refuses_a_learner_with_another_number_of_actions(n_actions):
    class Other(Chooser):
        pass

    Other.n_actions = n_actions
    learner = Other.create(np.zeros(2), n_actions, discrete=True)
    env = Line(action_space=spaces.Discrete(2))
    with pytest.raises(ValueError, match=rf"Other has {n_actions} actions.*Discrete\(2\).*=2"):
        train_online(learner, env, ONLINE)
    with pytest.raises(ValueError, match=f"Other has {n_actions} actions"):
        train_offline(learner, {**line_data(), "actions": np.zeros(60, int)}, OFFLINE, eval_env=env)


def test_a_learner_is_handed_only_the_keys_that_it_declares():
    class Declared(Tiny):
        batch_keys = ("observations", "rewards", "next_observations", "masks")

        @jax.jit
        def update_many(self, batches):
            assert set(batches) == {*self.batch_keys, "discounts"}
            return Tiny.update_many(self, batches)

    data = {**line_data(), "discounts": np.ones(60), "names": np.array(["a"] * 60)}
    learner, _ = train_offline(Declared.create(np.zeros(2), 1), data, OFFLINE)
    expected, _ = train_offline(line_learner(), line_data(), OFFLINE)
    trees.assert_equal(expected.weights, learner.weights)


def test_weights_of_a_dataset_count():
    learner = DQNLearner.create(0, np.zeros(2), 0, n_actions=2, features=(2,))
    data = {**line_data(), "actions": np.zeros(60, int), "weights": np.zeros(60)}
    _, metrics = train_offline(learner, data, OFFLINE.replace(n_updates=5))
    assert metrics["critic_loss"][-1] == 0.0
    assert "td_errors" not in metrics
    with pytest.raises(ValueError, match="'weights' is NaN or infinite in 60 of 60 rows"):
        train_offline(learner, {**data, "weights": np.full(60, np.nan)}, OFFLINE)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.zeros((2, 2, 3), np.int64), np.int32),
        (np.zeros((2, 2, 3), np.uint16), np.uint16),
        (np.zeros((2, 2), np.uint8), np.uint8),
        (np.zeros((2, 2, 3)), np.float32),
        (np.zeros((2, 2, 3), bool), np.float32),
        (np.zeros(4, np.int64), np.float32),
        (np.int64(3), np.float32),
        (3, np.float32),
    ],
)
def test_images_of_integers_stay_integers(value, dtype):
    assert as_observation({"x": value})["x"].dtype == dtype


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64])
def test_images_are_scaled_in_training_as_for_the_user(dtype):
    class Wall(Clock):
        observation_space = spaces.Box(0, 255, (2, 2, 3), dtype)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.full((2, 2, 3), 200, dtype), {}

        def step(self, action):
            _, _, *rest = super().step(action)
            return np.full((2, 2, 3), 200, dtype), float(action[0]), *rest

    class Scaling(Counting):
        @jax.jit
        def sample_actions(self, observations, *, seed=None, temperature=1.0):
            full = 255 if jnp.issubdtype(observations.dtype, jnp.integer) else 1
            return jnp.tanh(observations[0, 0, :1] / full)

    env, buffer = Wall(), buffer_for(Wall())
    learner = Scaling.create(env.observation_space.sample(), 1)
    config = ONLINE.replace(n_steps=15)
    _, metrics = train_online(learner, env, config, eval_env=Wall(), buffer=buffer)
    observation, _ = env.reset()
    assert np.issubdtype(buffer.to_dataset()["observations"].dtype, np.integer)
    own = learner.sample_actions(observation)
    np.testing.assert_array_equal(buffer.to_dataset()["actions"][10:], np.tile(own, (5, 1)))
    np.testing.assert_allclose(metrics["final_rewards"], own[0])


def test_rows_of_a_dataset_are_not_changed():
    data = line_data()
    before = jax.tree.map(np.copy, Dataset({**data}))
    train_offline(line_learner(), data, OFFLINE)
    trees.assert_equal(before, Dataset({**data}))
