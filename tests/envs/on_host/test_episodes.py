"""Episodes in Gymnasium vector environments, with any autoreset mode."""

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
NEXT_STEP, SAME_STEP, DISABLED = (
    AutoresetMode.NEXT_STEP,
    AutoresetMode.SAME_STEP,
    AutoresetMode.DISABLED,
)


def vector(mode=DISABLED, make=Walk, wrap=lambda env: env):
    envs = SyncVectorEnv([make] * N_ENVS, autoreset_mode=mode)
    return Vector(wrap(envs), info_names=INFO)


def begun(vector, longest=5, not_seen=NOT_SEEN, **options):
    """Episodes that have begun, of which so many actions are kept."""
    episodes, none = HostEpisodes(vector, **{"max_steps": 100, **options}), np.zeros(N_ENVS, int)
    kept = np.zeros((N_ENVS, 0 if vector.starts_episodes else longest), np.int32)
    episodes.go_to(Played(SEEDS, none, kept, none), not_seen)
    return episodes


def actions_of(time):
    return np.array([time % 2, 1, (time // 2) % 2], np.int32)


def place(episodes):
    """How far episodes have come, and what is seen there."""
    return Played(*map(np.copy, episodes.played)), episodes.obs


@pytest.mark.parametrize("mode", AutoresetMode)
def test_steps_that_count_lead_from_each_observation_to_its_true_successor(mode):
    episodes = begun(vector(mode))
    n_counted = n_ended = 0
    for time in range(60):
        before, actions = episodes.obs, actions_of(time)
        step = episodes.step(actions)
        over = step.terminated | step.truncated
        for i in np.flatnonzero(step.counts):
            number, clock, total = before[i]
            successor = np.float32([number, clock + 1, total + actions[i]])
            np.testing.assert_array_equal(step.next_obs[i], successor)
            assert step.reward[i] == step.info["action"][i] == actions[i]
            assert step.info["won"][i] == step.terminated[i]
            assert step.info["seldom"][i] == 0
            assert step.truncated[i] == (clock + 1 == 5 and not step.terminated[i])
            if over[i] and mode != NEXT_STEP:
                assert step.obs[i, 1] == 0
                assert step.obs[i, 0] != number
        n_counted, n_ended = n_counted + step.counts.sum(), n_ended + over.sum()
        assert not (over & ~step.counts).any()
    n_resets = (n_ended - step.starts.sum()) if mode == NEXT_STEP else 0
    assert n_ended > 20
    assert n_counted == pytest.approx(60 * N_ENVS - n_resets, abs=N_ENVS)
    assert episodes.played.number.sum() == n_ended


def test_episodes_go_on_where_they_were():
    episodes = begun(vector())
    for time in range(11):
        episodes.step(actions_of(time))
    played, obs = place(episodes)
    assert len({*played.step.tolist()}) > 1
    later = [episodes.step(actions_of(time)) for time in range(11, 30)]
    for again in (episodes, HostEpisodes(vector(), max_steps=100)):
        assert again.go_to(played, obs).all()
        np.testing.assert_array_equal(again.obs, obs)
        assert again.played.is_same(played)
        for time, step in enumerate(later, 11):
            trees.assert_equal(again.step(actions_of(time)), step)


class Strict(gymnasium.Env):
    """Allows different actions at each step, and rejects all others."""

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
    """Episodes of different lengths; one has just begun."""
    make = functools.partial(vector, DISABLED, Strict)
    not_seen = {"observation": NOT_SEEN, "action_mask": NOT_SEEN}
    episodes, lengths = begun(make(), 10, not_seen), set()
    for _ in range(13):
        episodes.step(np.argmax(episodes.obs["action_mask"], axis=-1))
        played, obs = place(episodes)
        lengths.add(tuple(played.step.tolist()))
        others = HostEpisodes(make(), max_steps=100)
        assert others.go_to(played, obs).all()
        trees.assert_equal(others.obs, obs)
    assert any(0 in steps and len({*steps}) > 1 for steps in lengths)


def test_other_actions_are_another_course():
    episodes = begun(vector())
    episodes.step(np.ones(N_ENVS, np.int32))
    played, obs = place(episodes)
    other = played._replace(actions=played.actions * 0)
    assert played.is_same(played._replace(actions=played.actions + (np.arange(5) > 0)))
    assert not played.is_same(other)
    obs = np.float32(obs * [1, 1, 0])
    episodes.go_to(other, obs)
    np.testing.assert_array_equal(episodes.obs, obs)


@pytest.mark.parametrize(
    ("options", "longest", "message"),
    [
        ({"make": Unseeded}, 5, r"in environments \[.*\]: with the same seeds"),
        ({"mode": NEXT_STEP}, 5, r"\[0, 1, 2\]: this vector starts episodes"),
        ({}, 1, "too long to be kept"),
    ],
)
def test_warns_where_episodes_cannot_go_on_and_starts_the_next(options, longest, message):
    episodes = begun(vector(**options), longest)
    start = place(episodes)
    episodes.step(actions_of(0))
    if "mode" in options:
        episodes.go_to(*start)  # before any step, nothing is lost
        episodes.step(actions_of(0))
    episodes.step(actions_of(1))
    played, obs = place(episodes)
    episodes.step(actions_of(2))
    with pytest.warns(UserWarning, match=message):
        episodes.go_to(played, obs)
    assert (episodes.played.number == played.number + 1).all()
    assert (episodes.obs[:, 1] == 0).all()


@pytest.mark.parametrize("terminates", [False, True])
def test_a_limit_of_the_agent_cuts_episodes(terminates):
    episodes = begun(vector(), max_steps=2, terminate_at_limits=terminates)
    for time in range(6):
        step = episodes.step(actions_of(time))
        assert (step.terminated | step.truncated).all() == (time % 2 == 1)
        assert not (step.terminated & step.truncated).any()
        assert not (terminates and step.truncated.any())


def test_finds_how_a_vector_starts_episodes_whatever_was_made_after_it():
    first = SyncVectorEnv([Walk], autoreset_mode=SAME_STEP)
    SyncVectorEnv([Walk], autoreset_mode=DISABLED)
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(first)
    assert autoreset_mode(first) == autoreset_mode(wrapped) == SAME_STEP
    several = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point")
    assert autoreset_mode(several) == NEXT_STEP
    for mode in AutoresetMode:
        env = Gymnasium(SyncVectorEnv([Walk], autoreset_mode=mode))
        assert env.plays_again == (mode == DISABLED)


class Counting(gymnasium.vector.VectorEnv):
    """Counts to five in each environment, and starts again in the step that gets there."""

    num_envs, metadata = 2, {}
    single_observation_space = spaces.Box(0, 5, (1,))
    single_action_space = spaces.Discrete(2)

    def __init__(self, report):
        self.report = report

    def reset(self, *, seed=None, options=None):
        self.count = np.array([[0.0], [2.0]], np.float32)
        return self.count, {}

    def step(self, actions):
        final = self.count + 1
        over = final[:, 0] == 5
        self.count = np.where(over[:, None], 0, final)
        info = self.report(final, over) if over.any() else {}
        return self.count, np.ones(2), over, np.zeros(2, bool), info


class Declared(Counting):
    metadata = {"autoreset_mode": NEXT_STEP}  # noqa: RUF012 (as Gymnasium has it)


def one_by_one(final, over):
    rows = np.empty(2, object)
    for i in np.flatnonzero(over):
        rows[i] = final[i]
    return {"final_obs": rows, "_final_obs": over}


@pytest.mark.parametrize("kind", [Counting, Declared])
@pytest.mark.parametrize(
    "report",
    [
        one_by_one,
        lambda final, over: {"final_obs": final},
        lambda final, over: {"final_observation": final},
    ],
)
def test_what_comes_back_tells_how_a_vector_starts_episodes(kind, report):
    """All of forty transitions count, and the successor of 4 is 5."""
    episodes = HostEpisodes(Vector(kind(report)), max_steps=100)
    episodes.restart(SEEDS[:2])
    for _ in range(20):
        before, step = episodes.obs, episodes.step(np.zeros(2, np.int32))
        assert step.counts.all()
        np.testing.assert_array_equal(step.next_obs, before + 1)
    assert episodes.played.number.sum() == 8


def test_last_observations_that_are_missing_are_named():
    vector = Counting(lambda final, over: {})
    vector.autoreset_mode = SAME_STEP
    episodes = HostEpisodes(Vector(vector), max_steps=100)
    episodes.restart(SEEDS[:2])
    for _ in range(2):
        episodes.step(np.zeros(2, np.int32))
    with pytest.raises(ValueError, match=r"Counting starts .* no 'final_obs'"):
        episodes.step(np.zeros(2, np.int32))


def test_actions_are_moved_into_their_box():
    box = spaces.Box(np.float32([-1, 0]), np.float32([1, 2]), dtype=np.float32)
    space = spaces.Dict({"box": box, "choice": spaces.Discrete(3)})
    actions = {"box": np.float32([[-5, 1], [0.5, 9]]), "choice": np.int32([0, 2])}
    fitted = fitting_actions(space, actions)
    np.testing.assert_array_equal(fitted["box"], [[-1, 1], [0.5, 2]])
    np.testing.assert_array_equal(fitted["choice"], [0, 2])
    assert fitted["choice"].dtype == space["choice"].dtype
    one = fitting_actions(space, {"box": np.float32([-5, 1]), "choice": np.int32(2)})
    assert space.contains(one)
    assert type(one["choice"]) is int
    precise = spaces.Box(-0.1, 0.1, (2,), np.float64)
    for action in fitting_actions(precise, np.float32([[-5, 5], [0.1, -0.1]])):
        assert precise.contains(action)


def test_no_environment_is_played_in_twice():
    env, terms = Walk(render_mode="rgb_array"), Terms(max_steps=100)
    with pytest.raises(ValueError, match="The same Walk is there twice"):
        Gymnasium(lambda: env).playing("training", 2, terms).__enter__()
    for both in (Gymnasium(lambda: env), Gymnasium(env, eval_env=lambda: env)):
        with both.playing("training", 1, terms):
            pass
        with pytest.raises(ValueError, match="The same Walk is there twice"):
            both.playing("evaluation", 1, terms).__enter__()


def test_copies_are_taken_and_given_back():
    """Those that are at the episodes in question are taken first; an environment plays in one place."""
    env, terms = Gymnasium(Walk), Terms(max_steps=100)
    with env.playing("training", 2, terms) as first, env.playing("training", 2, terms) as second:
        assert not {*map(id, first.environments)} & {*map(id, second.environments)}
        for episodes in (first, second):
            episodes.restart(SEEDS[:2])
        second.step(np.ones(2, np.int32))
    for episodes in (first, second):
        with env.playing("training", 2, terms, episodes.played) as again:
            assert again is episodes
        with env.for_agent().playing("training", 2, terms, episodes.played) as of_another:
            assert of_another not in (first, second)
    one = Walk()
    with Gymnasium(one).playing("training", 1, terms) as its:
        assert its.environments[0] is one
        with Gymnasium(one).playing("training", 1, terms) as copied:
            assert copied.environments[0] is not one
    for shared in (lambda: one, SyncVectorEnv([Walk], autoreset_mode=DISABLED)):
        with (
            Gymnasium(shared).playing("training", 1, terms),
            pytest.raises(ValueError, match=r"is already in use, .* its own environment or vector"),
        ):
            Gymnasium(shared).playing("training", 1, terms).__enter__()
        with Gymnasium(shared).playing("training", 1, terms):
            pass


def test_a_step_that_failed_is_not_taken_twice():
    fails = []

    class Failing(Walk):
        def step(self, action):
            if fails:
                raise RuntimeError(fails.pop())
            return super().step(action)

    episodes = begun(vector(make=Failing))
    episodes.step(actions_of(0))
    played, obs = place(episodes)
    fails.append("once")
    with pytest.raises(RuntimeError, match="once"):
        episodes.step(actions_of(1))
    assert episodes.go_to(played, obs).all()
    trees.assert_equal(episodes.obs, obs)
    np.testing.assert_array_equal(episodes.step(actions_of(1)).next_obs[:, 1], 2)
