"""Mistakes with datasets, replay buffers and batches."""

import numpy as np
from probes import MatchSign, Target

from jaxagents import BC, CQL, bc, cql
from jaxagents.data import Dataset, DeviceBuffer, ReplayBuffer
from mistakes.entries import Theme
from mistakes.things import arrays, box_learner, dqn_learner, make_bc, with_one

mistake = Theme("Datasets and replay")

TRANSITION = {"observations": np.zeros(2, np.float32), "actions": np.int32(0)}


def cql_agent(**others):
    config = cql.AgentConfig(n_steps=2, minibatch_size=8, features=(4,))
    return CQL(MatchSign(), None, config, dataset=Dataset(arrays(**others)))


def sequences(**others):
    """A dataset for an agent with a memory, in the order of time."""
    numbers = np.arange(33, dtype=np.float32).repeat(2).reshape(33, 2) / 33
    given = {"observations": numbers[:-1], "next_observations": numbers[1:], **others}
    return Dataset(arrays(masks=np.ones(32, np.float32), ends=np.zeros(32, bool), **given))


def make_with_memory(dataset):
    fields = {"minibatch_size": 8, "sequence_length": 4, "features": (4,), "memory": "gru"}
    return CQL(MatchSign(), None, cql.AgentConfig(n_steps=2, **fields), dataset=dataset)


@mistake(ValueError, r"'x' is no array: ")
def ragged_lists():
    """Lists of different lengths for an array."""
    Dataset({"x": [[1.0], [1.0, 2.0]]})


@mistake(ValueError, r"'actions' has 2 rows, but 'observations' has 3")
def different_numbers_of_rows():
    """Arrays with different numbers of rows."""
    Dataset({"observations": np.zeros((3, 2)), "actions": np.zeros(2)})


@mistake(ValueError, r"'rewards' is a scalar, but needs a leading axis of rows")
def scalar_for_an_array():
    """A scalar for an array."""
    Dataset({"rewards": 1.0})


@mistake(TypeError, r"Keys must be strings, got 1")
def key_that_is_no_string():
    """A key that is no string."""
    Dataset({1: np.zeros(3)})


@mistake(ValueError, r"Keys must not contain '/', got 'a/b'")
def key_with_a_slash():
    """A key with a slash."""
    Dataset({"a/b": np.zeros(3)})


@mistake(ValueError, r"There are no arrays")
def no_arrays():
    """A dataset of nothing."""
    Dataset({})


@mistake(ValueError, r"batch_size must be positive, got 0")
def empty_batch():
    """A batch of no rows."""
    Dataset(arrays()).sample(0)


@mistake(IndexError, r"must lie in \[0, 32\), got -1 to 3")
def row_that_does_not_exist():
    """A row that does not exist."""
    Dataset(arrays()).sample(2, indx=[3, -1])


@mistake(KeyError, r"n_step needs 'ends'; the dataset has")
def steps_without_ends():
    """Returns of several steps without the ends of episodes."""
    Dataset(arrays()).n_step(3, 0.99)


@mistake(ValueError, r"n must be positive, got 0")
def no_steps():
    """Returns of no steps."""
    Dataset(arrays(ends=np.ones(32, bool))).n_step(0, 0.99)


@mistake(ValueError, r"Row 0 has a mask of 0, so the row must be an end")
def episode_that_does_not_end():
    """An episode that goes on after it has terminated."""
    Dataset(arrays(ends=np.zeros(32, bool))).n_step(2, 0.99)


@mistake(ValueError, r"fraction must leave rows on both sides of 32, got 1\.5")
def fraction_above_one():
    """A split beyond all rows."""
    Dataset(arrays()).split(1.5)


@mistake(TypeError, r"keys must be a list of names, got 'observations'; try \['observations'\]")
def name_for_a_list():
    """One name where a list of names is needed."""
    Dataset(arrays()).normalise("observations")


@mistake(TypeError, r"'rewards' must hold real numbers, got an array of type object: cast it")
def rewards_that_are_objects():
    """Rewards of a dataset in an array of objects, as tables of several types give them."""
    cql_agent(rewards=np.zeros(32, object))


@mistake(ValueError, r"'rewards' .* NaN or infinite in 1 of 32 rows.* row 3")
def rewards_that_are_no_numbers():
    """NaN among the rewards of a dataset."""
    cql_agent(rewards=with_one(np.nan))


@mistake(ValueError, r"'next_observations' .* NaN or infinite in 32 of 32 rows.* row 0")
def observations_that_are_no_numbers():
    """NaN among the observations of a dataset."""
    cql_agent(next_observations=np.full((32, 2), np.nan, np.float32))


@mistake(ValueError, r"'rewards' .* NaN or infinite in 1 of 32 rows")
def infinite_rewards():
    """Infinite rewards in a dataset."""
    cql_agent(rewards=with_one(np.inf))


@mistake(ValueError, r"'masks' .* 0 .* 1 .*got 7.* in 1 of 32 rows.* row 3")
def masks_of_another_meaning():
    """Masks that are neither 0 nor 1."""
    cql_agent(masks=with_one(7))


@mistake(KeyError, r"CQL learns from .*, but the dataset lacks \['rewards'\]; it has")
def dataset_without_rewards():
    """A dataset without rewards for an agent that learns from them."""
    data = arrays()
    del data["rewards"]
    config = cql.AgentConfig(n_steps=2, minibatch_size=8, features=(4,))
    CQL(MatchSign(), None, config, dataset=Dataset(data))


@mistake(ValueError, r"CQL has a memory, .* give the dataset without n_step, or an agent without")
def several_steps_for_a_memory():
    """A dataset of returns over several steps for an agent with a memory."""
    make_with_memory(sequences().n_step(2, 0.99))


@mistake(ValueError, r"CQL has a memory, .*'next_observations' of row 0 are not .* whole episodes")
def shuffled_rows_for_a_memory():
    """A shuffled dataset for an agent with a memory."""
    rows = np.random.default_rng(0).permutation(32)
    make_with_memory(Dataset({key: x[rows] for key, x in sequences().items()}))


@mistake(ValueError, r"n_step needs rows that follow .* take n_step before split and get_subset")
def steps_of_a_split():
    """Returns over several steps of a part of a dataset that was split at random."""
    sequences().split(0.9)[0].n_step(2, 0.99)


@mistake(ValueError, r"has no rows; it needs at least one")
def dataset_without_rows():
    """A dataset without rows."""
    make_bc(Dataset(arrays(0)))


@mistake(ValueError, r"has 32 rows; it needs at least one for each of 33 groups")
def more_groups_than_rows():
    """More groups than rows."""
    make_bc(n_groups=33, minibatch_size=66)


@mistake(
    ValueError,
    r"dataset's observations have shape \(3,\), but those of the environment have \(",
)
def observations_of_another_environment():
    """A dataset of another environment."""
    make_bc(Dataset(arrays(observations=np.zeros((32, 3), np.float32))))


@mistake(TypeError, r"Discrete actions must be integers, got type float32")
def float_actions_in_a_dataset():
    """Floats as discrete actions of a dataset."""
    make_bc(Dataset(arrays(actions=np.zeros(32, np.float32))))


@mistake(
    ValueError, r"dataset's actions lie in \[0, 2\], which is not inside of MatchSign's action_sp"
)
def unknown_actions_in_a_dataset():
    """Actions of a dataset that the environment does not have."""
    make_bc(Dataset(arrays(actions=with_one(2).astype(int))))


@mistake(ValueError, r"actions lie in \[-100, 0\], .* They must be in the environment's units")
def actions_in_other_units():
    """Actions of a dataset outside of the box."""
    actions = np.zeros((32, 2), np.float32)
    actions[0] = -100
    config = bc.AgentConfig(n_steps=2, minibatch_size=8, features=(4,))
    BC(Target(), None, config, dataset=Dataset(arrays(actions=actions)))


@mistake(ValueError, r"\.csv|ending")
def unknown_format(folder):
    """A file of an unknown format."""
    Dataset(arrays()).save(folder / "data.csv")


@mistake(FileExistsError, r"data\.npz")
def file_that_exists(folder):
    """A file that exists already."""
    (folder / "data.npz").write_text("mine")
    Dataset(arrays()).save(folder / "data.npz")


@mistake(TypeError, r"capacity must be a whole number, got 1000000\.0")
def float_capacity():
    """A float for the capacity of a buffer: `1e6`."""
    DeviceBuffer.create(TRANSITION, 1e6)


@mistake(ValueError, r"n_envs \(4\), got 10; 8 or 12 would do")
def uneven_capacity():
    """A capacity that the environments cannot share."""
    DeviceBuffer.create(TRANSITION, 10, 4)


@mistake(TypeError, r"size must be a whole number, got 1000000\.0")
def float_size():
    """A float for the size of a replay buffer: `1e6`."""
    ReplayBuffer.create(TRANSITION, 1e6)


@mistake(ValueError, r"The transition has no 'actions'")
def incomplete_transition():
    """A transition without its action."""
    ReplayBuffer.create(TRANSITION, 4).add_transition({"observations": np.zeros(2, np.float32)})


@mistake(TypeError, r"'actions' has type float32, but the buffer holds int32")
def transition_of_another_type():
    """A transition of another type."""
    buffer = ReplayBuffer.create(TRANSITION, 4)
    buffer.add_transition({**TRANSITION, "actions": np.float32(0)})


@mistake(TypeError, r"A learner is given a dict of arrays under \['observations', .*got a tuple")
def batch_that_is_no_dict():
    """A batch that is a tuple."""
    dqn_learner().update((np.zeros((4, 2)), np.zeros(4, np.int32)))


@mistake(TypeError, r"'actions' must be an array, got a list: give np\.array")
def list_in_a_batch():
    """A list in a batch."""
    dqn_learner().update({**arrays(4), "actions": [0, 1, 0, 1]})


@mistake(KeyError, r"The learner learns from .*, but the batch lacks \['masks'\]; it has")
def incomplete_batch():
    """A batch that lacks an array."""
    batch = arrays(4)
    del batch["masks"]
    dqn_learner().update(batch)


@mistake(
    ValueError, r"'rewards' must have one number for each sample, shape \(batch\), got .*\(4, 1\)"
)
def column_of_rewards():
    """Rewards with a further axis."""
    dqn_learner().update(arrays(4, rewards=np.zeros((4, 1), np.float32)))


@mistake(ValueError, r"'rewards' has shape \(3,\), but 'actions' has shape \(4,\)")
def samples_of_different_number():
    """A batch of arrays of different lengths."""
    dqn_learner().update(arrays(4, rewards=np.zeros(3, np.float32)))


@mistake(ValueError, r"'next_observations' must be shaped as 'observations'")
def successors_of_another_shape():
    """Successors shaped otherwise than observations."""
    dqn_learner().update(arrays(4, next_observations=np.zeros((4, 3), np.float32)))


@mistake(
    ValueError, r"policy gives actions of shape \(4, 1\), but there are actions of shape \(4, 2\)"
)
def batch_of_other_actions():
    """A batch with actions of another size."""
    box_learner().update(arrays(4, actions=np.zeros((4, 2), np.float32)))
