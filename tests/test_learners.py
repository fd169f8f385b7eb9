"""Tests that all learners share."""

import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import compilations
from flax import linen as nn
from learner_registry import ACTION_DIM, N_ACTIONS, OBS_DIM
from learner_registry import LEARNERS as REGISTERED
from trees import assert_close, assert_equal, equal

from jaxagents import load_policy
from jaxagents.bc import BCLearner, DiscreteBCLearner
from jaxagents.data import Dataset
from jaxagents.networks import CategoricalPolicy, DictEncoder
from jaxagents.sac import SACLearner

KEY = jax.random.key(0)

LEARNERS = {
    name: row._replace(kwargs={"features": (8,), **row.kwargs}) for name, row in REGISTERED.items()
}
"""With one hidden layer, whose programs are compiled sooner."""

every_learner = pytest.mark.parametrize("row", LEARNERS.values(), ids=LEARNERS.keys())


def learners(*names):
    """Some of them, for what is the same code for all, or what agents show of the others."""
    return pytest.mark.parametrize("row", [LEARNERS[name] for name in names], ids=names)


DISCRETE = [name for name, row in LEARNERS.items() if row.learner.discrete_actions]
REPEATED = ("SAC", "TD3 delayed", "DQN", "BC")
"""Learners of every kind whose many updates are made; those of the others are traced, by one loop."""


@every_learner
def test_an_update_moves_the_parameters_and_describes_itself(row):
    learner = row.create()
    moved, info = learner.update(row.batch())
    assert info
    assert all(value.shape == () and np.isfinite(value) for value in info.values())
    assert jax.tree.structure(moved) == jax.tree.structure(learner)
    acting, acting_now = (jax.tree.leaves(getattr(x, row.acting).params) for x in (learner, moved))
    for old, new in zip(acting, acting_now, strict=True):
        assert (np.asarray(old) != np.asarray(new)).any()


@learners(*REPEATED)
def test_many_updates_are_single_ones_in_order(row):
    batches = row.batch(3, 16)
    many, infos = row.create().update_many(batches)
    learner = row.create()
    for i in range(3):
        learner, info = learner.update({key: values[i] for key, values in batches.items()})
        assert_close(info, {key: values[i] for key, values in infos.items()})
    assert_close(learner, many)


@every_learner
def test_many_updates_give_such_a_learner_and_numbers_of_each_update(row):
    learner = row.create()
    shapes = functools.partial(jax.eval_shape, lambda x: x)
    _, info = jax.eval_shape(type(learner).update, learner, row.batch())
    moved, infos = jax.eval_shape(type(learner).update_many, learner, row.batch(3, 16))
    assert moved == shapes(learner)
    assert infos == shapes({name: np.zeros(3, x.dtype) for name, x in info.items()})


@learners("SAC", "DQN")
def test_a_dataset_is_as_good_a_batch_as_a_dict(row):
    learner, batch = row.create(), row.batch()
    update = functools.partial(jax.eval_shape, type(learner).update, learner)
    assert update(Dataset(batch)) == update(batch)


@every_learner
def test_equal_learners_share_one_program(row):
    row.create(seed=0).update(row.batch())
    learner = row.create(seed=1)
    batches = [
        {key: np.asarray(x, np.float64) if key == "rewards" else x for key, x in batch.items()}
        for batch in (row.batch(seed=seed) for seed in range(3))
    ]
    with compilations() as made:
        for batch in batches:
            learner, _ = learner.update(batch)
    assert made == []


@every_learner
def test_seeds_are_integers_or_keys(row):
    assert_equal(row.create(seed=3), row.create(seed=jax.random.key(3)))
    assert_equal(row.create(seed=3), row.create(seed=np.int64(3)))
    assert_equal(row.create(seed=3), row.create(seed=jax.random.PRNGKey(3)))


def test_seeds_without_a_key_of_their_own_are_refused():
    batch = np.zeros((2, 3)), np.zeros((2, 1))
    for seed in (2**32, np.int64(2**32), np.array(2**32), 2**64):
        with pytest.raises(ValueError, match=r"seed must be an integer of 32 bits, such as 0 to 4"):
            BCLearner.create(seed, *batch, features=(8,))
    with jax.enable_x64(True):
        one, other = (BCLearner.create(seed, *batch, features=(8,)) for seed in (0, 2**32))
        assert not equal(one.actor.params, other.actor.params)
    with pytest.raises(TypeError, match=r"Expected a random key such as .*, got '0'"):
        BCLearner.create("0", *batch, features=(8,))


@learners("SAC", "DiscreteSAC", "DQN", "BC")
def test_one_observation_is_as_good_an_example_as_a_batch(row):
    batch = row.batch()
    obs, action = np.float64(batch["observations"][0]), batch["actions"][0]
    assert_close(row.create(), row.learner.create(0, obs, action, **row.kwargs))


SEEDS, VALUES = np.arange(2), np.array([0.5, 0.9], np.float32)


def updated(row, seed, value):
    """A learner of a seed and of a value of its hyperparameter, after an update, and its numbers."""
    return row.create(seed, **{row.traced: value}).update(row.batch())


@learners("SAC", "TD3 delayed", "CQL Lagrange", "DiscreteBC")
def test_hyperparameters_and_seeds_can_be_vmapped(row):
    update = jax.vmap(functools.partial(updated, row))
    _, infos = jax.eval_shape(update, SEEDS, VALUES)
    assert {x.shape for x in infos.values()} == {(2,)}


@learners("DDQN", "BC")
def test_vmapped_over_hyperparameters_and_seeds_equals_single(row):
    _, infos = jax.vmap(functools.partial(updated, row))(SEEDS, VALUES)
    for i in range(2):
        _, info = updated(row, int(SEEDS[i]), VALUES[i])
        assert_close(info, {name: x[i] for name, x in infos.items()})


@every_learner
def test_hyperparameters_matter(row):
    learners = [row.create(**{row.traced: value}).update(row.batch())[0] for value in (0.5, 0.9)]
    assert not equal(*(learner.replace(hyperparams=None) for learner in learners))


@every_learner
def test_actions(row):
    learner, batch = row.create(), row.batch()
    obs = batch["observations"]
    shape = () if row.learner.discrete_actions else (ACTION_DIM,)
    sample = functools.partial(type(learner).sample_actions, learner)
    for lead, o in {(): obs[0], (16,): obs, (4, 4): obs.reshape(4, 4, -1)}.items():
        assert jax.eval_shape(sample, o, seed=KEY).shape == (*lead, *shape)
    drawn, others, cold = (
        np.asarray(sample(obs, seed=jax.random.key(seed), temperature=temperature))
        for seed, temperature in ((0, 1.0), (1, 1.0), (0, 0.0))
    )
    assert drawn.shape == (16, *shape)
    assert (drawn != others).any()
    if row.learner.discrete_actions:
        assert np.issubdtype(drawn.dtype, np.integer)
        assert ((drawn >= 0) & (drawn < N_ACTIONS)).all()
    else:
        assert (np.abs(drawn) <= 1.0).all()
    np.testing.assert_allclose(cold, sample(obs), rtol=1e-6)


@learners("SAC", "DQN")
def test_actions_are_drawn_at_a_temperature_of_one_by_keys_of_both_kinds(row):
    learner, obs = row.create(), row.batch()["observations"]
    drawn = learner.sample_actions(obs, seed=KEY)
    for alike in ({"seed": KEY, "temperature": 1.0}, {"seed": jax.random.PRNGKey(0)}):
        np.testing.assert_array_equal(learner.sample_actions(obs, **alike), drawn)
    for lead, o in {(): obs[0], (4, 4): obs.reshape(4, 4, -1)}.items():
        actions = learner.sample_actions(o, seed=KEY)
        assert actions.shape == (*lead, *drawn.shape[1:])


@learners("SAC", "DQN")
def test_policies_are_exported(row, tmp_path):
    obs = row.batch()["observations"]
    learner = row.create(normalise_observations=True).observe(3.0 * obs + 1.0)
    learner.export_policy(tmp_path / "policy", obs[0])
    policy = load_policy(tmp_path / "policy")
    np.testing.assert_allclose(policy(obs), learner.sample_actions(obs), rtol=1e-4, atol=1e-5)
    drawn = learner.sample_actions(obs[0], seed=KEY)
    np.testing.assert_allclose(policy(obs[0], KEY), drawn, rtol=1e-4, atol=1e-5)
    assert policy.metadata["learner"] == row.learner.__name__
    with pytest.raises(
        ValueError, match=r"got shape \(16, 5\), for which .*such as observations\[0"
    ):
        learner.export_policy(tmp_path / "other", obs)


@learners(*DISCRETE)
def test_takes_allowed_actions_at_every_temperature(row):
    masks = np.arange(16)[:, None] % N_ACTIONS == np.arange(N_ACTIONS)
    obs = {"observation": row.batch()["observations"], "action_mask": masks}
    learner = row.create(observations=obs)
    for temperature in (0.0, 1e-3, 1.0, 100.0):
        actions = learner.sample_actions(obs, seed=KEY, temperature=temperature)
        np.testing.assert_array_equal(actions, np.arange(16) % N_ACTIONS)


@every_learner
def test_unknown_keywords_are_refused(row):
    with pytest.raises(TypeError, match=r"no field 'featurs'\. Did you mean 'features'\?"):
        row.create(featurs=(8,))
    with pytest.raises(TypeError, match=r"no field 'hidden_dims'\. Did you mean 'features'\?"):
        row.create(hidden_dims=(8,))


@every_learner
def test_numbers_out_of_range_are_refused(row):
    with pytest.raises(ValueError, match="must lie in"):
        row.create(**{row.traced: -1.0})
    with pytest.raises(ValueError, match="features must be a positive integer"):
        row.create(features=(8, 0))
    with pytest.raises(TypeError, match="optimizer must be a function"):
        row.create(optimizer=1e-3)


@every_learner
def test_actions_of_the_wrong_kind_are_refused(row):
    discrete = row.learner.discrete_actions
    wrong = np.zeros(ACTION_DIM, np.float32) if discrete else np.zeros((), np.int32)
    with pytest.raises(TypeError, match="floating" if not discrete else "integer"):
        row.learner.create(0, np.zeros(OBS_DIM), wrong, **row.kwargs)


@every_learner
def test_an_incomplete_batch_is_refused(row):
    batch = row.batch()
    missing = row.learner.batch_keys[-1]
    del batch[missing]
    with pytest.raises(KeyError, match=f"lacks \\['{missing}'\\]"):
        row.create().update(batch)
    with pytest.raises(KeyError, match=f"lacks \\['{missing}'\\]"):
        row.create().update_many(batch)


@every_learner
def test_numbers_with_a_further_axis_are_refused(row):
    key = "actions" if row.learner.discrete_actions else "rewards"
    learner, batch = row.create(), row.batch()
    batch[key] = batch[key][:, None] if batch[key].ndim == 1 else batch[key]
    with pytest.raises(
        ValueError, match=rf"'{key}' must have .* shape \(batch\), got shape \(16, 1\)"
    ):
        learner.update(batch)
    with pytest.raises(ValueError, match=r"must have .* shape \(n, batch\)"):
        learner.update_many(row.batch())


@every_learner
def test_learners_can_be_pickled_and_copied(row):
    learner, _ = row.create().update(row.batch())
    expected, _ = learner.update(row.batch(seed=1))
    for twin in (pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner), copy.copy(learner)):
        assert_equal(twin.update(row.batch(seed=1))[0], expected)


@learners("SAC", "DQN", "BC")
def test_learners_can_be_donated(row):
    step = jax.jit(lambda learner, batch: learner.update(batch), donate_argnums=0)
    learner, batch = row.create(), row.batch()
    expected, _ = row.create().update(batch)
    moved, _ = step(learner, batch)
    assert_close(moved, expected)
    step(moved, batch)


class Normalised(nn.Module):
    """The smallest encoder of images, which normalises by statistics of its own."""

    @nn.compact
    def __call__(self, images):
        flat = images.astype(jnp.float32).reshape(*images.shape[:-3], -1) / 255.0
        return nn.Dense(4)(nn.BatchNorm(use_running_average=True)(flat))


def with_images(row):
    """A learner from images beside states, and a batch of them."""
    batch = row.batch()
    images = np.random.default_rng(0).integers(256, size=(16, 4, 4, 3)).astype(np.uint8)
    for key in ("observations", "next_observations"):
        batch[key] = {"image": images, "state": batch[key]}
    encoder = DictEncoder({"image": Normalised()})
    return row.create(observations=batch["observations"], encoder=encoder), batch


NOISY = LEARNERS["DQN"]._replace(kwargs={**LEARNERS["DQN"].kwargs, "noisy": True})
MAKING_NETWORKS = {
    name: LEARNERS[name] for name in ("SAC", "DiscreteSAC", "TD3", "AWAC", "IQL", "CQL", "BC")
}
"""Learners that make and move networks by code of their own; others have that of one of these."""


@pytest.mark.parametrize(
    "row", [*MAKING_NETWORKS.values(), NOISY], ids=[*MAKING_NETWORKS, "noisy DQN"]
)
@pytest.mark.slow_except("BC", "noisy DQN", "SAC")
def test_learns_from_images_beside_states_with_statistics_that_stay_as_they_are(row):
    def statistics(learner):
        return jax.tree.map(np.array, getattr(learner, row.acting).extra_variables)

    learner, batch = with_images(row)
    before = statistics(learner)
    assert set(before) == {"batch_stats"}
    step = jax.jit(lambda learner, batch: learner.update(batch), donate_argnums=0)
    learner, _ = step(learner, batch)
    moved, info = step(learner, batch)
    assert all(jnp.isfinite(value) for value in info.values())
    assert_equal(before, statistics(moved))


@learners("SAC", "DiscreteSAC", "DQN", "IQL", "BC", "DiscreteBC")
def test_acts_by_images_beside_states_one_or_many(row):
    learner, batch = with_images(row)
    one = jax.tree.map(lambda x: x[0], batch["observations"])
    np.testing.assert_allclose(
        learner.sample_actions(one),
        learner.sample_actions(batch["observations"])[0],
        rtol=1e-4,
        atol=1e-6,
    )


@every_learner
def test_learning_rates_can_be_changed(row):
    learner, batch = row.create(), row.batch()
    rates = {name: 0.0 for name in vars(learner.hyperparams) if name.endswith("_learning_rate")}
    still = learner.replace(hyperparams=learner.hyperparams.replace(**rates))
    assert learner.update(batch)
    with compilations() as made:
        moved, _ = still.update(batch)
        assert_equal(getattr(moved, row.acting).params, getattr(learner, row.acting).params)
    assert made == []


@learners(*REPEATED)
def test_learning_rates_of_many_updates_can_be_changed(row):
    learner, batches = row.create(), row.batch(3, 16)
    rates = {name: 0.0 for name in vars(learner.hyperparams) if name.endswith("_learning_rate")}
    still = learner.replace(hyperparams=learner.hyperparams.replace(**rates))
    assert learner.update_many(batches)
    with compilations() as made:
        moved, _ = still.update_many(batches)
        assert_equal(getattr(moved, row.acting).params, getattr(learner, row.acting).params)
    assert made == []


@every_learner
def test_batches_that_do_not_fit_are_refused(row):
    learner, batch = row.create(), row.batch()
    batches = row.batch(3, 16)
    cases = {
        "actions": batch["actions"][:1],
        "rewards": batch["rewards"][:1],
        "observations": batch["observations"][0],
    }
    for key, wrong in cases.items():
        if key in row.learner.batch_keys or key == "rewards":
            with pytest.raises(ValueError, match=r"has shape .*, but 'actions' has shape"):
                learner.update({**batch, key: wrong})
    with pytest.raises(ValueError, match=r"one sample or more, got 'actions' of shape \(0"):
        learner.update(jax.tree.map(lambda x: x[:0], batch))
    with pytest.raises(ValueError, match=r"'actions' must have one .* for each sample"):
        learner.update(
            {key: batches[key] for key in ("actions", *row.learner.batch_keys[:1])}
            | {key: batch[key] for key in row.learner.batch_keys[2:]}
        )
    if "next_observations" in row.learner.batch_keys:
        with pytest.raises(ValueError, match="must be shaped as 'observations'"):
            learner.update({**batch, "next_observations": batch["observations"][:, :1]})
    if row.learner.discrete_actions:
        with pytest.raises(TypeError, match="'actions' must be integers"):
            learner.update({**batch, "actions": batch["actions"].astype(np.float32)})
    else:
        with pytest.raises(ValueError, match=r"policy gives actions of shape \(16, 2\)"):
            learner.update({**batch, "actions": batch["actions"][:, :1]})


def test_actions_of_several_axes_are_refused():
    for lead in ((), (16,)):
        observations, actions = np.zeros((*lead, OBS_DIM)), np.zeros((*lead, 2, 3))
        with pytest.raises(ValueError, match=r"must be a vector too: flatten actions of several"):
            SACLearner.create(0, observations, actions)


@every_learner
def test_examples_that_do_not_fit_are_refused(row):
    batch = row.batch()
    images = np.zeros((16, 4, 4, 3), np.uint8)
    for wrong in (images, {"state": batch["observations"]}, batch["observations"][0], np.zeros(16)):
        with pytest.raises(ValueError, match="one vector of observations for each action"):
            row.create(observations=wrong)
    with pytest.raises(TypeError, match=r"encoder must be a flax.linen module.* got 'impala'"):
        row.create(encoder="impala")
    with pytest.raises(TypeError, match="features must be the widths of the layers, got 64"):
        row.create(features=64)
    if "next_observations" not in row.learner.batch_keys:
        with pytest.raises(ValueError, match="policy gives actions of shape"):
            row.create(observations=batch["observations"][0], encoder=nn.Dense(4))
    with pytest.raises(ValueError, match="must be a number, got '1'"):
        row.create(**{row.traced: "1"})
    if row.learner.discrete_actions:
        with pytest.raises(ValueError, match=r"must lie in 0..1 with n_actions=2, got 0 to 2"):
            row.create(n_actions=2)


def test_a_discrete_learner_need_not_be_told_how_many_actions_there_are():
    class Steering(DiscreteBCLearner):
        """Left, ahead or right."""

        @staticmethod
        def default_networks(config, example):
            return {
                "actor_network": CategoricalPolicy(features=config.features, n_actions=N_ACTIONS)
            }

    batch = LEARNERS["DiscreteBC"].batch()
    learner = Steering.create(0, batch["observations"], batch["actions"], features=(8,))
    assert learner.sample_actions(batch["observations"]).shape == (16,)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (lambda learner, info: learner, "Forgetful"),
        (lambda learner, info: (learner, None), "Forgetful, NoneType"),
        (lambda learner, info: (info, learner), "dict, Forgetful"),
    ],
)
def test_what_an_update_returns_wrongly_is_named(given, found):
    class Forgetful(DiscreteBCLearner):
        def _update(self, batch):
            return given(*super()._update(batch))

    row = LEARNERS["DiscreteBC"]._replace(learner=Forgetful)
    message = rf"Forgetful\._update must return the learner .* may be empty, got {found}\."
    with pytest.raises(TypeError, match=message):
        jax.eval_shape(lambda: row.create().update(row.batch()))
    with pytest.raises(TypeError, match=message):
        jax.eval_shape(lambda: row.create().update_many(row.batch(1, 16)))


@pytest.mark.parametrize("spoilt", [lambda x: x[:, None], lambda x: x.mean()])
@pytest.mark.parametrize(
    ("name", "hook"),
    [("SAC", "_targets"), ("TD3", "_targets"), ("CQL", "_targets"), ("DQN", "_q_target")],
)
def test_targets_of_a_hook_are_of_each_sample(name, hook, spoilt):
    row = LEARNERS[name]

    def targets(self, *args):
        return spoilt(getattr(row.learner, hook)(self, *args))

    own = row._replace(learner=type("Own", (row.learner,), {hook: targets}))
    message = r"Own\._.* must give .* each sample, .*got shape \("
    with jax.numpy_rank_promotion("allow"), pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda: own.create().update(row.batch()))
