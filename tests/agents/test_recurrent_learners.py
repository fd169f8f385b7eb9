"""Learners with a memory: from their own rollouts, from a replay buffer and from datasets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import Allowed, Recall

from jaxagents import (
    AWAC,
    BC,
    CQL,
    DDQN,
    DQN,
    IQL,
    PQN,
    SAC,
    TD3,
    PQNLearner,
    dqn,
    load_policy,
    ops,
    pqn,
)
from jaxagents.agents.off_policy import gradient_step
from jaxagents.agents.sampling import Sampling
from jaxagents.core.observed import Remembered
from jaxagents.data import Dataset
from jaxagents.dqn import DDQNLearner
from jaxagents.learners.config import Example
from jaxagents.networks import Critic, DiscreteCritic, WithMemory, ensemblize

KEY = jax.random.key(0)
LENGTH, BURN_IN, GAMMA = 5, 2, 0.9
NETWORK = WithMemory(DiscreteCritic(features=(), n_actions=2), nn.GRUCell(features=4))
CRITICS = WithMemory(ensemblize(Critic, 2)(features=()))

MEMORY = {"n_steps": 4, "memory": "gru", "memory_size": 4, "features": (8, 8)}
ROLLOUTS = {"batch_size": 4, "rollout_length": 7, "minibatch_size": 14, "gradient_steps": 4}
SEQUENCES = {"minibatch_size": 16, "sequence_length": 4, "burn_in": 1}
REPLAY = {**SEQUENCES, "batch_size": 4, "buffer_size": 64, "learning_starts": 32}


def make(kind, env, dataset=None, **fields):
    """A small agent with a memory."""
    family = ROLLOUTS if issubclass(kind, PQN) else REPLAY if dataset is None else SEQUENCES
    config = kind._config_type(**{**MEMORY, **family, **fields})
    return kind(env, None, config, False, **({} if dataset is None else {"dataset": dataset}))


def recalled(n_episodes=64, expert=False):
    """Episodes of `Recall`, with the best last actions or random ones."""
    rng = np.random.default_rng(0)
    signs = np.repeat(rng.choice([-1.0, 1.0], n_episodes), 3)
    times = np.tile(np.arange(3.0), n_episodes)

    def seen(at):
        return np.stack([np.where(at == 0, signs, 0.0), at], axis=1).astype(np.float32)

    actions = rng.uniform(-1.0, 1.0, (len(times), 1)).astype(np.float32)
    if expert:
        actions = np.where(times[:, None] == 2, 0.8 * signs[:, None], 0.0).astype(np.float32)
    columns = {
        "observations": seen(times),
        "actions": actions,
        "rewards": np.where(times == 2, signs * actions[:, 0], 0.0).astype(np.float32),
        "next_observations": seen(times + 1),
        "masks": (times < 2).astype(np.float32),
        "ends": times == 2,
    }
    return Dataset(columns)


# Learning.


class Recorder(PQNLearner):
    """Reports the means and squares of its targets and values."""

    def _loss(self, params, batch, targets):
        losses, info = super()._loss(params, batch, targets)
        q = info["q"]
        return losses, {"q": q, "q_squares": q**2, "targets": targets, "squares": targets**2}


class RecordingPQN(PQN):
    _discrete_learner = Recorder


def recording(**fields):
    """An agent that learns to remember from its rollouts."""
    sizes = {"batch_size": 16, "rollout_length": 16, "minibatch_size": 64, "gradient_steps": 8}
    wide = {"n_steps": 120, "features": (16, 16), "memory_size": 16}
    return make(RecordingPQN, Recall(), **sizes, **wide, normalise_observations=True, **fields)


def replaying(**fields):
    """An agent that learns to remember from a buffer, in which all options of sequences meet."""
    sizes = {"batch_size": 8, "buffer_size": 4096, "learning_starts": 256, "minibatch_size": 64}
    wide = {"n_steps": 250, "sequence_length": 8, "features": (16, 16), "memory_size": 16}
    options = {"prioritised_replay": True, "n_step_returns": 3, "normalise_observations": True}
    return make(DDQN, Recall(), **sizes, **wide, **options, n_groups=2, **fields)


HYPERPARAMS = {
    recording: pqn.HyperParameters(gamma=0.9, epsilon=0.2, critic_learning_rate=3e-3),
    replaying: dqn.HyperParameters(gamma=0.9, critic_learning_rate=3e-3, epsilon_steps=1_000),
}


@pytest.fixture(scope="module", params=HYPERPARAMS, ids=["PQN", "DDQN"])
def made(request):
    return request.param


@pytest.fixture(scope="module")
def learnt(made):
    """An agent that has learned to remember."""
    agent = made()
    agent.train(KEY, HYPERPARAMS[made], progress=False)
    return agent


def test_learns_what_only_a_memory_can_and_so_does_its_exported_policy(learnt, tmp_path):
    learnt.export_policy(tmp_path / "policy.safetensors")
    policy = load_policy(tmp_path / "policy.safetensors")

    @jax.jit
    def step(carry, obs):
        seen = Remembered(carry, obs)
        return learnt.q(seen), learnt.policy(seen), learnt.act(learnt.learner, carry, obs)

    for sign in (1.0, -1.0):
        carry, exported_carry = learnt.initial_carry(learnt.learner), policy.initial_carry()
        for time in range(Recall.n_steps):
            obs = np.float32([sign if time == 0 else 0.0, time])
            values, chosen, (carry, action) = step(carry, obs)
            assert values.shape == (2,)
            assert values.argmax() == chosen == action
            exported_carry, exported = policy.act(exported_carry, obs)
            assert exported == action
        assert action == (sign > 0)


def test_interrupted_and_restored_is_uninterrupted(made, learnt, tmp_path):
    start = KEY, HYPERPARAMS[made]
    whole, _ = learnt.train(*start, n_steps=4, progress=False)
    made(checkpoint_dir=tmp_path).train(*start, n_steps=2, progress=False)
    agent = made(checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = agent.restore("last")
    resumed, _ = agent.train(None, None, runner, n_steps=2, progress=False)
    trees.assert_equal(whole, resumed)


def test_says_how_to_act_where_the_memory_is_missing(learnt):
    for ask in (learnt.policy, learnt.q):
        with pytest.raises(TypeError, match=r"has a memory: call agent.act\(learner, carry, obs\)"):
            ask(jnp.zeros(2))


def learned_returns(agent, **hyperparams):
    """The greedy returns after a run."""
    agent.train(KEY, agent._hyperparams_type(**hyperparams), progress=False)
    return agent.eval(KEY, n_evals=32)["returns"].mean()


LONG = {"minibatch_size": 64, "sequence_length": 8, "features": (16, 16), "memory_size": 16}


def test_learns_from_a_dataset_what_only_a_memory_can():
    dataset, env = recalled(256, expert=True), Recall(continuous=True)
    agent = make(BC, env, dataset, **{**LONG, "n_steps": 600, "burn_in": 2})
    assert learned_returns(agent, actor_learning_rate=3e-3) > 0.6


@pytest.mark.slow  # half a minute; nothing else shows that an actor and critics learn to remember
def test_an_actor_and_critics_learn_what_only_a_memory_can():
    sizes = {"n_steps": 400, "batch_size": 8, "buffer_size": 4096, "learning_starts": 256}
    agent = make(SAC, Recall(continuous=True), **{**LONG, **sizes})
    rates = {"actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3}
    explores_less = {"initial_temperature": 0.05, "target_entropy": -2.0}
    assert learned_returns(agent, gamma=0.9, **rates, **explores_less) > 0.9


BOX = Recall(continuous=True)


def check_memories(agent, runner, stored, acts_by):
    assert set(runner.buffer.storage["carries"]) == stored == set(runner.carry)
    assert set(jax.eval_shape(agent.initial_carry, runner.learner)) == acts_by


@pytest.mark.parametrize(
    "agent",
    [
        lambda: make(SAC, BOX, critic_dropout_rate=0.1),
        lambda: make(SAC, Allowed(), normalise_observations=True),
        lambda: make(TD3, BOX, prioritised_replay=True, n_step_returns=2),
        *(lambda kind=kind: make(kind, BOX, recalled(8), n_groups=2) for kind in (IQL, AWAC, CQL)),
    ],
    ids=["SAC", "discrete SAC", "TD3", "IQL", "AWAC", "CQL"],
)
def test_every_learner_learns_in_shapes_of_sequences(agent):
    agent = agent()
    runner = jax.eval_shape(agent.program.start, KEY, agent._hyperparams_type())
    jax.eval_shape(agent.program.advance, runner, np.int32(1))
    if hasattr(runner, "buffer"):
        check_memories(agent, runner, {"actor", "critic"}, {"actor"})


def test_a_critic_alone_may_have_a_memory():
    agent = make(TD3, BOX, memory=None, critic_network=CRITICS)
    runner = jax.eval_shape(agent.program.start, KEY, agent._hyperparams_type())
    check_memories(agent, runner, {"critic"}, set())


# From rollouts.


def test_values_and_returns_are_those_of_single_steps():
    """Also of a rollout that starts amid episodes, and after episodes that end within it."""
    agent = recording()
    hyperparams = HYPERPARAMS[recording].replace(q_lambda=0.7, epsilon=0.5)
    runner = agent.advance(agent.start(KEY, hyperparams.replace(critic_learning_rate=0.0)), 1)
    assert np.abs(runner.carry["critic"]).max() > 0
    later, steps, _ = jax.jit(agent._play)(runner)
    steps, last_obs = jax.tree.map(np.asarray, (steps, later.obs))
    over = steps.terminated | steps.truncated
    assert over.any()
    assert not over[-1].all()

    critic = runner.learner.critic
    is_moments = {"is_leaf": lambda x: isinstance(x, ops.Moments)}
    observed = jax.tree.leaves(critic.extra_variables, **is_moments)
    assert [float(x.count) for x in observed] == [16 * 16]
    for part in ("torso", "network"):  # the layers around a memory are normalised
        paths = jax.tree_util.tree_leaves_with_path(critic.params["network"]["network"][part])
        assert any("LayerNorm" in jax.tree_util.keystr(path) for path, _ in paths)

    values_at, after = (jax.jit(lambda x, m=m: critic(x, **m)) for m in ({}, {"method": "after"}))
    carry, values, next_values = runner.carry["critic"], [], []
    for t in range(len(over)):
        seen = Remembered(carry, steps.obs[t])
        values.append(np.take_along_axis(values_at(seen), steps.action[t][:, None], 1)[:, 0])
        carry = after(seen)
        # Within an episode the successor is what is observed next; its end is worth nothing.
        following = steps.obs[t + 1] if t + 1 < len(over) else last_obs
        next_values.append(values_at(Remembered(carry, following)).max(axis=-1))
        carry = np.where(over[t][:, None], 0.0, carry)
    next_values = np.where(steps.terminated, steps.next_value, np.stack(next_values))
    np.testing.assert_allclose(steps.next_value, next_values, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(later.carry["critic"], carry, rtol=1e-5, atol=1e-6)

    outcome = steps.reward, next_values, steps.terminated, steps.truncated
    returns = jax.jit(ops.lambda_returns)(*outcome, 0.9, 0.7)
    info = agent.advance(runner, 1).info
    for name, expected in {"q": np.stack(values), "targets": np.asarray(returns)}.items():
        squares = "squares" if name == "targets" else "q_squares"
        np.testing.assert_allclose(info[name], expected.mean(), rtol=1e-4)
        np.testing.assert_allclose(info[squares], np.square(expected).mean(), rtol=1e-4)


# From sequences of a buffer or of a dataset.


def sequences(rng, n, ends, n_steps=1):
    """The rows of sequences, and the batch that a learner is given of them."""
    shape = n, LENGTH
    rows = {
        "observations": rng.normal(size=(*shape, 2)).astype(np.float32),
        "next_observations": rng.normal(size=(*shape, 2)).astype(np.float32),
        "carries": {"critic": rng.normal(size=(*shape, 4)).astype(np.float32)},
        "actions": rng.integers(0, 2, shape),
        "rewards": rng.normal(size=shape).astype(np.float32),
        "masks": 1.0 - ends * rng.integers(0, 2, shape).astype(np.float32),
        "ends": np.tile(ends, (n, 1)),
    }
    sampling = Sampling(n_steps, LENGTH, BURN_IN)
    return rows, jax.jit(sampling.batch_of_sequences)(rows, GAMMA)


@pytest.fixture(scope="module")
def learner():
    """One whose target is another network."""
    memory = Remembered({"critic": NETWORK.initial()}, jnp.zeros(2))
    sizes = {"sequence_length": LENGTH, "minibatch_size": LENGTH}
    config = dqn.AgentConfig(critic_network=NETWORK, **sizes)
    example, hyperparams = Example(memory, jnp.zeros((), int), 2), dqn.HyperParameters(gamma=GAMMA)
    made = jax.jit(lambda: DDQNLearner.from_config(config, hyperparams, KEY, example))()
    params = jax.tree.map(lambda x: np.asarray(x) + np.float32(0.1), made.target_critic.params)
    return made.replace(target_critic=made.target_critic.replace(params=params))


@pytest.mark.parametrize("n_steps", [1, 3])
def test_values_and_double_targets_are_those_of_single_steps(learner, n_steps):
    """Within a sequence, memory continues, restarts with episodes, and covers true next states."""
    ends = np.isin(np.arange(LENGTH), [1] if n_steps == 3 else [1, 3])
    rows, given = sequences(np.random.default_rng(0), 4, ends, n_steps)
    step = jax.jit(NETWORK.apply)
    online, aiming = (
        {"params": network.params["network"]} for network in (learner.critic, learner.target_critic)
    )
    values, targets = [], []
    for i in range(4):
        carry = aimed = rows["carries"]["critic"][i, 0]
        following = []
        for t in range(LENGTH):
            obs, next_obs = rows["observations"][i, t], rows["next_observations"][i, t]
            carry, q = step(online, carry, obs)
            aimed, _ = step(aiming, aimed, obs)
            values.append(q)
            _, chosen = step(online, carry, next_obs)
            _, next_q = step(aiming, aimed, next_obs)
            following.append(rows["masks"][i, t] * next_q[chosen.argmax()])
            if ends[t]:
                carry = aimed = np.zeros(4, np.float32)
        for t in range(LENGTH):
            total, last = 0.0, min(t + n_steps, LENGTH) - 1
            for k in range(t, last + 1):
                total += GAMMA ** (k - t) * rows["rewards"][i, k]
                if k == last or ends[k]:
                    targets.append(total + GAMMA ** (k - t + 1) * following[k])
                    break
    q = learner.q(given["observations"])
    np.testing.assert_allclose(q, np.stack(values), rtol=1e-4, atol=1e-5)
    found = jax.jit(DDQNLearner._q_target)(learner, given)
    np.testing.assert_allclose(found, np.stack(targets), rtol=1e-4, atol=1e-5)


def test_nothing_is_learnt_from_the_burn_in(learner):
    _, given = sequences(np.random.default_rng(1), 2, np.zeros(LENGTH, bool))
    np.testing.assert_allclose(given["weights"], [0.0, 0.0, 5 / 3, 5 / 3, 5 / 3] * 2, rtol=1e-6)
    steps = given["observations"]

    def of_trained_steps(obs, carry):
        q = learner.q(steps.replace(obs=obs, carry=carry)).reshape(2, LENGTH, 2)
        return q[:, BURN_IN:].sum()

    of_obs, of_carry = jax.grad(of_trained_steps, (0, 1))(steps.obs, steps.carry)
    counts = np.abs(of_obs).sum(axis=-1).reshape(2, LENGTH) > 0
    np.testing.assert_array_equal(counts, [[False] * BURN_IN + [True] * (LENGTH - BURN_IN)] * 2)
    np.testing.assert_array_equal(of_carry["critic"], 0.0)


@pytest.fixture(scope="module")
def filled():
    """An agent with priorities, and its runner when its buffer holds ten steps of all environments."""
    sizes = {"learning_starts": 40, "max_episode_steps": 2}  # episodes are cut, and never end
    agent = make(DQN, Recall(), prioritised_replay=True, **sizes)
    hyperparams = dqn.HyperParameters(priority_exponent=0.9, importance_exponent=0.6)
    return agent, jax.jit(agent.program.start)(KEY, hyperparams)


@pytest.mark.slow  # two updates of sequences are compiled; nothing else tells their priorities
def test_priorities_are_of_the_largest_and_the_mean_error_of_a_sequence(filled):
    """A gradient step samples by priority, weighs steps of a sequence equally, and sets priorities."""
    agent, runner = filled
    agent, learner = agent.behaviour, runner.learner
    starts = np.arange(runner.buffer.size - 3 * 4)  # the last three rows start no sequence
    given = np.linspace(0.1, 0.9, len(starts), dtype=np.float32)

    @jax.jit
    def draw(buffer):
        buffer = buffer.with_priorities(starts, given)
        drawn, probabilities = buffer.sample_prioritised(KEY, 4)
        batch = Sampling.of(agent.config).batch(buffer, buffer.sequences(drawn, 4), 0.99)
        return buffer, drawn, probabilities, batch

    buffer, drawn, probabilities, batch = draw(runner.buffer)
    drawn, probabilities = np.asarray(drawn), np.asarray(probabilities)
    np.testing.assert_allclose(probabilities, given[drawn] / given.sum(), rtol=1e-5)
    of_sequences = (probabilities.min() / probabilities) ** 0.6
    weights = np.repeat(of_sequences, 4) * np.tile([0.0, 4 / 3, 4 / 3, 4 / 3], 4)
    expected, info = learner.update({**batch, "weights": np.float32(weights)})
    errors = np.asarray(info["td_errors"]).reshape(4, 4)[:, 1:]
    priorities = (0.9 * errors.max(axis=1) + 0.1 * errors.mean(axis=1)) ** 0.9
    step = jax.jit(lambda *args: gradient_step(agent, *args, returns=()))
    (after, tree), _ = step(learner, buffer, KEY)
    trees.assert_close(after.critic.params, expected.critic.params)
    found = np.asarray(tree.levels[0])
    of_drawn = dict(zip(drawn.tolist(), priorities.tolist(), strict=True))
    np.testing.assert_allclose(found[list(of_drawn)], list(of_drawn.values()), rtol=1e-3)
    others = np.setdiff1d(starts, drawn)
    np.testing.assert_array_equal(found[others], given[others])


def test_the_buffer_holds_the_memories_that_were_acted_by(filled):
    _, runner = filled
    n_envs, n_times = 4, 10
    rows = jax.tree.map(
        lambda x: np.asarray(x)[: n_envs * n_times].reshape(n_times, n_envs, *x.shape[1:]),
        runner.buffer.storage,
    )
    critic = runner.learner.critic
    after = jax.jit(lambda seen: critic(seen, method="after"))
    carry = np.zeros((n_envs, 4), np.float32)
    for t in range(n_times):
        before = {"critic": rows["carries"]["critic"][t]}
        np.testing.assert_allclose(before["critic"], carry, rtol=1e-5, atol=1e-6)
        carry = after(Remembered(before, rows["observations"][t]))
        carry = np.where(rows["ends"][t][:, None], 0.0, carry)
    assert rows["ends"].any()
    np.testing.assert_allclose(runner.carry["critic"], carry, rtol=1e-5, atol=1e-6)


def test_sequences_of_a_dataset_start_anew_with_episodes():
    agent = make(IQL, BOX, recalled(), n_groups=2)
    sample = jax.jit(lambda data, keys: agent.behaviour.with_data(data)._sample(keys))
    batch = sample(agent.data, jax.random.split(KEY, 2))
    steps = batch["observations"]
    times = np.asarray(steps.obs[:, 1]).reshape(-1, 4)
    np.testing.assert_array_equal((times[:, 1:] - times[:, :-1]) % 3, 1.0)
    first = np.asarray(steps.first).reshape(-1, 4)
    np.testing.assert_array_equal(first[:, 1:], times[:, 1:] == 0)
    weights = batch["weights"].reshape(-1, 4)
    np.testing.assert_allclose(weights, np.tile([0.0, 4 / 3, 4 / 3, 4 / 3], (4, 1)), rtol=1e-6)


# What is refused.


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (DQN, {"critic_network": NETWORK}, "is for the default network, but critic_network is giv"),
        (DQN, {"n_step_returns": 5}, r"n_step_returns must be at most sequence_length \(4\) where"),
        (
            DQN,
            {"minibatch_size": 18},
            r"multiple of sequence_length \* n_groups \(4\).*16 or 20 would do",
        ),
        (DQN, {"burn_in": 4}, r"burn_in must be less than sequence_length \(4\), got 4"),
        (DQN, {"learning_starts": 12}, r"learning_starts must be at least .* \(16\), so that"),
        (DQN, {"encoder": nn.Dense(3)}, "put it into the critic's, as the torso"),
        (
            PQN,
            {"minibatch_size": 4},
            r"multiple of rollout_length \* n_groups \(7\) where .* got 4\. "
            r"Values that work: 7, 14, 28\.",
        ),
    ],
)
def test_names_what_does_not_go_with_a_memory(kind, fields, message):
    with pytest.raises(ValueError, match=message):
        make(kind, Recall(), **fields)


def test_datasets_and_learners_that_do_not_serve_a_memory_are_named():
    columns = {key: x for key, x in recalled().items() if key != "ends"}
    with pytest.raises(KeyError, match=r"IQL learns from .*'ends'\], but the dataset lacks"):
        make(IQL, BOX, Dataset(columns))
    with pytest.raises(TypeError, match="WithMemory has a memory, which this learner does not car"):
        DDQNLearner.create(0, jnp.zeros(2), jnp.zeros((), int), n_actions=2, critic_network=NETWORK)
