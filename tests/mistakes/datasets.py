"""Mistakes with datasets, replay buffers and batches."""

import numpy as np
from probes import Box, MatchSign, Target

from jaxagents import BC, CQL, bc, cql
from jaxagents.data import Dataset, DeviceBuffer, ReplayBuffer
from mistakes.things import arrays, box_learner, dqn_learner, make_bc, with_one

TRANSITION = {"observations": np.zeros(2, np.float32), "actions": np.int32(0)}


def without(name, n_rows=32):
    return {key: values for key, values in arrays(n_rows).items() if key != name}


def make_cql(dataset, **fields):
    config = cql.AgentConfig(n_steps=2, minibatch_size=8, features=(4,), **fields)
    return CQL(MatchSign(), None, config, dataset=dataset)


def cql_agent(**others):
    return make_cql(Dataset(arrays(**others)))


def sequences(**others):
    """A dataset for an agent with a memory, in the order of time."""
    numbers = np.arange(33, dtype=np.float32).repeat(2).reshape(33, 2) / 33
    given = {"observations": numbers[:-1], "next_observations": numbers[1:], **others}
    return Dataset(arrays(masks=np.ones(32, np.float32), ends=np.zeros(32, bool), **given))


def make_with_memory(dataset):
    return make_cql(dataset, sequence_length=4, memory="gru")


def shuffled_rows_for_a_memory():
    rows = np.random.default_rng(0).permutation(32)
    make_with_memory(Dataset({key: x[rows] for key, x in sequences().items()}))


def actions_in_other_units():
    actions = np.zeros((32, 2), np.float32)
    actions[0] = -100
    config = bc.AgentConfig(n_steps=2, minibatch_size=8, features=(4,))
    BC(Target(), None, config, dataset=Dataset(arrays(actions=actions)))


def make_narrow_bc(values, **known):
    actions = np.full((32, 2), values, np.float32)
    config = bc.AgentConfig(n_steps=2, minibatch_size=8, features=(4,))
    BC(Narrow(), None, config, dataset=Dataset(arrays(actions=actions), **known))


class Narrow(Target):
    def action_space(self, params):
        return Box(-0.4, 0.4, (2,))


def file_that_exists(folder):
    (folder / "data.npz").write_text("mine")
    Dataset(arrays()).save(folder / "data.npz")


def transition_of_another_type():
    buffer = ReplayBuffer.create(TRANSITION, 4)
    buffer.add_transition({**TRANSITION, "actions": np.float32(0)})


MISTAKES = {
    "Lists of different lengths for an array": lambda: Dataset({"x": [[1.0], [1.0, 2.0]]}),
    "Arrays with different numbers of rows": lambda: Dataset(
        {"observations": np.zeros((3, 2)), "actions": np.zeros(2)}
    ),
    "A scalar for an array": lambda: Dataset({"rewards": 1.0}),
    "A key that is not a string": lambda: Dataset({1: np.zeros(3)}),
    "A key with a slash": lambda: Dataset({"a/b": np.zeros(3)}),
    "A dataset without arrays": lambda: Dataset({}),
    "A batch of no rows": lambda: Dataset(arrays()).sample(0),
    "A row that does not exist": lambda: Dataset(arrays()).sample(2, indx=[3, -1]),
    "n-step returns without the ends of episodes": lambda: Dataset(arrays()).n_step(3, 0.99),
    "n-step returns of no steps": lambda: Dataset(arrays(ends=np.ones(32, bool))).n_step(0, 0.99),
    "An episode that goes on after it has terminated": lambda: Dataset(
        arrays(ends=np.zeros(32, bool))
    ).n_step(2, 0.99),
    "A split beyond the last row": lambda: Dataset(arrays()).split(1.5),
    "One name where a list of names is needed": lambda: Dataset(arrays()).normalise("observations"),
    "Rewards in an array of objects, as from tables with several types": lambda: cql_agent(
        rewards=np.zeros(32, object)
    ),
    "NaN among the rewards of a dataset": lambda: cql_agent(rewards=with_one(np.nan)),
    "Masks that are neither 0 nor 1": lambda: cql_agent(masks=with_one(7)),
    "A dataset without rewards for an agent that learns from them": lambda: make_cql(
        Dataset(without("rewards"))
    ),
    "n-step returns for an agent with a memory": lambda: make_with_memory(
        sequences().n_step(2, 0.99)
    ),
    "A shuffled dataset for an agent with a memory": shuffled_rows_for_a_memory,
    "n-step returns after a random split": lambda: sequences().split(0.9)[0].n_step(2, 0.99),
    "A dataset without rows": lambda: make_bc(Dataset(arrays(0))),
    "More groups than rows": lambda: make_bc(n_groups=33, minibatch_size=66),
    "A dataset of another environment": lambda: make_bc(
        Dataset(arrays(observations=np.zeros((32, 3), np.float32)))
    ),
    "Floats as discrete actions of a dataset": lambda: make_bc(
        Dataset(arrays(actions=np.zeros(32, np.float32)))
    ),
    "Dataset actions that the environment does not have": lambda: make_bc(
        Dataset(arrays(actions=with_one(2).astype(int)))
    ),
    "Dataset actions outside the environment's bounds": actions_in_other_units,
    "Dataset actions that seem to be rescaled to [-1, 1], without saying so": lambda: (
        make_narrow_bc(1.0)
    ),
    "Dataset actions outside the bounds that it states": lambda: make_narrow_bc(
        1.5, action_space=(-1, 1)
    ),
    "A method instead of a space": lambda: Dataset(arrays(), action_space=Target().action_space),
    "A different space than the dataset's own": lambda: Dataset(
        Dataset(arrays(actions=np.zeros((32, 2))), action_space=(-1, 1)), action_space=(-2, 2)
    ),
    "Rescaling actions without known bounds": lambda: Dataset(
        arrays(actions=np.zeros((32, 2)))
    ).rescale_actions(),
    "A file of an unknown format": lambda folder: Dataset(arrays()).save(folder / "data.csv"),
    "A file that exists already": file_that_exists,
    "A float for the capacity of a buffer: `1e6`": lambda: DeviceBuffer.create(TRANSITION, 1e6),
    "A capacity that the environments cannot share": lambda: DeviceBuffer.create(TRANSITION, 10, 4),
    "A float for the size of a replay buffer: `1e6`": lambda: ReplayBuffer.create(TRANSITION, 1e6),
    "A transition without its action": lambda: ReplayBuffer.create(TRANSITION, 4).add_transition(
        {"observations": np.zeros(2, np.float32)}
    ),
    "A transition with another dtype": transition_of_another_type,
    "A batch that is a tuple": lambda: dqn_learner().update(
        (np.zeros((4, 2)), np.zeros(4, np.int32))
    ),
    "A list in a batch": lambda: dqn_learner().update({**arrays(4), "actions": [0, 1, 0, 1]}),
    "A batch that lacks an array": lambda: dqn_learner().update(without("masks", 4)),
    "Rewards with an extra axis": lambda: dqn_learner().update(
        arrays(4, rewards=np.zeros((4, 1), np.float32))
    ),
    "A batch of arrays of different lengths": lambda: dqn_learner().update(
        arrays(4, rewards=np.zeros(3, np.float32))
    ),
    "Next observations with another shape than observations": lambda: dqn_learner().update(
        arrays(4, next_observations=np.zeros((4, 3), np.float32))
    ),
    "A batch with actions of another size": lambda: box_learner().update(
        arrays(4, actions=np.zeros((4, 2), np.float32))
    ),
}
