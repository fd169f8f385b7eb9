"""Agents on the host play in their own copies of an environment, with the user's settings."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest
import trees
from gymnasium import wrappers
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium_probes import Steered, Walk, Walks
from parallel_probes import Relay

import jaxagents
from jaxagents import A2C, IPPO, SAC, a2c, ippo, sac
from jaxagents.engine.host_play import terms_of
from jaxagents.envs import Gymnasium, PettingZoo
from jaxagents.envs.on_host.copying import copier_of, differences
from jaxagents.networks import CategoricalActor, PerActor, StateCritic

NETWORKS = {"actor_network": CategoricalActor(2, (4,)), "critic_network": StateCritic((4,))}
SIZES = {"n_steps": 6, "rollout_length": 4, "eval_frequency": 3, "n_evals": 2, "minibatch_size": 1}
CONFIG = a2c.AgentConfig(**SIZES, **NETWORKS, batch_size=2)
ACTORS = {
    "actor_network": PerActor(CategoricalActor(3, (4,)), 2),
    "critic_network": PerActor(StateCritic((4,)), 2),
}
OF_ACTORS = ippo.AgentConfig(**SIZES, **ACTORS, batch_size=2)
BUFFER = {"n_steps": 6, "eval_frequency": 6, "n_evals": 2, "features": (), "buffer_size": 100}
OF_BUFFER = sac.AgentConfig(**BUFFER, batch_size=1, minibatch_size=4, learning_starts=8)
SEEDS = (0, 1)


def make(env, config=CONFIG, **fields):
    agent = IPPO if env.n_actors else A2C
    return agent(env, None, (OF_ACTORS if env.n_actors else config).replace(**fields))


def train(agent, seed, **options):
    return agent.train(seed, progress=False, **options)


def at_once(*calls):
    with ThreadPoolExecutor(len(calls)) as threads:
        return [it.result() for it in [threads.submit(call) for call in calls]]


# Trainings at the same time.


@pytest.mark.parametrize("twice", [True, False], ids=["one agent", "two agents"])
@pytest.mark.parametrize(
    ("env", "fields"),
    [
        (lambda: jaxagents.make("gymnasium:CartPole-v1"), {}),
        (lambda: Walks(Walk()), {"batch_size": 1}),
        (lambda: PettingZoo(Relay()), {}),
    ],
    ids=["copies", "given", "actors"],
)
def test_threads_train_with_one_environment_as_alone(env, fields, twice):
    alone = [train(make(env(), **fields), seed) for seed in SEEDS]
    for _ in range(2):
        shared = env()
        agents = [make(shared, **fields) for _ in SEEDS]
        agents = [agents[0]] * 2 if twice else agents
        barrier = threading.Barrier(2)

        def run(agent, seed, barrier=barrier):
            return train(agent, seed, callbacks=[lambda _: barrier.wait(60) is None])

        together = at_once(*(lambda it=it: run(*it) for it in zip(agents, SEEDS, strict=True)))
        trees.assert_equal(together, alone)


@pytest.mark.parametrize("env", [lambda: Walks(Walk()), lambda: PettingZoo(Relay())])
def test_evaluations_during_a_training_change_nothing(env):
    alone, _ = train(make(env()), 0)
    agent = make(env())
    runner = agent.start(1)
    agent.collect_training(runner, {})
    expected = agent.eval(3, n_evals=2)
    found = []

    def evaluate(_):
        evals = [lambda: agent.eval(3, n_evals=2)] * 2
        found.extend([*at_once(*evals), agent.eval(3, n_evals=2)])

    again, _ = train(agent, 0, callbacks=[evaluate])
    trees.assert_equal(again, alone)
    assert len(found) == 9
    trees.assert_equal(found[0], expected)


def test_a_vector_is_trained_in_once_at_a_time():
    vector = SyncVectorEnv([Walk] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)
    agent, other = (make(Walks(vector, eval_env=Walk)) for _ in range(2))
    refused = []

    def interfere(_):
        for it in (other, agent):
            with pytest.raises(ValueError, match=r"SyncVectorEnv is already in use") as error:
                it.start(1)
            refused.append(error)

    runner, _ = train(agent, 0, callbacks=[interfere])
    assert refused
    other.start(1)
    trees.assert_equal(runner, train(make(Walks(vector, eval_env=Walk)), 0)[0])


def test_a_user_may_play_in_the_environment_between_trainings():
    env = Walk()
    agent = make(Walks(env), batch_size=1)
    runner, _ = train(agent, 0, n_steps=3)
    expected, _ = train(make(Walks(Walk()), batch_size=1), 0)
    env.reset(seed=5)
    env.step(1)
    trees.assert_equal(agent.train(runner=runner, n_steps=3, progress=False)[0], expected)


# Environments as a user set them up.


class Scaled(Walk):
    """Its reward is an attribute."""

    scale = 1.0
    seen = set()  # noqa: RUF012 (of all)
    windows = set()  # noqa: RUF012 (of all)
    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        self.scale = 1.0

    def step(self, action):
        observation, _, *rest = super().step(np.sum(action))
        self.seen.add(self.scale)
        if self.render_mode == "human":
            self.windows.add(self)
        return observation, self.scale, *rest


class Rebuilt(Scaled, EzPickle):
    """Pickled by its constructor's arguments, as environments of MuJoCo."""

    def __init__(self, render_mode=None):
        Scaled.__init__(self, render_mode)
        EzPickle.__init__(self, render_mode)


class Locked(Scaled):
    """Holds what cannot be pickled."""

    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        self.lock = threading.Lock()


class SteeredScale(Scaled):
    action_space = Steered.action_space


KINDS = {
    "Scaled-v0": Scaled,
    "Rebuilt-v0": Rebuilt,
    "Locked-v0": Locked,
    "Steered-v0": SteeredScale,
}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {**gymnasium.registry})
    for name, kind in KINDS.items():
        gymnasium.register(name, kind)
    Scaled.seen.clear()
    Scaled.windows.clear()


def scaled(name="Scaled-v0", scale=3.0, **options):
    env = gymnasium.make(name, **options)
    env.unwrapped.scale = scale
    return env


@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("name", ["Scaled-v0", "Rebuilt-v0"])
def test_agents_train_and_evaluate_with_what_was_set(name, batch_size):
    env = scaled(name)
    agent = make(Walks(env), batch_size=batch_size)
    _, metrics = train(agent, 0)
    np.testing.assert_array_equal(metrics["returns"], 3 * metrics["lengths"])
    assert agent.render_episode(0).shape[1:] == (4, 6, 3)
    assert Scaled.seen == {3.0}
    assert hasattr(env.unwrapped, "_time") == (batch_size == 1)
    again = pickle.loads(pickle.dumps(Gymnasium(env)))
    assert again.env.unwrapped.scale == 3.0
    with again.playing("evaluation", 1, terms_of(agent.episodes)) as episodes:
        assert episodes.environments[0].scale == 3.0


def test_off_policy_agents_do_so_too():
    agent = SAC(scaled("Steered-v0"), None, OF_BUFFER)
    runner, metrics = train(agent, 0)
    assert {*np.asarray(runner.buffer.to_dataset()["rewards"]).tolist()} == {3.0}
    np.testing.assert_array_equal(metrics["returns"], 3 * metrics["lengths"])


@pytest.mark.slow
def test_environments_in_processes_do_so_too():
    env = gymnasium.make("Pendulum-v1")
    env.unwrapped.g = 0.0
    agents = [
        SAC(Gymnasium(env, vectorization_mode=mode), None, OF_BUFFER.replace(batch_size=2))
        for mode in ("async", "sync")
    ]
    runners = [train(agent, 0)[0] for agent in agents]
    for agent in agents:
        agent.env.close()
    trees.assert_equal(*(runner.buffer for runner in runners))


def test_vectors_are_evaluated_in_what_their_environments_were_set_to():
    envs = gymnasium.make_vec("Scaled-v0", 2, vectorization_mode="sync")
    for env in envs.envs:
        env.unwrapped.scale = 3.0
    _, metrics = train(make(Walks(envs)), 0)
    np.testing.assert_array_equal(metrics["returns"], 3 * metrics["lengths"])


def test_what_copies_would_lose_is_named():
    with pytest.warns(
        UserWarning, match=r"Locked-v0 cannot be copied as it is.*\['Locked.scale'\]"
    ):
        make(Gymnasium(scaled("Locked-v0")))
    played_in = wrappers.RecordEpisodeStatistics(scaled("Locked-v0", 1.0))
    for seed in range(3):
        played_in.reset(seed=seed)
        while not any(played_in.step(1)[2:4]):
            pass
    Gymnasium(played_in)
    assert copier_of(Locked()).make is None
    for name, is_pointer in (("physicsClientId", True), ("_client", True), ("n_clients", False)):
        env = Walk()
        setattr(env, name, 3)  # pickled copies would share what it points to
        assert (copier_of(env).make is None) == is_pointer


def test_at_most_one_window_is_opened():
    env = scaled(render_mode="human")
    for batch_size, windows in ((2, set()), (1, {env.unwrapped})):
        train(make(Walks(env), batch_size=batch_size), 0)
        assert Scaled.windows == windows
    shown = wrappers.HumanRendering(gymnasium.make("Scaled-v0", render_mode="rgb_array"))
    outer = wrappers.RecordEpisodeStatistics(shown)
    for make_copy in (Gymnasium(outer)._make, Gymnasium(scaled_in(outer))._make):
        copy = make_copy()
        assert isinstance(copy, wrappers.RecordEpisodeStatistics)
        assert not isinstance(copy.env, wrappers.HumanRendering)


def scaled_in(env):
    env.unwrapped.scale = 3.0
    return env


WRAPS = {
    "none": lambda env: env,
    "stacked": lambda env: wrappers.FrameStackObservation(env, 2),
    "limited": lambda env: wrappers.TimeLimit(env, 7),
    "recorded": wrappers.RecordEpisodeStatistics,
    "changed": lambda env: wrappers.TransformReward(env, lambda x: 2 * x),
}


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize(
    "name", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "HalfCheetah-v5", "FrozenLake-v1"]
)
def test_copies_of_known_environments_are_equal(name, wrap, steps):
    """Also in the middle of an episode, where a warning would be an error here."""
    if name == "HalfCheetah-v5":
        pytest.importorskip("mujoco")
    env = wrap(gymnasium.make(name))
    if steps:
        env.reset(seed=1)
        for _ in range(steps):
            env.step(env.action_space.sample())
    assert not differences(env, Gymnasium(env)._make()) or steps


@pytest.mark.parametrize(
    ("name", "set_in", "value_of"),
    [
        ("Pendulum-v1", lambda env: setattr(env, "g", 0.0), lambda env: env.g),
        (
            "HalfCheetah-v5",
            lambda env: setattr(env, "_ctrl_cost_weight", 0.5),
            lambda env: env._ctrl_cost_weight,
        ),
        (
            "HalfCheetah-v5",
            lambda env: env.model.body_mass.__setitem__(1, 3.0),
            lambda env: env.model.body_mass[1],
        ),
    ],
)
def test_copies_have_what_was_set_in_known_environments(name, set_in, value_of):
    if name == "HalfCheetah-v5":
        pytest.importorskip("mujoco")
    env = gymnasium.make(name)
    set_in(env.unwrapped)
    copy = Gymnasium(env)._make()
    assert value_of(copy.unwrapped) == value_of(env.unwrapped)
    rollouts = []
    for it in (env, copy):
        actions = np.random.default_rng(0).uniform(-1, 1, (5, *env.action_space.shape))
        rollouts.append([it.reset(seed=3)[0], *(it.step(action)[0] for action in actions)])
    np.testing.assert_array_equal(*rollouts)


def test_copies_of_parallel_environments_have_what_was_set():
    class Bonus(Relay, EzPickle):
        bonus = 0.0

        def __init__(self):
            Relay.__init__(self)
            EzPickle.__init__(self)

    env = Bonus()
    env.bonus = 5.0
    assert PettingZoo(env)._make().bonus == 5.0


def test_spaces_that_were_set_make_other_environments():
    plain, wide = (gymnasium.make("Pendulum-v1") for _ in range(2))
    wide.unwrapped.action_space = gymnasium.spaces.Box(-3.0, 3.0, (1,), np.float32)
    assert Gymnasium(plain) == Gymnasium(gymnasium.make("Pendulum-v1")) != Gymnasium(wide)
