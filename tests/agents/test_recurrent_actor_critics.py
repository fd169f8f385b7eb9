"""Actor-critics with a memory, from a replay buffer and from datasets."""

import jax
import numpy as np
import pytest
from probes import Allowed, Recall

from jaxagents import AWAC, BC, CQL, IQL, SAC, TD3, TD3BC
from jaxagents.data import Dataset
from jaxagents.networks import Critic, Policy, WithMemory, ensemblize

KEY = jax.random.key(0)
SMALL = {"minibatch_size": 16, "memory": "gru", "memory_size": 4, "features": (8,), "burn_in": 1}
SEQUENCES = {**SMALL, "sequence_length": 4}
ONLINE = {"batch_size": 4, "buffer_size": 64, "learning_starts": 32}
LEARNING = {
    "n_steps": 400,
    "batch_size": 8,
    "buffer_size": 4096,
    "learning_starts": 256,
    "minibatch_size": 64,
    "sequence_length": 8,
    "features": (16, 16),
    "memory_size": 16,
}
HYPERPARAMS = {"gamma": 0.9, "actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3}
EXPLORES_LESS = {"initial_temperature": 0.05, "target_entropy": -2.0}


def make(kind, env, dataset=None, **fields):
    online = {} if dataset is not None else ONLINE
    config = kind._config_type(**{**SEQUENCES, **online, **fields})
    data = {} if dataset is None else {"dataset": dataset}
    return kind(env, None, config, eval_during_training=False, **data)


def recalled(n_episodes=64, expert=False, discrete=False):
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
        "actions": (actions[:, 0] > 0).astype(int) if discrete else actions,
        "rewards": np.where(times == 2, signs * actions[:, 0], 0.0).astype(np.float32),
        "next_observations": seen(times + 1),
        "masks": (times < 2).astype(np.float32),
        "ends": times == 2,
    }
    return Dataset(columns)


def learned_returns(agent, **hyperparams):
    """The greedy returns after a training."""
    agent.train(KEY, agent._hyperparams_type(**hyperparams), progress=False)
    return agent.eval(KEY, n_evals=32)["returns"].mean()


@pytest.mark.slow  # half a minute each; the sequences and memories are those of test_sequence_replay
@pytest.mark.parametrize(("kind", "more"), [(SAC, EXPLORES_LESS), (TD3, {})])
def test_learns_what_only_a_memory_can(kind, more):
    agent = make(kind, Recall(continuous=True), **LEARNING)
    assert learned_returns(agent, **HYPERPARAMS, **more) > 0.9


@pytest.mark.parametrize(
    ("kind", "expert"),
    [(BC, True), *(pytest.param(it, False, marks=pytest.mark.slow) for it in (IQL, TD3BC))],
)
def test_learns_from_a_dataset_what_only_a_memory_can(kind, expert):
    sizes = {"minibatch_size": 64, "sequence_length": 8, "burn_in": 2, "memory_size": 16}
    dataset = recalled(256, expert)
    agent = make(kind, Recall(continuous=True), dataset, n_steps=600, features=(16, 16), **sizes)
    rates = {"actor_learning_rate": 3e-3}
    rates |= {} if kind is BC else {"critic_learning_rate": 3e-3}
    rates |= {"beta": 10.0} if kind is IQL else {}
    assert learned_returns(agent, **rates) > 0.6


ONLINE_AGENTS = {
    "sac": lambda: make(SAC, Recall(continuous=True), critic_dropout_rate=0.1),
    "discrete": lambda: make(SAC, Allowed(), normalise_observations=True),
    "td3": lambda: make(TD3, Recall(continuous=True), prioritised_replay=True, n_step_returns=2),
    "no actor": lambda: make(
        TD3,
        Recall(continuous=True),
        memory=None,
        critic_network=WithMemory(ensemblize(Critic, 2)(features=())),
    ),
}


@pytest.mark.parametrize("kind", ONLINE_AGENTS)
def test_the_buffer_holds_the_memories_of_all_networks(kind):
    agent = ONLINE_AGENTS[kind]()
    program, hyperparams = agent.program, agent._hyperparams_type()
    runner = jax.eval_shape(program.start, KEY, hyperparams)
    jax.eval_shape(program.advance, runner, np.int32(1))
    stored = runner.buffer.storage["carries"]
    assert stored.keys() == runner.carry.keys()
    assert stored.keys() == ({"critic"} if kind == "no actor" else {"actor", "critic"})
    acting = jax.eval_shape(agent.initial_carry, runner.learner)
    assert set(acting) == ({"actor"} & stored.keys())


def test_sequences_of_a_dataset_start_anew_with_episodes():
    agent = make(IQL, Recall(continuous=True), recalled(), n_groups=2)
    sample = jax.jit(lambda data, keys: agent.behaviour.with_data(data)._sample(keys))
    batch = sample(agent.data, jax.random.split(KEY, 2))
    steps = batch["observations"]
    times = np.asarray(steps.obs[:, 1]).reshape(-1, 4)
    np.testing.assert_array_equal((times[:, 1:] - times[:, :-1]) % 3, 1.0)
    first = np.asarray(steps.first).reshape(-1, 4)
    np.testing.assert_array_equal(first[:, 1:], times[:, 1:] == 0)
    np.testing.assert_allclose(batch["weights"].reshape(-1, 4)[:, 1:], 4 / 3, rtol=1e-6)
    np.testing.assert_array_equal(batch["weights"].reshape(-1, 4)[:, 0], 0.0)


@pytest.mark.parametrize(
    ("kind", "discrete"),
    [*((kind, False) for kind in (BC, IQL, TD3BC, AWAC, CQL)), (BC, True), (CQL, True)],
)
def test_offline_agents_learn_from_sequences(kind, discrete):
    dataset = recalled(8, discrete=discrete)
    agent = make(kind, Recall(continuous=not discrete), dataset, n_groups=2)
    runner = jax.eval_shape(agent.program.start, KEY, agent._hyperparams_type())
    jax.eval_shape(agent.program.advance, runner, np.int32(1))


def test_datasets_must_say_where_episodes_end():
    columns = {key: x for key, x in recalled().items() if key != "ends"}
    with pytest.raises(KeyError, match=r"IQL learns from .*'ends'\], but the dataset lacks"):
        make(IQL, Recall(continuous=True), Dataset(columns))


def test_names_what_does_not_go_with_a_memory():
    with pytest.raises(ValueError, match=r"sequence_length \* n_groups \(5\) where a network has"):
        make(SAC, Recall(continuous=True), sequence_length=5)
    networks = {"actor_network": Policy(action_dim=1), "critic_network": ensemblize(Critic, 2)()}
    with pytest.raises(ValueError, match=r"actor_network and critic_network are given: put the"):
        make(TD3, Recall(continuous=True), **networks)
