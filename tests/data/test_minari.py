"""Minari datasets, written to a temporary folder."""

import re
import sys

import gymnasium
import jax
import numpy as np
import pytest
import trees
from gymnasium import spaces

from jaxagents.core.extras import pip_install
from jaxagents.data import Dataset, ReplayBuffer, from_minari, to_minari
from jaxagents.host import (
    concatenate_trajectories,
    evaluate_with_trajectories,
    example_transition,
    rescale_actions,
)

minari = pytest.importorskip("minari")

LENGTHS = (4, 1, 3)
TERMINATED = (True, True, False)
N = sum(LENGTHS)
ENDS = np.isin(np.arange(N), np.cumsum(LENGTHS) - 1)
ABOUT = {
    "author": "A. Author",
    "author_email": "author@example.org",
    "algorithm_name": "random",
    "code_permalink": "https://example.org/code",
    "description": "For tests.",
    "eval_env": "CartPole-v1",
}
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
SPACES = {
    "vector": (BOX, BOX),
    "discrete": (spaces.Discrete(5), spaces.Discrete(3)),
    "image": (spaces.Box(0, 255, (32, 32, 3), np.uint8), BOX),
    "dict": (
        spaces.Dict({"robot": spaces.Dict({"joints": BOX, "on": spaces.MultiBinary(3)}), "x": BOX}),
        spaces.MultiDiscrete([2, 3]),
    ),
    "tuple": (
        spaces.Tuple([BOX, spaces.Dict({"a": spaces.Tuple([BOX, spaces.Discrete(2)])})]),
        spaces.Tuple([BOX, spaces.Discrete(2)]),
    ),
    "text": (spaces.Dict({"x": BOX, "mission": spaces.Text(12)}), BOX),
}

pytestmark = pytest.mark.filterwarnings(
    "ignore:env_spec is None:UserWarning"  # spaces instead of an environment are meant
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def drawn(space, n, rng):
    """Values in a space as `from_minari` gives them."""
    if isinstance(space, spaces.Dict):
        return {key: drawn(part, n, rng) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return {str(i): drawn(part, n, rng) for i, part in enumerate(space.spaces)}
    space.seed(int(rng.integers(1000)))
    return np.stack([space.sample() for _ in range(n)])


def transitions(kind):
    """Episodes of the lengths above; the last one is truncated."""
    observation_space, action_space = SPACES[kind]
    rng = np.random.default_rng(0)
    observed = [drawn(observation_space, n + 1, rng) for n in LENGTHS]

    def joined(part):
        return jax.tree.map(lambda *x: np.concatenate([e[part] for e in x]), *observed)

    return Dataset(
        {
            "observations": joined(slice(None, -1)),
            "actions": drawn(action_space, N, rng),
            "rewards": rng.normal(size=N).astype(np.float32),
            "next_observations": joined(slice(1, None)),
            "masks": 1.0 - (np.repeat(TERMINATED, LENGTHS) & ENDS).astype(np.float32),
            "ends": ENDS,
        },
        action_space=action_space,
    )


def written(kind, dataset_id="test/data-v0", dataset=None, **options):
    observation_space, action_space = SPACES[kind]
    given = {"observation_space": observation_space, "action_space": action_space}
    dataset = transitions(kind) if dataset is None else dataset
    return to_minari(dataset, dataset_id, **{**given, **ABOUT, **options})


@pytest.mark.parametrize("kind", SPACES)
def test_what_is_written_is_read(kind):
    dataset = transitions(kind)
    returned = written(kind, dataset=dataset)
    assert (returned.id, returned.total_episodes, returned.total_steps) == ("test/data-v0", 3, N)
    for source in ("test/data-v0", returned):
        loaded = from_minari(source)
        trees.assert_equal(dict(loaded), dict(dataset))
        assert repr(loaded) == repr(dataset)


def test_episodes_are_what_minari_expects():
    dataset = transitions("vector")
    episodes = list(written("vector", dataset=dataset))
    assert [len(episode) for episode in episodes] == list(LENGTHS)
    assert [bool(e.terminations[-1]) for e in episodes] == list(TERMINATED)
    assert [bool(e.truncations[-1]) for e in episodes] == [not t for t in TERMINATED]
    assert not any(e.terminations[:-1].any() or e.truncations[:-1].any() for e in episodes)
    start = 0
    for episode in episodes:
        stop = start + len(episode)
        expected = [*dataset["observations"][start:stop], dataset["next_observations"][stop - 1]]
        np.testing.assert_array_equal(episode.observations, expected)
        np.testing.assert_array_equal(episode.actions, dataset["actions"][start:stop])
        np.testing.assert_array_equal(episode.rewards, dataset["rewards"][start:stop])
        start = stop
    cut = Dataset({**dataset, "ends": np.where(np.arange(N) == N - 1, False, ENDS)})
    buffer = ReplayBuffer.create_from_initial_dataset(cut, N)  # in mid-episode
    again = written("vector", "buffer-v0", dataset=buffer.to_dataset())
    trees.assert_equal(dict(from_minari(again)), dict(dataset))


def test_an_environment_can_be_named():
    numbers = {**transitions("vector"), "actions": np.arange(N) % 2}
    for name in ("observations", "next_observations"):
        numbers[name] = np.tile(numbers[name], 2)
    dataset, env = Dataset(numbers), gymnasium.make("CartPole-v1")
    for i, given in enumerate(("CartPole-v1", gymnasium.spec("CartPole-v1"), env)):
        minari_dataset = to_minari(dataset, f"named-v{i}", env=given, **ABOUT)
        trees.assert_equal(dict(from_minari(minari_dataset)), dict(dataset))
        assert minari_dataset.env_spec.id == "CartPole-v1"
        assert minari_dataset.storage.metadata["author"] == {"A. Author"}
        assert minari_dataset.storage.metadata["description"] == "For tests."


def recorded():
    """A dataset as others may have made it: 64-bit numbers, whole rewards, and lists."""
    rng = np.random.default_rng(1)
    buffers = [
        minari.data_collector.EpisodeBuffer(
            observations=rng.normal(size=(n + 2, 2)),
            actions=list(rng.integers(3, size=n + 1)),
            rewards=[1] * (n + 1) if n == 0 else [0.5] * (n + 1),
            terminations=[False] * (n + 1),
            truncations=[False] * n + [n > 1],
        )
        for n in range(3)
    ]
    return buffers, minari.create_dataset_from_buffers(
        "others/recorded-v0",
        buffers,
        observation_space=spaces.Box(-9.0, 9.0, (2,), np.float64),
        action_space=spaces.Discrete(3),
        **ABOUT,
    )


def test_real_numbers_are_narrowed_unless_told_otherwise():
    buffers, source = recorded()
    narrow, wide = from_minari(source), from_minari(source, single_precision=False)
    for loaded, dtype in ((narrow, np.float32), (wide, np.float64)):
        for key in ("observations", "next_observations", "rewards"):
            assert loaded[key].dtype == dtype
        assert loaded["actions"].dtype == np.int64
        assert loaded["masks"].dtype == np.float32
        assert loaded["ends"].dtype == bool
        np.testing.assert_array_equal(loaded["rewards"], [1.0] + [0.5] * 5)
        np.testing.assert_array_equal(loaded["ends"], [1, 0, 1, 0, 0, 1])
        np.testing.assert_array_equal(loaded["masks"], np.ones(6))
    expected = np.concatenate([buffer.observations[:-1] for buffer in buffers])
    np.testing.assert_array_equal(wide["observations"], expected)
    expected = np.concatenate([buffer.observations[1:] for buffer in buffers])
    np.testing.assert_array_equal(wide["next_observations"], expected)
    np.testing.assert_array_equal(narrow["next_observations"], expected.astype(np.float32))


def test_actions_are_rescaled_from_the_bounds_of_their_space():
    dataset = Dataset({**transitions("vector"), "actions": np.linspace(-2, 6, 16).reshape(8, 2)})
    space = spaces.Box(np.float32([-2.0, -4.0]), np.float32([6.0, 8.0]))
    source = written("vector", dataset=dataset, action_space=space)
    assert from_minari(source).action_space == Dataset(dataset, action_space=space).action_space
    rescaled = from_minari(source, rescale_actions=True)["actions"]
    assert rescaled.dtype == np.float32
    np.testing.assert_allclose(rescaled[:, 0], (dataset["actions"][:, 0] - 2.0) / 4.0, atol=1e-6)
    np.testing.assert_allclose(rescaled[:, 1], (dataset["actions"][:, 1] - 2.0) / 6.0, atol=1e-6)
    assert rescaled[0, 0] == -1.0
    unbounded = spaces.Box(np.float32([-2.0, -np.inf]), np.float32([6.0, 8.0]))
    written("vector", "unbounded-v0", dataset=dataset, action_space=unbounded)
    written("discrete", "discrete-v0")
    written("tuple", "tuple-v0")
    for name in ("unbounded-v0", "discrete-v0", "tuple-v0"):
        with pytest.raises(ValueError, match="Only bounded continuous actions can be rescaled"):
            from_minari(name, rescale_actions=True)


def in_torques(dataset, **options):
    """The actions of a dataset of Pendulum as Minari keeps them."""
    source = to_minari(dataset, "pendulum/data-v0", env="Pendulum-v1", **ABOUT, **options)
    return np.concatenate([episode.actions for episode in source]), source


def test_rescaled_actions_are_written_in_the_units_of_the_environment():
    env = rescale_actions(gymnasium.make("Pendulum-v1"))
    env.action_space.seed(0)
    buffer = ReplayBuffer.create(example_transition(env), 400)
    _, trajectories = evaluate_with_trajectories(lambda _: env.action_space.sample(), env, 2)
    for trajectory in trajectories:
        buffer.add_transitions(trajectory)
    played = concatenate_trajectories(trajectories)
    torques, source = in_torques(buffer.to_dataset())
    np.testing.assert_array_equal(torques, 2.0 * played["actions"])
    loaded = from_minari(source)
    np.testing.assert_array_equal(loaded["actions"], torques)
    for again in (from_minari(source, rescale_actions=True), loaded.rescale_actions()):
        np.testing.assert_array_equal(again["actions"], played["actions"])
    wrapped = to_minari(played, "pendulum/wrapped-v0", env=env, **ABOUT)
    rescaled = from_minari(wrapped, rescale_actions=True)["actions"]
    np.testing.assert_array_equal(rescaled, played["actions"])
    assert wrapped.recover_environment().action_space == env.action_space


def test_actions_of_unknown_units_are_doubted():
    env = gymnasium.make("Pendulum-v1")
    _, trajectories = evaluate_with_trajectories(lambda _: np.float32([0.5]), env, 1)
    known = concatenate_trajectories(trajectories)
    with pytest.warns(
        UserWarning, match=r"in \[0.5, 0.5\], and the environment's action_space is \(-2"
    ):
        torques, source = in_torques(Dataset({**known}))
    np.testing.assert_array_equal(torques, np.full((200, 1), np.float32(0.5)))
    minari.delete_dataset(source.id)
    large = Dataset({**known, "actions": 3.0 * known["actions"]})  # beyond [-1, 1]: no doubt
    np.testing.assert_array_equal(in_torques(large)[0], np.full((200, 1), np.float32(1.5)))
    with pytest.raises(ValueError, match=r"\(-0.4, 0.4\): they seem to be rescaled to \(-1, 1\)"):
        in_torques(Dataset({**known}), action_space=spaces.Box(-0.4, 0.4, (1,)))


def test_chosen_episodes_are_read():
    _, source = recorded()
    loaded = from_minari(source.filter_episodes(lambda episode: len(episode) != 2))
    trees.assert_equal(dict(loaded), dict(from_minari(source).get_subset([0, 3, 4, 5])))
    with pytest.raises(
        ValueError, match=r"recorded-v0' must have as many steps as .* 0, and has 0"
    ):
        from_minari(source.filter_episodes(lambda episode: False))


class Source(list):
    """Episodes that claim a given number of steps."""

    id = "fake-v0"

    def __init__(self, total_steps, observations):
        flags = {"terminations": np.array([False]), "truncations": np.array([False])}
        parts = {"actions": np.zeros(1), "rewards": np.zeros(1), "infos": {}, **flags}
        super().__init__([minari.EpisodeData(id=0, observations=observations, **parts)])
        self.total_steps = total_steps


def test_what_is_damaged_or_no_array_is_refused():
    assert len(from_minari(Source(1, np.zeros(2)))) == 1
    several = Source(2, np.zeros(2))
    several[:] = [*Source(1, np.zeros((2, 2))), *Source(1, np.zeros((2, 3)))]
    for source, error, message in (
        (Source(2, np.zeros(2)), ValueError, "it says 2, and has 1"),
        (Source(1, np.zeros(1)), ValueError, "could not broadcast"),
        (several, ValueError, r"'observations' has shape \(3,\) in one .* \(2,\) in"),
        (Source(1, [{}, {}]), TypeError, "'observations' does not consist of arrays"),
    ):
        with pytest.raises(error, match=message):
            from_minari(source)


def changed(**arrays):
    return Dataset({**transitions("vector"), **arrays})


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (transitions("vector").get_subset([1, 0, *range(2, N)]), "Rows 0 to 3 are one episode"),
        (changed(ends=np.zeros(N, bool), masks=np.ones(N)), "Rows 0 to 7 are one episode"),
        (changed(masks=np.arange(N) != 1), "Row 1 has a mask of 0"),
        (transitions("vector").n_step(2, 0.9), "Rows 0 to 2 are one episode"),
        (transitions("vector").get_subset(slice(0, 0)), "no rows"),
        (transitions("dict"), r"'observations' is a dict of \['robot', 'x'\], but its space is"),
        (changed(actions=np.zeros((N, 3))), r"'actions' has shape \(3,\), but its space is Box"),
    ],
)
def test_rows_that_are_not_episodes_of_the_spaces_are_refused(dataset, message, folder):
    with pytest.raises(ValueError, match=message):
        written("vector", dataset=dataset)
    assert not list(folder.iterdir())


def test_missing_parts_and_spaces_and_names_that_are_taken_are_told(folder):
    few = Dataset({"observations": np.ones(2), "ends": np.ones(2, bool)})
    with pytest.raises(KeyError, match=r"lacks \['actions', 'rewards', 'next_obs.*', 'masks'\]"):
        written("vector", dataset=few)
    with pytest.raises(ValueError, match=r"'observations' is an array, but .* has \['robot'"):
        written("dict", dataset=transitions("vector"))
    with pytest.raises(ValueError, match="pass both observation_space and action_space"):
        written("vector", action_space=None)
    assert not list(folder.iterdir())
    before = dict(from_minari(written("vector")))
    with pytest.raises(ValueError, match="already exists"):
        written("vector", dataset=transitions("vector").get_subset(slice(4, None)))
    trees.assert_equal(dict(from_minari("test/data-v0")), before)


def test_a_missing_minari_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    for use in (lambda: from_minari("some-v0"), lambda: written("vector")):
        with pytest.raises(ImportError, match=re.escape(pip_install("minari"))):
            use()
