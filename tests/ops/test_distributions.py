"""Densities against formulas and integrals, samples against JAX's own; masks, bounds, batch axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees

from jaxagents import ops

KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, 20_000)
RNG = np.random.default_rng(0)
LOW, HIGH = np.array([[-2.0, 0.5], [3.0, 0.75]], np.float32)

sample = jax.jit(lambda distribution, key: distribution.sample(key))
log_prob = jax.jit(lambda distribution, action: distribution.log_prob(action))
entropy = jax.jit(lambda distribution: distribution.entropy())
mode = jax.jit(lambda distribution: distribution.mode())
draw = jax.jit(jax.vmap(lambda distribution, key: distribution.sample(key), in_axes=(None, 0)))


@jax.jit
def log_probs_of_all(distribution, actions):
    """Log-probabilities of every discrete action, the actions last."""
    rows = jnp.broadcast_to(actions[:, None], (len(actions), 4))
    return jax.vmap(distribution.log_prob, out_axes=-1)(rows)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def normal_log_density(x, mean, std):
    return -0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)


def gaussian(mean, std, event_ndim=1):
    return ops.Gaussian(np.float32(mean), np.log(np.float32(std)), event_ndim)


def squashed(mean, std, low=LOW, high=HIGH):
    return ops.TanhGaussian(gaussian(mean, std), low, high)


def assert_finite(tree):
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


# Discrete actions.

MASKED_LOGITS = np.tile(np.float32([0.5, -np.inf, -1.0, 2.0, -np.inf]), (4, 1))


@pytest.mark.parametrize(
    "logits",
    [
        *(np.tile(MASKED_LOGITS, n) for n in (1, 2)),
        np.float32([[0.0, -1e4, 1e4]] * 4),
    ],
    ids=["few", "many", "extreme"],
)
def test_a_categorical_has_the_softmax_of_its_logits(logits):
    n_actions = logits.shape[-1]

    @jax.jit
    def found(logits):
        def log_probs(z):
            return log_probs_of_all(ops.Categorical(z), np.arange(n_actions))

        gradients = (
            jax.grad(lambda z: ops.Categorical(z).entropy().sum())(logits),
            jax.grad(lambda z: log_probs(z)[:, 0].sum())(logits),
        )
        distribution = ops.Categorical(logits)
        return log_probs(logits), distribution.entropy(), distribution.mode(), *gradients

    z = np.float64(logits) - logits.max(axis=-1, keepdims=True)
    log_probs = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    probs = np.exp(log_probs)
    finite = np.where(probs > 0.0, log_probs, 0.0)
    entropies = -(probs * finite).sum(axis=-1)
    expected = (
        log_probs,
        entropies,
        probs.argmax(axis=-1),
        -probs * (finite + entropies[:, None]),
        np.eye(n_actions)[0] - probs,
    )
    for x, y in zip(found(logits), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_actions_are_those_of_jax():
    keys = KEYS[:100]
    expected = jax.vmap(jax.random.categorical, in_axes=(0, None))(keys, MASKED_LOGITS)
    np.testing.assert_array_equal(draw(ops.Categorical(MASKED_LOGITS), keys), expected)


VALUES = normal(4, 5)
ON_DEVICE = jnp.asarray(VALUES)


@pytest.mark.parametrize(
    "distribution", [ops.Categorical(VALUES), ops.EpsilonGreedy(VALUES, np.float32([0.5] * 4))]
)
def test_actions_that_do_not_exist_have_no_probability(distribution):
    np.testing.assert_array_equal(log_probs_of_all(distribution, np.array([-1, 5])), -np.inf)


def test_where_nothing_is_allowed_everything_is():
    logits = jnp.arange(6.0).reshape(2, 3)
    mask = np.array([[False, False, False], [True, False, False]])
    masked = ops.Categorical(logits).masked(mask).logits
    np.testing.assert_array_equal(masked, [logits[0], [3.0, -np.inf, -np.inf]])
    of_all = ops.Categorical(logits).masked(mask[1]).logits
    np.testing.assert_array_equal(of_all, np.where(mask[1], logits, -np.inf))


def test_epsilon_is_broadcast_and_a_single_action_certain():
    @jax.jit
    def outputs(epsilon):
        greedy = ops.EpsilonGreedy(ON_DEVICE, epsilon)
        alone = ops.EpsilonGreedy(jnp.float32([2.0]), epsilon.mean())
        numbers = greedy.sample(KEY), greedy.log_prob(jnp.arange(4)), greedy.entropy()
        return numbers, (alone.sample(KEY), alone.log_prob(jnp.int32(0)), alone.entropy())

    (one_for_all, certain), (each, _) = outputs(np.float32(0.3)), outputs(np.full(4, 0.3, "f"))
    trees.assert_equal(one_for_all, each)
    assert certain == (0, 0, 0)


def test_a_temperature_divides_the_logits_and_zero_leaves_the_mode():
    tempered = jax.jit(ops.Categorical.tempered)
    for temperature in (0.5, 2.0):
        found = tempered(ops.Categorical(VALUES), temperature).logits
        np.testing.assert_allclose(found, VALUES / temperature, rtol=1e-6)
    cold = tempered(ops.Categorical(MASKED_LOGITS), 0.0)
    assert (draw(cold, KEYS[:100]) == 3).all()
    np.testing.assert_array_equal(entropy(cold), 0.0)


MASKS = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], bool)


@pytest.mark.parametrize(
    ("epsilon", "mask"),
    [(np.float32([0.0, 0.1, 0.5, 1.0]), None), (np.full(4, 0.4, np.float32), MASKS)],
)
def test_epsilon_greedy_is_greedy_but_for_a_share_among_the_allowed(epsilon, mask):
    distribution = ops.EpsilonGreedy(VALUES, epsilon, mask)
    every = np.ones((4, 5), bool)
    allowed = every if mask is None else np.where(mask.any(-1, keepdims=True), mask, every)
    greedy = np.where(allowed, VALUES, -np.inf).argmax(axis=-1)
    shares = allowed / allowed.sum(axis=-1, keepdims=True)
    probs = shares * epsilon[:, None] + (1.0 - epsilon[:, None]) * np.eye(5)[greedy]
    log_probs = log_probs_of_all(distribution, np.arange(5))
    np.testing.assert_allclose(np.exp(log_probs), probs, rtol=1e-5)
    np.testing.assert_array_equal(np.isneginf(log_probs), probs == 0.0)
    entropies = -(probs * np.log(np.where(probs > 0.0, probs, 1.0))).sum(axis=-1)
    np.testing.assert_allclose(entropy(distribution), entropies, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(mode(distribution), greedy)
    samples = np.asarray(draw(distribution, KEYS))
    counts = np.stack([np.bincount(column, minlength=5) for column in samples.T])
    deviations = np.sqrt(len(KEYS) * probs * np.maximum(1.0 - probs, 0.0))
    assert (np.abs(counts - len(KEYS) * probs) <= 5.0 * deviations + 1e-2).all()


# Real numbers.


@pytest.mark.parametrize(("event_ndim", "batch"), [(0, (4, 2, 3)), (2, (4,))])
def test_a_gaussian_action_is_made_of_the_trailing_axes(event_ndim, batch):
    mean, action = normal(2, 4, 2, 3)
    distribution = gaussian(mean, 0.5, event_ndim)
    components = normal_log_density(np.float64(action), mean, 0.5)
    expected = components.reshape(*batch, -1).sum(axis=-1)
    np.testing.assert_allclose(log_prob(distribution, action), expected, rtol=1e-4, atol=1e-5)
    n_components = 24 // np.prod(batch)
    expected = np.full(batch, n_components * 0.5 * np.log(2.0 * np.pi * np.e * 0.5**2))
    np.testing.assert_allclose(entropy(distribution), expected, rtol=1e-5)
    noise = jax.random.normal(KEY, mean.shape)
    np.testing.assert_allclose(sample(distribution, KEY), mean + 0.5 * noise, rtol=1e-5)
    np.testing.assert_array_equal(mode(distribution), mean)


def test_a_squashed_gaussian_is_a_change_of_variables():
    mean, std, u = RNG.uniform(0.3, 1.2, (3, 4, 2))

    def squash(u):
        return LOW + 0.5 * (HIGH - LOW) * (np.tanh(u) + 1.0)

    slope = 0.5 * np.float64(HIGH - LOW) * (1.0 - np.tanh(u) ** 2)
    expected = (normal_log_density(u, mean, std) - np.log(slope)).sum(axis=-1)
    distribution = squashed(mean, std)
    found = log_prob(distribution, np.float32(squash(u)))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(mode(distribution), squash(mean), rtol=1e-6)
    expected = squash(sample(distribution.base, KEY))
    np.testing.assert_allclose(sample(distribution, KEY), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("mean", "std", "tolerance"), [(0.0, 0.1, 1e-4), (-1.0, 1.0, 1e-3), (0.5, 2.0, 1e-2)]
)
def test_the_entropy_of_a_squashed_gaussian_is_an_integral(mean, std, tolerance):
    u, du = np.linspace(-30.0, 30.0, 100_000, retstep=True)
    log_density = normal_log_density(u, mean, std)
    log_slope = -2.0 * np.logaddexp(u, -u) + 2.0 * np.log(2.0) + np.log(2.5)
    expected = -(np.exp(log_density) * (log_density - log_slope)).sum() * du
    found = entropy(squashed([mean], [std], LOW[:1], HIGH[:1]))
    np.testing.assert_allclose(found, expected, atol=tolerance)


def test_squashed_samples_lie_within_the_bounds_even_where_the_base_saturates():
    low, high = np.sort(normal(2, 500), axis=0)
    for mean in (-20.0, 0.0, 20.0):
        distribution = squashed(np.full(500, mean), 3.0, low, high)
        actions = np.stack([*draw(distribution, KEYS[:10]), mode(distribution)])
        assert (low <= actions).all()
        assert (actions <= high).all()


def test_squashed_log_probs_samples_and_their_gradients_are_finite_up_to_the_bounds():
    def outputs(mean, log_std, action):
        distribution = ops.TanhGaussian(ops.Gaussian(mean, log_std), LOW, HIGH)
        return distribution.log_prob(action), distribution.sample(KEY).sum()

    inwards = [np.nextafter(LOW, HIGH), np.nextafter(HIGH, LOW)]
    distances = np.array([1e-7, 1e-6, 1e-5, 1e-3])[:, None] * (HIGH - LOW)
    actions = np.stack([LOW, HIGH, *inwards, *(LOW + distances), *(HIGH - distances)])
    gradients = jax.vmap(jax.jacrev(outputs, argnums=(0, 1, 2)), in_axes=(None, None, 0))
    given = np.float32([0.3, -8.0]), np.float32([0.0, -1.0]), np.float32(actions)
    (of_log_prob, of_sample), values = jax.jit(
        lambda *x: (gradients(*x), jax.vmap(outputs, (None, None, 0))(*x))
    )(*given)
    assert_finite((of_log_prob, of_sample, values))
    assert (of_sample[0][:, 0] > 0.0).all()


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_log_probs_of_actions_of_few_digits_are_finite_at_the_bounds(dtype):
    low, high = jnp.asarray([-1.0, 0.5], dtype), jnp.asarray([1.0, 0.75], dtype)
    for precision in (dtype, jnp.float32):
        base = ops.Gaussian(jnp.zeros(2, precision), jnp.zeros(2, precision))
        for action in (low, high):
            expected = log_prob(squashed(np.zeros(2), np.ones(2), low, high), np.float32(action))
            found = log_prob(ops.TanhGaussian(base, low, high), action)
            np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_a_squashed_sample_comes_with_its_true_log_prob_also_at_the_bound():
    both = jax.jit(lambda d: (*d.sample_and_log_prob(KEY), d.sample(KEY), d.base.sample(KEY)))
    inside = squashed([0.5, -1.0], [0.3, 0.5])
    action, log_density, sampled, _ = both(inside)
    np.testing.assert_array_equal(action, sampled)
    np.testing.assert_allclose(log_density, log_prob(inside, action), rtol=1e-3, atol=1e-4)
    outside = squashed([30.0, -30.0], [0.1, 0.1], np.full(2, -1.0, "f"), np.ones(2, "f"))
    action, log_density, _, u = both(outside)
    np.testing.assert_allclose(action, [1.0, -1.0])
    slope = 2.0 * (np.log(2.0) - np.abs(np.float64(u)))  # of tanh, where exp(-2 |u|) vanishes
    expected = (normal_log_density(u, np.array([30.0, -30.0]), 0.1) - slope).sum()
    np.testing.assert_allclose(log_density, expected, rtol=1e-4)
    assert np.isfinite(log_prob(outside, action))


# All of them.

PARAMETERS = normal(3, 2)


def categorical_of(x):
    return ops.Categorical(jnp.concatenate([x, -x], axis=-1))


def epsilon_greedy_of(x):
    return ops.EpsilonGreedy(jnp.concatenate([x, -x], axis=-1), jax.nn.sigmoid(x.sum(axis=-1)))


def gaussian_of(x):
    return ops.Gaussian(x, 0.1 * x)


def tanh_gaussian_of(x):
    return ops.TanhGaussian(gaussian_of(x), *(jnp.broadcast_to(y, x.shape) for y in (LOW, HIGH)))


@pytest.mark.parametrize("make", [categorical_of, gaussian_of, tanh_gaussian_of])
def test_noise_is_known_before_the_parameters(make):
    unknown = jax.eval_shape(make, PARAMETERS)

    @jax.jit
    def drawn(x):
        distribution, many = make(x), unknown.noise(KEY, (4, 5))
        of_many = jax.vmap(jax.vmap(distribution.sample_from))(many)
        alone = distribution.sample_from(unknown.noise(KEY)), distribution.sample(KEY)
        return *alone, many, of_many

    action, same, many, of_many = drawn(PARAMETERS)
    np.testing.assert_array_equal(action, same)
    assert of_many.shape == (4, 5, *action.shape)
    assert len(np.unique(many)) == many.size


# Actions that are made of parts.


def test_the_parts_of_a_joint_action_are_drawn_independently():
    def joint(legs, greedy, turn):
        return ops.Joint({"turn": turn, "legs": (legs, greedy)})

    @jax.jit
    def found(legs, greedy, turn):
        keys, both = jax.random.split(KEY, 3), joint(legs, greedy, turn)
        of_greedy = greedy.sample(jax.random.split(keys[1], ()))
        parts = {"legs": (legs.sample(keys[0]), of_greedy), "turn": turn.sample(keys[2])}
        action = both.sample(KEY)
        pairs = [(legs, action["legs"][0]), (greedy, action["legs"][1]), (turn, action["turn"])]
        log_probs, entropies = zip(*((d.log_prob(x), d.entropy()) for d, x in pairs), strict=True)
        modes = {"legs": (legs.mode(), greedy.mode()), "turn": turn.mode()}
        separate = parts, modes, sum(log_probs), sum(entropies)
        return (action, both.mode(), both.log_prob(action), both.entropy()), separate

    given = gaussian_of(PARAMETERS), epsilon_greedy_of(PARAMETERS), categorical_of(PARAMETERS)
    whole, separate = found(*given)
    trees.assert_equal(whole[:2], separate[:2])
    trees.assert_close(whole[2:], separate[2:])
    ahead = jax.eval_shape(lambda d: jax.vmap(d.sample_from)(d.noise(KEY, (5,))), joint(*given))
    assert {x.shape[:2] for x in jax.tree.leaves(ahead)} == {(5, 3)}


def test_several_discrete_actions_are_one_vector():
    every = np.stack(np.meshgrid([0, 1], [0, 1, 2]), axis=-1).reshape(-1, 1, 2)

    @jax.jit
    def found(values):
        parts = ops.Categorical(values[:, :2]), ops.Categorical(values[:, 2:])
        joint = ops.Joint(parts, stacked=True)
        action = joint.sample(KEY)
        separate = sum(part.log_prob(action[:, i]) for i, part in enumerate(parts))
        of_all = jax.vmap(joint.log_prob)(np.broadcast_to(every, (6, 4, 2)))
        return action, joint.mode(), joint.log_prob(action), separate, of_all

    action, mode, log_prob, separate, of_all = found(VALUES)
    assert action.shape == mode.shape == (4, 2)
    np.testing.assert_allclose(log_prob, separate, rtol=1e-5)
    np.testing.assert_allclose(np.exp(of_all).sum(axis=0), 1.0, rtol=1e-5)
