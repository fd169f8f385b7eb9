"""Episodes in vectors of Gymnasium environments, whichever way these start the next one."""

import functools

import gymnasium
import numpy as np
import pytest
import trees
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium_probes import Unseeded, Walk

from jaxagents.envs import Gymnasium
from jaxagents.envs.episodes import InfoNames
from jaxagents.envs.on_host.environment import Terms
from jaxagents.envs.on_host.episodes import HostEpisodes, Played, fitting_actions
from jaxagents.envs.on_host.vectors import Vector, autoreset_mode

N_ENVS = 3
SEEDS = np.arange(N_ENVS, dtype=np.uint32)
NOT_SEEN = np.zeros((N_ENVS, 3), np.float32)


INFO = InfoNames(final=("won",), summed=("action", "seldom"))


def vector(mode, make=Walk):
    return Vector(SyncVectorEnv([make] * N_ENVS, autoreset_mode=mode), info_names=INFO)


def actions_of(time):
    return np.array([time % 2, 1, (time // 2) % 2], np.int32)


def fresh(longest=5):
    none = np.zeros(N_ENVS, np.int32)
    return Played(SEEDS, none, np.zeros((N_ENVS, longest), np.int32), none)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_steps_that_count_lead_from_each_observation_to_its_true_successor(mode):
    episodes = HostEpisodes(vector(mode), max_steps=100)
    episodes.go_to(fresh(0 if mode != AutoresetMode.DISABLED else 5), NOT_SEEN)
    n_counted = n_ended = 0
    for time in range(60):
        before, actions = episodes.obs, actions_of(time)
        step = episodes.step(actions)
        over = step.terminated | step.truncated
        for i in np.flatnonzero(step.counts):
            number, clock, total = before[i]
            np.testing.assert_array_equal(
                step.next_obs[i], np.float32([number, clock + 1, total + actions[i]])
            )
            assert step.reward[i] == actions[i]
            assert step.info["action"][i] == actions[i]
            assert step.info["won"][i] == step.terminated[i]
            assert step.info["seldom"][i] == 0
            assert step.truncated[i] == (clock + 1 == 5 and not step.terminated[i])
            if over[i] and mode != AutoresetMode.NEXT_STEP:
                assert step.obs[i, 1] == 0
                assert step.obs[i, 0] != number
        n_counted, n_ended = n_counted + step.counts.sum(), n_ended + over.sum()
        assert not (over & ~step.counts).any()
    n_resets = (n_ended - step.starts.sum()) if mode == AutoresetMode.NEXT_STEP else 0
    assert n_ended > 20
    assert n_counted == pytest.approx(60 * N_ENVS - n_resets, abs=N_ENVS)
    assert (episodes.played.number.sum()) == n_ended


def test_episodes_go_on_where_they_were():
    episodes = HostEpisodes(vector(AutoresetMode.DISABLED), max_steps=100)
    episodes.go_to(fresh(), NOT_SEEN)
    for time in range(11):
        episodes.step(actions_of(time))
    played, obs = Played(*map(np.copy, episodes.played)), episodes.obs
    assert len({*played.step.tolist()}) > 1
    later = [episodes.step(actions_of(time)) for time in range(11, 30)]

    others = HostEpisodes(vector(AutoresetMode.DISABLED), max_steps=100)
    for again in (episodes, others):
        again.go_to(played, obs)
        np.testing.assert_array_equal(again.obs, obs)
        assert again.played.is_same(played)
        for time, step in enumerate(later, 11):
            trees.assert_equal(again.step(actions_of(time)), step)


class Strict(gymnasium.Env):
    """Allows other actions at each step, and takes no others."""

    observation_space = spaces.Dict(
        {"observation": spaces.Box(0, 99, (1,)), "action_mask": spaces.MultiBinary(3)}
    )
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = int(seed % 2)
        return self._observation(), {}

    def step(self, action):
        assert self._mask()[action], (action, self.time)
        self.time += 1
        return self._observation(), 0.0, self.time % 7 == 6, False, {}

    def _observation(self):
        return {"observation": np.float32([self.time]), "action_mask": self._mask()}

    def _mask(self):
        return np.arange(3) == self.time % 3


def test_no_action_is_taken_again_where_it_is_not_allowed():
    """Episodes of different lengths, one of which has just begun."""
    make = functools.partial(vector, AutoresetMode.DISABLED, Strict)
    episodes = HostEpisodes(make(), max_steps=100)
    not_seen = {"observation": NOT_SEEN, "action_mask": NOT_SEEN}
    assert episodes.go_to(fresh(longest=10), not_seen).all()
    lengths = set()
    for _ in range(13):
        episodes.step(np.argmax(episodes.obs["action_mask"], axis=-1))
        played, obs = Played(*map(np.copy, episodes.played)), episodes.obs
        lengths.add(tuple(played.step.tolist()))
        others = HostEpisodes(make(), max_steps=100)
        assert others.go_to(played, obs).all()
        trees.assert_equal(others.obs, obs)
    assert any(0 in steps and len({*steps}) > 1 for steps in lengths)


def test_other_actions_are_another_course():
    episodes = HostEpisodes(vector(AutoresetMode.DISABLED), max_steps=100)
    episodes.go_to(fresh(), NOT_SEEN)
    episodes.step(np.ones(N_ENVS, np.int32))
    played = episodes.played
    other = played._replace(actions=played.actions * 0)
    assert played.is_same(played._replace(actions=played.actions + (np.arange(5) > 0)))
    assert not played.is_same(other)
    obs = episodes.obs * [1, 1, 0]
    episodes.go_to(Played(*map(np.copy, other)), obs)
    np.testing.assert_array_equal(episodes.obs, obs.astype(np.float32))


def test_warns_where_the_same_seeds_give_other_episodes():
    episodes = HostEpisodes(vector(AutoresetMode.DISABLED, Unseeded), max_steps=100)
    episodes.go_to(fresh(), NOT_SEEN)
    episodes.step(actions_of(0))
    played, obs = Played(*map(np.copy, episodes.played)), episodes.obs
    episodes.step(actions_of(1))
    with pytest.warns(
        UserWarning, match=r"new episodes in environments \[.*\]: with the same seeds"
    ):
        episodes.go_to(played, obs)
    assert (episodes.played.number == played.number + 1).all()
    assert (episodes.obs[:, 1] == 0).all()


def test_warns_where_the_vector_starts_episodes():
    episodes = HostEpisodes(vector(AutoresetMode.NEXT_STEP), max_steps=100)
    episodes.go_to(fresh(0), NOT_SEEN)
    played, obs = Played(*map(np.copy, episodes.played)), episodes.obs
    episodes.step(actions_of(0))
    episodes.go_to(played, obs)  # before any step, nothing is lost
    episodes.step(actions_of(0))
    played, obs = Played(*map(np.copy, episodes.played)), episodes.obs
    episodes.step(actions_of(1))
    with pytest.warns(UserWarning, match=r"environments \[0, 1, 2\]: this vector starts episodes"):
        episodes.go_to(played, obs)


def test_episodes_too_long_to_be_kept_are_not_played_again():
    episodes = HostEpisodes(vector(AutoresetMode.DISABLED), max_steps=100)
    episodes.go_to(fresh(longest=1), NOT_SEEN)
    episodes.step(actions_of(0))
    episodes.step(actions_of(1))
    played, obs = Played(*map(np.copy, episodes.played)), episodes.obs
    episodes.step(actions_of(2))
    with pytest.warns(UserWarning, match="too long to be kept"):
        episodes.go_to(played, obs)


@pytest.mark.parametrize("terminates", [False, True])
def test_a_limit_of_the_agent_cuts_episodes(terminates):
    episodes = HostEpisodes(vector(AutoresetMode.DISABLED), 2, terminate_at_limits=terminates)
    episodes.go_to(fresh(), NOT_SEEN)
    for time in range(6):
        step = episodes.step(actions_of(time))
        assert (step.terminated | step.truncated).all() == (time % 2 == 1)
        assert not (step.terminated & step.truncated).any()
        assert not (terminates and step.truncated.any())


def test_finds_how_a_vector_starts_episodes_whatever_was_made_after_it():
    first = SyncVectorEnv([Walk], autoreset_mode=AutoresetMode.SAME_STEP)
    SyncVectorEnv([Walk], autoreset_mode=AutoresetMode.DISABLED)
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(first)
    assert autoreset_mode(first) == autoreset_mode(wrapped) == AutoresetMode.SAME_STEP
    several = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point")
    assert autoreset_mode(several) == AutoresetMode.NEXT_STEP


def test_observations_whose_axes_a_wrapper_moved_are_in_order_in_memory():
    """Otherwise every copy of an image takes several times as long."""

    class Upright(gymnasium.vector.VectorObservationWrapper):
        def observations(self, observations):
            return observations.T.copy().T

    inner = SyncVectorEnv([Walk] * N_ENVS, autoreset_mode=AutoresetMode.DISABLED)
    episodes = HostEpisodes(Vector(Upright(inner)), max_steps=100)
    episodes.go_to(fresh(), NOT_SEEN)
    step = episodes.step(actions_of(0))
    assert episodes.obs.flags.c_contiguous
    assert step.next_obs.flags.c_contiguous


def test_a_vector_without_last_observations_is_refused():
    class Forgetful(gymnasium.vector.VectorWrapper):
        def step(self, actions):
            *outcome, _ = self.env.step(actions)
            return *outcome, {}

    inner = SyncVectorEnv([Walk] * N_ENVS, autoreset_mode=AutoresetMode.SAME_STEP)
    episodes = HostEpisodes(Vector(Forgetful(inner)), max_steps=100)
    episodes.go_to(fresh(0), NOT_SEEN)

    def play_five_steps():
        return [episodes.step(actions_of(time)) for time in range(5)]

    with pytest.raises(ValueError, match="lacks final_obs"):
        play_five_steps()


def test_actions_are_moved_into_their_box():
    space = gymnasium.spaces.Dict(
        {
            "box": gymnasium.spaces.Box(np.float32([-1, 0]), np.float32([1, 2]), dtype=np.float32),
            "choice": gymnasium.spaces.Discrete(3),
        }
    )
    actions = {"box": np.float32([[-5, 1], [0.5, 9]]), "choice": np.int32([0, 2])}
    fitted = fitting_actions(space, actions)
    np.testing.assert_array_equal(fitted["box"], [[-1, 1], [0.5, 2]])
    np.testing.assert_array_equal(fitted["choice"], [0, 2])
    assert fitted["choice"].dtype == space["choice"].dtype


def test_actions_are_moved_to_bounds_of_double_precision():
    space = spaces.Box(-0.1, 0.1, (2,), np.float64)
    for action in fitting_actions(space, np.float32([[-5, 5], [0.1, -0.1]])):
        assert space.contains(action)


def test_infos_that_are_no_numbers_are_refused():
    class Recorded(Walk):
        def step(self, action):
            *outcome, info = super().step(action)
            return *outcome, {**info, "won": {"by": 1.0}}

    recorded = vector(AutoresetMode.DISABLED, Recorded)
    recorded.reset(SEEDS.tolist(), np.ones(N_ENVS, bool))
    with pytest.raises(ValueError, match=r"'won', which must be a number, but .* has {'by': "):
        recorded.step(actions_of(0))


def test_no_environment_is_played_in_twice():
    env, terms = Walk(render_mode="rgb_array"), Terms(max_steps=100)
    with pytest.raises(ValueError, match="The same Walk is there twice"):
        Gymnasium(lambda: env).episodes("training", 2, terms)
    for both in (Gymnasium(lambda: env), Gymnasium(env, eval_env=lambda: env)):
        both.episodes("training", 1, terms)
        with pytest.raises(ValueError, match="The same Walk is there twice"):
            both.episodes("evaluation", 1, terms)


def test_a_step_that_failed_is_not_taken_twice():
    fails = []

    class Failing(Walk):
        def step(self, action):
            if fails:
                raise RuntimeError(fails.pop())
            return super().step(action)

    env = SyncVectorEnv([Walk, Failing, Walk], autoreset_mode=AutoresetMode.DISABLED)
    episodes = HostEpisodes(Vector(env), max_steps=100)
    episodes.go_to(fresh(), NOT_SEEN)
    episodes.step(actions_of(0))
    played, obs = Played(*map(np.copy, episodes.played)), episodes.obs
    fails.append("once")
    with pytest.raises(RuntimeError, match="once"):
        episodes.step(actions_of(1))
    assert episodes.go_to(played, obs).all()
    trees.assert_equal(episodes.obs, obs)
    np.testing.assert_array_equal(episodes.step(actions_of(1)).next_obs[:, 1], 2)
