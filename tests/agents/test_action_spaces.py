"""Ready-made policies in spaces of actions of many kinds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces as gymnasium_spaces
from gymnax.environments import spaces as gymnax_spaces
from probes import Probe
from registry import OnPolicyCase

from jaxagents import A2C, IPPO, PPO, check_env, load_policy
from jaxagents.envs.spaces import Box, Composite, Discrete, MultiDiscrete, is_discrete
from jaxagents.networks import CategoricalActor
from jaxagents.ppo import AgentConfig

KEY = jax.random.key(0)
MIXED = Composite(
    {"turn": Discrete(3), "arm": Composite((Box(-1.0, 1.0, (1,)), MultiDiscrete((2, 4))))}
)


LOOPS = {"minibatch_size": 8, "actor_epochs": 2, "critic_epochs": 2}
"""As many epochs of both networks, which then learn in one loop."""


class Parts(Probe):
    """Rewards every part of an action alike: the highest number where the sign is positive, else 0.

    The last choice of discrete parts is not allowed, and worth NaN.
    """

    def __init__(self, space, n_actors=None, masked=True):
        super().__init__(n_actors)
        self.space = space
        self.masked = masked

    def action_space(self, params):
        return self.space

    def action_mask(self, state, params):
        if not self.masked:
            return None

        def allowed(n):
            mask = jnp.arange(n) < n - 1
            return jnp.stack([mask] * self.n_actors) if hasattr(self, "n_actors") else mask

        if isinstance(self.space, MultiDiscrete):
            return tuple(map(allowed, self.space.nvec))
        return {"turn": allowed(3), "arm": (None, (allowed(2), allowed(4)))}

    def reward(self, state, action):
        if isinstance(self.space, MultiDiscrete):
            parts = [(action[..., i], n) for i, n in enumerate(self.space.nvec)]
        else:
            arm, legs = action["arm"]
            parts = [(action["turn"], 3), (legs[..., 0], 2), (legs[..., 1], 4)]
            right = jnp.where(state.sign > 0, arm[..., 0] > 0.5, arm[..., 0] < -0.5)
        rights = [a == jnp.where(state.sign > 0, n - 2, 0) for a, n in parts]
        if not isinstance(self.space, MultiDiscrete):
            rights.append(right)
        forbidden = jnp.stack([a == n - 1 for a, n in parts]).any(axis=0)
        reward = jnp.mean(jnp.stack(rights).astype(float), axis=0)
        return jnp.where(forbidden & self.masked, jnp.nan, reward)


@pytest.mark.parametrize(
    ("case", "space"),
    [
        (OnPolicyCase("several discrete", A2C), MultiDiscrete((3, 2, 5))),
        (OnPolicyCase("mixed", A2C), MIXED),
        (OnPolicyCase("mixed, of two actors", IPPO, LOOPS, n_actors=2), MIXED),
    ],
    ids=lambda x: x.name if isinstance(x, OnPolicyCase) else "",
)
@pytest.mark.slow_except("several discrete")
def test_every_part_of_an_action_is_learnt_and_masked_and_so_is_its_file(case, space, tmp_path):
    agent = case.agent(Parts(space, case.n_actors), None, case.config(actor_network=None), False)
    runner = agent.advance(agent.start(KEY, case.hyperparams()), np.int32(300))
    agent.collect_training(runner, {})
    returns = agent.eval(KEY, n_evals=64)["returns"]
    assert returns.mean() > 0.95
    drawn = agent.eval(KEY, n_evals=64, deterministic=False)["returns"]
    assert np.isfinite(drawn).all()
    agent.export_policy(tmp_path / "policy")
    _, obs, _ = jax.jit(agent.env_reset)(KEY)
    action = load_policy(tmp_path / "policy")(obs)
    expected = jax.jit(agent.policy)(agent.actor_training, obs)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), action, expected)


SUITES = [
    gymnasium_spaces.MultiDiscrete([3, 2]),
    gymnasium_spaces.Dict({"a": gymnasium_spaces.Discrete(3), "b": gymnasium_spaces.Box(-1, 1, (2,))}),
    gymnax_spaces.Tuple([gymnax_spaces.Discrete(3), gymnax_spaces.Box(-1.0, 1.0, (2,))]),
]  # fmt: skip


class Any(Probe):
    """An environment in any space of actions, of which it takes no notice."""

    def __init__(self, space):
        super().__init__()
        self.space = space

    def action_space(self, params):
        return self.space


@pytest.mark.parametrize("space", SUITES, ids=["several", "dict", "tuple"])
@pytest.mark.filterwarnings("ignore:All .* episodes of Any terminated")
def test_spaces_of_other_suites_serve(space):
    agent = PPO(Any(space), None, AgentConfig(n_steps=1))
    runner = jax.eval_shape(agent.program.start, KEY, agent._hyperparams_type())
    _, obs, _ = jax.eval_shape(agent.env_reset, KEY)
    action = jax.eval_shape(agent.policy, runner.actor_training, obs)
    drawn = space.sample() if "gymnasium" in type(space).__module__ else space.sample(KEY)
    assert jax.tree.map(np.shape, action) == jax.tree.map(np.shape, dict(drawn) if isinstance(
        drawn, dict) else tuple(drawn) if isinstance(drawn, list) else drawn)  # fmt: skip
    assert check_env(Any(space), n_steps=10).n_steps == 80


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (gymnasium_spaces.Discrete(3, start=1), "must hold integers that start at 0, got Discrete"),
        (
            gymnasium_spaces.MultiDiscrete([3, 2], start=[0, 1]),
            "must hold integers that start at 0",
        ),
        (
            gymnasium_spaces.MultiDiscrete([[3, 2]]),
            "must hold vectors, so that nvec has one axis",
        ),
        (
            Box(np.array([0.0, 1.0]), np.array([1.0, 1.0]), (2,)),
            "must have low below high in every",
        ),
        (Box(np.nan, 1.0, (2,)), "must have low below high in every"),
        (gymnasium_spaces.MultiBinary(2), "acts in discrete and box spaces"),
    ],
)
def test_parts_whose_values_no_agent_gives_are_refused(part, message):
    space = Composite({"turn": Discrete(3), "odd": part})
    with pytest.raises(ValueError, match=message):
        PPO(Any(space), None, AgentConfig())
    drawn = "cannot be drawn" if isinstance(part, gymnasium_spaces.MultiBinary) else message
    with pytest.raises(ValueError, match=drawn):
        check_env(Any(space), n_steps=10)


def test_a_space_of_several_flags_is_not_discrete():
    for space in (Discrete(3), gymnasium_spaces.Discrete(3), gymnax_spaces.Discrete(3)):
        assert is_discrete(space)
    for space in (gymnasium_spaces.MultiBinary(3), MultiDiscrete((3,)), Box(0.0, 1.0, ())):
        assert not is_discrete(space)


def test_boxes_among_the_parts_bound_actions():
    agent = PPO(Parts(MIXED), None, AgentConfig())
    _, _, state = agent.env_reset(KEY)
    zero = jnp.zeros((), jnp.int32)
    for arm in (0.7, 7.0, 1e9):
        action = {"turn": zero, "arm": (jnp.full(1, arm), jnp.zeros(2, jnp.int32))}
        seen = []
        agent.episodes.env.env.reward = lambda state, action, seen=seen: seen.append(action) or 0.0
        agent.episodes.play(KEY, state, action)
        np.testing.assert_allclose(seen[0]["arm"][0], min(arm, 1.0))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (MultiDiscrete((3, 2)), r"tuple of 2 arrays of logits.*got shape \(3,\)"),
        (MIXED, r"a dict with \['arm', 'turn'\].*got shape \(3,\)"),
    ],
)
def test_networks_that_do_not_fit_are_refused(space, message):
    env = Parts(space, masked=False)
    with pytest.raises(ValueError, match=message):
        PPO(env, None, AgentConfig(actor_network=CategoricalActor(3)))


def test_masks_that_do_not_fit_are_refused():
    class Wrong(Parts):
        def action_mask(self, state, params):
            return {
                "turn": jnp.ones(2, bool),
                "arm": (None, (jnp.ones(2, bool), jnp.ones(4, bool))),
            }

    with pytest.raises(ValueError, match=r"must be boolean and have shape \{'turn': \(3,\)"):
        PPO(Wrong(MIXED), None, AgentConfig())


def test_masks_may_leave_out_any_part_or_say_none_of_it():
    class OnlyTurns(Parts):
        def action_mask(self, state, params):
            return self.mask

    def agent_of(mask):
        env = OnlyTurns(MIXED)
        env.mask = {"turn": jnp.array([False, True, False]), **mask}
        return PPO(env, None, AgentConfig(n_steps=1))

    some_legs = {"arm": (None, (jnp.array([True, False]), None))}
    masks = ({}, {"arm": (None, None)}, {"arm": (None, (None, jnp.ones(4, bool)))}, some_legs)
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
    for actions in drawn[:3]:
        assert (actions["turn"] == 1).all()
        assert len(np.unique(actions["arm"][1], axis=0)) == 2 * 4
    legs = drawn[3]["arm"][1]
    assert len(np.unique(legs[:, 1])) == 4
    assert (legs[:, 0] == 0).all()
    for wrong in (
        {"leg": None},
        {"arm": (None, (None,))},
        {"arm": (None, (None, jnp.ones(2, bool)))},
    ):
        with pytest.raises(ValueError, match="mask of actions must be boolean"):
            agent_of(wrong)
