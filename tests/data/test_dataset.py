"""Datasets: shapes, sampling, transformations and files."""

import jax
import numpy as np
import pytest
import trees

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


def test_reads_like_a_dict_with_the_length_of_its_arrays():
    dataset = Dataset(arrays())
    assert len(dataset) == dataset.size == N
    assert list(dataset) == list(dataset.keys()) == ["observations", "actions"]
    assert "actions" in dataset
    assert "rewards" not in dataset
    assert {**dataset}["actions"] is dataset["actions"]
    assert "observations/image: uint8[4, 4, 3]" in repr(dataset)


def test_keeps_the_given_arrays():
    given = arrays()
    assert Dataset(given)["observations"]["image"] is given["observations"]["image"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no arrays"),
        ({"a": {"b": np.zeros(3)}, "c": np.zeros(2)}, "'c' has 2 rows, but 'a/b' has 3"),
        ({"a": 1.0}, "'a' is a scalar"),
        ({"a/b": np.zeros(3)}, "must not contain '/'"),
    ],
)
def test_refuses_what_does_not_fit_together(given, message):
    with pytest.raises(ValueError, match=message):
        Dataset(given)


def test_refuses_keys_that_are_no_strings():
    with pytest.raises(TypeError, match="must be strings, got 1"):
        Dataset({1: np.zeros(3)})


def test_samples_whole_rows():
    batch = Dataset(arrays()).sample(64)
    picked = batch["actions"]
    assert picked.shape == (64,)
    np.testing.assert_array_equal(
        batch["observations"]["image"], arrays()["observations"]["image"][picked]
    )
    np.testing.assert_array_equal(
        batch["observations"]["state"], arrays()["observations"]["state"][picked]
    )


def test_samples_uniformly():
    counts = np.bincount(Dataset(arrays()).sample(20_000)["actions"], minlength=N)
    expected = 20_000 / N
    chi_square = np.sum((counts - expected) ** 2 / expected)
    assert chi_square < 43.8  # the 99.9% quantile of 19 degrees of freedom


def test_the_seed_decides_the_samples():
    one, same, other = (Dataset(arrays(), seed) for seed in (1, 1, 2))
    first, second = one.sample(8)["actions"], one.sample(8)["actions"]
    np.testing.assert_array_equal(first, same.sample(8)["actions"])
    assert (first != second).any()
    assert (first != other.sample(8)["actions"]).any()


def test_several_batches_are_those_of_as_many_samples():
    one, many = Dataset(arrays(), seed=1), Dataset(arrays(), seed=1)
    one.sample(3)
    many.sample(3)
    batches = many.sample_many(4, 5)
    assert batches["observations"]["image"].shape == (4, 5, 4, 4, 3)
    for i in range(4):
        trees.assert_equal(jax.tree.map(lambda x, i=i: x[i], batches), one.sample(5))
    np.testing.assert_array_equal(one.sample(2)["actions"], many.sample(2)["actions"])
    for sizes, name in (((0, 5), "n_batches"), ((4, -1), "batch_size")):
        with pytest.raises(ValueError, match=f"{name} must be positive"):
            many.sample_many(*sizes)


def test_draws_the_same_from_a_saved_state_on():
    dataset, other = Dataset(arrays(), seed=1), Dataset(arrays(), seed=2)
    dataset.sample(3)
    state = dataset.rng_state()
    assert state.dtype == np.uint8
    drawn = dataset.sample(50)
    other.set_rng_state(jax.numpy.asarray(state))
    trees.assert_equal(other.sample(50), drawn)


def test_samples_given_rows():
    np.testing.assert_array_equal(Dataset(arrays()).sample(3, indx=[4, 4, 1])["actions"], [4, 4, 1])
    with pytest.raises(IndexError, match=r"must lie in \[0, 20\), got -1 to 3"):
        Dataset(arrays()).sample(2, indx=[3, -1])
    with pytest.raises(ValueError, match="batch_size must be positive, got 0"):
        Dataset(arrays()).sample(0)


@pytest.mark.parametrize("indx", [slice(2, 5), [2, 3, 4], np.isin(np.arange(N), [2, 3, 4])])
def test_subsets(indx):
    subset = Dataset(arrays()).get_subset(indx)
    np.testing.assert_array_equal(subset["actions"], [2, 3, 4])
    assert subset["observations"]["image"].shape == (3, 4, 4, 3)


def test_splits_into_parts_without_overlap():
    first, second = Dataset(arrays()).split(0.25)
    assert (len(first), len(second)) == (5, 15)
    together = np.concatenate([first["actions"], second["actions"]])
    np.testing.assert_array_equal(np.sort(together), np.arange(N))
    assert (first["actions"] != Dataset(arrays()).split(0.25, seed=1)[0]["actions"]).any()
    for fraction in (0.0, 1.0, 0.01):
        with pytest.raises(ValueError, match="must leave rows on both sides of 20"):
            Dataset(arrays()).split(fraction)


@pytest.mark.parametrize("n", [1, 2, 3, 10])
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


def test_n_step_names_what_is_missing():
    with pytest.raises(KeyError, match="n_step needs 'rewards'"):
        Dataset(arrays()).n_step(2, DISCOUNT)
    with pytest.raises(ValueError, match="n must be positive, got 0"):
        episodes().n_step(0, DISCOUNT)


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
    with pytest.raises(KeyError, match="no array 'rewards'"):
        dataset.normalise(["rewards"])


def test_statistics_are_those_of_numpy():
    x = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    mean, std = Normalisation.of(x)
    np.testing.assert_allclose(mean, x.mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(std, x.std(axis=0), rtol=1e-5)


def test_is_a_pytree():
    doubled = jax.tree.map(lambda x: 2 * x, Dataset(arrays()))
    assert isinstance(doubled, Dataset)
    np.testing.assert_array_equal(doubled["actions"], 2 * np.arange(N))
    assert len(doubled) == N
    assert doubled.sample(5)["observations"]["image"].shape == (5, 4, 4, 3)
    total = jax.jit(lambda dataset: dataset["observations"]["state"].sum())(Dataset(arrays()))
    assert total == np.arange(3 * N).sum()
