"""Ready-made policies in many kinds of action spaces."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gymnasium_spaces
from gymnax.environments import spaces as gymnax_spaces
from probes import Probe
from registry import AGENTS

from jaxagents import A2C, IPPO, PPO, check_env, load_policy
from jaxagents.envs.spaces import Box, Composite, Discrete, MultiDiscrete, is_discrete
from jaxagents.networks import CategoricalActor
from jaxagents.ppo import AgentConfig

KEY = jax.random.key(0)
CASE = next(case for case in AGENTS if case.agent is A2C)
MIXED = Composite(
    {"turn": Discrete(3), "arm": Composite((Box(-1.0, 1.0, (1,)), MultiDiscrete((2, 4))))}
)
SEVERAL = MultiDiscrete((3, 2, 5))


class Parts(Probe):
    """Rewards every part of an action alike: the highest number where the sign is positive, else 0.

    The last choice of discrete parts is not allowed, and worth NaN.
    """

    def __init__(self, space, n_actors=None, mask=True):
        super().__init__(n_actors)
        self.space, self.mask = space, mask

    def action_space(self, params):
        return self.space

    def action_mask(self, state, params):
        if self.mask is not True:
            return self.mask

        def allowed(n):
            mask = jnp.arange(n) < n - 1
            return jnp.stack([mask] * self.n_actors) if hasattr(self, "n_actors") else mask

        if isinstance(self.space, MultiDiscrete):
            return tuple(map(allowed, self.space.nvec))
        return {"turn": allowed(3), "arm": (None, (allowed(2), allowed(4)))}

    def reward(self, state, action):
        if isinstance(self.space, MultiDiscrete):
            parts = [(action[..., i], n) for i, n in enumerate(self.space.nvec)]
            rights = []
        else:
            arm, legs = action["arm"]
            parts = [(action["turn"], 3), (legs[..., 0], 2), (legs[..., 1], 4)]
            rights = [jnp.where(state.sign > 0, arm[..., 0] > 0.5, arm[..., 0] < -0.5)]
        rights += [a == jnp.where(state.sign > 0, n - 2, 0) for a, n in parts]
        forbidden = jnp.stack([a == n - 1 for a, n in parts]).any(axis=0)
        return jnp.where(forbidden, jnp.nan, jnp.mean(jnp.stack(rights).astype(float), axis=0))


def test_every_part_of_an_action_is_learned_and_masked_and_so_is_its_file(tmp_path):
    agent = A2C(Parts(MIXED), None, CASE.config(actor_network=None), eval_during_training=False)
    runner = agent.advance(agent.start(KEY, CASE.hyperparams()), np.int32(300))
    agent.collect_training(runner, {})  # no numbers, had one action that is not allowed been drawn
    agent.export_policy(tmp_path / "policy")
    _, obs, _ = jax.jit(agent.env_reset)(KEY)
    signs = np.float32([[1.0, 0.0], [-1.0, 0.0]])
    masks = jax.tree.map(lambda x: np.stack([x, x]), obs["action_mask"])
    found = load_policy(tmp_path / "policy")({"observation": signs, "action_mask": masks})
    arm, legs = found["arm"]
    np.testing.assert_array_equal(found["turn"], [1, 0])
    np.testing.assert_array_equal(legs, [[0, 2], [0, 0]])
    assert (signs[:, :1] * arm > 0.5).all()


@pytest.mark.parametrize(("agent", "space", "n_actors"), [(A2C, SEVERAL, None), (IPPO, MIXED, 2)])
def test_other_parts_and_several_actors_learn_in_the_same_shapes(agent, space, n_actors):
    config = agent._config_type(n_steps=1, batch_size=4, rollout_length=4)
    agent = agent(Parts(space, n_actors), None, config)
    runner = jax.eval_shape(agent.program.start, KEY, agent._hyperparams_type())
    jax.eval_shape(agent.program.advance, runner, 1)
    _, obs, _ = jax.eval_shape(agent.env_reset, KEY)
    actions = jax.eval_shape(agent.policy, runner.actor_training, obs)
    actors = () if n_actors is None else (n_actors,)
    drawn = actions if space is SEVERAL else actions["arm"][1]
    assert drawn.shape == (*actors, 3 if space is SEVERAL else 2)


SUITES = [
    gymnasium_spaces.MultiDiscrete([3, 2]),
    gymnasium_spaces.Dict({"a": gymnasium_spaces.Discrete(3), "b": gymnasium_spaces.Box(-1, 1, (2,))}),
    gymnax_spaces.Tuple([gymnax_spaces.Discrete(3), gymnax_spaces.Box(-1.0, 1.0, (2,))]),
]  # fmt: skip
SHAPES = [(2,), {"a": (), "b": (2,)}, ((), (2,))]


class Any(Probe):
    """An environment with any action space, which ignores actions."""

    def __init__(self, space):
        super().__init__()
        self.space = space

    def action_space(self, params):
        return self.space


@pytest.mark.parametrize(("space", "shapes"), [*zip(SUITES, SHAPES, strict=True)])
@pytest.mark.filterwarnings("ignore:All .* episodes of Any terminated")
def test_spaces_of_other_suites_serve(space, shapes):
    agent = PPO(Any(space), None, AgentConfig(n_steps=1))
    runner = jax.eval_shape(agent.program.start, KEY, agent._hyperparams_type())
    _, obs, _ = jax.eval_shape(agent.env_reset, KEY)
    action = jax.eval_shape(agent.policy, runner.actor_training, obs)
    assert jax.tree.map(np.shape, action) == shapes
    if isinstance(space, gymnasium_spaces.Dict):  # so that one program draws actions
        assert check_env(Any(space), n_steps=2).n_steps == 16


def test_parts_whose_values_no_agent_gives_are_refused():
    space = Composite({"turn": Discrete(3), "odd": gymnasium_spaces.Discrete(3, start=1)})
    for check in (lambda: PPO(Any(space), None, AgentConfig()), lambda: check_env(Any(space))):
        with pytest.raises(ValueError, match="must hold integers that start at 0, got Discrete"):
            check()


def test_a_space_of_several_flags_is_not_discrete():
    for space in (Discrete(3), gymnasium_spaces.Discrete(3), gymnax_spaces.Discrete(3)):
        assert is_discrete(space)
    for space in (gymnasium_spaces.MultiBinary(3), MultiDiscrete((3,)), Box(0.0, 1.0, ())):
        assert not is_discrete(space)


def test_boxes_among_the_parts_bound_actions():
    agent = PPO(Parts(MIXED), None, AgentConfig())
    _, _, state = agent.env_reset(KEY)
    zero, seen = jnp.zeros((), jnp.int32), []
    agent.episodes.env.env.reward = lambda state, action: seen.append(action) or 0.0
    for arm in (0.7, 1e9):
        action = {"turn": zero, "arm": (jnp.full(1, arm), jnp.zeros(2, jnp.int32))}
        agent.episodes.play(KEY, state, action)
    np.testing.assert_allclose([action["arm"][0] for action in seen], [[0.7], [1.0]])


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (MultiDiscrete((3, 2)), r"tuple of 2 arrays of logits.*got shape \(3,\)"),
        (MIXED, r"a dict with \['arm', 'turn'\].*got shape \(3,\)"),
    ],
)
def test_networks_that_do_not_fit_are_refused(space, message):
    with pytest.raises(ValueError, match=message):
        PPO(Parts(space, mask=None), None, AgentConfig(actor_network=CategoricalActor(3)))


def test_masks_may_leave_out_any_part_or_say_none_of_it():
    def agent_of(mask):
        mask = {"turn": jnp.array([False, True, False]), **mask}
        return PPO(Parts(MIXED, mask=mask), None, AgentConfig(n_steps=1))

    some_legs = {"arm": (None, (jnp.array([True, False]), None))}
    masks = ({}, {"arm": (None, (None, jnp.ones(4, bool)))}, some_legs)
    agents = [agent_of(mask) for mask in masks]

    @jax.jit
    def draw(keys):
        seen = [agent.env_reset(KEY)[1] for agent in agents]
        actor, _ = agents[0]._create_networks(KEY, KEY, seen[0])
        return [
            jax.vmap(lambda key, agent=agent, obs=obs: agent.act(actor, (), obs, key)[1])(keys)
            for agent, obs in zip(agents, seen, strict=True)
        ]

    drawn = jax.tree.map(np.asarray, draw(jax.random.split(KEY, 64)))
    for actions in drawn[:2]:
        assert (actions["turn"] == 1).all()
        assert len(np.unique(actions["arm"][1], axis=0)) == 2 * 4
    legs = drawn[2]["arm"][1]
    assert len(np.unique(legs[:, 1])) == 4
    assert (legs[:, 0] == 0).all()
    legs = (jnp.ones(2, bool), jnp.ones(4, bool))
    for wrong, message in (
        ({"leg": None}, "action mask must be boolean"),
        ({"arm": (None, (None,))}, "action mask must be boolean"),
        ({"arm": (None, (None, jnp.ones(2, bool)))}, "action mask must be boolean"),
        ({"turn": jnp.ones(2, bool), "arm": (None, legs)}, r"have shape \{'turn': \(3,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            agent_of(wrong)
