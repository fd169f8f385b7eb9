"""Q-learners against references in NumPy, whose gradients are finite differences."""

import functools
import pickle
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import linear
import numpy as np
import pytest
from learner_registry import LEARNERS
from linear import N_ACTIONS, OBS_DIM, batch_with, softmax
from trees import assert_close, assert_equal, equal

from jaxagents.c51 import C51Learner
from jaxagents.dqn import DDQNLearner, DQNLearner
from jaxagents.learners.learner import Learner
from jaxagents.learners.q_learning import QLearner
from jaxagents.networks import DuelingCritic
from jaxagents.qrdqn import QRDQNLearner

N_ATOMS, N_QUANTILES = 13, 4
ROWS = np.arange(16)
SUPPORT = {"v_min": -2.0, "v_max": 4.0}
LEARNING_RATE = 0.2
KEY = jax.random.key(0)


# The formulas of the papers, for linear networks.


def discounts(batch, hp):
    """Zero where nothing follows."""
    return batch.get("discounts", hp["gamma"]) * batch["masks"]


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
        """A learner with linear networks and a different target network."""
        network = linear.ActionValues(self.outputs)
        rates = {"critic_learning_rate": LEARNING_RATE, "gamma": 0.9, "tau": 0.3}
        fields = {"critic_network": network, **rates, **self.fields, **kwargs}
        return linear.create(self.learner, **fields)


ATOMS = {"n_atoms": N_ATOMS, **SUPPORT}
QUANTILES = {"n_quantiles": N_QUANTILES}
REFERENCES = {
    "DQN": Reference(DQNLearner, dqn_targets, huber_losses),
    "DDQN": Reference(DDQNLearner, ddqn_targets, huber_losses),
    "C51": Reference(C51Learner, c51_targets, c51_losses, (N_ATOMS,), ATOMS),
    "QRDQN": Reference(QRDQNLearner, qrdqn_targets, qrdqn_losses, (N_QUANTILES,), QUANTILES),
}
every_reference = pytest.mark.parametrize("name", REFERENCES)
BATCH = batch_with(DQNLearner)
OBS = BATCH["observations"]


def numbers_of(learner):
    """The weights of both networks, and the hyperparameters."""
    hyperparams = {k: float(v) for k, v in vars(learner.hyperparams).items()}
    return *linear.weights_of(learner, "critic", "target_critic"), hyperparams


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
def test_targets_are_those_of_the_paper_and_of_allowed_actions(name):
    reference, allowed = REFERENCES[name], [1, 2]
    learner = reference.create()
    weights, target_weights, hp = numbers_of(learner)
    mask = np.broadcast_to(np.isin(np.arange(N_ACTIONS), allowed), (16, N_ACTIONS))
    seen = {"observation": BATCH["next_observations"], "action_mask": mask}
    chosen = [({}, reference.targets)]
    if reference.outputs:
        double = functools.partial(reference.targets, chooses=0)
        chosen.append(({"double": True}, double))
    for fields, targets in chosen:
        learner = learner.replace(config=learner.config.replace(**fields))
        expected = targets(weights, target_weights, BATCH, hp)
        of_allowed = targets(weights[:, allowed], target_weights[:, allowed], BATCH, hp)
        assert not np.allclose(expected, of_allowed)
        batch = jax.tree.map(jnp.asarray, BATCH)
        found = jax.jit(reference.learner._q_target)
        assert_close(found(learner, batch), expected)
        assert_close(found(learner, {**batch, "next_observations": seen}), of_allowed)


@pytest.mark.parametrize(
    ("name", "fields", "further"),
    [
        ("DQN", {}, ()),
        ("DQN", {}, linear.ALL),
        ("C51", {}, linear.ALL),
        ("QRDQN", {}, linear.ALL),
        ("QRDQN", {"kappa": 0.4}, linear.ALL),
        ("QRDQN", {"kappa": 0.0}, linear.ALL),
    ],
    ids=str,
)
def test_updates_are_those_of_the_paper(name, fields, further):
    reference = REFERENCES[name]
    learner = reference.create(**fields)
    for seed in range(2):
        batch = batch_with(DQNLearner, further, seed)
        weights, target_weights, hp = numbers_of(learner)
        targets = reference.targets(weights, target_weights, batch, hp)

        def loss(x, batch=batch, targets=targets, hp=hp):
            losses, _, _ = reference.losses(x, batch, targets, hp)
            return (batch.get("weights", 1.0) * losses).mean()

        _, q, td_errors = reference.losses(weights, batch, targets, hp)
        expected_info = {"critic_loss": loss(weights), "q": q.mean()}
        if "weights" in batch:
            expected_info["td_errors"] = td_errors
        if name == "DQN":
            assert 0 < (td_errors < 1.0).sum() < 16
        moved_weights = weights - LEARNING_RATE * slope(loss, weights)

        learner, info = learner.update(batch)
        assert info.keys() == expected_info.keys()
        assert_close({name: info[name] for name in expected_info}, expected_info)
        target = 0.3 * moved_weights + 0.7 * target_weights
        assert_close(linear.weights_of(learner, "critic", "target_critic"), [moved_weights, target])


def test_the_target_moves_at_each_period():
    tau, learner = 0.3, REFERENCES["DQN"].create(target_update_period=3)
    for step in range(1, 7):
        moved, _ = learner.update(batch_with(DQNLearner, seed=step))
        (old,), critic, new = (
            linear.weights_of(learner, "target_critic"),
            *linear.weights_of(moved, "critic", "target_critic"),
        )
        expected = old if step % 3 else tau * critic + (1.0 - tau) * old
        np.testing.assert_allclose(new, expected, rtol=1e-6, atol=1e-7)
        assert (new == old).all() == (step % 3 != 0)
        learner = moved
    assert learner.critic.step == 6


# Acting.


@every_reference
def test_greedy_actions_have_the_largest_mean_return(name):
    reference = REFERENCES[name]
    learner = reference.create(epsilon=1.0)
    outputs = np.tensordot(OBS, numbers_of(learner)[0], 1)
    if name == "C51":
        outputs = N_ATOMS * softmax(outputs) * atoms()
    values = outputs.mean(axis=-1) if reference.outputs else outputs
    assert_close(learner.q(OBS), values)
    for kwargs in ({"temperature": 5.0}, {"seed": KEY, "temperature": 0.0}):
        actions = learner.sample_actions(OBS, **kwargs)
        np.testing.assert_array_equal(actions, values.argmax(axis=-1))


def test_a_share_of_the_actions_is_drawn_uniformly():
    learner, obs = REFERENCES["DQN"].create(epsilon=0.3), OBS[:2]
    many = np.broadcast_to(obs, (10_000, 2, OBS_DIM))
    greedy = (obs @ numbers_of(learner)[0]).argmax(axis=-1)
    for temperature, epsilon in [(1.0, 0.3), (0.5, 0.15), (2.0, 0.6), (100.0, 1.0)]:
        actions = learner.sample_actions(many, seed=KEY, temperature=temperature)
        frequencies = np.eye(N_ACTIONS)[np.asarray(actions)].mean(axis=0)
        expected = epsilon / N_ACTIONS + (1.0 - epsilon) * np.eye(N_ACTIONS)[greedy]
        np.testing.assert_allclose(frequencies, expected, atol=0.02)


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
    batch = batch_with(DQNLearner, ["weights"])
    learner = REFERENCES["DQN"]._replace(learner=Cautious).create()
    weights, _, _ = numbers_of(learner)
    taken, values = np.eye(N_ACTIONS)[batch["actions"]], -2.0 * OBS @ weights
    q = (values * taken).sum(axis=-1)
    errors = q - batch["rewards"]
    gradient = OBS.T @ (taken * (-4.0 * batch["weights"] * errors)[:, None]) / 16
    moved, info = learner.update(batch)
    assert_close(moved.critic.params["weights"], weights - LEARNING_RATE * gradient)
    expected_info = {
        "critic_loss": (batch["weights"] * errors**2).mean(),
        "largest": values.max(axis=-1).mean(),
        "td_errors": q,
    }
    assert info.keys() == expected_info.keys()
    assert_close({name: info[name] for name in expected_info}, expected_info)
    np.testing.assert_array_equal(learner.sample_actions(OBS), (OBS @ weights).argmin(axis=-1))
    assert_equal(pickle.loads(pickle.dumps(learner)).update(batch)[0], moved)


def shapes_after_an_update(learner):
    row, batch = LEARNERS["DQN"]._replace(learner=learner), batch_with(DQNLearner, ["weights"])
    return jax.eval_shape(lambda: row.create().update(batch))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (jnp.mean, r"\(\), such as their mean"),
        (lambda x: x[:, None], r"\(16, 1\): is one of its arrays"),
    ],
)
def test_losses_of_another_shape_are_named(change, found):
    class Misshapen(Cautious):
        def _loss(self, *args):
            losses, info = super()._loss(*args)
            return change(losses), info

    message = (
        rf"Misshapen._loss must return one loss for each sample, shape \(16,\), got shape {found}"
    )
    with pytest.raises(ValueError, match=message):
        shapes_after_an_update(Misshapen)


def test_losses_alone_are_enough():
    class Silent(Cautious):
        def _loss(self, *args):
            return super()._loss(*args)[0]

    assert shapes_after_an_update(Silent)[1].keys() == {"critic_loss"}


def test_a_hook_for_the_values_decides_actions_and_targets():
    class Pessimistic(C51Learner):
        def _q(self, params, obs):
            return jax.nn.softmax(self._logits(params, obs))[..., 0]

    plain = REFERENCES["C51"].create()
    learner = Pessimistic(**{name: x for name, x in vars(plain).items() if name != "learner_type"})
    logits = np.tensordot(OBS, numbers_of(learner)[0], 1)
    expected = softmax(logits)[..., 0].argmax(axis=-1)
    np.testing.assert_array_equal(learner.sample_actions(OBS), expected)
    assert (plain.sample_actions(OBS) != expected).any()
    batch = jax.tree.map(jnp.asarray, BATCH)
    assert not np.allclose(*jax.jit(lambda: [it._q_target(batch) for it in (plain, learner)])())


# Networks.


@pytest.mark.parametrize("name", ["DQN", "C51", "QRDQN"])
def test_default_networks_may_have_two_streams(name):
    def network(dueling):
        learner = LEARNERS[name].create(dueling=dueling)
        return learner.critic, learner.critic(jnp.asarray(OBS))

    plain, outputs = jax.eval_shape(lambda: network(dueling=False))
    dueling, outputs_of_streams = jax.eval_shape(lambda: network(dueling=True))
    assert not isinstance(plain.model_def, DuelingCritic)
    assert isinstance(dueling.model_def, DuelingCritic)
    assert outputs.shape == outputs_of_streams.shape
    assert outputs.shape[:2] == (16, N_ACTIONS)


@pytest.fixture(scope="module")
def noisy():
    """A learner that explores by noise alone, and does not learn."""
    return LEARNERS["DQN"].create(noisy=True, epsilon=0.0, critic_learning_rate=0.0, tau=0.0)


MANY = np.random.default_rng(0).normal(size=(128, OBS_DIM)).astype(np.float32)


def test_noise_is_drawn_for_actions_that_are_not_greedy(noisy):
    def drawn(key, temperature=1.0):
        return np.asarray(noisy.sample_actions(MANY, seed=key, temperature=temperature))

    greedy = np.asarray(noisy.q(MANY)).argmax(axis=-1)
    np.testing.assert_array_equal(noisy.sample_actions(MANY), greedy)
    np.testing.assert_array_equal(drawn(KEY, temperature=0.0), greedy)
    keys = jax.random.split(KEY)
    first, second = drawn(keys[0]), drawn(keys[1])
    assert (first != greedy).any()
    assert (first != second).any()
    np.testing.assert_array_equal(first, drawn(keys[0]))


def test_noise_is_drawn_for_each_update_in_each_network(noisy):
    with_noise = jax.jit(lambda learner: learner.with_noise(KEY))(noisy)
    assert not equal(with_noise.critic.params, with_noise.target_critic.params)
    later, info = noisy.update(BATCH)
    assert_equal(later.critic.params, noisy.critic.params)
    _, later_info = later.update(BATCH)
    assert info["critic_loss"] != later_info["critic_loss"]
    _, others = noisy.replace(rng=KEY).update(BATCH)
    assert info["critic_loss"] != others["critic_loss"]
