"""Playing episodes on the host."""

import functools
import pickle

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from gymnasium import spaces

from jaxagents.data import Dataset
from jaxagents.host import (
    concatenate_trajectories,
    evaluate,
    evaluate_with_trajectories,
    supply_rng,
)

UNLIMITED = 1000
BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Countdown(gymnasium.Env):
    """Counts down from 2, 3, 4 or 5 to its end; step `t` pays `t` times the sum of the action.

    It writes every observation into the same array.
    """

    observation_space = spaces.Dict(
        {"left": spaces.Box(0, 5, (1,), np.float32), "time": spaces.Discrete(10)}
    )

    def __init__(self, action_space=BOX, limit=UNLIMITED):
        self.action_space, self.limit = action_space, limit
        self.actions, self.starts = [], []
        self.left = np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.left[:] = self.np_random.integers(2, 6)
        self.starts.append(int(self.left[0]))
        return {"left": self.left, "time": self.time}, {}

    def step(self, action):
        self.actions.append(action)
        self.time += 1
        self.left -= 1
        reward = np.float64(self.time * np.sum(action))
        observation = {"left": self.left, "time": self.time}
        return observation, reward, bool(self.left[0] == 0), self.time == self.limit, {}


def half(observation):
    return np.full(2, 0.5)


def test_metrics_of_whole_episodes():
    env = Countdown()
    metrics = evaluate(half, env, 20)
    lengths = np.array(env.starts)
    assert set(metrics) == {"returns", "lengths", "final_rewards", "terminated", "truncated"}
    assert all(values.shape == (20,) for values in metrics.values())
    np.testing.assert_array_equal(metrics["lengths"], lengths)
    np.testing.assert_allclose(metrics["returns"], lengths * (lengths + 1) / 2)
    np.testing.assert_allclose(metrics["final_rewards"], lengths)
    assert metrics["terminated"].dtype == metrics["truncated"].dtype == bool
    assert metrics["terminated"].all()
    assert not metrics["truncated"].any()
    assert len(set(env.starts)) == 4
    for wrap, space in (("TransformReward", ()), ("TransformObservation", (None,))):
        infinite = getattr(gymnasium.wrappers, wrap)(env, lambda x: np.inf, *space)
        assert np.isnan(evaluate(half, infinite, 2)["returns"]).all()


def test_the_seed_decides_the_episodes():
    def starts(n_episodes, seed):
        env = Countdown()
        evaluate(half, env, n_episodes, seed=seed)
        return env.starts

    assert starts(12, seed=1) == starts(12, seed=1)
    assert starts(5, seed=jnp.int32(1)) == starts(12, seed=1)[:5]
    assert starts(12, seed=1) != starts(12, seed=2)
    assert starts(12, seed=0)[1:] != starts(12, seed=1)[:-1]
    with pytest.raises(ValueError, match="non-negative"):
        starts(1, seed=-1)


@pytest.mark.parametrize(
    ("space", "output", "kind", "value"),
    [
        (BOX, jnp.array([0.25, 9.0]), np.float32, [0.25, 9.0]),
        (BOX, [1, -1], np.float32, [1.0, -1.0]),
        (spaces.Discrete(4), jnp.int32(3), int, 3),
        (spaces.MultiDiscrete([3, 4]), jnp.array([2, 3]), np.int64, [2, 3]),
    ],
)
def test_actions_are_as_the_environment_takes_them(space, output, kind, value):
    env = Countdown(space)
    evaluate(lambda observation: output, env, 1)
    action = env.actions[0]
    assert type(action) is int if kind is int else action.dtype == kind
    np.testing.assert_array_equal(action, value)


@pytest.mark.parametrize(
    ("space", "output", "found"),
    [
        (BOX, np.zeros((1, 2)), r"shape \(1, 2\) and dtype float64"),
        (BOX, np.zeros(2, complex), r"shape \(2,\) and dtype complex128"),
        (spaces.Discrete(4), np.float32(1.0), r"shape \(\) and dtype float32"),
    ],
)
def test_refuses_actions_that_do_not_fit_and_what_is_no_single_environment(space, output, found):
    with pytest.raises(ValueError, match=rf"one action of {space.__class__.__name__}.*{found}"):
        evaluate(lambda observation: output, Countdown(space), 1)
    for env in (gymnasium.make_vec("CartPole-v1", num_envs=2), "CartPole-v1"):
        with pytest.raises(TypeError, match=f"a single Gymnasium .*got {type(env).__name__}"):
            evaluate(half, env)
    with pytest.raises(ValueError, match="n_episodes must be a positive integer, got 0"):
        evaluate(half, Countdown(), 0)


def test_trajectories_hold_every_step_and_make_a_dataset():
    env = Countdown(limit=4)
    metrics, trajectories = evaluate_with_trajectories(half, env, 10)
    for name, values in evaluate(half, Countdown(limit=4), 10).items():
        np.testing.assert_array_equal(metrics[name], values)
    starts = np.array(env.starts)
    np.testing.assert_array_equal(metrics["lengths"], np.minimum(starts, 4))
    np.testing.assert_array_equal(metrics["truncated"], starts >= 4)
    np.testing.assert_array_equal(metrics["terminated"], starts <= 4)
    for trajectory, start in zip(trajectories, starts, strict=True):
        time = np.arange(min(start, 4), dtype=np.float32)
        expected = {
            "observations": {"left": (start - time)[:, None], "time": time.astype(int)},
            "actions": np.full((len(time), 2), 0.5, np.float32),
            "rewards": time + 1,
            "next_observations": {
                "left": (start - time - 1)[:, None],
                "time": time.astype(int) + 1,
            },
            "masks": np.float32(time + 1 != start),
            "ends": time == len(time) - 1,
        }
        trees.assert_equal({**trajectory}, expected)
        numbers = "actions", "rewards", "masks", "ends"
        assert [trajectory[x].dtype for x in numbers] == [expected[x].dtype for x in numbers]
    dataset = concatenate_trajectories(trajectories, seed=3)
    ends = metrics["lengths"].cumsum()
    np.testing.assert_array_equal(np.flatnonzero(dataset["ends"]) + 1, ends)
    assert len(dataset) == ends[-1]
    expected = np.concatenate([trajectory["observations"]["left"] for trajectory in trajectories])
    np.testing.assert_array_equal(dataset["observations"]["left"], expected)
    again = concatenate_trajectories(trajectories, seed=3)
    np.testing.assert_array_equal(dataset.sample(5)["rewards"], again.sample(5)["rewards"])
    with pytest.raises(ValueError, match="There are no trajectories"):
        concatenate_trajectories([])


def test_an_environment_that_overwrites_its_action_changes_no_record():
    class Overwriting(Countdown):
        def step(self, action):
            outcome = super().step(jax.tree.map(np.copy, action))
            jax.tree.map(lambda x: x.fill(9), action)
            return outcome

    given = np.full(2, 0.5, np.float32)  # the policy's own array, which stays as it is too
    two = spaces.Tuple([BOX, BOX])
    for space, output in ((BOX, given), (two, (given, given)), (two, (jnp.full(2, 0.5), given))):
        _, (trajectory,) = evaluate_with_trajectories(lambda _, x=output: x, Overwriting(space), 1)
        for actions in jax.tree.leaves(trajectory["actions"]):
            np.testing.assert_array_equal(actions, np.full_like(actions, 0.5))
        np.testing.assert_array_equal(given, [0.5, 0.5])


def test_a_policy_that_overwrites_its_observation_changes_no_record():
    def policy(observation):
        observation["left"] /= 255
        return half(observation)

    for trajectory, other in zip(
        *(evaluate_with_trajectories(policy, Countdown(), 2)[1] for policy in (policy, half)),
        strict=True,
    ):
        trees.assert_equal(trajectory, other)


def test_trajectories_know_the_box_of_their_actions():
    wide = spaces.Box(-2.0, 2.0, (2,), np.float32)
    (own,), (other,), (none,) = (
        evaluate_with_trajectories(half, Countdown(space), 1)[1]
        for space in (wide, BOX, spaces.Box(-np.inf, np.inf, (2,), np.float32))
    )
    known = Dataset({"actions": own["actions"]}, action_space=wide).action_space
    mapped = jax.tree.map(lambda x: x[:1], own)
    for made in (
        own,
        mapped,
        pickle.loads(pickle.dumps(own)),
        concatenate_trajectories([own, own]),
    ):
        assert made.action_space == known
    assert none.action_space is None
    for others in ([own, other], [own, {**own}]):
        with pytest.raises(ValueError, match=r"in different units: \(-[12], .* and "):
            concatenate_trajectories(others)


def test_actions_of_tuples_pass_through_and_become_dicts_of_a_dataset():
    env = Countdown(spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]))
    _, trajectories = evaluate_with_trajectories(lambda observation: (jnp.int32(1), 0), env, 1)
    assert env.actions[0] == (1, 0)
    assert isinstance(env.actions[0][0], np.ndarray | np.generic)
    dataset = concatenate_trajectories(trajectories)
    np.testing.assert_array_equal(dataset["actions"]["0"], np.ones(len(dataset)))
    np.testing.assert_array_equal(dataset["actions"]["1"], np.zeros(len(dataset)))


def test_a_fresh_key_at_each_call():
    def sample(observation, *, seed, scale=1.0):
        return scale * jax.random.uniform(seed, (2,))

    policy = supply_rng(sample)
    first, second = policy(None), policy(None)
    assert (first != second).all()
    again = supply_rng(sample, jax.random.key(0))
    np.testing.assert_array_equal(again(None), first)
    np.testing.assert_array_equal(again(None, scale=2.0), 2.0 * second)
    assert (supply_rng(sample, jax.random.PRNGKey(1))(None) != first).all()
    np.testing.assert_array_equal(supply_rng(sample, 0)(None), first)
    with pytest.raises(TypeError, match="Expected a random key"):
        supply_rng(sample, 0.5)
    policy = functools.partial(sample, scale=0.5)
    runs = [evaluate(supply_rng(policy), Countdown(), 5)["returns"] for _ in range(2)]
    np.testing.assert_array_equal(*runs)
