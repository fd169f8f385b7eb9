"""Distributions of actions that are made of parts."""

import jax
import jax.numpy as jnp
import numpy as np
import trees

from jaxagents import ops

KEY = jax.random.key(0)
LOGITS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
MEAN = np.random.default_rng(1).normal(size=(4, 2)).astype(np.float32)
CATEGORICAL = ops.Categorical(jnp.asarray(LOGITS))
GAUSSIAN = ops.Gaussian(jnp.asarray(MEAN), jnp.full(2, -0.5))
GREEDY = ops.EpsilonGreedy(jnp.asarray(LOGITS), 0.3)
JOINT = ops.Joint({"turn": CATEGORICAL, "legs": (GAUSSIAN, GREEDY)})


def test_log_probs_and_entropies_are_the_sums_of_those_of_the_parts():
    action = JOINT.sample(KEY)
    assert set(action) == {"turn", "legs"}
    legs = [part.log_prob(a) for part, a in zip((GAUSSIAN, GREEDY), action["legs"], strict=True)]
    expected = np.asarray(CATEGORICAL.log_prob(action["turn"])) + legs[0] + legs[1]
    np.testing.assert_allclose(JOINT.log_prob(action), expected, rtol=1e-6)
    entropies = [part.entropy() for part in (CATEGORICAL, GAUSSIAN, GREEDY)]
    np.testing.assert_allclose(JOINT.entropy(), np.sum(entropies, axis=0), rtol=1e-6)


def test_the_mode_is_that_of_every_part():
    trees.assert_equal(
        JOINT.mode(), {"turn": CATEGORICAL.mode(), "legs": (GAUSSIAN.mode(), GREEDY.mode())}
    )


def test_parts_are_drawn_independently_each_with_its_distribution():
    n = 20_000
    draws = jax.vmap(JOINT.sample)(jax.random.split(KEY, n))
    turns, (legs, greedy) = draws["turn"][:, 0], draws["legs"]
    probabilities = np.exp(LOGITS[0]) / np.exp(LOGITS[0]).sum()
    shares = np.bincount(turns, minlength=3) / n
    np.testing.assert_allclose(shares, probabilities, atol=0.02)
    np.testing.assert_allclose(legs[:, 0].mean(axis=0), MEAN[0], atol=0.02)
    assert np.mean(greedy[:, 0] == LOGITS[0].argmax()) > 0.7
    together = np.corrcoef(turns == 0, greedy[:, 0] == 0)[0, 1]
    assert abs(together) < 0.03


def test_noise_drawn_ahead_gives_actions_of_every_step():
    noise = JOINT.noise(KEY, (5,))
    actions = jax.vmap(JOINT.sample_from)(noise)
    assert {x.shape[:2] for x in jax.tree.leaves(actions)} == {(5, 4)}
    trees.assert_equal(JOINT.sample(KEY), JOINT.sample_from(JOINT.noise(KEY)))


def test_several_discrete_actions_are_one_vector():
    parts = tuple(ops.Categorical(jnp.asarray(LOGITS[:, :n])) for n in (2, 3))
    joint = ops.Joint(parts, stacked=True)
    action = joint.sample(KEY)
    assert action.shape == (4, 2)
    assert joint.mode().shape == (4, 2)
    expected = sum(part.log_prob(action[:, i]) for i, part in enumerate(parts))
    np.testing.assert_allclose(joint.log_prob(action), expected, rtol=1e-6)
    every = np.stack(np.meshgrid([0, 1], [0, 1, 2]), axis=-1).reshape(-1, 1, 2)
    total = np.exp(jax.vmap(joint.log_prob)(jnp.broadcast_to(every, (6, 4, 2)))).sum(axis=0)
    np.testing.assert_allclose(total, 1.0, rtol=1e-5)
