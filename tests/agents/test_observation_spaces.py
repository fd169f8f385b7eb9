"""Default networks see what the space of observations declares, in agents of every family."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from flax import linen as nn
from gymnasium import spaces

from jaxagents import BC, DQN, IPPO, MAPPO, PPO, RND, SAC, bc, check_env, dqn, ops, ppo, rnd, sac
from jaxagents.data import Dataset
from jaxagents.envs import Environment, Gymnasium, Step
from jaxagents.envs.spaces import Box, Composite, Discrete, MultiDiscrete
from jaxagents.networks import CategoricalActor, DictEncoder, PatchConv, StateCritic, Torso
from jaxagents.networks.torsos import MLP
from jaxagents.networks.vision import Encoder

KEY = jax.random.key(0)


class Shows(Environment):
    """Returns one observation of a space forever."""

    max_steps = 3

    def __init__(self, space, obs, action_space=None, n_actors=None):
        self.observation_space, self.n_actors = space, n_actors
        self.action_space = action_space or Discrete(2)
        self.obs = jax.tree.map(np.asarray, obs)

    def reset(self, key):
        return jax.tree.map(jnp.asarray, self.obs), jnp.int32(0)

    def step(self, key, state, action):
        reward = jnp.zeros(() if self.n_actors is None else (self.n_actors,))
        obs, state = self.reset(key)
        return Step(obs, state, reward, jnp.bool(False), jnp.bool(False), {})


def inputs_of(kind, function, *args):
    """Records the inputs of all modules of a type during a call."""
    given = []

    def note(call, args, kwargs, context):
        if isinstance(context.module, kind) and context.method_name == "__call__":
            given.append(np.asarray(args[0]))
        return call(*args, **kwargs)

    with jax.disable_jit(), nn.intercept_methods(note):
        function(*args)
    return given


def inputs_of_networks(agent, kind=MLP):
    """The inputs of the networks of an agent, behind the modules that read its observation."""
    obs = jax.tree.map(jnp.asarray, agent.env.obs)
    if hasattr(agent, "_create_networks"):
        actor, critic = trees.zeros(agent._create_networks, KEY, KEY, obs)

        def call():
            agent.act(actor, agent.initial_carry(actor), obs)
            carry = () if agent.config.memory is None else (critic.model_def.initial(),)
            critic(*carry, obs)
    else:
        learner = trees.zeros(agent._create_learner, KEY, agent._hyperparams_type())

        def call():
            agent.act(learner, agent.initial_carry(learner), obs)

    return inputs_of(kind, call)


PARTS = Composite({"room": Discrete(4), "gears": MultiDiscrete((2, 3)), "speed": Box(-9, 9, (1,))})
AT = {"room": np.int32(2), "gears": np.int32([1, 0]), "speed": np.float32([5])}
READ = np.float32([0, 1, 1, 0, 0, 0, 0, 1, 0, 5])  # gears, room, speed
ROOMS = [(MultiDiscrete((4,)), np.int32([2]), READ[5:9]), (PARTS, AT, READ)]
ARM = Box(-1.0, 1.0, (1,))


class OwnRND(rnd.RNDBase):
    """RND with a policy of its own, and the default embedding."""

    def _actor_network(self):
        return CategoricalActor(2)

    def _critic_network(self):
        return StateCritic()

    def _distribution(self, training, params, obs):
        return ops.Categorical(training(obs, params=params))


@pytest.mark.parametrize(("space", "obs", "read"), ROOMS)
def test_networks_of_every_family_see_categories_one_hot(space, obs, read):
    env, continuous = Shows(space, obs), Shows(space, obs, ARM)
    for agent in (
        PPO(env, None, ppo.AgentConfig()),
        PPO(env, None, ppo.AgentConfig(memory="gru")),
        RND(env, None, rnd.AgentConfig()),
        DQN(env, None, dqn.AgentConfig()),
        DQN(env, None, dqn.AgentConfig(memory="gru")),
        SAC(continuous, None, sac.AgentConfig()),
    ):
        seen = inputs_of_networks(agent)
        assert seen[0].dtype == np.float32
        np.testing.assert_array_equal(seen[0].ravel(), read, err_msg=type(agent).__name__)
        if isinstance(agent, PPO):  # the critic's too, before further layers of either
            assert sum(np.array_equal(x.ravel(), read) for x in seen) == 2
    obs = jax.tree.map(jnp.asarray, obs)
    for agent in (RND, OwnRND):
        network = agent(env, None, rnd.AgentConfig())._embedding_network()
        variables = trees.zeros(network.init, KEY, obs)
        np.testing.assert_array_equal(inputs_of(MLP, network.apply, variables, obs)[0], read)


def test_actors_see_categories_of_their_own_and_the_critic_of_all():
    rooms = np.int32([[0, 1], [3, 0]])
    space = MultiDiscrete(((4, 2), (4, 2)))
    for agent, n_inputs in ((IPPO, 4 + 2), (MAPPO, 2 * (4 + 2))):
        agent = agent(Shows(space, rooms, n_actors=2), None, ppo.AgentConfig())
        actor, critic = jax.eval_shape(agent._create_networks, KEY, KEY, rooms)
        for network, n in ((actor, 4 + 2), (critic, n_inputs)):
            weights = jax.tree_util.tree_leaves_with_path(network.params)
            assert {x.shape[-2] for path, x in weights if path[-1].key == "kernel"} == {n, 64}


@pytest.mark.parametrize("state", [Discrete(5), Composite({"phase": Discrete(5)})])
def test_a_central_critic_sees_the_categories_of_its_state(state):
    entry = {"phase": np.int32(3)} if isinstance(state, Composite) else np.int32(3)
    obs = {"observation": np.zeros((2, 3), np.float32), "critic_state": entry}
    space = Composite({"observation": Box(-1.0, 1.0, (2, 3)), "critic_state": state})
    agent = MAPPO(Shows(space, obs, n_actors=2), None, ppo.AgentConfig())
    obs = jax.tree.map(jnp.asarray, obs)
    _, critic = trees.zeros(agent._create_networks, KEY, KEY, obs)
    (seen,) = inputs_of(MLP, critic, obs)
    np.testing.assert_array_equal(seen, np.eye(5)[3])


@pytest.mark.parametrize("agent", [PPO, DQN])
def test_normalisation_leaves_categories_alone(agent):
    module = {PPO: ppo, DQN: dqn}[agent]
    agent = agent(Shows(PARTS, AT), None, module.AgentConfig(normalise_observations=True))
    obs = jax.tree.map(jnp.asarray, AT)
    if isinstance(agent, PPO):
        state, _ = agent._create_networks(KEY, KEY, obs)
    else:
        state = agent._create_learner(KEY, dqn.HyperParameters())
    several = {**AT, "speed": np.float32([[1], [2]]), "room": np.int32([0, 3])}
    several["gears"] = np.int32([[0, 0], [1, 2]])
    state = state.observe(jax.tree.map(jnp.asarray, several))
    seen = inputs_of(MLP, lambda: agent.act(state, (), obs))[0].ravel()
    np.testing.assert_array_equal(seen[:-1], READ[:-1])
    np.testing.assert_allclose(seen[-1], 7.0, rtol=1e-3)  # (5 - 1.5) / 0.5


class Rooms(Environment):
    """Rewards a different action in each of 16 rooms, ten times per episode."""

    action_space, max_steps = Discrete(4), 10

    def __init__(self, space, show):
        self.observation_space, self.show = space, show

    def reset(self, key):
        room = jax.random.randint(key, (), 0, 16)
        return self.show(room), room

    def step(self, key, room, action):
        reward = (action == (7 * room + room // 3) % 4).astype(jnp.float32)
        obs, room = self.reset(key)
        return Step(obs, room, reward, jnp.bool(False), jnp.bool(False), {})


def in_dict(room):
    return {"room": room}


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [
        Rooms(Composite({"room": Discrete(16)}), in_dict),
        Rooms(MultiDiscrete((16,)), jnp.atleast_1d),
    ],
)
def test_a_task_with_an_action_for_each_category_is_learned(env):
    config = ppo.AgentConfig(
        n_steps=40, eval_frequency=40, rollout_length=32, actor_epochs=4, critic_epochs=4
    )
    for agent, hyperparams in (
        (PPO(env, None, config), ppo.HyperParameters()),
        (DQN(env, None, dqn.AgentConfig(n_steps=1500, eval_frequency=1500)), dqn.HyperParameters()),
    ):
        _, metrics = agent.train(KEY, hyperparams, progress=False)
        assert metrics["returns"][-1].min() == 10.0


# Environments on the host, and datasets.


class House(gymnasium.Env):
    """Shows a room, two gears on each of two floors, and a speed; ends after three steps."""

    observation_space = spaces.Dict(
        {
            "room": spaces.Discrete(4),
            "gears": spaces.MultiDiscrete([[2, 3], [2, 3]]),
            "speed": spaces.Box(-9, 9, (1,)),
            "late": spaces.Discrete(3, start=5),
        }
    )
    action_space = spaces.Discrete(2)
    AT = {"room": 2, "gears": np.array([[1, 0], [0, 2]]), "speed": np.float32([5]), "late": 6}  # noqa: RUF012

    def reset(self, *, seed=None, options=None):
        self._time = 0
        return self.AT, {}

    def step(self, action):
        self._time += 1
        return self.AT, 1.0, self._time == 3, False, {}


GEARS = [0, 1, 1, 0, 0, 1, 0, 0, 0, 1]


def test_categories_of_gymnasium_stay_integers_until_networks_see_them():
    env = Gymnasium(House)
    config = ppo.AgentConfig(n_steps=1, batch_size=4, rollout_length=4)
    agent = PPO(env, None, config, eval_during_training=False)
    runner, _ = agent.train(KEY, ppo.HyperParameters(), progress=False)
    assert jax.tree.map(lambda x: (x.dtype.kind, x.shape[1:]), runner.obs) == {
        "room": ("i", ()),
        "gears": ("i", (2, 2)),
        "speed": ("f", (1,)),
        "late": ("i", ()),
    }
    (seen,) = inputs_of(MLP, agent.policy, runner.actor_training, House.AT)
    np.testing.assert_array_equal(seen, [*GEARS, *np.eye(8)[6], 0, 0, 1, 0, 5])


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_datasets_hold_categories_as_any_numbers(dtype):
    rooms = np.arange(8) % 4
    observations = {"room": rooms.astype(dtype), "speed": np.ones((8, 1), np.float32)}
    dataset = Dataset({"observations": observations, "actions": rooms % 2})
    space = Composite({"room": Discrete(4), "speed": Box(-9, 9, (1,))})
    env = Shows(space, {"room": np.int32(2), "speed": np.float32([5])})
    config = bc.AgentConfig(n_steps=1, minibatch_size=8, normalise_observations=True)
    agent = BC(env, None, config, False, dataset=dataset)
    learner = agent._create_runner(KEY, bc.HyperParameters()).learner
    (seen,) = inputs_of(
        MLP, learner.actor, jax.tree.map(lambda x: x[0], agent.data.arrays)["observations"]
    )
    np.testing.assert_array_equal(seen, np.c_[np.eye(4)[rooms], np.zeros(8)])


# Images.


def image(kind=np.int32, shape=(6, 7, 3)):
    return (np.arange(np.prod(shape)).reshape(shape) % 11).astype(kind)


PIXELS = [
    (Box(0, 10, (6, 7, 3), np.int32), image(), 10.0),
    (Box(0, 255, (6, 7, 3), np.uint8), image(np.uint8), 255.0),
    (Box(0, 255, (6, 7, 3)), image(np.float32), 255.0),
    (Box(0, 1, (6, 7, 3)), image(np.float32) / 10, 1.0),
    (None, image(), 255.0),
]


class Flat(Encoder):
    """Features that are the scaled pixels themselves."""

    smallest_side = 1

    @nn.compact
    def encode(self, x, train):
        return x.reshape(len(x), -1)


@pytest.mark.parametrize(("space", "obs", "divisor"), PIXELS)
def test_pixels_are_scaled_by_their_space(space, obs, divisor):
    expected = obs.astype(np.float32) / divisor
    env, camera = Shows(space, obs), Shows(space and Composite({"camera": space}), {"camera": obs})
    in_dict = DictEncoder({"camera": Flat()})
    for agent, kind in (
        (PPO(env, None, ppo.AgentConfig()), PatchConv),
        (DQN(camera, None, dqn.AgentConfig()), PatchConv),
        (DQN(env, None, dqn.AgentConfig(encoder=Flat())), MLP),
        (DQN(camera, None, dqn.AgentConfig(encoder=in_dict)), MLP),
    ):
        seen = inputs_of_networks(agent, kind)[0]
        np.testing.assert_allclose(seen.reshape(expected.shape), expected, rtol=1e-6)


class Own(nn.Module):
    """An encoder of a user's own, which knows the range of its images."""

    @nn.compact
    def __call__(self, x):
        return x.reshape(*x.shape[:-3], -1) / 10.0


def test_encoders_of_a_users_own_see_images_as_they_are():
    space, obs, _ = PIXELS[0]
    agent = DQN(Shows(space, obs), None, dqn.AgentConfig(encoder=Own()))
    np.testing.assert_array_equal(inputs_of_networks(agent, Own)[0].reshape(obs.shape), obs)
    beside = Composite({"camera": space, "room": Discrete(3), "speed": Box(-9, 9, (1,))})
    obs = {"camera": obs, "room": np.int32(2), "speed": np.float32([5])}
    encoder = DictEncoder({"camera": Own()})
    agent = DQN(Shows(beside, obs), None, dqn.AgentConfig(encoder=encoder))
    (seen,) = inputs_of_networks(agent)
    np.testing.assert_allclose(seen, [*obs["camera"].ravel() / 10.0, 0, 0, 1, 5], rtol=1e-6)


STACKED = image(np.uint8, (4, 8, 9))
STACK = Box(0, 255, (4, 8, 9), np.uint8)
LOOKS = r"\(4, 8, 9\), which look like images with channels first.*channels_first=True"


def agents_in(space, obs, **options):
    """Makers of agents, by the modules that are the first to see an image."""
    env, own = Shows(space, obs), Shows(space, obs, ARM)
    return [
        lambda: (PPO(env, None, ppo.AgentConfig(**options)), PatchConv),
        lambda: (PPO(env, None, ppo.AgentConfig(memory="gru", **options)), PatchConv),
        lambda: (DQN(env, None, dqn.AgentConfig(**options)), PatchConv),
        lambda: (SAC(own, None, sac.AgentConfig(memory="gru", **options)), PatchConv),
        lambda: (DQN(env, None, dqn.AgentConfig(encoder=Flat(), **options)), MLP),
    ]


def test_channels_first_is_warned_about_and_moves_the_axis():
    for make in agents_in(STACK, STACKED):
        with pytest.warns(UserWarning, match=LOOKS):
            make()
    as_they_are = STACKED / np.float32(255.0)
    moved, agents = np.moveaxis(as_they_are, 0, -1), agents_in(STACK, STACKED, channels_first=True)
    of_last, *_ = agents_in(STACK, STACKED, channels_first=False)
    for make, expected in (*((make, moved) for make in agents), (of_last, as_they_are)):
        seen = inputs_of_networks(*make())[0]
        np.testing.assert_allclose(seen.reshape(expected.shape), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Shows does the same whatever")
def test_check_env_asks_for_channels_first_too():
    with pytest.warns(UserWarning, match=LOOKS):
        check_env(Shows(STACK, STACKED), n_steps=2)
    stacked = gymnasium.wrappers.FrameStackObservation
    frames = spaces.Box(0, 255, (8, 9), np.uint8)

    class Frames(House):
        observation_space, AT = frames, STACKED[0]

    with pytest.warns(UserWarning, match=LOOKS):
        PPO(Gymnasium(lambda: stacked(Frames(), 4)), None, ppo.AgentConfig())


def test_networks_of_a_users_own_get_no_advice_and_heed_no_option():
    critic, actor = StateCritic(), nn.Dense(2)
    env = Shows(STACK, STACKED)

    class OwnNetworks(PPO):
        def _actor_network(self):
            return nn.Sequential([Torso(), nn.Dense(2)])

        def _critic_network(self):
            return StateCritic()

    OwnNetworks(env, None, ppo.AgentConfig())
    own = {"actor_network": nn.Sequential([Torso(), actor]), "critic_network": critic}
    PPO(env, None, ppo.AgentConfig(**own))
    heeds = "channels_first is for the default networks and encoder, but the networks are given"
    with pytest.raises(ValueError, match=heeds):
        PPO(env, None, ppo.AgentConfig(channels_first=True, **own))
    flat = Shows(Box(-1.0, 1.0, (2,)), np.zeros(2, np.float32))
    none = r"is for images.* but the observations of Shows have shape \(2,\): leave it out"
    with pytest.raises(ValueError, match=none):
        PPO(flat, None, ppo.AgentConfig(channels_first=True))
    with pytest.raises(ValueError, match=none):
        DQN(flat, None, dqn.AgentConfig(channels_first=True))
