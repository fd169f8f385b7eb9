"""Conservative Q-learning against references in NumPy whose gradients are written out."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen as nn
from learner_registry import transitions
from trees import assert_close, assert_equal

from jaxagents.cql import CQLLearner, DiscreteCQLLearner
from jaxagents.networks import Policy
from jaxagents.sac import SACLearner

OBS_DIM, ACTION_DIM, N_ACTIONS, N_SAMPLES = 5, 2, 3, 4
NORMAL = nn.initializers.normal(1.0)
RATES = {
    "actor_learning_rate": 0.1,
    "critic_learning_rate": 0.2,
    "temperature_learning_rate": 0.3,
    "weight_learning_rate": 0.4,
}


class Critics(nn.Module):
    """Two linear functions of observation and action."""

    @nn.compact
    def __call__(self, observations, actions):
        weights = self.param("weights", NORMAL, (2, OBS_DIM + ACTION_DIM))
        pairs = jnp.concatenate([observations, actions], axis=-1)
        return jnp.einsum("...i,ci->c...", pairs, weights)


class DiscreteCritic(nn.Module):
    """A linear function of the observation for each action."""

    @nn.compact
    def __call__(self, observations):
        return observations @ self.param("weights", NORMAL, (OBS_DIM, N_ACTIONS))


def continuous_learner(batch, learner=CQLLearner, **kwargs):
    if learner is CQLLearner:
        kwargs = {"n_action_samples": N_SAMPLES, **kwargs}
    fields = {"features": (), "critic_network": Critics(), "optimizer": optax.sgd, **kwargs}
    return with_own_targets(learner.create(0, batch["observations"], batch["actions"], **fields))


def with_own_targets(learner):
    """The learner with targets that are not its critics."""
    params = jax.tree.map(lambda x: np.float32(-0.5 * np.asarray(x) + 0.1), learner.critic.params)
    return learner.replace(target_critic=learner.target_critic.replace(params=params))


def float64(x):
    return np.asarray(x, np.float64)


def softmax(x):
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@jax.jit
def drawn_actions(learner, batch):
    """The draws of the next update: actions with their log-densities, and next actions for targets."""
    _, critic_key, _ = jax.random.split(learner.rng, 3)
    target_key, sample_key = jax.random.split(critic_key)
    next_policy = learner.actor(batch["next_observations"])
    return *learner._sampled_actions(sample_key, batch), next_policy.sample(target_key)


def reference_critic_update(learner, batch, weight):
    """Equation 4 of the paper, for the actions that the learner draws."""
    obs, n = batch["observations"], len(batch["rewards"])
    share = batch.get("weights", np.ones(n))
    sampled, log_probs, next_actions = map(np.asarray, drawn_actions(learner, batch))

    next_pairs = np.concatenate([batch["next_observations"], next_actions], axis=-1)
    next_values = (float64(learner.target_critic.params["weights"]) @ next_pairs.T).min(axis=0)
    discounts = batch.get("discounts", learner.hyperparams.gamma)
    targets = float64(batch["rewards"] + discounts * batch["masks"] * next_values)

    weights = float64(learner.critic.params["weights"])
    pairs = np.concatenate([obs, batch["actions"]], axis=-1)
    tiled = np.broadcast_to(obs[:, None], (n, len(sampled), OBS_DIM))
    samples = np.concatenate([tiled, np.swapaxes(sampled, 0, 1)], axis=-1)
    values, sample_values = weights @ pairs.T, np.einsum("bsi,ci->cbs", samples, weights)
    logits = sample_values - float64(log_probs)
    penalties = np.log(np.exp(logits).sum(axis=-1)) - values
    bellman_loss = 0.5 * (share * (values - targets) ** 2).mean(axis=-1).sum()

    bellman_slope = share * (values - targets) @ pairs / n
    penalty_slope = np.einsum("b,cbs,bsi->ci", share, softmax(logits), samples) / n
    penalty_slope -= share @ pairs / n
    moved = weights - RATES["critic_learning_rate"] * (bellman_slope + weight * penalty_slope)
    info = {
        "bellman_loss": bellman_loss,
        "conservative_penalty": penalties.mean(),
        "critic_loss": bellman_loss + weight * (share * penalties).mean(axis=-1).sum(),
        "q": values.mean(),
    }
    return moved, info


@pytest.mark.parametrize(
    ("kwargs", "n_step"),
    [
        ({}, False),
        ({"gamma": 0.5, "tau": 0.1, "conservative_weight": 0.5}, False),
        ({"conservative_weight": 2.0, "target_action_gap": 1.0}, True),
    ],
    ids=str,
)
def test_the_critics_are_updated_as_in_the_paper(kwargs, n_step):
    batch = transitions(False, (16,))
    if n_step:
        batch["discounts"] = np.random.default_rng(1).uniform(size=16).astype(np.float32)
    learner = continuous_learner(batch, **RATES, **kwargs)
    moved, info = learner.update(batch)
    weight = kwargs.get("conservative_weight", 5.0)
    expected, expected_info = reference_critic_update(learner, batch, weight)
    assert_close(moved.critic.params["weights"], expected)
    assert_close({name: info[name] for name in expected_info}, expected_info)
    tau = kwargs.get("tau", 0.005)
    target = tau * expected + (1.0 - tau) * float64(learner.target_critic.params["weights"])
    assert_close(moved.target_critic.params["weights"], target)


@pytest.mark.parametrize("largest", [0.0, 1.0])
def test_samples_are_weighed_for_the_critics(largest):
    batch = transitions(False, (16,))
    weights = np.random.default_rng(1).uniform(high=largest, size=16)
    batch["weights"] = weights.astype(np.float32)
    learner = continuous_learner(batch, **RATES)
    moved, info = learner.update(batch)
    expected, expected_info = reference_critic_update(learner, batch, 5.0)
    assert_close(moved.critic.params["weights"], expected)
    assert_close({name: info[name] for name in expected_info}, expected_info)
    assert info["td_errors"].shape == (16,)
    assert (info["critic_loss"] == 0.0) == (largest == 0.0)


def test_actions_are_drawn_from_three_distributions():
    batch = {key: np.float32(0.3) * x for key, x in transitions(False, (50,)).items()}
    network = Policy(features=(), action_dim=ACTION_DIM, fixed_std=0.3)
    learner = continuous_learner(batch, n_action_samples=40, actor_network=network)
    actions, log_probs = jax.jit(learner._sampled_actions)(jax.random.key(1), batch)
    uniform, current, following = np.split(np.asarray(actions), 3)
    densities = np.split(np.asarray(log_probs).T, 3)
    assert uniform.shape == (40, 50, ACTION_DIM)

    @jax.jit
    def means_and_log_probs(observations, actions):
        policy = learner.actor(observations)
        return policy.base.mean, policy.log_prob(actions)

    assert (np.abs(uniform) <= 1.0).all()
    np.testing.assert_allclose(uniform.mean(), 0.0, atol=0.05)
    np.testing.assert_allclose(uniform.std(), 1.0 / np.sqrt(3.0), atol=0.02)
    np.testing.assert_allclose(densities[0], ACTION_DIM * np.log(0.5), rtol=1e-6)
    for drawn, density, key in (
        (current, densities[1], "observations"),
        (following, densities[2], "next_observations"),
    ):
        means, expected = map(np.asarray, means_and_log_probs(batch[key], drawn))
        z = (np.arctanh(drawn) - means[None]) / 0.3
        np.testing.assert_allclose([z.mean(), z.std()], [0.0, 1.0], atol=0.05)
        np.testing.assert_allclose(density, expected, rtol=1e-3, atol=1e-3)


def test_one_call_of_the_critics_values_all_actions():
    calls = []

    class Counting(Critics):
        @nn.compact
        def __call__(self, observations, actions):
            calls.append(actions.shape)
            return super().__call__(observations, actions)

    batch = transitions(False, (16,))
    learner = continuous_learner(batch, critic_network=Counting())
    calls.clear()
    jax.eval_shape(learner._update, batch)
    assert len(calls) == 3  # for the targets, for the critics' loss, for the policy's


def nearly_deterministic(learner, batch, **kwargs):
    network = Policy(features=(), action_dim=ACTION_DIM, fixed_std=1e-6)
    fields = {"actor_network": network, "backup_entropy": False, **kwargs}
    return continuous_learner(batch, learner=learner, **fields)


def test_without_the_penalty_it_is_sac():
    batch = transitions(False, (16,))
    rates = {name: rate for name, rate in RATES.items() if not name.startswith("weight")}
    sac, sac_info = nearly_deterministic(SACLearner, batch, **rates).update(batch)
    cql, info = nearly_deterministic(CQLLearner, batch, conservative_weight=0.0, **rates).update(
        batch
    )
    assert_close(
        (cql.actor, cql.critic, cql.target_critic, cql.temperature),
        (sac.actor, sac.critic, sac.target_critic, sac.temperature),
    )
    assert_close({name: info[name] for name in sac_info}, sac_info)


def test_the_penalty_reaches_the_policy_through_the_critics_alone():
    batch = transitions(False, (16,))
    rates = {**RATES, "critic_learning_rate": 0.0}
    actors = [
        continuous_learner(batch, conservative_weight=weight, **rates).update(batch)[0].actor
        for weight in (0.0, 50.0)
    ]
    assert_equal(*actors)


def test_targets_have_no_entropy_unless_asked():
    batch = jax.tree.map(jnp.asarray, transitions(False, (16,)))
    learner = continuous_learner(batch, gamma=1.0, initial_temperature=2.0)
    entropic = learner.replace(config=learner.config.replace(backup_entropy=True))
    key = jax.random.key(1)
    _, log_prob = learner.actor(batch["next_observations"]).sample_and_log_prob(key)
    difference = entropic._targets(key, batch) - learner._targets(key, batch)
    np.testing.assert_allclose(difference, -2.0 * batch["masks"] * log_prob, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("excess", [-2.0, 0.0, 2.0])
def test_the_weight_rises_with_the_excess_of_the_penalty(excess):
    batch = transitions(False, (16,))
    fields = {**RATES, "conservative_weight": 2.0}
    penalty = continuous_learner(batch, **fields).update(batch)[1]["conservative_penalty"]
    gap = float(penalty) - excess
    moved, info = continuous_learner(batch, target_action_gap=gap, **fields).update(batch)
    expected = 2.0 * np.exp(RATES["weight_learning_rate"] * 2.0 * excess)
    np.testing.assert_allclose(moved.weight(), expected, rtol=1e-4)
    np.testing.assert_allclose(info["conservative_weight"], 2.0, rtol=1e-6)
    np.testing.assert_allclose(info["weight_loss"], -2.0 * excess, rtol=1e-4, atol=1e-5)


def test_a_fixed_weight_is_a_hyperparameter():
    batch = transitions(False, (16,))
    learner = continuous_learner(batch, **RATES, conservative_weight=1.0)
    assert learner.weight is None
    weight = jnp.float32(3.0)
    heavier = learner.replace(hyperparams=learner.hyperparams.replace(conservative_weight=weight))
    expected = continuous_learner(batch, **RATES, conservative_weight=3.0)
    assert_close(heavier.update(batch)[0].critic, expected.update(batch)[0].critic)


def test_a_gap_is_refused_where_the_weight_has_been_fixed():
    batch = transitions(False, (16,))
    learner = continuous_learner(batch, **RATES)
    later = learner.replace(hyperparams=learner.hyperparams.replace(target_action_gap=1.0))
    with pytest.raises(ValueError, match="give target_action_gap from the start of a training"):
        later.update(batch)


def test_weights_and_gaps_can_be_vmapped():
    batch = transitions(False, (16,))
    penalty = continuous_learner(batch, **RATES).update(batch)[1]["conservative_penalty"]

    def loss(weight, gap):
        fields = {"conservative_weight": weight, "target_action_gap": gap, **RATES}
        return continuous_learner(batch, **fields).update(batch)[1]["weight_loss"]

    weights, gaps = jnp.array([0.5, 2.0]), jnp.array([1.0, 3.0])
    expected = -weights * (penalty - gaps)
    np.testing.assert_allclose(jax.vmap(loss)(weights, gaps), expected, rtol=1e-4)


def bandit(actions, rewards):
    """One observation, and episodes of one step."""
    ones = np.ones((*rewards.shape, 1), np.float32)
    return {
        "observations": ones,
        "actions": actions,
        "rewards": rewards.astype(np.float32),
        "next_observations": ones,
        "masks": np.zeros(rewards.shape, np.float32),
    }


def test_prefers_what_is_known_to_be_good_to_the_unknown():
    """Values rise towards actions that are not in the data: only the penalty keeps it from them."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-0.5, 0.0, size=(300, 32, 1)).astype(np.float32)
    batches = bandit(actions, 1.0 + actions[..., 0])
    fields = {"features": (16,), "n_action_samples": 4, "initial_temperature": 0.05}
    rates = {"actor_learning_rate": 1e-2, "critic_learning_rate": 1e-2}

    def greedy_action(weight):
        learner = CQLLearner.create(
            0, np.ones(1), np.zeros(1), conservative_weight=weight, **fields, **rates
        )
        learner, _ = learner.update_many(batches)
        return learner.sample_actions(np.ones(1)).item()

    assert greedy_action(0.0) > 0.3
    assert -0.4 < greedy_action(1.0) < 0.1


def discrete_learner(batch, **kwargs):
    fields = {"critic_network": DiscreteCritic(), "optimizer": optax.sgd, **kwargs}
    learner = DiscreteCQLLearner.create(
        0, batch["observations"], batch["actions"], n_actions=N_ACTIONS, **fields
    )
    return with_own_targets(learner)


def reference_discrete_update(learner, batch):
    """Equation 4 of the paper, on top of (double) Q-learning."""
    obs, actions, n = batch["observations"], batch["actions"], len(batch["rewards"])
    hp, rows = learner.hyperparams, np.arange(n)
    weights, target_weights = (
        float64(state.params["weights"]) for state in (learner.critic, learner.target_critic)
    )
    next_values = batch["next_observations"] @ target_weights
    chooser = weights if learner.config.double else target_weights
    chosen = (batch["next_observations"] @ chooser).argmax(axis=-1)
    discounts = batch.get("discounts", hp.gamma)
    targets = batch["rewards"] + discounts * batch["masks"] * next_values[rows, chosen]

    values = obs @ weights
    taken = np.eye(N_ACTIONS)[actions]
    error = values[rows, actions] - targets
    penalty = (np.log(np.exp(values).sum(axis=-1)) - values[rows, actions]).mean()
    slope = error[:, None] * taken + hp.conservative_weight * (softmax(values) - taken)
    moved = weights - hp.critic_learning_rate * obs.T @ slope / n
    bellman_loss = 0.5 * (error**2).mean()
    info = {
        "bellman_loss": bellman_loss,
        "conservative_penalty": penalty,
        "critic_loss": bellman_loss + hp.conservative_weight * penalty,
        "q": values[rows, actions].mean(),
    }
    return moved, info


@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
@pytest.mark.parametrize("n_step", [False, True], ids=["one step", "n steps"])
def test_discrete_updates_are_those_of_the_paper(double, n_step):
    batch = transitions(True, (16,))
    if n_step:
        batch["discounts"] = np.random.default_rng(1).uniform(size=16).astype(np.float32)
    fields = {"gamma": 0.9, "tau": 0.1, "conservative_weight": 2.0, "critic_learning_rate": 0.1}
    learner = discrete_learner(batch, double=double, **fields)
    moved, info = learner.update(batch)
    expected, expected_info = reference_discrete_update(learner, batch)
    assert_close(moved.critic.params["weights"], expected)
    assert_close(info, {name: expected_info[name] for name in info})
    target = 0.1 * expected + 0.9 * float64(learner.target_critic.params["weights"])
    assert_close(moved.target_critic.params["weights"], target)


def test_discrete_learners_weigh_samples_as_those_of_q_learning_do():
    batch = transitions(True, (16,))
    weights = np.repeat(np.float32([2.0, 0.0]), 8)
    weighted, info = discrete_learner(batch).update({**batch, "weights": weights})
    half, half_info = discrete_learner(batch).update({key: x[:8] for key, x in batch.items()})
    assert_close(weighted.critic.params, half.critic.params)
    assert_close(info["critic_loss"], half_info["critic_loss"])
    assert info["td_errors"].shape == (16,)


def test_the_default_weight_depends_on_the_kind_of_actions():
    box = CQLLearner.create(0, np.zeros(OBS_DIM), np.zeros(ACTION_DIM))
    discrete = DiscreteCQLLearner.create(0, np.zeros(OBS_DIM), 0, n_actions=N_ACTIONS)
    assert box.hyperparams.conservative_weight == 5.0
    assert discrete.hyperparams.conservative_weight == 1.0
    assert box.config.features == (256, 256, 256)
    assert discrete.config.features == (256, 256)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_discrete_actions_are_drawn_by_their_values(temperature):
    batch = transitions(True, (16,))
    learner = discrete_learner(batch)
    obs = batch["observations"][:2]
    many = np.broadcast_to(obs, (4000, 2, OBS_DIM))
    actions = learner.sample_actions(many, seed=jax.random.key(0), temperature=temperature)
    frequencies = np.eye(N_ACTIONS)[np.asarray(actions)].mean(axis=0)
    values = float64(learner.critic(obs))
    np.testing.assert_allclose(frequencies, softmax(values / temperature), atol=0.03)
    np.testing.assert_array_equal(learner.sample_actions(obs), values.argmax(axis=-1))


def test_learns_the_better_of_two_actions_though_one_is_rarer_and_one_unknown():
    actions = (np.random.default_rng(0).uniform(size=(300, 64)) < 0.2).astype(np.int32)
    batches = bandit(actions, actions)
    learner = DiscreteCQLLearner.create(
        0,
        np.ones(1),
        0,
        n_actions=3,
        features=(16,),
        conservative_weight=0.1,
        critic_learning_rate=1e-2,
    )
    learner, _ = learner.update_many(batches)
    assert learner.sample_actions(np.ones(1)) == 1
    values = learner.critic(jnp.ones(1))
    assert values[1] > values[0] > values[2]


@pytest.mark.parametrize(
    ("create", "error", "message"),
    [
        (CQLLearner, ValueError, "n_action_samples must be a positive integer"),
        (DiscreteCQLLearner, ValueError, "n_actions must be a positive integer"),
    ],
)
def test_numbers_of_actions_are_positive(create, error, message):
    name, _, _ = message.partition(" ")
    action = 0 if create.discrete_actions else np.zeros(ACTION_DIM)
    with pytest.raises(error, match=message):
        create.create(0, np.zeros(OBS_DIM), action, **{name: 0})


def test_the_number_of_discrete_actions_is_required():
    with pytest.raises(TypeError, match=r"number of discrete actions is missing.*n_actions="):
        DiscreteCQLLearner.create(0, np.zeros(OBS_DIM), 0)


def test_a_policy_network_is_refused_where_there_is_no_policy():
    with pytest.raises(TypeError, match="no field 'actor_network'"):
        DiscreteCQLLearner.create(
            0, np.zeros(OBS_DIM), 0, n_actions=3, actor_network=DiscreteCritic()
        )


def test_the_weight_is_not_negative():
    with pytest.raises(ValueError, match="conservative_weight must lie in"):
        CQLLearner.create(0, np.zeros(OBS_DIM), np.zeros(ACTION_DIM), conservative_weight=-1.0)


def test_a_weight_that_is_learned_does_not_begin_at_zero():
    with pytest.raises(ValueError, match="conservative_weight must be above 0"):
        CQLLearner.create(
            0,
            np.zeros(OBS_DIM),
            np.zeros(ACTION_DIM),
            conservative_weight=0.0,
            target_action_gap=1.0,
        )
