"""Numbers that are not finite: noticed, never the best, and skipped if asked."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import trees
from probes import Endless, MatchSign, ProbeState
from registry import AGENTS

from jaxagents.checkpoints.records import saved_steps
from jaxagents.core.report import (
    OBSERVATIONS,
    REWARDS,
    finite_members,
    nonfinite_environments,
    not_finite,
)
from jaxagents.engine.observers import NotFiniteError
from jaxagents.learners.optimizer import SkipNotFinite
from jaxagents.sharding import make_mesh

CASES = {case.name: case for case in AGENTS}
KEY = jax.random.key(0)


class Spoilt(MatchSign):
    """Gives, from some update on, rewards that are not finite."""

    def __init__(self, *args, infinite=True, share=0.05):
        super().__init__(*args)
        self.infinite = infinite
        self.share = share

    def step_env(self, key, state, action, params):
        obs, state, reward, done, info = super().step_env(key, state, action, params)
        is_spoilt = jax.random.uniform(jax.random.fold_in(key, 7)) < self.share
        reward = jnp.where(is_spoilt, jnp.inf if self.infinite else jnp.nan, reward)
        return obs, state, reward, done, info


def make(name, infinite=True, share=0.05, eval_during_training=True, **fields):
    case = CASES[name]
    env = Spoilt(case.n_actors, case.continuous, infinite=infinite, share=share)
    agent = case.agent(env, None, case.config(**fields), eval_during_training)
    return agent, case.hyperparams()


@pytest.mark.slow
def test_the_last_good_checkpoint_and_the_spoilt_runner_are_kept(tmp_path):
    fields = {"share": 0.002, "eval_during_training": False, "n_steps": 1_000}
    agent, hyperparams = make("PPO", **fields, checkpoint_dir=tmp_path)
    with pytest.raises(NotFiniteError, match="the last one before it is whole"):
        agent.train(jax.random.key(1), hyperparams, progress=False)
    step = agent.previous_training_max_step
    spoilt = agent.training_runner
    assert not_finite(agent.vital_arrays(spoilt))
    again, _ = make("PPO", **fields, checkpoint_dir=tmp_path, restore_agent=True)
    runner, _ = again.restore("last")
    assert not not_finite(again.vital_arrays(runner))
    assert saved_steps(tmp_path)[-1] == again.previous_training_max_step < step
    restored = again.previous_training_max_step
    stretch = again.replay(restored + 1, step - restored - 1)
    trees.assert_equal(spoilt, stretch.runner)
    assert restored < stretch.not_finite_since <= step
    assert stretch.not_finite[0] == "parameters of the actor"
    losses = stretch.metrics["actor_loss"]
    reported = np.flatnonzero(~np.isfinite(losses))
    assert stretch.metrics["update_step"][reported[0]] >= stretch.not_finite_since
    assert again.previous_training_max_step == restored


def test_a_training_may_go_on_with_a_warning_and_is_never_the_best(tmp_path):
    fields = {"checkpoint_dir": tmp_path, "stop_if_not_finite": False, "keep_checkpoints": None}
    agent, hyperparams = make("REINFORCE", share=0.2, **fields)
    with pytest.warns(UserWarning, match="Training goes on, as configured") as said:
        agent.train(KEY, hyperparams, n_steps=4, progress=False)
    assert len([warning for warning in said if "finite" in str(warning.message)]) == 1
    assert saved_steps(tmp_path) == [0, 2, 4]
    agent.restore("best")
    assert agent.previous_training_max_step == 0


class FusedState(ProbeState):
    fuse: jax.Array
    in_observation: jax.Array


class Fused(Endless):
    """Spoils its reward or its observation in one step: after so many as the state says."""

    def __init__(self, *args, fuse=-1, of=REWARDS):
        super().__init__(*args)
        self.fuse, self.of = fuse, of

    def reset_env(self, key, params):
        obs, state = super().reset_env(key, params)
        in_observation = jnp.asarray(self.of == OBSERVATIONS)
        return obs, FusedState(state.time, state.sign, jnp.int32(self.fuse), in_observation)

    def step_env(self, key, state, action, params):
        state = state.replace(fuse=state.fuse - 1)
        obs, state, reward, done, info = super().step_env(key, state, action, params)
        spoil = jnp.where(state.fuse == 0, jnp.nan, 0.0)
        obs = obs + jnp.where(state.in_observation, spoil, 0.0)
        reward = reward + jnp.where(state.in_observation, 0.0, spoil)
        return obs, state, reward, done, info


def fused(name, **fields):
    """An agent of an environment with a fuse, which trains for 60 updates."""
    case = CASES[name]
    sizes = {"n_steps": 60, "eval_frequency": 60, "max_episode_steps": 10_000}
    env = Fused(case.n_actors, case.continuous)
    return case.agent(env, None, case.config(**sizes, **fields), eval_during_training=False)


def lit(agent, name, of, n_steps, environments):
    """A fresh runner, some of whose environments spoil what they give after so many steps."""
    runner = agent.start(KEY, CASES[name].hyperparams())
    state = runner.envstate.envstate
    fuse, in_observation = np.full(state.fuse.shape, -1, np.int32), np.full(state.fuse.shape, False)
    fuse[environments], in_observation[environments] = n_steps, of == OBSERVATIONS
    state = state.replace(fuse=jnp.asarray(fuse), in_observation=jnp.asarray(in_observation))
    return runner.replace(envstate=runner.envstate.replace(envstate=state))


@pytest.mark.parametrize(
    ("name", "of", "fields", "n_devices"),
    [
        ("PPO", REWARDS, {"normalise_rewards": True}, None),
        ("RND", REWARDS, {"normalise_rewards": True}, None),
        ("IPPO", OBSERVATIONS, {}, None),
        ("SAC", OBSERVATIONS, {}, None),
        ("PQN", OBSERVATIONS, {}, None),
        ("DQN", REWARDS, {"n_groups": 2}, None),
        ("DQN", OBSERVATIONS, {"n_groups": 2}, 2),
        ("PPO", REWARDS, {"n_groups": 2}, 2),
    ],
)
@pytest.mark.slow_except("PPO-rewards-fields0", "DQN-observations")
def test_a_training_stops_and_names_what_environments_gave_with_its_update(
    name, of, fields, n_devices
):
    mesh = None if n_devices is None else make_mesh(n_devices)
    agent = fused(name, **fields)
    runner = lit(agent, name, of, 4 * agent.config.rollout_length + 1, [3])
    with pytest.raises(NotFiniteError) as raised:
        agent.train(None, None, runner, progress=False, mesh=mesh)
    said = str(raised.value)
    runner = agent.training_runner
    replayed = runner.buffer.storage if name in ("SAC", "DQN") else {}
    assert not_finite({**agent.vital_arrays(runner), **replayed})
    assert 0 < agent.previous_training_max_step < 60
    assert f"since update 5: {of} of environments [3]" in said
    if name in ("PPO", "IPPO"):
        assert re.search(r"since update 5: [^;]*actor_gradient_norm, actor_loss", said)
        assert re.search(r"and by update \d+: parameters of the actor", said)


def test_flags_of_the_steps_of_a_rollout_are_those_of_the_whole():
    obs = {"a": np.zeros((5, 4, 3), np.float32), "counts": np.zeros((5, 4), np.int32)}
    obs["a"][2, 1, 0], obs["a"][4, 3, 2] = np.nan, np.inf
    given = {OBSERVATIONS: obs, "counts": obs["counts"]}
    of_rollout = nonfinite_environments(given, axis=1)
    of_steps = jax.vmap(nonfinite_environments)(given)
    assert of_rollout.keys() == of_steps.keys() == {OBSERVATIONS}
    np.testing.assert_array_equal(of_rollout[OBSERVATIONS], [False, True, False, True])
    np.testing.assert_array_equal(of_steps[OBSERVATIONS].any(axis=0), of_rollout[OBSERVATIONS])


def test_what_an_offline_agent_learns_is_named_with_its_update():
    case = CASES["BC"]
    agent = case.make(MatchSign, False, n_steps=60, eval_frequency=60, features=(16, 16))
    with pytest.raises(NotFiniteError, match=r"since update 2: actor_loss; and by update \d+: the"):
        agent.train(KEY, case.hyperparams(learning_rate=3e38), progress=False)


def blinding():
    """An agent whose environments observe nothing in update 2, and in each evaluation."""
    case = CASES["REINFORCE"]
    config = case.config(max_episode_steps=16, stop_if_not_finite=False)
    return case.agent(Fused(fuse=12, of=OBSERVATIONS), None, config), case.hyperparams()


def test_members_of_a_sweep_are_named_with_the_update():
    agent, hyperparams = blinding()
    everywhere = r"\(0, 1\) since update 2: observations of environments \[0, 1, 2, .*actor_loss"
    with pytest.warns(UserWarning, match=rf"in 2 of 2 members .* {everywhere}"):
        agent.sweep(jax.random.split(KEY, 2), hyperparams, n_steps=2, progress=False)


def test_returns_of_observations_that_are_not_finite_are_no_numbers():
    agent, hyperparams = blinding()
    with pytest.warns(match="since update 2"), pytest.warns(match="The evaluation after update 0"):
        agent.train(KEY, hyperparams, n_steps=2, progress=False)
    outcomes = agent.eval(KEY, 4)
    assert np.isnan(outcomes["returns"]).all()
    assert np.isfinite(outcomes["final_rewards"]).all()


def test_names_the_environments():
    obs = {"a": np.zeros((4, 3)), "b": np.arange(4)}
    obs["a"][[1, 3], 2] = np.nan
    assert not_finite({"observations": obs, "others": {"x": np.ones(2)}}) == [
        "observations of environments [1, 3]"
    ]
    many = np.full(20, np.inf)
    assert not_finite({"observations": many}) == [
        "observations of environments [0, 1, 2, 3, 4, 5, 6, 7] and 12 more"
    ]


class Alike(MatchSign):
    """Rewards all actions alike."""

    def reward(self, state, action):
        return jnp.ones(())


def test_members_of_a_sweep_that_are_not_finite_are_named_and_not_the_best():
    case = CASES["REINFORCE"]
    agent = case.make(Alike)
    keys = jax.random.split(KEY, 2)
    hyperparams = case.hyperparams(learning_rate=jnp.array([3e38, 1e-3]))
    with pytest.warns(UserWarning, match=r"in 2 of 4 members of the sweep.*\[\(0, 0\), \(0, 1\)\]"):
        result = agent.sweep(keys, hyperparams, n_steps=2, progress=False)
    assert (result.metrics["returns"] == 1.0).all()
    assert result.best == 1


def test_which_members_are_finite():
    tree = {
        "a": np.array([[1.0, 2.0], [np.nan, 0.0], [1.0, 1.0]]),
        "b": np.array([0.0, 0.0, np.inf]),
    }
    np.testing.assert_array_equal(finite_members(tree), [True, False, False])


def networks_of(agent, runner):
    """All vital arrays but those of a replay buffer."""
    arrays = agent.vital_arrays(runner)
    return {name: array for name, array in arrays.items() if "buffer" not in name}


@pytest.mark.filterwarnings("ignore:Numbers that are not finite")
@pytest.mark.parametrize("name", ["REINFORCE", "DQN"])
@pytest.mark.slow_except("DQN")
def test_gradients_that_are_not_finite_can_be_skipped(name):
    fields = {"optimizer": SkipNotFinite(optax.adam), "stop_if_not_finite": False}
    agent, hyperparams = make(name, infinite=False, eval_during_training=False, **fields)
    runner, _ = agent.train(KEY, hyperparams, n_steps=30, progress=False)
    assert not not_finite(networks_of(agent, runner))
    network = runner.learner.critic if name == "DQN" else runner.actor_training
    assert optax.tree_utils.tree_get(network.opt_state, "total_notfinite") > 0
    assert SkipNotFinite(optax.adam) == SkipNotFinite(optax.adam)


NORMALISED = {f"normalise_{what}": True for what in ("observations", "rewards", "values")}


@pytest.mark.filterwarnings("ignore:Numbers that are not finite")
@pytest.mark.parametrize(
    ("name", "of", "switches"),
    [
        ("PPO", REWARDS, NORMALISED),
        ("PPO", OBSERVATIONS, NORMALISED),
        ("DQN", REWARDS, {"prioritised_replay": True}),
    ],
)
@pytest.mark.slow_except("PPO-observations")
def test_most_steps_are_not_skipped_whatever_is_normalised(name, of, switches):
    fields = {"optimizer": SkipNotFinite(optax.adam), "stop_if_not_finite": False}
    agent = fused(name, **fields, **switches)
    runner = lit(agent, name, of, 20, slice(None))
    runner, _ = agent.train(None, None, runner, progress=False)
    network = runner.learner.critic if name == "DQN" else runner.actor_training
    assert not not_finite({"the network": (network.params, network.extra_variables)})
    assert not not_finite(networks_of(agent, runner))
    skipped = optax.tree_utils.tree_get(network.opt_state, "total_notfinite")
    assert 0 < skipped < 0.3 * network.step


def test_a_stretch_is_what_happened(tmp_path):
    case = CASES["DQN"]
    sizes = {"n_steps": 6, "eval_frequency": 3}
    agent = case.make(MatchSign, **sizes, checkpoint_dir=tmp_path, keep_checkpoints=None)
    runner, metrics = agent.train(KEY, case.hyperparams(), progress=False)
    stretch = agent.replay(1, 5)
    trees.assert_equal(stretch.runner, runner)
    np.testing.assert_array_equal(stretch.metrics["update_step"], range(2, 7))
    np.testing.assert_array_equal(
        stretch.metrics["critic_loss"][[1, 4]], metrics["critic_loss"][1:]
    )
    assert stretch.not_finite_since is None
    with pytest.raises(FileNotFoundError, match="no checkpoint_dir, from which a stretch"):
        case.make(MatchSign).replay(2)
    folder = {"checkpoint_dir": tmp_path / "lean", "checkpoint_buffer": False}
    lean = case.make(MatchSign, **sizes, **folder)
    lean.train(KEY, case.hyperparams(), n_steps=2, progress=False)
    with pytest.raises(ValueError, match="without their replay buffers"):
        lean.replay(1)


def test_an_optimizer_that_waits_for_its_first_loss_is_no_harm(tmp_path):
    def patient(learning_rate):
        plateau = optax.contrib.reduce_on_plateau(accumulation_size=1_000)
        return optax.chain(optax.adam(learning_rate), plateau)

    state = patient(1e-3).init(jnp.zeros(2))
    assert not_finite({"optimizer": state}) == []
    spoilt = state[1]._replace(avg_value=jnp.array(jnp.nan))
    assert not_finite({"optimizer": (state[0], spoilt)}) == ["optimizer"]
    case = CASES["BC"]
    agent = case.make(MatchSign, False, optimizer=patient, n_steps=2, checkpoint_dir=tmp_path)
    agent.train(KEY, case.hyperparams(), progress=False)
    assert saved_steps(tmp_path) == [0, 2]
