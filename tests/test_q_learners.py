"""Q-learners against references in NumPy, whose gradients are finite differences."""

import functools
import pickle
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from learner_registry import LEARNERS, transitions
from trees import assert_close, assert_equal, equal

from jaxagents.c51 import C51Learner
from jaxagents.core.observed import network_input
from jaxagents.dqn import DDQNLearner, DQNLearner
from jaxagents.learners.learner import Learner
from jaxagents.learners.q_learning import QLearner
from jaxagents.networks import DiscreteCritic, DuelingCritic
from jaxagents.qrdqn import QRDQNLearner

OBS_DIM, N_ACTIONS, N_ATOMS, N_QUANTILES = 5, 3, 13, 4
ROWS = np.arange(16)
SUPPORT = {"v_min": -2.0, "v_max": 4.0}
LEARNING_RATE = 0.2
KEY = jax.random.key(0)


class Linear(nn.Module):
    """A linear function of the observation for each action, or several for each."""

    outputs: tuple[int, ...] = ()

    @nn.compact
    def __call__(self, observations):
        shape = (OBS_DIM, N_ACTIONS, *self.outputs)
        weights = self.param("weights", nn.initializers.normal(1.0), shape)
        return jnp.tensordot(network_input(observations), weights, axes=1)


# The formulas of the papers, for linear networks.


def discounts(batch, hp):
    """Zero where nothing follows."""
    return batch.get("discounts", hp["gamma"]) * batch["masks"]


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def atoms():
    return SUPPORT["v_min"] + np.arange(N_ATOMS) * 0.5


def dqn_targets(weights, target_weights, batch, hp):
    """Mnih et al., 2015, algorithm 1."""
    values = batch["next_observations"] @ target_weights
    return batch["rewards"] + discounts(batch, hp) * values.max(axis=-1)


def ddqn_targets(weights, target_weights, batch, hp):
    """Van Hasselt et al., 2016, equation 4."""
    chosen = (batch["next_observations"] @ weights).argmax(axis=-1)
    values = batch["next_observations"] @ target_weights
    return batch["rewards"] + discounts(batch, hp) * values[ROWS, chosen]


def huber_losses(weights, batch, targets, hp):
    q = (batch["observations"] @ weights)[ROWS, batch["actions"]]
    errors = np.abs(targets - q)
    return np.where(errors <= 1.0, errors**2 / 2.0, errors - 0.5), q, errors


def c51_targets(weights, target_weights, batch, hp, chooses=1):
    """Bellemare et al., 2017, algorithm 1, which loses the mass of returns right on an atom."""
    each = [np.tensordot(batch["next_observations"], x, 1) for x in (weights, target_weights)]
    probabilities, choosing = softmax(each[1]), softmax(each[chooses])
    z, gamma, m = atoms(), discounts(batch, hp), np.zeros((len(ROWS), N_ATOMS))
    for t in ROWS:
        greedy = np.argmax([(z * p).sum() for p in choosing[t]])
        for j, p in enumerate(probabilities[t, greedy]):
            moved = np.clip(batch["rewards"][t] + gamma[t] * z[j], z[0], z[-1])
            b = (moved - z[0]) / 0.5
            lower, upper = int(np.floor(b)), int(np.ceil(b))
            m[t, lower] += p * (upper - b) if lower < upper else p
            m[t, upper] += p * (b - lower)
    return m


def c51_losses(weights, batch, targets, hp):
    outputs = np.tensordot(batch["observations"], weights, 1)[ROWS, batch["actions"]]
    probabilities = softmax(outputs)
    losses = -(targets * np.log(probabilities)).sum(axis=-1)
    return losses, probabilities @ atoms(), losses


def qrdqn_targets(weights, target_weights, batch, hp, chooses=1):
    """Dabney et al., 2018, algorithm 1."""
    each = [np.tensordot(batch["next_observations"], x, 1) for x in (weights, target_weights)]
    chosen = each[1][ROWS, each[chooses].mean(axis=-1).argmax(axis=-1)]
    return batch["rewards"][:, None] + discounts(batch, hp)[:, None] * chosen


def qrdqn_losses(weights, batch, targets, hp):
    """Equations 9 and 10."""
    theta = np.tensordot(batch["observations"], weights, 1)[ROWS, batch["actions"]]
    kappa, losses = hp["kappa"], np.zeros(len(ROWS))
    for i in range(N_QUANTILES):
        for j in range(N_QUANTILES):
            u = targets[:, j] - theta[:, i]
            inside = np.abs(u) <= kappa
            huber = np.where(inside, u**2 / 2.0, kappa * (np.abs(u) - kappa / 2.0))
            huber = huber if kappa else np.abs(u)
            losses += np.abs((i + 0.5) / N_QUANTILES - (u < 0.0)) * huber / N_QUANTILES
    return losses, theta.mean(axis=-1), losses


class Reference(NamedTuple):
    """A learner and its formulas.

    Attributes:
        learner: Its class.
        targets: Gives the targets by the weights of both networks.
        losses: Gives losses, values and priorities of samples by the weights in training.
        outputs: Shape of the network's outputs for each action.
        fields: Further keywords of `create`.
    """

    learner: type[Learner]
    targets: Callable
    losses: Callable
    outputs: tuple[int, ...] = ()
    fields: dict = {}  # noqa: RUF012

    def create(self, **kwargs):
        """A learner of linear networks, whose target is another."""
        batch = transitions(True, (16,))
        fields = {
            "n_actions": N_ACTIONS,
            "critic_network": Linear(self.outputs),
            "optimizer": optax.sgd,
            "critic_learning_rate": LEARNING_RATE,
            "gamma": 0.9,
            **self.fields,
            **kwargs,
        }
        learner = self.learner.create(0, batch["observations"], batch["actions"], **fields)
        shape = learner.critic.params["weights"].shape
        params = {"weights": jax.random.normal(jax.random.key(1), shape)}
        return learner.replace(target_critic=learner.target_critic.replace(params=params))


def quantiles_and(kappa):
    fields = {"n_quantiles": N_QUANTILES, "kappa": kappa}
    return Reference(QRDQNLearner, qrdqn_targets, qrdqn_losses, (N_QUANTILES,), fields)


def double(reference):
    """The network in training, the first of both, chooses the next action."""
    targets = functools.partial(reference.targets, chooses=0)
    return reference._replace(targets=targets, fields={**reference.fields, "double": True})


REFERENCES = {
    "DQN": Reference(DQNLearner, dqn_targets, huber_losses),
    "DDQN": Reference(DDQNLearner, ddqn_targets, huber_losses),
    "C51": Reference(
        C51Learner, c51_targets, c51_losses, (N_ATOMS,), {"n_atoms": N_ATOMS, **SUPPORT}
    ),
    "QRDQN": quantiles_and(kappa=1.0),
    "QRDQN, another kappa": quantiles_and(kappa=0.4),
    "QRDQN, no kappa": quantiles_and(kappa=0.0),
}
REFERENCES |= {f"{name}, double": double(REFERENCES[name]) for name in ("C51", "QRDQN")}

every_reference = pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES.keys())
one_of_each = pytest.mark.parametrize("name", ["DQN", "DDQN", "C51", "QRDQN"])


def batch_with(*further, seed=0):
    batch = transitions(True, (16,), seed=seed)
    assert set(batch["masks"]) == {0.0, 1.0}
    rng = np.random.default_rng(seed + 100)
    return batch | {key: rng.uniform(0.1, 1.0, size=16).astype(np.float32) for key in further}


def numbers_of(learner):
    """The weights of both networks, and the hyperparameters."""
    networks = (learner.critic, learner.target_critic)
    weights, target_weights = (np.asarray(x.params["weights"], np.float64) for x in networks)
    return weights, target_weights, {k: float(v) for k, v in vars(learner.hyperparams).items()}


def targets_of(learner, batch):
    return np.asarray(learner._q_target(jax.tree.map(jnp.asarray, batch)))


def slope(function, x, step=1e-5):
    """The gradient by finite differences."""
    gradient = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        change = np.zeros_like(x)
        change[i] = step
        gradient[i] = (function(x + change) - function(x - change)) / (2.0 * step)
    return gradient


# Updates.


@every_reference
@pytest.mark.parametrize("further", [(), ("discounts",)], ids=["one step", "n steps"])
def test_targets_are_those_of_the_paper(reference, further):
    learner, batch = reference.create(), batch_with(*further)
    weights, target_weights, hp = numbers_of(learner)
    expected = reference.targets(weights, target_weights, batch, hp)
    assert_close(targets_of(learner, batch), expected)


@every_reference
def test_targets_are_of_allowed_actions_alone(reference):
    learner, batch, allowed = reference.create(), batch_with(), [0, 2]
    mask = np.broadcast_to(np.isin(np.arange(N_ACTIONS), allowed), (16, N_ACTIONS))
    seen = {"observation": batch["next_observations"], "action_mask": mask}
    weights, target_weights, hp = numbers_of(learner)
    others = reference.targets(weights, target_weights, batch, hp)
    expected = reference.targets(weights[:, allowed], target_weights[:, allowed], batch, hp)
    assert not np.allclose(expected, others)
    assert_close(targets_of(learner, {**batch, "next_observations": seen}), expected)


@every_reference
@pytest.mark.parametrize("further", [(), ("discounts", "weights")], ids=str)
def test_updates_are_those_of_the_paper(reference, further):
    learner = reference.create(tau=0.3)
    for seed in range(2):
        batch = batch_with(*further, seed=seed)
        weights, target_weights, hp = numbers_of(learner)
        targets = reference.targets(weights, target_weights, batch, hp)

        def loss(x, batch=batch, targets=targets, hp=hp):
            losses, _, _ = reference.losses(x, batch, targets, hp)
            return (batch.get("weights", 1.0) * losses).mean()

        _, q, td_errors = reference.losses(weights, batch, targets, hp)
        expected_info = {"critic_loss": loss(weights), "q": q.mean()}
        if "weights" in batch:
            expected_info["td_errors"] = td_errors
        moved_weights = weights - LEARNING_RATE * slope(loss, weights)

        learner, info = learner.update(batch)
        assert info.keys() == expected_info.keys()
        assert_close({name: info[name] for name in expected_info}, expected_info)
        assert_close(learner.critic.params["weights"], moved_weights)
        target = 0.3 * moved_weights + 0.7 * target_weights
        assert_close(learner.target_critic.params["weights"], target)


@every_reference
def test_values_are_the_means_of_the_returns(reference):
    learner, obs = reference.create(), batch_with()["observations"]
    outputs = np.tensordot(obs, numbers_of(learner)[0], 1)
    if reference.learner is C51Learner:
        outputs = N_ATOMS * softmax(outputs) * atoms()
    values = outputs.mean(axis=-1) if reference.outputs else outputs
    assert_close(learner.q(obs), values)
    np.testing.assert_array_equal(learner.sample_actions(obs), values.argmax(axis=-1))


def test_the_network_in_training_chooses_and_the_target_values():
    batch = batch_with()
    single, double = (REFERENCES[name].create() for name in ("DQN", "DDQN"))
    weights, target_weights, _ = numbers_of(double)
    disagree = np.not_equal(
        *((batch["next_observations"] @ x).argmax(axis=-1) for x in (weights, target_weights))
    )
    disagree &= batch["masks"] == 1.0
    assert 0 < disagree.sum() < batch["masks"].sum()
    targets = [targets_of(learner, batch) for learner in (single, double)]
    np.testing.assert_allclose(targets[0][~disagree], targets[1][~disagree], rtol=1e-6)
    assert (targets[0][disagree] > targets[1][disagree]).all()


@pytest.mark.parametrize(
    ("rewards", "loss"), [([0.5, -0.5], 0.125), ([3.0, 3.0], 2.5), ([-2.0, 1.0], 1.0)], ids=str
)
def test_errors_beyond_one_count_linearly(rewards, loss):
    learner = REFERENCES["DQN"].create()
    zeros = jax.tree.map(jnp.zeros_like, learner.critic.params)
    batch = {key: x[:2] for key, x in batch_with().items()}
    batch |= {"rewards": np.float32(rewards), "masks": np.zeros(2, np.float32)}
    _, info = learner.replace(critic=learner.critic.replace(params=zeros)).update(batch)
    np.testing.assert_allclose(info["critic_loss"], loss, rtol=1e-6)


def test_a_reward_between_two_atoms_is_shared_by_them():
    learner, batch = REFERENCES["C51"].create(), batch_with()
    rewards = np.resize(np.float32([0.125, -2.0, 3.5, 100.0]), 16)
    batch |= {"rewards": rewards, "masks": np.zeros(16, np.float32)}
    expected = np.zeros((4, N_ATOMS))  # of atoms from -2 to 4 in steps of 0.5
    expected[0, 4:6] = 0.75, 0.25
    expected[1, 0] = expected[2, 11] = expected[3, 12] = 1.0
    assert_close(targets_of(learner, batch)[:4], expected)


@one_of_each
def test_weights_weigh_the_samples(name):
    learner = REFERENCES[name].create()
    batch = batch_with("weights")
    batch["weights"] = np.repeat(np.float32([2.0, 0.0]), 8)
    half = {key: x[:8] for key, x in batch.items() if key != "weights"}
    weighted, info = learner.update(batch)
    plain, plain_info = learner.update(half)
    assert_close(weighted.critic.params, plain.critic.params)
    assert_close(info["critic_loss"], plain_info["critic_loss"])
    assert info["td_errors"].shape == (16,)
    assert "td_errors" not in plain_info
    _, infos = learner.update_many(jax.tree.map(lambda x: np.stack([x, x]), batch))
    assert infos["td_errors"].shape == (2, 16)


def test_weights_of_another_shape_are_refused():
    learner, batch = REFERENCES["DQN"].create(), batch_with()
    with pytest.raises(ValueError, match=r"'weights' must have one number for each sample"):
        learner.update({**batch, "weights": np.ones((16, 1), np.float32)})
    with pytest.raises(ValueError, match=r"'discounts' has shape \(4,\), but 'actions' has shape"):
        learner.update({**batch, "discounts": np.ones(4, np.float32)})


# Target networks.


@pytest.mark.parametrize(("period", "tau"), [(1, 1.0), (1, 0.3), (3, 1.0), (2, 0.3)])
def test_the_target_moves_at_each_period(period, tau):
    learner = REFERENCES["DQN"].create(target_update_period=period, tau=tau)
    for step in range(1, 7):
        moved, _ = learner.update(batch_with(seed=step))
        old, new = learner.target_critic.params, moved.target_critic.params
        if step % period:
            assert_equal(new, old)
        elif tau == 1.0:
            assert_equal(new, moved.critic.params)
        else:
            assert_close(
                new, jax.tree.map(lambda x, y: 0.3 * x + 0.7 * y, moved.critic.params, old)
            )
            assert not equal(new, old)
        learner = moved
    assert learner.critic.step == 6


def test_vmapped_targets_move_at_each_period_too():
    batches = transitions(True, (4, 16))

    def trained(tau):
        learner = REFERENCES["DQN"].create(target_update_period=3, tau=tau)
        return learner.update_many(batches)[0].target_critic

    taus = jnp.array([1.0, 0.3])
    both = jax.vmap(trained)(taus)
    for i in range(2):
        assert_close(jax.tree.map(lambda x, i=i: x[i], both), trained(taus[i]))


@one_of_each
def test_the_target_starts_as_the_network_and_owns_its_memory(name):
    learner = LEARNERS[name].create()
    assert_equal(learner.critic.params, learner.target_critic.params)
    donated = jax.jit(lambda x: jax.tree.map(lambda y: y + 1, x), donate_argnums=0)
    donated(learner.critic.params)
    jax.block_until_ready(learner.target_critic.params)


# Acting.


@pytest.mark.parametrize(
    ("temperature", "epsilon"), [(1.0, 0.3), (0.5, 0.15), (2.0, 0.6), (100.0, 1.0)]
)
def test_a_share_of_the_actions_is_drawn_uniformly(temperature, epsilon):
    learner, obs = REFERENCES["DQN"].create(epsilon=0.3), batch_with()["observations"][:2]
    many = np.broadcast_to(obs, (10_000, 2, OBS_DIM))
    actions = learner.sample_actions(many, seed=KEY, temperature=temperature)
    frequencies = np.eye(N_ACTIONS)[np.asarray(actions)].mean(axis=0)
    greedy = (obs @ numbers_of(learner)[0]).argmax(axis=-1)
    expected = epsilon / N_ACTIONS + (1.0 - epsilon) * np.eye(N_ACTIONS)[greedy]
    np.testing.assert_allclose(frequencies, expected, atol=0.02)


@one_of_each
def test_without_a_seed_or_a_temperature_actions_are_greedy(name):
    learner, obs = LEARNERS[name].create(epsilon=1.0), jnp.asarray(batch_with()["observations"])
    greedy = np.asarray(learner.q(obs)).argmax(axis=-1)
    for kwargs in ({}, {"temperature": 5.0}, {"seed": KEY, "temperature": 0.0}):
        np.testing.assert_array_equal(learner.sample_actions(obs, **kwargs), greedy)
    unexplored = learner.replace(hyperparams=learner.hyperparams.replace(epsilon=0.0))
    np.testing.assert_array_equal(unexplored.sample_actions(obs, seed=KEY), greedy)
    np.testing.assert_array_equal(learner.sample_actions(obs[0]), greedy[0])


# Hooks of one's own.


class Cautious(QLearner):
    """Values are in other units, targets are the rewards alone, and errors are squared."""

    def _q(self, params, obs):
        return -2.0 * self.critic(obs, params=params)

    def _q_target(self, batch):
        return batch["rewards"]

    def _loss(self, params, batch, targets):
        values = self._q(params, batch["observations"])
        q = jnp.take_along_axis(values, batch["actions"][:, None], axis=-1)[:, 0]
        return jnp.square(q - targets), {"largest": values.max(axis=-1), "td_errors": q}


def test_a_learner_learns_and_acts_by_its_hooks():
    batch = batch_with("weights")
    learner = REFERENCES["DQN"]._replace(learner=Cautious).create()
    weights, _, _ = numbers_of(learner)
    obs, taken = batch["observations"], np.eye(N_ACTIONS)[batch["actions"]]
    values = -2.0 * obs @ weights
    assert_close(learner.q(obs), values)
    q = (values * taken).sum(axis=-1)
    errors = q - batch["rewards"]
    gradient = obs.T @ (taken * (-4.0 * batch["weights"] * errors)[:, None]) / 16
    moved, info = learner.update(batch)
    assert_close(moved.critic.params["weights"], weights - LEARNING_RATE * gradient)
    expected_info = {
        "critic_loss": (batch["weights"] * errors**2).mean(),
        "largest": values.max(axis=-1).mean(),
        "td_errors": q,
    }
    assert info.keys() == expected_info.keys()
    assert_close({name: info[name] for name in expected_info}, expected_info)
    for kwargs in ({}, {"seed": KEY, "temperature": 0.0}):
        actions = learner.sample_actions(obs, **kwargs)
        np.testing.assert_array_equal(actions, (obs @ weights).argmin(axis=-1))
    assert_equal(pickle.loads(pickle.dumps(learner)).update(batch)[0], moved)


@pytest.mark.parametrize(
    ("change", "found"),
    [(jnp.mean, r"\(\), their mean"), (lambda x: x[:, None], r"\(16, 1\): is one of its arrays")],
)
def test_losses_of_another_shape_are_named(change, found):
    class Misshapen(Cautious):
        def _loss(self, *args):
            losses, info = super()._loss(*args)
            return change(losses), info

    learner = REFERENCES["DQN"]._replace(learner=Misshapen).create()
    message = (
        rf"Misshapen._loss must give one loss for each sample, of shape \(16,\), got shape {found}"
    )
    with pytest.raises(ValueError, match=message):
        learner.update(batch_with("weights"))


def test_losses_alone_are_enough():
    class Silent(Cautious):
        def _loss(self, *args):
            return super()._loss(*args)[0]

    moved, info = REFERENCES["DQN"]._replace(learner=Silent).create().update(batch_with("weights"))
    expected, _ = (
        REFERENCES["DQN"]._replace(learner=Cautious).create().update(batch_with("weights"))
    )
    assert_equal(moved.critic.params, expected.critic.params)
    assert info.keys() == {"critic_loss"}


def test_a_hook_for_the_values_decides_actions_and_targets():
    class Pessimistic(C51Learner):
        def _q(self, params, obs):
            return jax.nn.softmax(self._logits(params, obs))[..., 0]

    batch, reference = batch_with(), REFERENCES["C51"]
    learner = reference._replace(learner=Pessimistic).create()
    obs = batch["observations"]
    expected = np.tensordot(obs, numbers_of(learner)[0], 1)
    expected = softmax(expected)[..., 0].argmax(axis=-1)
    np.testing.assert_array_equal(learner.sample_actions(obs), expected)
    plain = reference.create()
    assert (plain.sample_actions(obs) != expected).any()
    assert not equal(plain.update(batch)[0].critic.params, learner.update(batch)[0].critic.params)


def test_programs_tell_learners_of_several_classes_apart():
    class Other(DQNLearner):
        pass

    learners = [DQNLearner, DDQNLearner, Other]
    row = REFERENCES["DQN"]
    first, *others = (jax.tree.structure(row._replace(learner=x).create()) for x in learners)
    assert first == jax.tree.structure(row.create())
    for other in others:
        assert first != other


# Networks.


@one_of_each
def test_default_networks_may_have_two_streams(name):
    def network(dueling):
        learner = LEARNERS[name].create(dueling=dueling)
        return learner.critic, learner.critic(jnp.asarray(batch_with()["observations"]))

    plain, outputs = jax.eval_shape(lambda: network(dueling=False))
    dueling, outputs_of_streams = jax.eval_shape(lambda: network(dueling=True))
    assert not isinstance(plain.model_def, DuelingCritic)
    assert isinstance(dueling.model_def, DuelingCritic)
    assert outputs.shape == outputs_of_streams.shape
    assert outputs.shape[:2] == (16, N_ACTIONS)


# Noise.


def noisy_learner(name, **kwargs):
    """A learner that explores by noise alone, of the same programs in every test."""
    return LEARNERS[name].create(noisy=True, epsilon=0.0, features=(8,), **kwargs)


def many_observations():
    return np.random.default_rng(0).normal(size=(128, OBS_DIM)).astype(np.float32)


@one_of_each
def test_noise_is_drawn_for_actions_that_are_not_greedy(name):
    learner, obs = noisy_learner(name), many_observations()

    def drawn(key, temperature=1.0):
        return np.asarray(learner.sample_actions(obs, seed=key, temperature=temperature))

    greedy = np.asarray(learner.q(obs)).argmax(axis=-1)
    np.testing.assert_array_equal(learner.sample_actions(obs), greedy)
    np.testing.assert_array_equal(drawn(KEY, temperature=0.0), greedy)
    keys = jax.random.split(KEY)
    first, second = drawn(keys[0]), drawn(keys[1])
    assert (first != greedy).any()
    assert (first != second).any()
    np.testing.assert_array_equal(first, drawn(keys[0]))


@one_of_each
@pytest.mark.slow_except("DQN", "C51")
def test_noise_is_drawn_for_each_update_in_each_network(name):
    batch = batch_with()
    learner = noisy_learner(name, critic_learning_rate=0.0, tau=0.0)
    noisy = jax.jit(lambda learner: learner.with_noise(KEY))(learner)
    assert not equal(noisy.critic.params, noisy.target_critic.params)
    later, info = learner.update(batch)
    assert_equal(later.critic.params, learner.critic.params)
    _, later_info = later.update(batch)
    assert info["critic_loss"] != later_info["critic_loss"]
    _, others = learner.replace(rng=KEY).update(batch)
    assert info["critic_loss"] != others["critic_loss"]


@one_of_each
def test_without_sigma_a_noisy_learner_is_a_plain_one(name):
    def silent(path, x):
        return np.zeros(x.shape, x.dtype) if path[-1].key.endswith("_sigma") else x

    def without_noise(network):
        return network.replace(params=jax.tree_util.tree_map_with_path(silent, network.params))

    learner, batch, obs = noisy_learner(name), batch_with(), many_observations()
    learner = learner.replace(
        critic=without_noise(learner.critic), target_critic=without_noise(learner.target_critic)
    )
    drawn = learner.sample_actions(obs, seed=KEY, temperature=1.0)
    np.testing.assert_array_equal(drawn, learner.sample_actions(obs))
    assert_equal(learner.replace(rng=KEY).update(batch)[1], learner.update(batch)[1])


# Learning.


def bandit(rewards_of, shape, seed=0):
    """One observation, and episodes of one step."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(N_ACTIONS, size=shape)
    ones = np.ones((*shape, 1), np.float32)
    return {
        "observations": ones,
        "actions": actions,
        "rewards": rewards_of(rng, actions).astype(np.float32),
        "next_observations": ones,
        "masks": np.zeros(shape, np.float32),
    }


def trained(learner, batches, **kwargs):
    fields = {"n_actions": N_ACTIONS, "features": (16,), "critic_learning_rate": 1e-2, **kwargs}
    learner, info = learner.create(0, np.ones(1), 0, **fields).update_many(batches)
    assert np.isfinite(info["critic_loss"]).all()
    return learner


FEW_OUTPUTS = {"C51": {"n_atoms": 31}, "QRDQN": {"n_quantiles": 8}}


@one_of_each
def test_a_bandit_is_solved(name):
    means = np.array([0.0, 1.0, 0.5])
    batches = bandit(lambda rng, a: means[a] + 0.1 * rng.normal(size=a.shape), (300, 64))
    fields = {"v_min": -1.0, "v_max": 2.0} if name == "C51" else {}
    learner = trained(LEARNERS[name].learner, batches, **FEW_OUTPUTS.get(name, {}), **fields)
    assert learner.sample_actions(np.ones(1)) == 1
    values = learner.q(jnp.ones(1))
    np.testing.assert_allclose(values, means, atol=0.1)


@one_of_each
def test_what_follows_counts_by_the_discount(name):
    """The value of a reward of 1 for ever is 2 at a discount of 0.5."""
    batches = bandit(lambda rng, a: np.ones(a.shape), (300, 64))
    batches["masks"] = np.ones_like(batches["masks"])
    fields = {"v_min": -1.0, "v_max": 5.0} if name == "C51" else {}
    fields |= {"gamma": 0.5, "tau": 0.1, **FEW_OUTPUTS.get(name, {})}
    learner = trained(LEARNERS[name].learner, batches, **fields)
    values = learner.q(jnp.ones(1))
    np.testing.assert_allclose(values, 2.0, atol=0.1)


def drawn_alike(rewards, n_batches):
    """The same batch again and again, in which every action has the same rewards."""
    batch = bandit(lambda rng, a: np.tile(rewards, N_ACTIONS), (N_ACTIONS * len(rewards),))
    batch["actions"] = np.repeat(np.arange(N_ACTIONS), len(rewards))
    return jax.tree.map(lambda x: np.broadcast_to(x, (n_batches, *x.shape)), batch)


def test_probabilities_of_returns_are_learned():
    batches = drawn_alike(np.array([1.0] * 3 + [-1.0] * 7), 300)
    learner = trained(C51Learner, batches, n_atoms=5, v_min=-2.0, v_max=2.0)
    probabilities = jax.nn.softmax(learner.critic(jnp.ones(1)))
    expected = np.broadcast_to([0.0, 0.7, 0.0, 0.3, 0.0], (N_ACTIONS, 5))
    np.testing.assert_allclose(probabilities, expected, atol=0.02)


def test_quantiles_of_returns_are_learned():
    batches = drawn_alike(np.linspace(2.0, 4.0, 101), 600)
    learner = trained(QRDQNLearner, batches, n_quantiles=4, kappa=0.01)
    expected = np.broadcast_to([2.25, 2.75, 3.25, 3.75], (N_ACTIONS, 4))
    np.testing.assert_allclose(learner.critic(jnp.ones(1)), expected, atol=0.05)


# Bad input.


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("DQN", {"n_actions": 0}, "n_actions must be a positive integer"),
        ("DQN", {"n_actions": 2}, r"must lie in 0..1 with n_actions=2, got 0 to 2"),
        ("DQN", {"target_update_period": 0}, "target_update_period must be a positive integer"),
        ("DQN", {"epsilon": 1.5}, r"epsilon must lie in \[0, 1\], got 1.5"),
        ("DDQN", {"tau": -0.1}, r"tau must lie in \[0, 1\], got -0.1"),
        ("C51", {"n_atoms": 1}, "n_atoms must be 2 or more, got 1"),
        ("C51", {"n_atoms": 0}, "n_atoms must be a positive integer"),
        ("C51", {"v_min": 1.0, "v_max": -1.0}, r"v_max must be above v_min.*v_max=-1\.0"),
        ("C51", {"v_min": 1.0, "v_max": 1.0}, r"v_max must be above v_min"),
        ("C51", {"v_max": float("inf")}, "v_max"),
        ("QRDQN", {"n_quantiles": 0}, "n_quantiles must be a positive integer"),
        ("QRDQN", {"kappa": -1.0}, "kappa must lie in"),
    ],
)
def test_numbers_out_of_range_are_refused(name, kwargs, message):
    with pytest.raises(ValueError, match=message):
        LEARNERS[name].create(**kwargs)


@one_of_each
def test_the_number_of_actions_is_required(name):
    learner = LEARNERS[name].learner
    with pytest.raises(TypeError, match=r"number of discrete actions is missing.*n_actions="):
        learner.create(0, np.zeros(OBS_DIM), 0)


@pytest.mark.parametrize("n", [2, 4])
def test_networks_of_another_number_of_actions_are_refused(n):
    with pytest.raises(ValueError, match="n_actions"):
        LEARNERS["DQN"].create(critic_network=DiscreteCritic(features=(8,), n_actions=n))


@one_of_each
def test_actions_that_are_no_integers_are_refused(name):
    row = LEARNERS[name]
    batch = row.batch()
    actions = batch["actions"].astype(np.float32)
    with pytest.raises(TypeError, match="integer actions, got an example of type float32"):
        row.learner.create(0, batch["observations"], actions, **row.kwargs)
    with pytest.raises(TypeError, match="'actions' must be integers"):
        row.create().update({**batch, "actions": actions})


@one_of_each
def test_a_policy_network_is_refused_where_there_is_no_policy(name):
    with pytest.raises(TypeError, match="no field 'actor_network'"):
        LEARNERS[name].create(actor_network=Linear())
