"""Policies as files, beside what the suite says of every agent's; and one training out of many."""

import functools
import resource
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
import trees
from flax import linen as nn
from probes import MatchSign
from registry import AGENTS

from jaxagents import MAPPO, PPO, load_policy, ops
from jaxagents.core.observed import without_critic_state
from jaxagents.networks import WithMemory
from jaxagents.ppo import AgentConfig, HyperParameters

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}


def fresh(case):
    """An agent that acts as it began."""
    return begin(case.make(MatchSign, False), case)


def begin(agent, case):
    """Gives an agent a fresh runner."""
    agent.collect_training(start_of(agent)(KEY, case.hyperparams()), {})
    return agent


@functools.cache
def start_of(agent):
    """The function that makes a fresh runner, compiled without its updates."""
    return jax.jit(agent.program.start)


class Exported(NamedTuple):
    """An agent, and its policy in a file."""

    agent: Any
    path: Path
    policy: Any


@pytest.fixture(scope="module")
def ppo(tmp_path_factory):
    """Most tests need only one policy."""
    agent, path = fresh(CASES["PPO"]), tmp_path_factory.mktemp("ppo") / "policy"
    agent.export_policy(path)
    return Exported(agent, path, load_policy(path))


def observations_of(agent, n=5):
    keys = jax.random.split(jax.random.key(3), n)
    return jax.jit(jax.vmap(agent.episodes.reset))(keys)[0]


def test_only_what_acts_is_exported(tmp_path, ppo):
    flat = jax.tree_util.tree_leaves_with_path(ppo.agent.actor_training.params)
    names = {f"params/{jax.tree_util.keystr(path, simple=True, separator='/')}" for path, _ in flat}
    assert set(ppo.policy.weights) == names
    plain = tmp_path / "plain"
    plain.touch()
    assert ppo.path.stat().st_mode == plain.stat().st_mode  # others may read it too
    agent = fresh(CASES["SAC"])
    agent.export_policy(tmp_path / "sac")
    assert all(name.startswith("actor/params") for name in load_policy(tmp_path / "sac").weights)


def test_weights_that_lie_otherwise_in_memory(tmp_path):
    agent = fresh(CASES["PPO"])
    params = jax.tree.map(np.asfortranarray, agent.actor_training.params)
    training = agent.training_runner.actor_training.replace(params=params)
    agent.collect_training(agent.training_runner.replace(actor_training=training), {})
    agent.export_policy(tmp_path / "policy")
    weights = load_policy(tmp_path / "policy").weights
    trees.assert_equal(list(weights.values()), jax.tree.leaves(params))


class Remembering(PPO):
    """Acts by a network with a memory."""

    def _distribution_of(self, output):
        return ops.Categorical(output)


def test_a_policy_with_a_memory_is_given_it(tmp_path):
    network = WithMemory(nn.Dense(2), cell=nn.GRUCell(features=4))
    config = AgentConfig(n_steps=1, batch_size=4, rollout_length=4, actor_network=network)
    agent = Remembering(MatchSign(), None, config, eval_during_training=False)
    agent.collect_training(start_of(agent)(KEY, HyperParameters()), {})
    agent.export_policy(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    obs = observations_of(agent, 3)
    with pytest.raises(TypeError, match=r"has a memory: call carry, action = policy\.act"):
        policy(obs)
    carry, batch = policy.initial_carry(), policy.initial_carry(3)
    own = agent.initial_carry(agent.actor_training)
    for wrong in ((), None, batch, own[None, None]):
        with pytest.raises(ValueError, match=r"\[\(4,\)\], as policy\.initial_carry\(\) gives it"):
            policy.act(wrong, obs[0])
    with pytest.raises(
        ValueError, match=r"policy\.initial_carry\(3\) gives it, with a batch of 3 obs"
    ):
        policy.act(carry, obs)
    trees.assert_close(jax.vmap(policy.act, (None, 0))(carry, obs), policy.act(batch, obs))
    for step in range(2):
        carry, action = policy.act(carry, obs[step])
        batch, actions = policy.act(batch, obs)
        own, expected = agent.act(agent.actor_training, own, obs[step])
        trees.assert_close(jax.tree.leaves(own), carry)
        assert action == expected
        assert actions.shape == (3,)


def test_refuses_what_does_not_fit(tmp_path, ppo):
    with pytest.raises(RuntimeError, match="has not been trained"):
        CASES["PPO"].make(MatchSign).export_policy(tmp_path / "policy")
    with pytest.raises(FileExistsError, match="exists already: choose another name"):
        ppo.agent.export_policy(ppo.path)
    with pytest.raises(FileNotFoundError, match=r"cannot be written: there is no folder .*none; m"):
        ppo.agent.export_policy(tmp_path / "none" / "policy")
    for wrong in (
        np.zeros(3),
        np.zeros(()),
        np.zeros((2, 2, 2)),
        {"a": np.zeros(2), "b": np.zeros(2)},
    ):
        with pytest.raises(ValueError, match=r"takes an observation of shape \(2,\), or a batch"):
            ppo.policy(wrong)
    with pytest.raises(FileNotFoundError, match="There is no file"):
        load_policy(tmp_path / "nothing")
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is no file of safetensors"):
        load_policy(tmp_path / "other")


def test_acts_in_programs_of_jax(ppo):
    policy = ppo.policy
    obs = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    expected = np.stack([policy(batch) for batch in obs])
    trees.assert_equal(jax.jit(policy)(obs[0]), expected[0])
    for mapped in (jax.vmap(policy), jax.jit(jax.vmap(jax.vmap(policy)))):
        trees.assert_equal(mapped(obs), expected)
    trees.assert_equal(jax.lax.scan(lambda _, x: (None, policy(x)), None, obs)[1], expected)
    keys = jax.random.split(KEY, 3)
    drawn = np.stack([policy(x, key) for x, key in zip(obs, keys, strict=True)])
    trees.assert_equal(jax.vmap(policy)(obs, keys), drawn)
    each = np.stack([policy(obs[0, 0], key) for key in keys])
    trees.assert_equal(jax.vmap(policy, (None, 0))(obs[0, 0], keys), each)
    assert jax.jit(policy)(np.array([1, 0])) == policy([1, 0])
    with pytest.raises(TypeError, match="dtype float32, got complex64"):
        jax.jit(policy)(1j * obs[0])


def test_names_random_keys_that_it_cannot_draw_by(tmp_path, ppo):
    for obs in (np.zeros(2), np.zeros((3, 2))):
        with pytest.raises(ValueError, match=r"takes one random key, .* got keys of shape \(3,\)"):
            ppo.policy(obs, jax.random.split(KEY, 3))
        with pytest.raises(ValueError, match=r"a random key of 2 words, .* got one of 4, of rbg"):
            ppo.policy(obs, jax.random.key(0, impl="rbg"))
    with jax.default_prng_impl("rbg"):
        fresh(CASES["PPO"]).export_policy(tmp_path / "other")
    policy = load_policy(tmp_path / "other")
    with pytest.raises(ValueError, match=r"of 4 words, such as jax\.random\.key\(0, impl='rbg'\)"):
        policy(np.zeros(2), KEY)
    assert policy(np.zeros(2), jax.random.key(0, impl="rbg")) in (0, 1)


def test_writes_programs_where_agents_are_not_compiled(tmp_path):
    agent = fresh(CASES["PPO"])
    with jax.disable_jit():
        agent.export_policy(tmp_path / "policy")
        policy = load_policy(tmp_path / "policy")
        assert policy(np.ones(2)) == agent.policy(jnp.ones(2))
        assert policy(np.ones((3, 2)), KEY).shape == (3,)
    assert policy(np.ones(2)) == agent.policy(jnp.ones(2))


def test_paths_may_begin_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    agent = fresh(CASES["PPO"])
    agent.export_policy("~/policy.safetensors")
    assert (tmp_path / "policy.safetensors").is_file()
    assert load_policy("~/policy.safetensors").metadata["agent"] == "PPO"
    with pytest.raises(FileExistsError, match="exists already: choose another name"):
        agent.export_policy("~/policy.safetensors")


class Images(MatchSign):
    """Observes bytes and a mask of actions."""

    def observe(self, state):
        return {
            "pixels": jnp.full(3, 100 * (1 + state.sign), jnp.uint8),
            "action_mask": jnp.array([True, False]),
        }


def test_numbers_of_other_types_serve_unless_they_would_be_rounded(tmp_path, ppo):
    policy = ppo.policy
    expected = policy(np.array([1.0, 0.0], np.float32))
    for other in (
        np.array([1, 0]),
        np.array([1, 0], np.float16),
        np.array([True, False]),
        [1.0, 0],
    ):
        assert policy(other) == expected
    assert policy([[1.0, 0.0]] * 3).shape == (3,)
    with pytest.raises(
        TypeError, match="takes an observation of dtype float32, got complex128: cast"
    ):
        policy(np.array([1j, 0.0]))
    agent = PPO(Images(), None, CASES["PPO"].config(actor_network=None))
    begin(agent, CASES["PPO"])
    agent.export_policy(tmp_path / "images")
    policy = load_policy(tmp_path / "images")
    pixels = np.array([200, 200, 200])
    for mask in ([0, 1], [0.0, 2.0]):
        for dtype in (np.int8, np.float32):
            assert policy({"pixels": pixels, "action_mask": np.array(mask, dtype)}) == 1
    with pytest.raises(
        TypeError, match=r"dtype uint8, got float64: cast .* np\.asarray\(x, np\.uint8"
    ):
        policy({"pixels": pixels / 255, "action_mask": np.ones(2)})
    for wrapped, fault in (([300, 0, 0], "from 0 to 300"), (jnp.array([0, -1, 9]), "from -1 to 9")):
        with pytest.raises(
            ValueError, match=f"dtype uint8, .* not hold all numbers {fault}: scale"
        ):
            policy({"pixels": wrapped, "action_mask": np.ones(2)})


def test_refuses_names_of_other_files_and_batches_of_nothing(tmp_path, ppo):
    with pytest.raises(
        ValueError, match=r"load_policy reads, not one of \.onnx: let its name end in"
    ):
        ppo.agent.export_policy(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())
    policy = ppo.policy
    with pytest.raises(ValueError, match=r"batch of observations is empty, of shape \(0, 2\)"):
        policy(np.zeros((0, 2)))
    for nothing in (None, (), []):
        assert policy.act(nothing, np.zeros(2))[1] == policy(np.zeros(2))
    with pytest.raises(
        ValueError, match=r"takes no memory with one observation, got shapes \[\(4,\)"
    ):
        policy.act(np.zeros(4), np.zeros(2))


def test_leaves_nothing_of_a_file_that_does_not_fit_on_the_disk(tmp_path):
    agent = fresh(CASES["PPO"])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            agent.export_policy(tmp_path / "policy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    agent.export_policy(tmp_path / "policy")
    load_policy(tmp_path / "policy")


def test_names_files_whose_programs_are_damaged(tmp_path, ppo):
    with safetensors.safe_open(ppo.path, framework="numpy") as file:
        metadata = file.metadata()
    arrays = safetensors.numpy.load_file(ppo.path)
    code, other = arrays["program/greedy"], {**arrays}
    del other["program/drawn"]
    for damaged, fault in (
        (
            {**arrays, "program/greedy": code[:500]},
            r"cannot read the programs of .*damaged, which JAX",
        ),
        (
            {**arrays, "program/greedy": np.zeros_like(code)},
            "the file is damaged, or the two are too",
        ),
        (other, r"lacks \['program/drawn'\], which export_policy writes"),
    ):
        safetensors.numpy.save_file(damaged, tmp_path / "damaged", metadata)
        with pytest.raises(ValueError, match=fault):
            load_policy(tmp_path / "damaged")


class Overseen(MatchSign):
    """Shows critics more than actors."""

    def critic_state(self, state, params):
        return {"sign": state.sign, "time": state.time}


class Positions(Overseen):
    """Observes a dict, of which critics see a part."""

    def observe(self, state):
        return {"position": super().observe(state), "critic_state": state.sign}


@pytest.mark.parametrize("env", [Overseen, Positions])
def test_what_critics_see_is_not_needed_to_act(env, tmp_path):
    config = CASES["MAPPO"].config(actor_network=None, critic_network=None)
    agent = MAPPO(env(2), None, config)
    begin(agent, CASES["MAPPO"])
    agent.export_policy(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    obs = observations_of(agent)
    expected = jax.jit(jax.vmap(agent.policy, (None, 0)))(agent.actor_training, obs)
    seen = without_critic_state(obs)
    for given in (seen, *seen.values(), obs):
        trees.assert_close(policy(given), expected)


class Moves(MatchSign):
    """Observes a dict of two arrays of one shape."""

    def observe(self, state):
        return {"position": jnp.full(3, state.sign), "velocity": jnp.full(3, -state.sign)}


def test_entries_are_taken_by_their_names(tmp_path):
    agent = PPO(Moves(), None, CASES["PPO"].config(actor_network=None))
    begin(agent, CASES["PPO"])
    agent.export_policy(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    x, y = jnp.ones(3), -jnp.ones(3)
    both = {"velocity": y, "position": x}
    assert policy(both) == agent.policy(both) != agent.policy({"position": y, "velocity": x})
    assert policy({"velocity": [-1.0] * 3, "position": [1, 1, 1]}) == policy(both)
    batch = {"velocity": [[-1.0] * 3] * 2, "position": jnp.ones((2, 3))}
    assert policy(batch).tolist() == [policy(both)] * 2
    with pytest.raises(ValueError, match=r"\['position'\] are missing and \['position/0/0', "):
        policy({"velocity": y, "position": [[1.0, 1.0], [1.0]]})
    for wrong, fault in (
        (
            {"speed": y, "place": x},
            r"\['position', 'velocity'\] are missing and \['place', 'speed'\]",
        ),
        ((y, x), r"\['position', 'velocity'\] are missing and \['0', '1'\] are unknown\."),
        ({"position": x}, r"but of this one \['velocity'\] are missing\."),
        ({**both, "time": x}, r"but of this one \['time'\] are unknown\."),
    ):
        with pytest.raises(ValueError, match=rf"the entries \['position', 'velocity'\], .*{fault}"):
            policy(wrong)
    with safetensors.safe_open(tmp_path / "policy", framework="numpy") as file:
        earlier = {name: text for name, text in file.metadata().items() if name != "entries"}
    arrays = safetensors.numpy.load_file(tmp_path / "policy")
    safetensors.numpy.save_file(arrays, tmp_path / "earlier", earlier)
    assert load_policy(tmp_path / "earlier")((x, y)) == policy(both)


class Spy(nn.Module):
    """Acts by what only critics should see."""

    @nn.compact
    def __call__(self, obs):
        return nn.Dense(2)(obs["critic_state"][None])


class Spying(Remembering):
    def _actor_network(self):
        return Spy()

    def _for_observation(self, field, network):
        return network if field == "actor_network" else super()._for_observation(field, network)


def test_a_policy_that_reads_what_critics_see_is_given_it(tmp_path):
    agent = Spying(Positions(), None, CASES["PPO"].config(actor_network=None, critic_network=None))
    begin(agent, CASES["PPO"])
    agent.export_policy(tmp_path / "policy")
    obs = observations_of(agent)
    expected = jax.jit(jax.vmap(agent.policy, (None, 0)))(agent.actor_training, obs)
    trees.assert_close(load_policy(tmp_path / "policy")(obs), expected)


def test_selects_one_training_out_of_many():
    case = CASES["PPO"]
    agent = case.make(MatchSign)
    keys = jax.random.split(KEY, 2)
    rates = np.array([1e-2, 1e-3, 0.0], np.float32)
    result = agent.sweep(keys, case.hyperparams(rates), progress=False)
    runner, metrics = agent.select(result, 1, 1)
    alone = agent.train(keys[1], case.hyperparams(rates[1]), progress=False)
    trees.assert_equal((runner, metrics), alone)
    agent.select((result.runners, result.metrics), 2, 0)
    trees.assert_equal(agent.training_runner, jax.tree.map(lambda x: x[2, 0], result.runners))
    assert agent.previous_training_max_step == agent.config.n_steps
    for wrong in ((3, 0), (1,), (0, 2), (0, 0, 0)):
        with pytest.raises(IndexError, match=r"along axes of lengths \(3, 2\): give one position"):
            agent.select(result, *wrong)
    with pytest.raises(TypeError, match=r"select takes what sweep .* got 1 first"):
        agent.select(1, 0)
