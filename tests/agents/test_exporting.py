"""Exported policies, beyond the suite's test of every agent; and one run of a sweep."""

import resource
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
import trees
from probes import Allowed, MatchSign
from registry import AGENTS

from jaxagents import MAPPO, PPO, load_policy
from jaxagents.engine.sweep import SweepResult

KEY = jax.random.key(0)


def _without_critic_state(obs):
    return {name: x for name, x in obs.items() if name != "critic_state"}


CASES = {case.name: case for case in AGENTS}


class Exported(NamedTuple):
    """An agent, and its exported policy."""

    agent: Any
    path: Path
    policy: Any


def exported(agent, name, path):
    """An untrained agent, and its policy."""
    start = jax.jit(agent.program.start)
    agent.collect_training(start(KEY, CASES[name].hyperparams()), {})
    agent.export_policy(path)
    return Exported(agent, path, load_policy(path))


@pytest.fixture(scope="module")
def ppo(tmp_path_factory):
    """Most tests need only one policy."""
    agent, path = CASES["PPO"].make(MatchSign, False), tmp_path_factory.mktemp("ppo") / "policy"
    return exported(agent, "PPO", path)


def observations_of(agent, n=5):
    keys = jax.random.split(jax.random.key(3), n)
    return jax.jit(jax.vmap(agent.episodes.reset))(keys)[0]


def actions_of(agent, obs):
    """The greedy actions of an agent, computed by one program."""
    acting = agent._acting(agent.training_runner)
    return jax.jit(jax.vmap(agent.policy, (None, 0)))(acting, obs)


def test_only_what_acts_is_exported(tmp_path, ppo):
    flat = jax.tree_util.tree_leaves_with_path(ppo.agent.actor_training.params)
    names = {f"params/{jax.tree_util.keystr(path, simple=True, separator='/')}" for path, _ in flat}
    assert set(ppo.policy.weights) == names
    plain = tmp_path / "plain"
    plain.touch()
    assert ppo.path.stat().st_mode == plain.stat().st_mode  # others may read it too


def test_export_without_compilation_of_weights_in_another_order_to_the_home_folder(
    tmp_path, monkeypatch, ppo
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    runner = ppo.agent.training_runner
    params = jax.tree.map(np.asfortranarray, runner.actor_training.params)
    agent = CASES["PPO"].make(MatchSign, False)
    training = runner.actor_training.replace(params=params)
    agent.collect_training(runner.replace(actor_training=training), {})
    with jax.disable_jit():
        agent.export_policy("~/policy.safetensors")
        policy = load_policy("~/policy.safetensors")
        assert policy(np.ones((3, 2)), KEY).shape == (3,)
    assert (tmp_path / "policy.safetensors").is_file()
    assert policy.metadata["agent"] == "PPO"
    trees.assert_equal(list(policy.weights.values()), jax.tree.leaves(params))
    assert policy(np.ones(2)) == agent.policy(jnp.ones(2))


def test_a_policy_with_a_memory_is_given_it_and_takes_allowed_actions(tmp_path):
    networks = {"actor_network": None, "critic_network": None, "memory": "gru", "memory_size": 4}
    agent = PPO(Allowed(), None, CASES["PPO"].config(**networks), False)
    agent, _, policy = exported(agent, "PPO", tmp_path / "policy")
    obs = observations_of(agent, 3)
    one, two = (jax.tree.map(lambda x, i=i: x[i], obs) for i in range(2))
    with pytest.raises(TypeError, match=r"has a memory: call carry, action = policy\.act"):
        policy(obs)
    carry, batch = policy.initial_carry(), policy.initial_carry(3)
    own = agent.initial_carry(agent.actor_training)
    for wrong in ((), None, batch, own[None, None]):
        with pytest.raises(ValueError, match=r"\[\(4,\)\], as policy\.initial_carry\(\) gives it"):
            policy.act(wrong, one)
    with pytest.raises(ValueError, match=r"policy\.initial_carry\(3\) gives it, with a batch of 3"):
        policy.act(carry, obs)
    mapped = jax.vmap(policy.act, (None, 0))(carry, obs)
    trees.assert_close(mapped, policy.act(batch, obs))
    act = jax.jit(agent.act)
    for seed, seen in enumerate((one, two, one, two)):
        key = jax.random.key(seed)
        own, expected = act(agent.actor_training, own, seen, key)
        carry, action = policy.act(carry, seen, key)
        trees.assert_close(jax.tree.leaves(own), carry)
        assert action == expected
        assert seen["action_mask"][action]


def test_acts_in_programs_of_jax(ppo):
    policy = ppo.policy
    obs = np.random.default_rng(0).normal(size=(3, 4, 2)).astype(np.float32)
    expected = np.stack([policy(batch) for batch in obs])
    for mapped in (jax.vmap(policy), jax.jit(jax.vmap(jax.vmap(policy)))):
        trees.assert_equal(mapped(obs), expected)
    trees.assert_equal(jax.lax.scan(lambda _, x: (None, policy(x)), None, obs)[1], expected)
    keys = jax.random.split(KEY, 3)
    drawn = np.stack([policy(x, key) for x, key in zip(obs, keys, strict=True)])
    trees.assert_equal(jax.vmap(policy)(obs, keys), drawn)
    each = np.stack([policy(obs[0, 0], key) for key in keys])
    trees.assert_equal(jax.vmap(policy, (None, 0))(obs[0, 0], keys), each)
    assert len(np.unique(jax.vmap(policy, (None, 0))(obs[0, 0], jax.random.split(KEY, 64)))) == 2
    with pytest.raises(TypeError, match="dtype float32, got complex64"):
        jax.eval_shape(policy, 1j * obs[0])


def test_names_random_keys_that_it_cannot_draw_by(tmp_path, ppo):
    for obs in (np.zeros(2), np.zeros((3, 2))):
        with pytest.raises(ValueError, match=r"takes one random key, .* got keys of shape \(3,\)"):
            ppo.policy(obs, jax.random.split(KEY, 3))
        with pytest.raises(ValueError, match=r"a random key of 2 words, .* got one of 4, of rbg"):
            ppo.policy(obs, jax.random.key(0, impl="rbg"))
    with jax.default_prng_impl("rbg"):
        ppo.agent.export_policy(tmp_path / "other")
    policy = load_policy(tmp_path / "other")
    with pytest.raises(ValueError, match=r"of 4 words, such as jax\.random\.key\(0, impl='rbg'\)"):
        policy(np.zeros(2), KEY)
    assert policy(np.zeros(2), jax.random.key(0, impl="rbg")) in (0, 1)


def test_refuses_observations_and_memories_that_do_not_fit(ppo):
    pair = {"a": np.zeros(2), "b": np.zeros(2)}
    for wrong in (np.zeros(3), np.zeros(()), np.zeros((2, 2, 2)), pair):
        with pytest.raises(ValueError, match=r"takes an observation of shape \(2,\), or a batch"):
            ppo.policy(wrong)
    with pytest.raises(ValueError, match=r"batch of observations is empty, of shape \(0, 2\)"):
        ppo.policy(np.zeros((0, 2)))
    for nothing in (None, (), []):
        assert ppo.policy.act(nothing, np.zeros(2))[1] == ppo.policy(np.zeros(2))
    with pytest.raises(ValueError, match=r"takes no memory with one observation, got shapes \[\(4"):
        ppo.policy.act(np.zeros(4), np.zeros(2))


def test_refuses_files_that_do_not_fit(tmp_path, ppo):
    with pytest.raises(FileExistsError, match="exists already: choose another name"):
        ppo.agent.export_policy(ppo.path)
    with pytest.raises(FileNotFoundError, match=r"cannot be written: there is no folder .*none; c"):
        ppo.agent.export_policy(tmp_path / "none" / "policy")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):  # as where the disk is full
            ppo.agent.export_policy(tmp_path / "policy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_names_files_whose_programs_are_damaged(tmp_path, ppo):
    with safetensors.safe_open(ppo.path, framework="numpy") as file:
        metadata = file.metadata()
    arrays = safetensors.numpy.load_file(ppo.path)
    code, other = arrays["program/greedy"], {**arrays}
    del other["program/drawn"]
    cannot_read = r"cannot read the programs of .*the file is damaged, or the versions are too"
    for damaged, fault in (
        ({**arrays, "program/greedy": code[:500]}, cannot_read),
        ({**arrays, "program/greedy": np.zeros_like(code)}, cannot_read),
        (other, r"lacks \['program/drawn'\], which export_policy writes"),
    ):
        safetensors.numpy.save_file(damaged, tmp_path / "damaged", metadata)
        with pytest.raises(ValueError, match=fault):
            load_policy(tmp_path / "damaged")


def test_numbers_of_other_types_serve_unless_they_would_be_rounded(ppo):
    policy = ppo.policy
    expected = policy(np.array([1.0, 0.0], np.float32))
    others = np.array([1, 0]), np.array([1, 0], np.float16), np.array([True, False]), [1.0, 0]
    assert [policy(other) for other in others] == [expected] * 4
    assert policy([[1.0, 0.0]] * 3).shape == (3,)
    with pytest.raises(TypeError, match="an observation of dtype float32, got complex128: cast"):
        policy(np.array([1j, 0.0]))


class Moves(MatchSign):
    """Observes arrays of one shape, bytes and a mask, and shows critics more than actors."""

    def observe(self, state):
        return {
            "position": jnp.full(3, state.sign),
            "velocity": jnp.full(3, -state.sign),
            "pixels": jnp.full(3, 100 * (1 + state.sign), jnp.uint8),
            "action_mask": jnp.array([True, False]),
            "critic_state": state.sign,
        }


@pytest.fixture(scope="module")
def moves(tmp_path_factory):
    agent = PPO(Moves(), None, CASES["PPO"].config(actor_network=None, critic_network=None))
    return exported(agent, "PPO", tmp_path_factory.mktemp("moves") / "policy")


GIVEN = {
    "velocity": -np.ones(3, np.float32),
    "position": np.ones(3, np.float32),
    "pixels": np.array([200, 0, 100], np.uint8),
    "action_mask": np.ones(2, bool),
}


def test_entries_are_taken_by_their_names_and_what_critics_see_is_not_needed(moves):
    policy, obs = moves.policy, observations_of(moves.agent)
    expected = actions_of(moves.agent, obs)
    for given in (obs, _without_critic_state(obs)):
        trees.assert_close(policy(given), expected)
    action = policy(GIVEN)
    lists = {**GIVEN, "velocity": [-1.0] * 3, "position": [1, 1, 1]}
    assert policy(lists) == policy(dict(reversed(GIVEN.items()))) == action
    batch = {name: np.stack([x, x]).tolist() for name, x in GIVEN.items()}
    assert policy(batch).tolist() == [action] * 2
    names = r"\['action_mask', 'pixels', 'position', 'velocity'\]"
    rest = {name: x for name, x in GIVEN.items() if name != "position"}
    for wrong, fault in (
        ({**rest, "place": np.ones(3)}, r"\['position'\] are missing and \['place'\] are unknown"),
        ({**rest, "position": [[1.0, 1.0], [1.0]]}, r"are missing and \['position/0/0', "),
        (tuple(GIVEN.values()), rf"{names} are missing and \['0', '1', '2', '3'\] are unknown\."),
        (rest, r"but in this one \['position'\] are missing\."),
        ({**GIVEN, "time": np.ones(3)}, r"but in this one \['time'\] are unknown\."),
    ):
        with pytest.raises(ValueError, match=rf"with the entries {names}, .*{fault}"):
            policy(wrong)


def test_whole_numbers_and_masks_are_cast_where_they_fit(moves):
    policy = moves.policy
    pixels = np.array([200, 200, 200])
    for mask in ([0, 1], [0.0, 2.0]):
        for dtype in (np.int8, np.float32):
            given = {**GIVEN, "pixels": pixels, "action_mask": np.array(mask, dtype)}
            assert policy(given) == 1
    with pytest.raises(
        TypeError, match=r"dtype uint8, got float64: cast .* np\.asarray\(x, np\.uint8"
    ):
        policy({**GIVEN, "pixels": pixels / 255})
    for wrapped, fault in (([300, 0, 0], "from 0 to 300"), (jnp.array([0, -1, 9]), "from -1 to 9")):
        with pytest.raises(
            ValueError, match=f"dtype uint8, .* not hold all numbers {fault}: scale"
        ):
            policy({**GIVEN, "pixels": wrapped})


class Overseen(MatchSign):
    """Shows a centralised critic the state."""

    def critic_state(self, state, params):
        return {"sign": state.sign, "time": state.time}


def test_what_a_centralised_critic_sees_is_not_needed_to_act(tmp_path):
    config = CASES["MAPPO"].config(actor_network=None, critic_network=None)
    agent, _, policy = exported(MAPPO(Overseen(2), None, config), "MAPPO", tmp_path / "policy")
    obs = observations_of(agent)
    expected = actions_of(agent, obs)
    seen = _without_critic_state(obs)
    for given in (seen, *seen.values(), obs):
        trees.assert_close(policy(given), expected)


def test_selects_one_run_out_of_many(ppo):
    agent = CASES["PPO"].make(MatchSign)
    runner = ppo.agent.training_runner
    runners = jax.tree.map(lambda x: jnp.broadcast_to(x, (3, 2, *x.shape)), runner)
    runners = runners.replace(update_step=np.arange(6, dtype=np.int32).reshape(3, 2))
    metrics = {"update_step": np.arange(12).reshape(3, 2, 2)}
    result = SweepResult(runners, metrics, None, None)
    found, of_one = agent.select(result, 1, 1)
    trees.assert_equal(found, runner.replace(update_step=np.int32(3)))
    np.testing.assert_array_equal(of_one["update_step"], [6, 7])
    agent.select((runners, metrics), 2, 0)
    assert agent.training_runner.update_step == agent.previous_training_max_step == 4
    for wrong in ((3, 0), (1,), (0, 2), (0, 0, 0)):
        with pytest.raises(
            IndexError, match=r"along axes of lengths \(3, 2\): give an index for each axis"
        ):
            agent.select(result, *wrong)
    with pytest.raises(TypeError, match=r"select takes the result of sweep .* got 1 first"):
        agent.select(1, 0)
