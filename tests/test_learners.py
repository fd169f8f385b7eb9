"""Tests that all learners share: of shapes for each, and of numbers for one of each kind."""

import copy
import functools
import pickle

import gymnasium
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import compilations
from flax import linen as nn
from learner_registry import ACTION_DIM, LEARNERS, N_ACTIONS, OBS_DIM
from trees import assert_close, assert_equal, equal

from jaxagents import load_policy
from jaxagents.bc import BCLearner, DiscreteBCLearner
from jaxagents.data import Dataset
from jaxagents.dqn import DQNLearner
from jaxagents.envs.spaces import Box
from jaxagents.host import rescale_actions
from jaxagents.networks import Critic, DictEncoder, DiscreteCritic
from jaxagents.sac import SACLearner

KEY = jax.random.key(0)


def learners(*names):
    """Some of them, for what is the same code for all."""
    return pytest.mark.parametrize("row", [LEARNERS[name] for name in names], ids=names)


@functools.cache
def of(name):
    """A learner."""
    return LEARNERS[name].create()


def shape_of(row, **kwargs):
    """A learner of shapes alone, for which nothing is compiled."""
    return jax.eval_shape(functools.partial(row.create, **kwargs))


# Examples and spaces.


def test_spaces_stand_for_examples_of_what_is_in_them():
    cartpole, pendulum = map(gymnasium.make, ("CartPole-v1", "Pendulum-v1"))
    env, params = gymnax.make("CartPole-v1")
    seen, one = np.zeros(4, np.float32), np.zeros(1, np.float32)
    discrete, unit = (seen, np.int32(0)), (np.zeros(3, np.float32), one)
    for learner, spaces, example in (
        (DQNLearner, of_env(cartpole), discrete),
        (DiscreteBCLearner, (env.observation_space(params), env.action_space(params)), discrete),
        (SACLearner, of_env(rescale_actions(pendulum)), unit),
        (BCLearner, (Box(-9, 9, (3,)), Box(-1, 1, (1,))), unit),
    ):
        n_actions = {"n_actions": 2} if learner.discrete_actions else {}
        create = functools.partial(learner.create, 0, features=())
        expected = jax.eval_shape(functools.partial(create, *example, **n_actions))
        assert jax.eval_shape(functools.partial(create, *spaces)) == expected
    parts = gymnasium.spaces.Dict({"state": gymnasium.spaces.Box(-1, 1, (3,))})
    learner = BCLearner.create(0, parts, Box(-1, 1, (2,)), features=(), encoder=DictEncoder({}))
    assert learner.sample_actions(parts.sample()).shape == (2,)


def of_env(env):
    return env.observation_space, env.action_space


# Updates.


@learners("SAC", "DiscreteSAC", "TD3", "IQL", "DiscreteCQL", "C51", "BC")
def test_updates_give_such_a_learner_and_actions_have_the_shape_of_observations(row):
    learner, obs = shape_of(row), row.batch()["observations"]
    moved, info = jax.eval_shape(type(learner).update, learner, row.batch())
    assert moved == learner
    assert {x.shape for x in info.values()} == {()}
    size = () if row.learner.discrete_actions else (ACTION_DIM,)
    drawn = {"seed": KEY, "temperature": 0.5}
    for lead, o, kwargs in (((), obs[0], {}), ((4, 4), obs.reshape(4, 4, -1), drawn)):
        actions = jax.eval_shape(type(learner).sample_actions, learner, o, **kwargs)
        assert actions.shape == (*lead, *size)
        assert jnp.issubdtype(actions.dtype, jnp.floating if size else jnp.integer)


def test_a_dataset_is_as_good_a_batch_as_a_dict():
    row = LEARNERS["DQN"]
    learner, dataset = shape_of(row), Dataset({**row.batch(), "ends": np.ones(16, bool)})
    update = functools.partial(jax.eval_shape, type(learner).update, learner)
    for batch in (dataset, dataset.n_step(3, 0.9)):
        assert update(batch) == update({**batch})


@learners("DQN")
def test_one_program_updates_all_that_are_alike(row):
    learner, batch = row.create(), row.batch()
    moved, info = learner.update(batch)
    assert all(np.isfinite(value) for value in info.values())
    acting, acting_now = (getattr(x, row.acting).params for x in (learner, moved))
    assert not equal(acting, acting_now)
    other = row.create(seed=1, **{row.traced: 0.5})
    rates = {name: 0.0 for name in vars(learner.hyperparams) if name.endswith("_learning_rate")}
    still = learner.replace(hyperparams=learner.hyperparams.replace(**rates))
    twins = [pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner), copy.copy(learner)]
    wide = {key: np.float64(x) if key == "rewards" else x for key, x in batch.items()}
    with compilations() as made:
        different, _ = other.update(row.batch(seed=1))
        unmoved, _ = still.update(batch)
        same = [twin.update(wide)[0] for twin in twins]
    assert made == []
    assert not equal(getattr(different, row.acting).params, acting_now)
    assert_equal(getattr(unmoved, row.acting).params, acting)
    for twin in same:
        assert_equal(twin, moved)


@learners("DQN")
def test_many_updates_are_single_ones_in_order(row):
    batches, learner = row.batch(3, 16), row.create()
    many, infos = learner.update_many(batches)
    for i in range(3):
        learner, info = learner.update({key: values[i] for key, values in batches.items()})
        assert_close(info, {key: values[i] for key, values in infos.items()})
    assert_close(learner, many)


@pytest.mark.parametrize("name", ["TD3", "DQN"])
def test_targets_start_as_their_networks(name):
    learner = LEARNERS[name].create(features=())
    names = [x for x in vars(learner) if x.startswith("target_")]
    assert names
    for target in names:
        network = getattr(learner, target.removeprefix("target_"))
        assert_equal(getattr(learner, target).params, network.params)


def test_seeds_are_integers_or_keys():
    for seed in (np.int64(0), jax.random.key(0), jax.random.PRNGKey(0)):
        assert_equal(LEARNERS["BC"].create(seed=seed), of("BC"))
    batch = np.zeros((2, 3)), np.zeros((2, 1))
    with jax.enable_x64(True):
        one, other = (BCLearner.create(seed, *batch, features=(8,)) for seed in (0, 2**32))
        assert not equal(one.actor.params, other.actor.params)


@pytest.mark.parametrize("name", ["SAC", "DiscreteSAC"])
def test_any_number_of_critics(name):
    row = LEARNERS[name]
    size = (N_ACTIONS,) if row.learner.discrete_actions else ()

    def values_after_an_update():
        learner, _ = row.create(n_critics=3).update(row.batch())
        return learner.critic(*learner._inputs_of("critic", *map(row.batch().get, EXAMPLE)))

    assert jax.eval_shape(values_after_an_update).shape == (3, 16, *size)


EXAMPLE = ("observations", "actions")


# Acting.


@learners("DQN")
def test_actions_are_drawn_at_a_temperature_of_one_by_keys_of_both_kinds(row):
    learner, obs = row.create(), row.batch()["observations"]
    drawn, others, cold, warm, old = (
        np.asarray(learner.sample_actions(obs, seed=seed, temperature=temperature))
        for seed, temperature in (
            (KEY, 1.0),
            (jax.random.key(1), 1.0),
            (KEY, 0.0),
            (KEY, 5.0),
            (jax.random.PRNGKey(0), 1.0),
        )
    )
    assert (drawn != others).any()
    assert (warm != cold).any()
    assert ((drawn >= 0) & (drawn < N_ACTIONS)).all()
    np.testing.assert_array_equal(drawn, old)
    np.testing.assert_array_equal(drawn, learner.sample_actions(obs, seed=KEY))
    np.testing.assert_allclose(cold, learner.sample_actions(obs), rtol=1e-6)


@learners("DiscreteBC")
def test_policies_are_exported(row, tmp_path):
    obs = row.batch()["observations"]
    learner = row.create(normalise_observations=True).observe(3.0 * obs + 1.0)
    learner.export_policy(tmp_path / "policy", obs[0])
    policy = load_policy(tmp_path / "policy")
    np.testing.assert_allclose(policy(obs), learner.sample_actions(obs), rtol=1e-4, atol=1e-5)
    drawn = learner.sample_actions(obs[0], seed=KEY)
    np.testing.assert_allclose(policy(obs[0], KEY), drawn, rtol=1e-4, atol=1e-5)
    assert policy.metadata["learner"] == row.learner.__name__
    with pytest.raises(ValueError, match=r"shape \(16, 5\), for which .*such as observations\[0"):
        learner.export_policy(tmp_path / "other", obs)


@learners("DiscreteSAC", "DiscreteCQL", "DQN")
def test_takes_allowed_actions_at_every_temperature_and_learns_from_them_alone(row):
    allowed = np.arange(16) % N_ACTIONS
    masks = allowed[:, None] == np.arange(N_ACTIONS)
    batch = {**row.batch(), "actions": allowed}
    for key in ("observations", "next_observations"):
        batch[key] = {"observation": batch[key], "action_mask": masks}
    learner = row.create(observations=batch["observations"])
    if row.learner is not DQNLearner:  # whose targets are tested
        learner, info = learner.update(batch)
        assert all(np.isfinite(x) for x in info.values())
        assert info.get("conservative_penalty", 0.0) == info.get("entropy", 0.0) == 0.0
    for temperature in (0.0, 1e-3, 1.0, 100.0):
        actions = learner.sample_actions(batch["observations"], seed=KEY, temperature=temperature)
        np.testing.assert_array_equal(actions, allowed)


# Images beside states.


class Normalised(nn.Module):
    """The smallest image encoder, with its own statistics for normalisation."""

    @nn.compact
    def __call__(self, images):
        flat = images.astype(jnp.float32).reshape(*images.shape[:-3], -1) / 255.0
        return nn.Dense(4)(nn.BatchNorm(use_running_average=True)(flat))


def with_images(row):
    """A function that creates a learner for images and states, and a batch of them."""
    batch = row.batch()
    images = np.random.default_rng(0).integers(256, size=(16, 4, 4, 3)).astype(np.uint8)
    for key in ("observations", "next_observations"):
        batch[key] = {"image": images, "state": batch[key]}
    encoder = DictEncoder({"image": Normalised()})
    fields = {"observations": batch["observations"], "encoder": encoder}
    return functools.partial(row.create, **fields), batch


@learners("SAC", "IQL")
def test_learns_from_images_beside_states(row):
    create, batch = with_images(row)
    learner = jax.eval_shape(create)
    moved, _ = jax.eval_shape(type(learner).update, learner, batch)
    assert moved == learner
    assert set(getattr(learner, row.acting).extra_variables) == {"batch_stats"}


@learners("DiscreteBC")
def test_statistics_of_an_encoder_stay_as_they_are(row):
    def statistics(learner):
        return jax.tree.map(np.array, getattr(learner, row.acting).extra_variables)

    create, batch = with_images(row)
    learner = create()
    before = statistics(learner)
    moved, info = learner.update(batch)
    assert all(jnp.isfinite(value) for value in info.values())
    assert_equal(before, statistics(moved))
    one = jax.tree.map(lambda x: x[0], batch["observations"])
    actions = moved.sample_actions(batch["observations"])
    np.testing.assert_allclose(moved.sample_actions(one), actions[0], rtol=1e-4, atol=1e-6)


# What is refused.


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("SAC", {"n_target_critics": 3}, r"must not exceed the number of critics \(2\), got 3"),
        ("SAC", {"critic_dropout_rate": 1.0}, r"must lie in \[0, 1\), got 1.0"),
        ("TD3", {"target_noise": -0.1}, "target_noise must lie in"),
        ("IQL", {"expectile": 1.5}, r"expectile must lie in \[0, 1\]"),
        ("BC", {"dropout_rate": 1.0}, r"dropout_rate must lie in \[0, 1\), got 1.0"),
        ("BC", {"critic_network": Critic()}, "no field 'critic_network'"),
        ("CQL", {"conservative_weight": -1.0}, "conservative_weight must lie in"),
        ("CQL", {"conservative_weight": 0.0}, "conservative_weight must be above 0"),
        ("DiscreteCQL", {"actor_network": Critic()}, "no field 'actor_network'"),
        ("DQN", {"actor_network": Critic()}, "no field 'actor_network'"),
        ("DQN", {"n_actions": 0}, "n_actions must be a positive integer"),
        ("DQN", {"n_actions": 2}, r"must lie in 0..1 with n_actions=2, got 0 to 2"),
        ("DQN", {"critic_network": DiscreteCritic(n_actions=4)}, "n_actions"),
        ("C51", {"v_min": 1.0, "v_max": 1.0}, r"v_max must be above v_min.*v_max=1\.0"),
        ("QRDQN", {"kappa": -1.0}, "kappa must lie in"),
    ],
)
def test_fields_that_do_not_fit_are_refused(name, kwargs, message):
    with pytest.raises((TypeError, ValueError), match=message):
        shape_of(LEARNERS[name], **kwargs)


@learners("SAC", "DQN")
def test_batches_that_do_not_fit_are_refused(row):
    learner, batch, batches = shape_of(row), row.batch(), row.batch(3, 16)
    lacking = {key: x for key, x in batch.items() if key != "masks"}
    cases = [
        ({**batch, "weights": np.ones((16, 1))}, "'weights' must have one number for each sample"),
        ({**batch, "discounts": np.ones(4)}, r"'discounts' has shape \(4,\), but 'actions' has"),
        ({**batch, "observations": batch["observations"][0]}, "but 'actions' has shape"),
        (jax.tree.map(lambda x: x[:0], batch), r"at least one sample, got 'actions' of shape \(0"),
        ({**batch, "actions": batches["actions"]}, "'actions' must have one .* for each sample"),
    ]
    if row.learner.discrete_actions:
        cases.append(({**batch, "actions": np.zeros(16)}, "'actions' must be integers"))
    for wrong, message in cases:
        with pytest.raises((KeyError, TypeError, ValueError), match=message):
            jax.eval_shape(type(learner).update, learner, wrong)
    with pytest.raises(ValueError, match=r"must have .* shape \(n, batch\)"):
        jax.eval_shape(type(learner).update_many, learner, batch)
    with pytest.raises(KeyError, match=r"lacks \['masks'\]"):
        jax.eval_shape(type(learner).update_many, learner, lacking)


def test_actions_of_several_axes_are_refused():
    for lead in ((), (16,)):
        observations, actions = np.zeros((*lead, OBS_DIM)), np.zeros((*lead, 2, 3))
        with pytest.raises(ValueError, match=r"must be a vector too: flatten actions of several"):
            SACLearner.create(0, observations, actions)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (lambda learner, info: (learner, None), "a Forgetful and a NoneType"),
        (lambda learner, info: (info, learner), "a dict and a Forgetful"),
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
@pytest.mark.parametrize(("name", "hook"), [("SAC", "_targets"), ("DQN", "_q_target")])
def test_targets_of_a_hook_are_of_each_sample(name, hook, spoilt):
    row = LEARNERS[name]

    def targets(self, *args):
        return spoilt(getattr(row.learner, hook)(self, *args))

    own = row._replace(learner=type("Own", (row.learner,), {hook: targets}))
    message = r"Own\._.* must return .* each sample, .*got shape \("
    with jax.numpy_rank_promotion("allow"), pytest.raises(ValueError, match=message):
        jax.eval_shape(lambda: own.create().update(row.batch()))
