"""Parallel PettingZoo environments as arrays with a row per agent."""

import numpy as np
import pytest
import trees
from gymnasium import spaces
from parallel_probes import LIMIT, Relay
from pettingzoo import ParallelEnv

from jaxagents.engine.host_play import Player, play_one_each
from jaxagents.envs import PettingZoo
from jaxagents.envs.episodes import InfoNames
from jaxagents.envs.on_host.environment import Terms
from jaxagents.envs.on_host.episodes import HostEpisodes, Played
from jaxagents.envs.on_host.parallel import Actors, ParallelCopies

N_ENVS = 3
SEEDS = np.arange(N_ENVS, dtype=np.uint32)
ALL = np.ones(N_ENVS, bool)


TERMS = Terms(max_steps=100, info_names=InfoNames(final=("sum",)))


def copies(terms=TERMS):
    envs = [Relay() for _ in range(N_ENVS)]
    return ParallelCopies(envs, Actors(Relay(), "relay"), terms), envs


def begun():
    vector, envs = copies()
    episodes, none = HostEpisodes(vector, max_steps=100), np.zeros(N_ENVS, np.int32)
    first = Played(SEEDS, none, np.zeros((N_ENVS, LIMIT, 2), np.int32), none)
    episodes.go_to(first, vector.reset(SEEDS.tolist(), ALL))
    return episodes, envs


def actions_of(time):
    return np.array([[time % 2, 1], [1, 2], [0, time % 3]], np.int32)


def test_steps_lead_to_the_true_successor_until_no_agent_is_left():
    (episodes, envs), seen = begun(), set()
    for time in range(60):
        before, ends = episodes.obs, [env.ends for env in envs]
        step = episodes.step(actions_of(time))
        for i, of_each in enumerate(ends):
            clock = int(before["observation"][i, :, 1].max()) + 1
            in_game, actions = before["actor_mask"][i], actions_of(time)[i]
            of_each = np.array([of_each["near"], of_each["far"]])
            np.testing.assert_array_equal(in_game, of_each >= clock)
            numbers = step.next_obs["observation"][i, :, :3]
            np.testing.assert_array_equal(numbers[~in_game], 0)
            np.testing.assert_array_equal(numbers[in_game, 1], clock)
            sums = actions + before["observation"][i, :, 2]
            np.testing.assert_array_equal(numbers[in_game, 2], sums[in_game])
            np.testing.assert_array_equal(step.reward[i], (actions == 1) & in_game)
            expected = np.where(in_game, numbers[:, 2], np.nan)
            np.testing.assert_array_equal(step.info["sum"][i], expected)
            ended = in_game & (of_each == clock)
            cut = in_game & (of_each > clock) & (clock == LIMIT)
            over = (~in_game | ended | cut).all()
            assert step.truncated[i] == (over and cut.any())
            assert step.terminated[i] == (over and not cut.any())
            plays_on = in_game if step.terminated[i] else in_game & ~ended
            np.testing.assert_array_equal(step.next_obs["actor_mask"][i], plays_on)
            flags = over, ended.any(), cut.any(), in_game.all()
            seen.add("".join("ny"[int(flag)] for flag in flags))
    both_at_once, one_leaves, the_other_ends = "yyyy", "nyny", "yynn"
    assert {both_at_once, one_leaves, the_other_ends} <= seen


def test_episodes_go_on_where_they_were():
    episodes, _ = begun()
    for time in range(10):
        episodes.step(actions_of(time))
    played, obs = Played(*map(np.copy, episodes.played)), episodes.obs
    assert len({*played.step.tolist()}) > 1
    later = [episodes.step(actions_of(time)) for time in range(10, 20)]
    other = HostEpisodes(copies()[0], max_steps=100)
    assert other.go_to(played, obs).all()
    for time, expected in enumerate(later, 10):
        trees.assert_equal(other.step(actions_of(time)), expected)


class Shaped(Relay):
    """Rewards and ends are arrays of one number, and agents that terminate are truncated as well."""

    def step(self, actions):
        seen, rewards, ended, cut, infos = super().step(actions)
        cut = {agent: cut[agent] or ended[agent] for agent in cut}

        def shaped(numbers):
            return {agent: np.array([x]) for agent, x in numbers.items()}

        return seen, shaped(rewards), shaped(ended), shaped(cut), infos


def test_rewards_and_ends_may_be_arrays_of_one():
    vectors = [ParallelCopies([make()], Actors(make(), "relay"), TERMS) for make in (Relay, Shaped)]
    for vector in vectors:
        vector.reset([0], ALL[:1])
    over = False
    while not over:
        step, shaped = (vector.step(np.array([[1, 2]], np.int32)) for vector in vectors)
        trees.assert_equal(step, shaped)
        over = (step.terminated | step.truncated).all()


def test_infos_of_episodes_are_sums_and_the_last_of_each_actor():
    names = InfoNames(final=("sum",), summed=("sun",))
    episodes = HostEpisodes(copies(Terms(100, info_names=names))[0], max_steps=100)
    player = Player(lambda carry, obs, time: (carry, np.ones((N_ENVS, 2), np.int32)), ())
    outcomes = play_one_each(episodes, SEEDS, player)
    np.testing.assert_array_equal(outcomes.info["sum"], outcomes.returns)
    np.testing.assert_array_equal(outcomes.info["sun"], 0)
    with pytest.warns(UserWarning, match=r"name 'sun', which no info .* did you mean 'sum'"):
        episodes.infos.warn()
    episodes.infos.warn()
    with pytest.raises(ValueError, match=r"'sum', which must be a number, but .* has 'much'"):
        episodes.infos.of_actors({"near": {"sum": "much"}}, ["near"])


def test_smaller_observations_are_filled_up_and_actions_masked():
    obs = copies(Terms(100, shows_critic_state=True))[0].reset(SEEDS.tolist(), ALL)
    assert obs["observation"].shape == (N_ENVS, 2, 4)
    np.testing.assert_array_equal(obs["observation"][:, :, 3], [[0, 9]] * N_ENVS)
    np.testing.assert_array_equal(obs["action_mask"], [[[1, 1, 0], [1, 1, 1]]] * N_ENVS)
    assert obs["critic_state"].shape == (N_ENVS, 3)
    assert obs["critic_state"].dtype == obs["observation"].dtype == np.float32
    assert "critic_state" not in copies()[0].reset(SEEDS.tolist(), ALL)


class Still(ParallelEnv):
    """Agents with spaces of a test, which is told their actions."""

    state = {}  # noqa: RUF012 (as some environments have it)

    possible_agents = ("a", "b")
    reward = 0.0

    def __init__(self, seen, actions, infos=None):
        self.spaces, self.actions, self.infos = seen, actions, infos or ({}, {})
        self.agents = [*self.possible_agents]

    def observation_space(self, agent):
        return self.spaces["ab".index(agent)]

    def action_space(self, agent):
        return self.actions["ab".index(agent)]

    def reset(self, seed=None, options=None):
        infos = {"a": self.infos[0], "b": self.infos[1]}
        return {agent: self.observation_space(agent).sample() for agent in "ab"}, infos

    def step(self, actions):
        never, (seen, infos) = dict.fromkeys("ab", False), self.reset()
        self.taken = actions
        return seen, dict.fromkeys("ab", self.reward), never, never, infos


NUMBERS = spaces.Box(-1, 1, (2,))
TWO = [spaces.Discrete(2)] * 2
BOTH = np.ones(2, bool)


def test_policies_are_given_observations_by_agent_unless_masks_come_in_infos():
    env, like = PettingZoo(Relay), Actors(Relay(), "relay").example()[0]
    env_by_agent, _ = Relay().reset(seed=0)
    seen = env.to_agent({"far": env_by_agent["far"]}, like)
    np.testing.assert_array_equal(seen["actor_mask"], [False, True])
    np.testing.assert_array_equal(seen["observation"][1], env_by_agent["far"])
    assert env.from_agent({"far": 0}, np.int32([1, 2])) == {"far": 2}
    np.testing.assert_array_equal(env.from_agent(seen, np.int32([1, 2])), [1, 2])
    with_state = env.to_agent(env_by_agent, {**like, "critic_state": np.zeros(3)})
    np.testing.assert_array_equal(with_state["critic_state"], np.zeros(3))
    masked = PettingZoo(Still([NUMBERS] * 2, TWO, [{"action_mask": np.int8([0, 1])}] * 2))
    with pytest.raises(ValueError, match=r"masks of actions in infos, which policy\(obs"):
        masked.to_agent(masked.env.reset()[0], like)


def test_masks_are_those_of_infos_or_of_observations():
    masks = np.int8([0, 1, 1]), np.int8([1, 0])
    infos = [{"action_mask": mask} for mask in masks]
    env = Still([NUMBERS] * 2, [spaces.Discrete(3), spaces.Discrete(2)], infos)
    obs = Actors(env, "still").observation(*env.reset(), BOTH, None)
    np.testing.assert_array_equal(obs["action_mask"], [[False, True, True], [True, False, False]])
    seen = spaces.Dict({"observation": NUMBERS, "action_mask": spaces.MultiBinary(3)})
    env = Still([seen] * 2, [spaces.Discrete(3)] * 2)
    actors, (observations, said) = Actors(env, "still"), env.reset()
    obs = actors.observation(observations, said, BOTH, None)
    np.testing.assert_array_equal(obs["observation"][1], observations["b"]["observation"])
    np.testing.assert_array_equal(obs["action_mask"][1], observations["b"]["action_mask"])
    assert actors.observation_space.shape == (2,)
    with pytest.raises(ValueError, match=r"action masks, .* but they are MultiDiscrete"):
        Actors(Still([seen] * 2, [spaces.MultiDiscrete([2, 3])] * 2), "still")
    env = Still([NUMBERS] * 2, TWO)
    with pytest.raises(ValueError, match="gives b an 'action_mask', but gave no agent one when"):
        Actors(env, "still").observation(env.reset()[0], {"b": infos[1]}, BOTH, None)


def test_images_stay_bytes_and_what_is_no_box_is_flattened():
    image = spaces.Box(0, 255, (5, 4, 3), np.uint8)
    obs, _ = Actors(Still([image] * 2, TWO), "still").example()
    assert obs["observation"].shape == (2, 5, 4, 3)
    assert obs["observation"].dtype == np.uint8
    assert "action_mask" not in obs
    actors = Actors(Still([spaces.Discrete(3), NUMBERS], TWO), "still")
    obs = actors.observation({"a": 2, "b": np.float32([0.5, -0.5])}, {}, BOTH, None)
    np.testing.assert_array_equal(obs["observation"], [[0, 0, 1], [0.5, -0.5, 0]])
    actors, zeros = Actors(Still([NUMBERS] * 2, TWO), "still"), np.zeros(2, np.uint8)
    for seen in ({"a": zeros}, {"a": zeros, "b": zeros}):  # of another type than their space
        assert actors.observation(seen, {}, BOTH, None)["observation"].dtype == np.float32


def test_actions_of_boxes_are_cut_to_those_that_an_agent_has():
    small, large = (spaces.Box(-1, 1, (n,)) for n in (1, 2))
    env = Still([NUMBERS] * 2, [small, large])
    ParallelCopies([env], Actors(env, "still"), TERMS).step(np.float32([[[0.1, 0.2], [0.3, 0.4]]]))
    np.testing.assert_array_equal(env.taken["a"], np.float32([0.1]))
    np.testing.assert_array_equal(env.taken["b"], np.float32([0.3, 0.4]))
    pair = spaces.MultiDiscrete([2, 3])
    env = Still([NUMBERS] * 2, [pair, pair])
    assert Actors(env, "still").actions(np.array([[0, 1], [1, 2]]), ["b"])["b"].tolist() == [1, 2]


@pytest.mark.parametrize("sizes", [(2, 2), (1, 2)])
def test_actions_of_boxes_of_double_precision_stay_within_them(sizes):
    env = Still([NUMBERS] * 2, [spaces.Box(-0.1, 0.1, (n,), np.float64) for n in sizes])
    episodes = HostEpisodes(ParallelCopies([env], Actors(env, "still"), TERMS), max_steps=9)
    episodes.restart(SEEDS[:1])
    episodes.step(np.float32([[[-9, 9], [0.1, -0.1]]]))
    assert all(env.action_space(agent).contains(x) for agent, x in env.taken.items())


def test_no_environment_is_played_in_twice():
    """As in vectors of Gymnasium."""
    env = Relay()
    with pytest.raises(
        ValueError, match=r"The same Relay is there twice.*not `lambda: env` or `\[env\] \* n`"
    ):
        PettingZoo([env] * 2).playing("training", 2, TERMS).__enter__()
    several = PettingZoo([Relay(), Relay()])
    with (
        several.playing("training", 2, TERMS),
        pytest.raises(ValueError, match="relay is already"),
    ):
        several.for_agent().playing("training", 2, TERMS).__enter__()
