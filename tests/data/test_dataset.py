"""Datasets: shapes, sampling, transformations and files."""

import pickle
import tracemalloc

import jax
import numpy as np
import pytest
import trees
from scipy import stats

from jaxagents.data import Dataset, Normalisation

N = 20
DISCOUNT = 0.9


def arrays():
    rng = np.random.default_rng(0)
    return {
        "observations": {
            "image": rng.integers(256, size=(N, 4, 4, 3), dtype=np.uint8),
            "state": np.arange(3 * N, dtype=np.float32).reshape(N, 3),
        },
        "actions": np.arange(N),
    }


def episodes():
    """Episodes of 3, 1 and 4 steps: terminated, truncated, and cut by the end of the dataset."""
    n = 8
    return Dataset(
        {
            "observations": np.arange(n),
            "rewards": np.arange(1.0, n + 1.0, dtype=np.float32),
            "next_observations": {"x": np.arange(n) + 1},
            "masks": np.array([1, 1, 0, 1, 1, 1, 1, 1], np.float32),
            "ends": np.array([0, 0, 1, 1, 0, 0, 0, 0], bool),
        }
    )


def test_arrays_may_have_another_order_of_bytes():
    numbers = np.arange(N, dtype=np.float32)
    dataset = Dataset({"x": {"swapped": numbers.astype(">f4"), "own": numbers}})
    np.testing.assert_array_equal(jax.jit(jax.numpy.sum)(dataset["x"]["swapped"]), numbers.sum())
    assert np.shares_memory(dataset["x"]["own"], numbers)


def test_reads_like_a_dict_with_the_length_of_its_arrays():
    given = arrays()
    dataset = Dataset(given)
    assert len(dataset) == dataset.size == N
    assert list(dataset) == list(dataset.keys()) == ["observations", "actions"]
    assert dataset["observations"]["image"] is given["observations"]["image"]
    assert {**dataset}["actions"] is list(dataset.values())[1] is dataset["actions"]
    assert (dataset.get("rewards"), dataset.get("rewards", 0.5)) == (None, 0.5)
    assert dataset != Dataset(dict(dataset.items()))
    assert hash(dataset) == hash(dataset)
    assert "observations/image: uint8[4, 4, 3]" in repr(dataset)


def test_samples_whole_rows_uniformly_by_its_seed():
    batch = Dataset(arrays()).sample(20_000)
    picked = batch["actions"]
    trees.assert_equal(batch, jax.tree.map(lambda x: x[picked], arrays()))
    assert stats.chisquare(np.bincount(picked, minlength=N)).pvalue > 1e-3
    one, same, other = (Dataset(arrays(), seed) for seed in (1, 1, 2))
    first, second = one.sample(8)["actions"], one.sample(8)["actions"]
    np.testing.assert_array_equal(first, same.sample(8)["actions"])
    assert (first != second).any()
    assert (first != other.sample(8)["actions"]).any()


@pytest.mark.parametrize(
    "transformed",
    [
        lambda dataset: dataset.get_subset(slice(0, 8)),
        lambda dataset: dataset.n_step(2, DISCOUNT),
        lambda dataset: dataset.normalise(["rewards"])[0].n_step(2, DISCOUNT).split(0.5)[1],
    ],
)
def test_the_seed_decides_the_samples_of_what_is_made_of_a_dataset(transformed):
    def drawn(seed):
        dataset = Dataset(episodes(), seed)
        dataset.sample(3)
        return transformed(dataset).sample(50)["observations"]

    np.testing.assert_array_equal(drawn(1), drawn(1))
    assert (drawn(1) != drawn(2)).any()


def test_the_parts_of_a_split_are_sampled_differently():
    dataset, alone = Dataset(arrays(), seed=1), Dataset(arrays(), seed=1)
    parts = dataset.split(0.5)
    drawn = [np.searchsorted(part["actions"], part.sample(50)["actions"]) for part in parts]
    own = dataset.sample(50)
    assert (drawn[0] != drawn[1]).any()
    assert all((rows != own["actions"] // 2).any() for rows in drawn)
    trees.assert_equal(own, alone.sample(50))


def test_goes_on_from_a_pickle():
    dataset = Dataset(arrays(), seed=3)
    dataset.sample(5)
    other = pickle.loads(pickle.dumps(dataset))
    trees.assert_equal(other.sample(9), dataset.sample(9))
    trees.assert_equal(other.split(0.5)[0].sample(9), dataset.split(0.5)[0].sample(9))
    view = episodes().n_step(3, DISCOUNT)
    trees.assert_equal(pickle.loads(pickle.dumps(view)).sample(9), view.sample(9))


def test_several_batches_are_those_of_as_many_samples():
    one, many = Dataset(arrays(), seed=1), Dataset(arrays(), seed=1)
    one.sample(3)
    many.sample(3)
    batches = many.sample_many(4, 5)
    assert batches["observations"]["image"].shape == (4, 5, 4, 4, 3)
    for i in range(4):
        trees.assert_equal(jax.tree.map(lambda x, i=i: x[i], batches), one.sample(5))
    np.testing.assert_array_equal(one.sample(2)["actions"], many.sample(2)["actions"])
    with pytest.raises(ValueError, match="n_batches must be a positive integer, got 0"):
        many.sample_many(0, 5)


def test_samples_given_rows():
    np.testing.assert_array_equal(Dataset(arrays()).sample(3, indx=[4, 4, 1])["actions"], [4, 4, 1])
    indices = np.random.default_rng(0).integers(N, size=(3, 4))
    batches = Dataset(arrays()).sample(4, indx=indices)
    np.testing.assert_array_equal(batches["actions"], indices)
    assert batches["observations"]["image"].shape == (3, 4, 4, 4, 3)
    for indx in ([1, 2, 3, 4], np.arange(N) < 4, np.zeros((3, 4), int)):
        with pytest.raises(ValueError, match="indx chooses 4 rows, but batch_size is 3"):
            Dataset(arrays()).sample(3, indx=indx)


@pytest.mark.parametrize(
    "indx", [slice(2, 5), [2, 3, 4], (2, 3, 4), np.isin(np.arange(N), [2, 3, 4])]
)
def test_subsets(indx):
    subset = Dataset(arrays()).get_subset(indx)
    np.testing.assert_array_equal(subset["actions"], [2, 3, 4])
    assert subset["observations"]["image"].shape == (3, 4, 4, 3)
    if not isinstance(indx, slice):
        trees.assert_equal({**subset}, Dataset(arrays()).sample(3, indx=indx))
    for none in ([], slice(0, 0), np.zeros(N, bool)):
        assert len(Dataset(arrays()).get_subset(none)) == 0


@pytest.mark.parametrize(
    ("indx", "error", "message"),
    [
        (3, ValueError, r"a list of indices, got 3; try \[3\]"),
        ([0.0, 1.0], TypeError, "integers or by booleans, got float64"),
        (np.ones(N - 1, bool), IndexError, r"each of the 20 rows, got shape \(19,\)"),
        ([N], IndexError, "20"),
    ],
)
def test_rows_are_chosen_by_whole_numbers_or_a_mask(indx, error, message):
    for choose in (Dataset(arrays()).get_subset, lambda indx: Dataset(arrays()).sample(1, indx)):
        with pytest.raises(error, match=message):
            choose(indx)


def test_splits_into_parts_without_overlap():
    first, second = Dataset(arrays()).split(0.25)
    assert (len(first), len(second)) == (5, 15)
    together = np.concatenate([first["actions"], second["actions"]])
    np.testing.assert_array_equal(np.sort(together), np.arange(N))
    assert (first["actions"] != Dataset(arrays()).split(0.25, seed=1)[0]["actions"]).any()


@pytest.mark.parametrize("n", [1, 3, 10])
def test_n_step_adds_up_rewards_within_episodes(n):
    dataset = episodes()
    result = dataset.n_step(n, DISCOUNT)
    for t in range(len(dataset)):
        last, total = t, dataset["rewards"][t]
        while last - t + 1 < n and not dataset["ends"][last] and last + 1 < len(dataset):
            last += 1
            total += DISCOUNT ** (last - t) * dataset["rewards"][last]
        np.testing.assert_allclose(result["rewards"][t], total, rtol=1e-6)
        np.testing.assert_allclose(result["discounts"][t], DISCOUNT ** (last - t + 1), rtol=1e-6)
        assert result["next_observations"]["x"][t] == dataset["next_observations"]["x"][last]
        assert result["masks"][t] == dataset["masks"][last]
        assert result["ends"][t] == dataset["ends"][last]
        assert result["observations"][t] == t
    np.testing.assert_array_equal(dataset["rewards"], episodes()["rewards"])
    with pytest.raises(ValueError, match="'discounts', so its rows already span several steps"):
        result.n_step(2, DISCOUNT)
    with pytest.raises(ValueError, match=r"one number of 'ends' .* got shape \(8, 1\)"):
        Dataset({**dataset, "ends": dataset["ends"][:, None]}).n_step(2, DISCOUNT)


def test_n_steps_of_a_subset_and_of_any_rows_are_those_of_the_whole(tmp_path):
    whole = {**episodes().n_step(3, DISCOUNT)}
    indx = [5, 2, 2, 7]
    expected = jax.tree.map(lambda x: x[indx], whole)
    view = episodes().n_step(3, DISCOUNT)
    trees.assert_equal(view.sample(4, indx=indx), expected)
    trees.assert_equal({**view.get_subset(indx)}, expected)
    view.save(tmp_path / "data.npz")
    trees.assert_equal(dict(Dataset.load(tmp_path / "data.npz")), whole)
    assert jax.tree.map(lambda x: x + 0, view)["next_observations"]["x"].shape == (8,)


def test_normalises_by_the_first_key():
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, size=(500, 3)).astype(np.float32)
    x[:, 2] = 5.0
    dataset = Dataset({"observations": {"x": x}, "next_observations": {"x": x + 1.0}})
    keys = ("observations/x", "next_observations/x")
    normalised, normalisation = dataset.normalise(keys)
    np.testing.assert_allclose(normalised["observations"]["x"].mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(normalised["observations"]["x"].std(axis=0), [1, 1, 0], atol=1e-5)
    np.testing.assert_allclose(normalised["next_observations"]["x"], normalisation(x + 1.0))
    np.testing.assert_allclose(normalisation.inverse(normalisation(x)), x, rtol=1e-4, atol=1e-5)
    far = 1e9 + rng.normal(size=(500, 1))  # in the precision that it has
    normalised, _ = Dataset({"observations": far}).normalise(["observations"])
    expected = (far - far.mean()) / far.std()
    np.testing.assert_allclose(normalised["observations"], expected, atol=1e-6)
    with pytest.raises(KeyError, match="'rewards'"):
        dataset.normalise(["rewards"])
    other = Dataset({"observations": np.zeros(3), "goals": np.ones((3, 2))})
    with pytest.raises(ValueError, match=r"'goals' has shape \(2,\), but 'observations' has \(\)"):
        other.normalise(["observations", "goals"])


def test_normalising_takes_little_more_memory_than_its_result():
    x = np.random.default_rng(0).normal(size=(2, 20_000, 100)).astype(np.float32)
    dataset = Dataset({"observations": x[0], "next_observations": x[1]})
    tracemalloc.start()
    dataset.normalise(["observations", "next_observations"])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.2 * x.nbytes


def test_statistics_are_those_of_numpy():
    x = np.random.default_rng(0).normal(3.0, size=(300_000, 2)).astype(np.float32)
    for given in (x[:100], x, x.astype(np.float64), (10 * x).astype(np.uint8), x[:, 0]):
        mean, std = Normalisation.of(given)
        np.testing.assert_allclose(mean, given.mean(axis=0, dtype=np.float64), rtol=1e-6)
        np.testing.assert_allclose(std, given.std(axis=0, dtype=np.float64), rtol=1e-6)


def test_is_a_pytree():
    doubled = jax.tree.map(lambda x: 2 * x, Dataset(arrays()))
    assert isinstance(doubled, Dataset)
    np.testing.assert_array_equal(doubled["actions"], 2 * np.arange(N))
    assert len(doubled) == N
    assert doubled.sample(5)["observations"]["image"].shape == (5, 4, 4, 3)
    total = jax.jit(lambda dataset: dataset["observations"]["state"].sum())(Dataset(arrays()))
    assert total == np.arange(3 * N).sum()
