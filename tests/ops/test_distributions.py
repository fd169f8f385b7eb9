"""Densities against formulas, integrals and samples; masks, bounds, batch axes and transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees

from jaxagents import ops

N_SAMPLES = 50_000
LOW, HIGH = np.array([[-2.0, 0.5], [3.0, 0.75]], np.float32)
ALLOWED = np.array([0, 2, 3])
MASKED = ops.Categorical(jnp.array([0.5, -jnp.inf, -1.0, 2.0, -jnp.inf]))


sample = jax.jit(lambda distribution, key: distribution.sample(key))
log_prob = jax.jit(lambda distribution, action: distribution.log_prob(action))
entropy = jax.jit(lambda distribution: distribution.entropy())
log_probs_of_all = jax.jit(jax.vmap(log_prob, in_axes=(None, 0)))
draw_all = jax.jit(jax.vmap(sample, in_axes=(None, 0)))


def draw(distribution, n_samples=N_SAMPLES, seed=0):
    return np.asarray(draw_all(distribution, jax.random.split(jax.random.key(seed), n_samples)))


def midpoints(low, high, n):
    edges = np.linspace(low, high, n + 1)
    return (edges[1:] + edges[:-1]) / 2.0, edges[1] - edges[0]


def normal_log_density(x, mean, std):
    return -0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2.0 * np.pi)


def gaussian(mean, std, event_ndim=1):
    return ops.Gaussian(jnp.asarray(mean), jnp.log(jnp.asarray(std)), event_ndim)


def squashed(mean, std, low=LOW, high=HIGH):
    return ops.TanhGaussian(gaussian(mean, std), low, high)


def assert_finite(tree):
    for leaf in jax.tree.leaves(tree):
        assert jnp.isfinite(leaf).all()


def assert_mean(samples, expected):
    standard_error = samples.std(axis=0) / np.sqrt(len(samples))
    assert (np.abs(samples.mean(axis=0) - expected) < 5.0 * standard_error).all()


class TestCategorical:
    logits = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    distribution = ops.Categorical(jnp.asarray(logits))
    probs = np.exp(np.float64(logits)) / np.exp(np.float64(logits)).sum(axis=-1, keepdims=True)

    @pytest.mark.parametrize("n_actions", [1, 2, 6, 7, 18])
    def test_few_and_many_actions(self, n_actions):
        logits = np.random.default_rng(1).normal(size=(4, n_actions))
        probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        categorical = ops.Categorical(jnp.float32(logits))
        found = np.stack([categorical.log_prob(jnp.full(4, a)) for a in range(n_actions)], axis=-1)
        np.testing.assert_allclose(found, np.log(probs), rtol=1e-5, atol=1e-6)
        entropy = -(probs * np.log(probs)).sum(axis=-1)
        np.testing.assert_allclose(categorical.entropy(), entropy, rtol=1e-5, atol=1e-6)
        gradient = jax.grad(lambda z: ops.Categorical(z).entropy().sum())(categorical.logits)
        expected = -probs * (np.log(probs) + entropy[:, None])
        np.testing.assert_allclose(gradient, expected, atol=1e-6)
        gradient = jax.grad(lambda z: ops.Categorical(z).log_prob(jnp.zeros(4, int)).sum())(
            categorical.logits
        )
        np.testing.assert_allclose(gradient, np.eye(n_actions)[0] - probs, atol=1e-6)
        np.testing.assert_array_equal(categorical.mode(), probs.argmax(axis=-1))

    def test_samples_have_the_right_frequencies(self):
        n_samples = 20_000
        samples = draw(self.distribution, n_samples)
        assert samples.shape == (n_samples, 3)
        for actor in range(3):
            expected = n_samples * self.probs[actor]
            counts = np.bincount(samples[:, actor], minlength=5)
            z = (counts - expected) / np.sqrt(expected * (1.0 - self.probs[actor]))
            assert (np.abs(z) < 5.0).all()

    def test_actions_that_do_not_exist_have_no_probability(self):
        for action in (-1, 5):
            log_probs = self.distribution.log_prob(jnp.full(len(self.probs), action))
            np.testing.assert_array_equal(log_probs, -np.inf)

    def test_masked_actions_have_no_probability(self):
        log_probs = log_probs_of_all(MASKED, jnp.arange(5))
        allowed = ops.Categorical(MASKED.logits[ALLOWED])
        alone = log_probs_of_all(allowed, jnp.arange(3))
        np.testing.assert_allclose(log_probs[ALLOWED], alone, rtol=1e-6)
        np.testing.assert_array_equal(np.delete(log_probs, ALLOWED), -np.inf)
        np.testing.assert_allclose(MASKED.entropy(), allowed.entropy(), rtol=1e-6)
        assert MASKED.mode() == 3
        assert np.isin(draw(MASKED, 1000), ALLOWED).all()

    def test_masked_actions_have_no_gradient(self):
        for function in (lambda d: d.entropy(), lambda d: d.log_prob(jnp.array(2))):
            value_and_gradient = jax.value_and_grad(lambda z, f=function: f(ops.Categorical(z)))
            value, gradient = value_and_gradient(MASKED.logits)
            assert_finite((value, gradient))
            np.testing.assert_array_equal(np.delete(gradient, ALLOWED), 0.0)
        entropy_gradient = jax.grad(lambda z: ops.Categorical(z).entropy())
        gradient, alone = map(entropy_gradient, (MASKED.logits, MASKED.logits[ALLOWED]))
        np.testing.assert_allclose(gradient[ALLOWED], alone, rtol=1e-5, atol=1e-6)

    def test_where_nothing_is_allowed_everything_is(self):
        logits = jnp.arange(6.0).reshape(2, 3)
        mask = np.array([[False, False, False], [True, False, False]])
        masked = ops.Categorical(logits).masked(mask)
        np.testing.assert_array_equal(masked.logits[0], logits[0])
        np.testing.assert_array_equal(masked.logits[1], [3.0, -np.inf, -np.inf])
        assert_finite((masked.entropy(), masked.log_prob(jnp.array([2, 0]))))
        of_all = ops.Categorical(logits).masked(mask[1])
        np.testing.assert_array_equal(of_all.logits, np.where(mask[1], logits, -np.inf))

    def test_extreme_logits_stay_finite(self):
        logits = jnp.array([0.0, -1e4, 1e4])
        value, gradient = jax.value_and_grad(lambda z: ops.Categorical(z).entropy())(logits)
        assert_finite((value, gradient))
        np.testing.assert_allclose(value, 0.0, atol=1e-6)

    @pytest.mark.parametrize("temperature", [0.5, 2.0])
    def test_a_temperature_divides_the_logits(self, temperature):
        tempered = self.distribution.tempered(temperature)
        np.testing.assert_allclose(tempered.logits, self.logits / temperature, rtol=1e-6)

    def test_at_temperature_zero_only_the_mode_is_left(self):
        cold = jax.jit(ops.Categorical.tempered)(MASKED, 0.0)
        assert (draw(cold, 100) == 3).all()
        assert cold.entropy() == 0.0

    def test_actions_are_those_of_jax(self):
        keys = jax.random.split(jax.random.key(0), 100)
        expected = jax.vmap(jax.random.categorical, in_axes=(0, None))(keys, MASKED.logits)
        np.testing.assert_array_equal(draw_all(MASKED, keys), expected)


MASKS = np.array([[1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], bool)


class TestEpsilonGreedy:
    values = np.random.default_rng(8).normal(size=(4, 5)).astype(np.float32)
    epsilon = np.array([0.0, 0.1, 0.5, 1.0], np.float32)
    distribution = ops.EpsilonGreedy(jnp.asarray(values), jnp.asarray(epsilon))

    @pytest.mark.parametrize(
        ("epsilon", "mask"), [(epsilon, None), (np.full(4, 0.4, np.float32), MASKS)]
    )
    def test_it_is_greedy_but_for_a_share_among_the_allowed(self, epsilon, mask):
        distribution = ops.EpsilonGreedy(jnp.asarray(self.values), epsilon, mask)
        every = np.ones((4, 5), bool)
        allowed = every if mask is None else np.where(mask.any(-1, keepdims=True), mask, every)
        greedy = np.where(allowed, self.values, -np.inf).argmax(axis=-1)
        shares = allowed / allowed.sum(axis=-1, keepdims=True)
        probs = shares * epsilon[:, None] + (1.0 - epsilon[:, None]) * np.eye(5)[greedy]
        log_probs = log_probs_of_all(distribution, jnp.tile(jnp.arange(5)[:, None], 4)).T
        np.testing.assert_allclose(np.exp(log_probs), probs, rtol=1e-5)
        np.testing.assert_array_equal(np.isneginf(log_probs), probs == 0.0)
        entropies = -(probs * np.log(np.where(probs > 0.0, probs, 1.0))).sum(axis=-1)
        np.testing.assert_allclose(distribution.entropy(), entropies, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(distribution.mode(), greedy)
        samples = draw(distribution)
        for row in range(4):
            counts = np.bincount(samples[:, row], minlength=5)
            expected = N_SAMPLES * probs[row]
            deviation = np.sqrt(expected * np.maximum(1.0 - probs[row], 0.0))
            assert (np.abs(counts - expected) <= 5.0 * deviation + 1e-2).all()

    def test_actions_that_do_not_exist_have_no_probability(self):
        for action in (-1, 5):
            log_probs = self.distribution.log_prob(jnp.full(4, action))
            np.testing.assert_array_equal(log_probs, -np.inf)

    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
    def test_epsilon_is_broadcast(self, epsilon):
        one_for_all = ops.EpsilonGreedy(self.distribution.values, epsilon)
        each = ops.EpsilonGreedy(self.distribution.values, jnp.full(4, epsilon))
        key, actions = jax.random.key(0), jnp.arange(4)
        np.testing.assert_array_equal(one_for_all.sample(key), each.sample(key))
        np.testing.assert_array_equal(one_for_all.log_prob(actions), each.log_prob(actions))
        np.testing.assert_array_equal(one_for_all.entropy(), each.entropy())
        assert one_for_all.entropy().shape == (4,)

    def test_a_single_action_is_certain(self):
        alone = ops.EpsilonGreedy(jnp.array([2.0]), 0.5)
        assert (draw(alone, 100) == 0).all()
        assert alone.log_prob(jnp.array(0)) == alone.entropy() == 0.0


class TestGaussian:
    def test_entropy_is_the_expected_surprise(self):
        distribution = gaussian([0.5, -1.0], [0.4, 0.7])
        log_probs = log_probs_of_all(distribution, draw(distribution))
        assert_mean(-np.float64(log_probs), distribution.entropy())
        expected = sum(0.5 * np.log(2.0 * np.pi * np.e * std**2) for std in (0.4, 0.7))
        np.testing.assert_allclose(distribution.entropy(), expected, rtol=1e-5)

    def test_samples_have_the_right_moments(self):
        samples = np.float64(draw(gaussian([0.5, -1.0], [0.4, 2.0])))
        assert_mean(samples, [0.5, -1.0])
        assert_mean((samples - [0.5, -1.0]) ** 2, [0.16, 4.0])
        assert_mean((samples - [0.5, -1.0]).prod(axis=1), 0.0)

    @pytest.mark.parametrize(("event_ndim", "batch"), [(0, (4, 2, 3)), (1, (4, 2)), (2, (4,))])
    def test_an_action_is_made_of_the_trailing_axes(self, event_ndim, batch):
        mean, action = np.random.default_rng(2).normal(size=(2, 4, 2, 3)).astype(np.float32)
        distribution = gaussian(mean, 0.5, event_ndim)
        components = normal_log_density(np.float64(action), mean, 0.5)
        expected = components.reshape(*batch, -1).sum(axis=-1)
        log_prob = distribution.log_prob(jnp.asarray(action))
        assert log_prob.shape == distribution.entropy().shape == batch
        np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-5)
        assert distribution.sample(jax.random.key(0)).shape == (4, 2, 3)
        np.testing.assert_array_equal(distribution.mode(), mean)

    @pytest.mark.parametrize("std", [0.5, [0.5, 2.0], [[0.5], [1.0], [2.0]]], ids=str)
    def test_log_std_is_broadcast(self, std):
        mean = np.random.default_rng(3).normal(size=(3, 2)).astype(np.float32)
        whole = gaussian(mean, np.broadcast_to(std, (3, 2)).astype(np.float32))
        distribution = gaussian(mean, std)
        key, action = jax.random.key(0), jnp.ones((3, 2))
        np.testing.assert_allclose(distribution.log_prob(action), whole.log_prob(action), rtol=1e-6)
        np.testing.assert_allclose(distribution.entropy(), whole.entropy(), rtol=1e-6)
        np.testing.assert_allclose(distribution.sample(key), whole.sample(key), rtol=1e-6)

    def test_gradients_against_the_formula(self):
        def log_prob(mean, log_std):
            return ops.Gaussian(mean, log_std).log_prob(jnp.array([1.0]))

        gradients = jax.grad(log_prob, argnums=(0, 1))(jnp.array([0.2]), jnp.log(jnp.array([0.5])))
        np.testing.assert_allclose(gradients[0], [0.8 / 0.25], rtol=1e-5)
        np.testing.assert_allclose(gradients[1], [0.64 / 0.25 - 1.0], rtol=1e-5)


class TestTanhGaussian:
    def test_log_prob_is_that_of_a_change_of_variables(self):
        mean, std, u = np.random.default_rng(4).uniform(0.3, 1.2, (3, 4, 2))
        action = LOW + 0.5 * (HIGH - LOW) * (np.tanh(u) + 1.0)
        slope = 0.5 * np.float64(HIGH - LOW) * (1.0 - np.tanh(u) ** 2)
        expected = (normal_log_density(u, mean, std) - np.log(slope)).sum(axis=-1)
        log_prob = squashed(mean, std).log_prob(jnp.asarray(action, jnp.float32))
        np.testing.assert_allclose(log_prob, expected, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize(("mean", "std"), [(0.3, 0.2), (-0.5, 0.6), (0.0, 1.0)])
    def test_density_integrates_to_one_over_the_box(self, mean, std):
        distribution = squashed([mean], [std], LOW[:1], HIGH[:1])
        actions, width = midpoints(-2.0, 3.0, 40_000)
        actions = jnp.asarray(actions, jnp.float32)[:, None]
        log_probs = log_probs_of_all(distribution, actions)
        np.testing.assert_allclose(np.exp(np.float64(log_probs)).sum() * width, 1.0, atol=1e-3)

    @pytest.mark.parametrize(("mean", "std"), [(0.0, 0.1), (0.5, 0.5), (-1.0, 1.0)])
    def test_entropy_is_the_expected_surprise(self, mean, std):
        distribution = squashed([mean, -mean], [std, 0.3])
        log_probs = log_probs_of_all(distribution, draw(distribution))
        assert_mean(-np.float64(log_probs), entropy(distribution))

    def test_entropy_of_a_wide_base_is_close(self):
        distribution = squashed([0.5], [2.0], -1.0, 1.0)
        u, du = midpoints(-30.0, 30.0, 100_000)
        density = np.exp(normal_log_density(u, 0.5, 2.0))
        log_slope = -2.0 * np.logaddexp(u, -u) + 2.0 * np.log(2.0)
        expected = -(density * (np.log(density) - log_slope)).sum() * du
        np.testing.assert_allclose(entropy(distribution), expected, atol=1e-2)

    def test_entropy_has_the_gradient_of_its_reparametrised_estimate(self):
        noise = np.random.default_rng(7).normal(size=200_000).astype(np.float32)

        def estimate(mean, log_std):
            u = mean + jnp.exp(log_std) * noise
            log_slope = jnp.log1p(-jnp.square(jnp.tanh(u)))
            return log_std + log_slope.mean()

        def quadrature(mean, log_std):
            return ops.TanhGaussian(ops.Gaussian(mean, log_std, 0), -1.0, 1.0).entropy()

        gradients = [
            jax.jit(jax.grad(function, argnums=(0, 1)))(0.4, -0.5)
            for function in (quadrature, estimate)
        ]
        np.testing.assert_allclose(*gradients, atol=1e-2)

    def test_samples_are_squashed_samples_of_the_base(self):
        distribution = squashed([0.3, -0.4], [0.4, 0.5])
        u = np.arctanh(2.0 * (np.float64(draw(distribution)) - LOW) / (HIGH - LOW) - 1.0)
        assert_mean(u, [0.3, -0.4])
        assert_mean((u - [0.3, -0.4]) ** 2, [0.16, 0.25])

    def test_samples_lie_within_the_bounds_even_where_the_base_saturates(self):
        rng = np.random.default_rng(5)
        low, high = np.sort(rng.normal(size=(2, 500)).astype(np.float32), axis=0)
        for mean in (-20.0, 0.0, 20.0):
            distribution = squashed(np.full(500, mean, np.float32), 3.0, low, high)
            for action in (*draw(distribution, 10), distribution.mode()):
                assert (low <= action).all()
                assert (action <= high).all()

    def test_mode_is_the_squashed_mean_and_the_median(self):
        distribution = squashed([0.3, -0.4], [0.4, 0.5])
        expected = LOW + 0.5 * (HIGH - LOW) * (np.tanh([0.3, -0.4]) + 1.0)
        np.testing.assert_allclose(distribution.mode(), expected, rtol=1e-6)
        share_below = (draw(distribution) < distribution.mode()[None]).mean(axis=0)
        assert (np.abs(share_below - 0.5) < 5.0 * 0.5 / np.sqrt(N_SAMPLES)).all()

    def test_log_prob_and_its_gradients_are_finite_up_to_the_bounds(self):
        def log_prob(mean, log_std, action):
            return ops.TanhGaussian(ops.Gaussian(mean, log_std), LOW, HIGH).log_prob(action)

        inwards = [np.nextafter(LOW, HIGH), np.nextafter(HIGH, LOW)]
        distances = np.array([1e-7, 1e-6, 1e-5, 1e-3])[:, None] * (HIGH - LOW)
        actions = jnp.stack([LOW, HIGH, *inwards, *(LOW + distances), *(HIGH - distances)])
        parameters = (jnp.array([0.3, -8.0]), jnp.array([0.0, -1.0]))
        value_and_gradients = jax.vmap(
            jax.value_and_grad(log_prob, argnums=(0, 1, 2)), in_axes=(None, None, 0)
        )
        assert_finite(jax.jit(value_and_gradients)(*parameters, actions))

    @pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
    def test_log_prob_of_actions_of_few_digits_is_finite_at_the_bounds(self, dtype):
        low, high = jnp.asarray([-1.0, 0.5], dtype), jnp.asarray([1.0, 0.75], dtype)
        for precision in (dtype, jnp.float32):
            base = ops.Gaussian(jnp.zeros(2, precision), jnp.zeros(2, precision))
            distribution = ops.TanhGaussian(base, low, high)
            for action in (low, high):
                expected = squashed(jnp.zeros(2), jnp.ones(2), low, high).log_prob(
                    action.astype(jnp.float32)
                )
                np.testing.assert_allclose(log_prob(distribution, action), expected, rtol=1e-3)

    def test_reparametrised_samples_have_finite_gradients(self):
        def action(mean, log_std):
            base = ops.Gaussian(mean, log_std)
            return ops.TanhGaussian(base, LOW, HIGH).sample(jax.random.key(0)).sum()

        gradient = jax.jit(jax.grad(action, argnums=(0, 1)))
        assert_finite(gradient(jnp.array([0.3, 30.0]), jnp.zeros(2)))
        assert (gradient(jnp.zeros(2), jnp.zeros(2))[0] > 0.0).all()


N_ACTORS = 3
PARAMETERS = jnp.asarray(np.random.default_rng(6).normal(size=(N_ACTORS, 2)), jnp.float32)


def categorical_of(x):
    return ops.Categorical(jnp.concatenate([x, -x], axis=-1))


def epsilon_greedy_of(x):
    return ops.EpsilonGreedy(jnp.concatenate([x, -x], axis=-1), jax.nn.sigmoid(x.sum(axis=-1)))


def gaussian_of(x):
    return ops.Gaussian(x, 0.1 * x)


def tanh_gaussian_of(x):
    low, high = (jnp.broadcast_to(bound, x.shape) for bound in (LOW, HIGH))
    return ops.TanhGaussian(gaussian_of(x), low, high)


@jax.jit
def all_outputs(distribution, action):
    return distribution.log_prob(action), distribution.entropy(), distribution.mode()


every_kind = pytest.mark.parametrize(
    "make", [categorical_of, epsilon_greedy_of, gaussian_of, tanh_gaussian_of]
)


@every_kind
def test_batch_axes_equal_vmapped_and_separate_actors(make):
    distribution = make(PARAMETERS)
    actions = sample(distribution, jax.random.key(0))
    together = all_outputs(distribution, actions)
    mapped = jax.vmap(all_outputs)(distribution, actions)
    assert together[0].shape == together[1].shape == (N_ACTORS,)
    assert together[2].shape == actions.shape
    for i in range(N_ACTORS):
        alone = all_outputs(jax.tree.map(lambda x, i=i: x[i], distribution), actions[i])
        for x, y, z in zip(together, mapped, alone, strict=True):
            np.testing.assert_allclose(x[i], z, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(y[i], z, rtol=1e-5, atol=1e-6)


@every_kind
def test_gradients_agree_with_finite_differences(make):
    actions = sample(make(PARAMETERS), jax.random.key(2))
    direction = jnp.cos(jnp.arange(6.0)).reshape(N_ACTORS, 2)

    @jax.jit
    def objective(step):
        moved = make(PARAMETERS + step * direction)
        return moved.log_prob(actions).sum() + 0.1 * moved.entropy().sum()

    slope = (objective(5e-3) - objective(-5e-3)) / 1e-2
    np.testing.assert_allclose(jax.grad(objective)(0.0), slope, rtol=1e-2, atol=1e-2)


@every_kind
def test_each_key_draws_its_own_action(make):
    distribution = make(PARAMETERS)
    first, again, other = (sample(distribution, jax.random.key(seed)) for seed in (0, 0, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("make", [categorical_of, gaussian_of, tanh_gaussian_of])
def test_noise_is_known_before_the_parameters(make):
    distribution, key = make(PARAMETERS), jax.random.key(1)
    unknown = jax.eval_shape(make, PARAMETERS)
    actions = distribution.sample_from(unknown.noise(key))
    np.testing.assert_array_equal(actions, distribution.sample(key))
    many = unknown.noise(key, (4, 5))
    assert jax.vmap(jax.vmap(distribution.sample_from))(many).shape == (4, 5, *actions.shape)
    assert len(np.unique(many)) == many.size


@pytest.mark.parametrize(
    "distribution",
    [
        ops.Categorical(jnp.array([0.5, -1.0, 2.0])),
        ops.EpsilonGreedy(jnp.array([0.5, -1.0, 2.0]), 0.5),
        gaussian([0.5, -1.0], [0.3, 2.0]),
        squashed([0.5, -1.0], [0.3, 0.5]),
    ],
    ids=lambda d: type(d).__name__,
)
def test_sampled_with_its_log_prob(distribution):
    action, log_density = distribution.sample_and_log_prob(jax.random.key(1))
    np.testing.assert_array_equal(action, distribution.sample(jax.random.key(1)))
    np.testing.assert_allclose(log_density, distribution.log_prob(action), rtol=1e-3, atol=1e-4)


def test_a_squashed_sample_at_the_bound_has_its_true_log_prob():
    distribution = squashed([30.0, -30.0], [0.1, 0.1], -1.0, 1.0)
    action, log_density = distribution.sample_and_log_prob(jax.random.key(0))
    np.testing.assert_allclose(action, [1.0, -1.0])
    u = np.float64(distribution.base.sample(jax.random.key(0)))
    slope = 2.0 * (np.log(2.0) - np.abs(u))  # of tanh, where exp(-2 |u|) vanishes beside 1
    expected = (normal_log_density(u, np.array([30.0, -30.0]), 0.1) - slope).sum()
    np.testing.assert_allclose(log_density, expected, rtol=1e-4)
    assert jnp.isfinite(distribution.log_prob(action))


# Actions that are made of parts.

LOGITS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
MEAN = np.random.default_rng(1).normal(size=(4, 2)).astype(np.float32)
CATEGORICAL = ops.Categorical(jnp.asarray(LOGITS))
GAUSSIAN = ops.Gaussian(jnp.asarray(MEAN), jnp.full(2, -0.5))
GREEDY = ops.EpsilonGreedy(jnp.asarray(LOGITS), 0.3)
JOINT = ops.Joint({"turn": CATEGORICAL, "legs": (GAUSSIAN, GREEDY)})


def test_log_probs_and_entropies_are_the_sums_of_those_of_the_parts():
    action = JOINT.sample(jax.random.key(0))
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
    draws = jax.vmap(JOINT.sample)(jax.random.split(jax.random.key(0), n))
    turns, (legs, greedy) = draws["turn"][:, 0], draws["legs"]
    probabilities = np.exp(LOGITS[0]) / np.exp(LOGITS[0]).sum()
    shares = np.bincount(turns, minlength=3) / n
    np.testing.assert_allclose(shares, probabilities, atol=0.02)
    np.testing.assert_allclose(legs[:, 0].mean(axis=0), MEAN[0], atol=0.02)
    assert np.mean(greedy[:, 0] == LOGITS[0].argmax()) > 0.7
    together = np.corrcoef(turns == 0, greedy[:, 0] == 0)[0, 1]
    assert abs(together) < 0.03


def test_noise_drawn_ahead_gives_actions_of_every_step():
    key = jax.random.key(0)
    actions = jax.vmap(JOINT.sample_from)(JOINT.noise(key, (5,)))
    assert {x.shape[:2] for x in jax.tree.leaves(actions)} == {(5, 4)}
    trees.assert_equal(
        JOINT.sample(jax.random.key(0)), JOINT.sample_from(JOINT.noise(jax.random.key(0)))
    )


def test_several_discrete_actions_are_one_vector():
    parts = tuple(ops.Categorical(jnp.asarray(LOGITS[:, :n])) for n in (2, 3))
    joint = ops.Joint(parts, stacked=True)
    action = joint.sample(jax.random.key(0))
    assert action.shape == (4, 2)
    assert joint.mode().shape == (4, 2)
    expected = sum(part.log_prob(action[:, i]) for i, part in enumerate(parts))
    np.testing.assert_allclose(joint.log_prob(action), expected, rtol=1e-6)
    every = np.stack(np.meshgrid([0, 1], [0, 1, 2]), axis=-1).reshape(-1, 1, 2)
    total = np.exp(jax.vmap(joint.log_prob)(jnp.broadcast_to(every, (6, 4, 2)))).sum(axis=0)
    np.testing.assert_allclose(total, 1.0, rtol=1e-5)
