"""Q-learning from sequences, by critics with a memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from probes import Recall
from remembering import check_acts_with_its_memory

from jaxagents import DDQN, DQN
from jaxagents.agents.off_policy import gradient_step
from jaxagents.agents.sampling import Sampling
from jaxagents.core.observed import Remembered
from jaxagents.dqn import AgentConfig, DDQNLearner, HyperParameters
from jaxagents.learners.config import Example
from jaxagents.networks import DiscreteCritic, WithMemory
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
LENGTH, BURN_IN, GAMMA = 5, 2, 0.9
NETWORK = WithMemory(DiscreteCritic(features=(), n_actions=2), nn.GRUCell(features=4))


def make(kind=DQN, env=Recall, evaluates=True, **fields):
    sizes = {"batch_size": 4, "buffer_size": 64, "learning_starts": 32, "minibatch_size": 16}
    memory = {} if "critic_network" in fields else {"memory": "gru"}
    small = {
        "n_steps": 3,
        "n_evals": 16,
        "memory_size": 4,
        "sequence_length": 4,
        "features": (8, 8),
    }
    config = kind._config_type(**{**sizes, **small, **memory, **fields})
    return kind(env(), None, config, evaluates)


def train(agent, **options):
    hyperparams = agent._hyperparams_type(critic_learning_rate=1e-2)
    return agent.train(KEY, hyperparams, progress=False, **options)


LEARNING = {
    "n_steps": 250,
    "batch_size": 8,
    "buffer_size": 4096,
    "learning_starts": 256,
    "minibatch_size": 64,
    "sequence_length": 8,
    "burn_in": 1,
    "features": (16, 16),
    "memory_size": 16,
}
SHARED = {"n_groups": 2, "replicated_updates": True, "normalise_observations": True}
"""Fields of an agent that two devices may share."""
HYPERPARAMS = HyperParameters(gamma=0.9, critic_learning_rate=3e-3, epsilon_steps=1_000)


def remembering(**fields):
    """The agent that learns to remember, and is trained in all ways."""
    of_sequences = {"prioritised_replay": True, "n_step_returns": 3}
    return make(DDQN, evaluates=False, **{**LEARNING, **SHARED, **of_sequences, **fields})


@pytest.fixture(scope="module")
def learnt():
    """An agent that has learnt to remember."""
    agent = remembering()
    agent.train(KEY, HYPERPARAMS, progress=False)
    return agent


@pytest.fixture(scope="module")
def filled():
    """An agent with priorities, and its runner when its buffer holds ten steps of all environments."""
    agent = make(prioritised_replay=True, burn_in=1, learning_starts=40, evaluates=False)
    hyperparams = HyperParameters(priority_exponent=0.9, importance_exponent=0.6)
    return agent, jax.jit(agent.program.start)(KEY, hyperparams)


def test_agents_without_a_memory_leave_the_length_of_sequences_alone():
    program = remembering(memory=None).program
    runner = jax.eval_shape(program.start, KEY, HYPERPARAMS)
    assert "carries" not in runner.buffer.storage
    jax.eval_shape(program.advance, runner, np.int32(1))


def test_learns_what_only_a_memory_can(learnt, tmp_path):
    check_acts_with_its_memory(learnt, tmp_path)


def test_says_how_to_act_where_the_memory_is_missing(learnt):
    for ask in (learnt.policy, learnt.q):
        with pytest.raises(TypeError, match=r"has a memory: call agent.act\(learner, carry, obs\)"):
            ask(jnp.zeros(2))
    with pytest.raises(
        ValueError, match=r"needs a memory of shape .* agent.initial_carry\(learner\)"
    ):
        learnt.act(learnt.learner, (), jnp.zeros(2))


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
    batch = Sampling(n_steps, LENGTH, BURN_IN).batch_of_sequences(
        jax.tree.map(jnp.asarray, rows), GAMMA
    )
    return rows, batch


def learner_of(network):
    example = Example(
        Remembered({"critic": network.initial()}, jnp.zeros(2)), jnp.zeros((), int), 2
    )
    config = AgentConfig(critic_network=network, sequence_length=LENGTH, minibatch_size=LENGTH)
    return DDQNLearner.from_config(config, HyperParameters(gamma=GAMMA), 0, example)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_values_and_double_targets_are_those_of_single_steps(n_steps):
    """Within a sequence the memory goes on, starts anew with an episode, and reaches true successors."""
    ends = np.isin(np.arange(LENGTH), [1] if n_steps == 3 else [1, 3])
    rows, given = sequences(np.random.default_rng(0), 4, ends, n_steps)
    learner = learner_of(NETWORK)
    target = learner.target_critic.params
    target = jax.tree.map(lambda x: x + 0.1, target)
    learner = learner.replace(target_critic=learner.target_critic.replace(params=target))
    step = jax.jit(NETWORK.apply)
    values, targets = [], []
    for i in range(4):
        online = aimed = rows["carries"]["critic"][i, 0]
        following = []
        for t in range(LENGTH):
            obs, next_obs = rows["observations"][i, t], rows["next_observations"][i, t]
            online, q = step({"params": learner.critic.params["network"]}, online, obs)
            aimed, _ = step({"params": target["network"]}, aimed, obs)
            values.append(q)
            _, chosen = step({"params": learner.critic.params["network"]}, online, next_obs)
            _, next_q = step({"params": target["network"]}, aimed, next_obs)
            following.append(rows["masks"][i, t] * next_q[chosen.argmax()])
            if ends[t]:
                online = aimed = np.zeros(4, np.float32)
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


def test_nothing_is_learnt_from_the_burn_in():
    _, given = sequences(np.random.default_rng(1), 2, np.zeros(LENGTH, bool))
    np.testing.assert_allclose(given["weights"], [0.0, 0.0, 5 / 3, 5 / 3, 5 / 3] * 2, rtol=1e-6)
    learner, steps = learner_of(NETWORK), given["observations"]

    def of_trained_steps(obs, carry):
        q = learner.q(steps.replace(obs=obs, carry=carry)).reshape(2, LENGTH, 2)
        return q[:, BURN_IN:].sum()

    of_obs, of_carry = jax.grad(of_trained_steps, (0, 1))(steps.obs, steps.carry)
    counts = np.abs(of_obs).sum(axis=-1).reshape(2, LENGTH) > 0
    np.testing.assert_array_equal(counts, [[False] * BURN_IN + [True] * (LENGTH - BURN_IN)] * 2)
    np.testing.assert_array_equal(of_carry["critic"], 0.0)


@pytest.mark.slow  # an update and two gradient steps of sequences are compiled
def test_priorities_are_of_the_largest_and_the_mean_error_of_a_sequence(filled):
    """A gradient step draws by them, weighs each step of a sequence alike, and sets them anew."""
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


def test_interrupted_and_restored_is_uninterrupted(tmp_path):
    whole, _ = remembering().train(KEY, HYPERPARAMS, n_steps=4, progress=False)
    saving = remembering(checkpoint_dir=tmp_path)
    saving.train(KEY, HYPERPARAMS, n_steps=2, progress=False)
    agent = remembering(checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = agent.restore("last")
    resumed, _ = agent.train(None, None, runner, n_steps=2, progress=False)
    trees.assert_equal(whole, resumed)


@pytest.mark.slow  # the program for a mesh alone takes ten seconds, and splits carries as PPO's does
def test_two_devices_make_the_training_of_one():
    agent = remembering()
    alone, shared = (
        agent.train(KEY, HYPERPARAMS, n_steps=3, progress=False, mesh=mesh)
        for mesh in (None, make_mesh(2))
    )
    trees.assert_close(alone, shared)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"memory": "GRU"}, r"memory must be None or one of \('gru', .* got 'GRU'"),
        ({"memory": "gru", "critic_network": NETWORK}, "is for the default network, but"),
        ({"n_step_returns": 5}, r"n_step_returns must be at most sequence_length \(4\) where"),
        (
            {"minibatch_size": 18},
            r"multiple of sequence_length \* n_groups \(4\).*16 or 20 would do",
        ),
        ({"burn_in": 4}, r"burn_in must be less than sequence_length \(4\), got 4"),
        ({"burn_in": -1}, "burn_in must be an integer of 0 or more"),
        ({"learning_starts": 12}, r"learning_starts must be at least .* \(16\), so that"),
        ({"encoder": nn.Dense(3)}, "put it into the critic's, as the torso"),
    ],
)
def test_names_what_does_not_go_with_a_memory(fields, message):
    with pytest.raises(ValueError, match=message):
        make(**fields) if "memory" not in fields else AgentConfig(**fields)


def test_other_learners_refuse_a_memory():
    with pytest.raises(
        TypeError, match="WithMemory has a memory, which this learner does not carry"
    ):
        DDQNLearner.create(0, jnp.zeros(2), jnp.zeros((), int), n_actions=2, critic_network=NETWORK)
