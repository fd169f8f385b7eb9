"""Non-finite numbers: detected, never the best checkpoint, skipped on request, and found by replay."""

import re
import warnings

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
CASE, DQN = CASES["REINFORCE"], CASES["DQN"]
KEY = jax.random.key(0)


class FusedState(ProbeState):
    fuse: jax.Array
    in_observation: jax.Array


class Fused(Endless):
    """Returns a NaN reward or observation in one step, after the number of steps in the state."""

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


def fused(**fields):
    """A DQN agent in an environment with a fuse."""
    sizes = {"n_steps": 60, "eval_frequency": 60, "max_episode_steps": 10_000, "features": ()}
    config = DQN.config(**sizes, **fields)
    return DQN.agent(Fused(), None, config, eval_during_training=False)


def lit(agent, n_steps, fuses, in_observation):
    """A fresh runner; some of its environments return NaN after a number of steps."""
    runner = agent.start(KEY, DQN.hyperparams())
    fuse = jnp.where(np.asarray(fuses), n_steps, -1).astype(jnp.int32)
    state = runner.envstate.envstate.replace(fuse=fuse, in_observation=np.asarray(in_observation))
    return runner.replace(envstate=runner.envstate.replace(envstate=state))


def test_devices_stop_together_and_name_what_environments_gave():
    agent, fourth = fused(n_groups=2), np.arange(4) == 3
    runner = lit(agent, 4 * agent.config.rollout_length + 1, fourth, fourth)
    with pytest.raises(NotFiniteError, match=r"since update 5: observations of environments \[3\]"):
        agent.train(None, None, runner, progress=False, mesh=make_mesh(2))
    runner = agent.training_runner
    assert not_finite({**agent.vital_arrays(runner), **runner.buffer.storage})
    assert 0 < agent.previous_training_max_step < 60


def blinding(**fields):
    """An agent whose environments return NaN observations in update 2 and in evaluations."""
    config = CASE.config(max_episode_steps=16, keep_checkpoints=None, **fields)
    return CASE.agent(Fused(fuse=12, of=OBSERVATIONS), None, config)


@pytest.mark.filterwarnings("ignore:The evaluation after update")
def test_the_update_is_named_and_the_last_good_checkpoint_and_the_spoilt_runner_are_kept(tmp_path):
    folder = {"checkpoint_dir": tmp_path, "restore_agent": True}
    agent = blinding(**folder)
    agent.train(KEY, CASE.hyperparams(), n_steps=1, progress=False)
    with pytest.raises(NotFiniteError, match="the last checkpoint before it is intact") as raised:
        agent.train(None, None, agent.training_runner, progress=False)
    told = (
        r"since update 2: observations of environments \[0, 1, .*actor_gradient_norm, actor_loss.*"
    )
    assert re.search(rf"{told}; and by update \d+: parameters of the actor", str(raised.value))
    step, spoilt = agent.previous_training_max_step, agent.training_runner
    assert not_finite(agent.vital_arrays(spoilt))
    again = blinding(**folder)
    runner, _ = again.restore("last")
    assert not not_finite(again.vital_arrays(runner))
    assert saved_steps(tmp_path)[-1] == again.previous_training_max_step == 1
    stretch = again.replay(0, step)
    trees.assert_equal(spoilt, stretch.runner)
    assert stretch.metrics["update_step"].tolist() == [*range(1, step + 1)]
    assert stretch.not_finite_since == 2
    assert stretch.not_finite[0] == "parameters of the actor"
    np.testing.assert_array_equal(
        np.isfinite(stretch.metrics["actor_loss"]), stretch.metrics["update_step"] < 2
    )
    assert again.previous_training_max_step == 1


def test_a_replay_is_of_the_hyperparameters_that_there_were(tmp_path):
    files = {"checkpoint_dir": tmp_path, "restore_agent": True, "keep_checkpoints": None}
    agent = CASE.make(MatchSign, n_steps=6, **files)
    first, _ = agent.train(KEY, CASE.hyperparams(), n_steps=4, progress=False)
    changed = CASE.hyperparams(gamma=0.2)
    then, _ = agent.train(None, changed, first, n_steps=4, progress=False)
    stretch = agent.replay(3, 5)
    trees.assert_equal(stretch.runner, then)
    assert stretch.not_finite_since is None
    for reported, number in then.info.items():
        np.testing.assert_array_equal(stretch.metrics[reported][-1], number, err_msg=reported)
    trees.assert_equal(agent.replay(3, 1).runner.hyperparams, first.hyperparams)


def test_a_training_may_go_on_with_a_warning_and_is_never_the_best(tmp_path):
    agent = blinding(checkpoint_dir=tmp_path, stop_if_not_finite=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        agent.train(KEY, CASE.hyperparams(), n_steps=4, progress=False)
    of_evaluation, of_update = (str(warning.message) for warning in said)
    assert "The evaluation after update 0" in of_evaluation
    assert re.search("since update 2: observations.*Training continues, as configured", of_update)
    assert saved_steps(tmp_path) == [0, 2, 4]
    with pytest.raises(ValueError, match="has a finite mean return"):
        agent.restore("best")
    outcomes = agent.eval(KEY, 4)
    assert np.isnan(outcomes["returns"]).all()
    assert np.isfinite(outcomes["final_rewards"]).all()


class Alike(MatchSign):
    """Rewards all actions alike."""

    def reward(self, state, action):
        return jnp.ones(())


def test_parameters_that_are_not_finite_are_never_the_best(tmp_path):
    agent = CASE.make(Alike, checkpoint_dir=tmp_path, stop_if_not_finite=False)
    with pytest.warns(UserWarning, match="Training continues, as configured"):
        agent.train(KEY, CASE.hyperparams(learning_rate=3e38), n_steps=2, progress=False)
    assert saved_steps(tmp_path) == [0, 2]
    agent.restore("best")
    assert agent.previous_training_max_step == 0
    rates = CASE.hyperparams(learning_rate=jnp.array([3e38, 1e-3]))
    agent = CASE.make(Alike, stop_if_not_finite=False)
    members = r"in 2 of 4 members of the sweep.*\[\(0, 0\), \(0, 1\)\]"
    with pytest.warns(
        UserWarning, match=members + r".*\(0, 1\) since update 1: critic_gradient_norm"
    ):
        result = agent.sweep([0, 1], rates, n_steps=2, progress=False)
    assert (result.metrics["returns"] == 1.0).all()
    assert result.best == 1


def test_an_offline_agent_whose_numbers_are_not_finite_is_named_with_its_update():
    case = CASES["discrete BC"]
    agent = case.make(MatchSign, False, features=())
    with pytest.raises(NotFiniteError, match=r"since update 2: actor_loss; and by update \d+: the"):
        agent.train(KEY, case.hyperparams(3e38), progress=False)


def test_flags_of_the_steps_of_a_rollout_are_those_of_the_whole():
    obs = {"a": np.zeros((5, 4, 3), np.float32), "counts": np.zeros((5, 4), np.int32)}
    obs["a"][2, 1, 0], obs["a"][4, 3, 2] = np.nan, np.inf  # steps, environments, and say actors
    given = {OBSERVATIONS: obs, "counts": obs["counts"]}
    of_rollout = nonfinite_environments(given, axis=1)
    of_steps = jax.vmap(nonfinite_environments)(given)
    assert of_rollout.keys() == of_steps.keys() == {OBSERVATIONS}
    np.testing.assert_array_equal(of_rollout[OBSERVATIONS], [False, True, False, True])
    np.testing.assert_array_equal(of_steps[OBSERVATIONS].any(axis=0), of_rollout[OBSERVATIONS])


def test_names_the_environments_and_members():
    obs = {"a": np.zeros((4, 3)), "b": np.arange(4)}
    obs["a"][[1, 3], 2] = np.nan
    assert not_finite({"observations": obs, "others": {"x": np.ones(2)}}) == [
        "observations of environments [1, 3]"
    ]
    assert not_finite({"observations": np.full(20, np.inf)}) == [
        "observations of environments [0, 1, 2, 3, 4, 5, 6, 7] and 12 more"
    ]
    members = {"a": np.array([[1.0, 2], [np.nan, 0], [1, 1]]), "b": np.array([0.0, 0.0, np.inf])}
    np.testing.assert_array_equal(finite_members(members), [True, False, False])


@pytest.mark.filterwarnings("ignore:Non-finite numbers")
def test_gradients_that_are_not_finite_can_be_skipped_and_few_are():
    """Whatever is normalised or drawn by priorities."""
    switches = {"normalise_observations": True, "normalise_rewards": True}
    switches |= {"prioritised_replay": True, "stop_if_not_finite": False}
    agent = fused(optimizer=SkipNotFinite(optax.adam), **switches)
    in_observation = np.arange(4) % 2 == 0  # and in the rewards of others
    runner = lit(agent, 20, np.ones(4, bool), in_observation)
    runner, _ = agent.train(None, None, runner, progress=False)
    network, arrays = runner.learner.critic, agent.vital_arrays(runner)
    assert not not_finite({name: x for name, x in arrays.items() if "buffer" not in name})
    assert not not_finite({"the network": (network.params, network.extra_variables)})
    for name in ("observations", "rewards"):
        assert not_finite({name: runner.buffer.storage[name]})
    skipped = optax.tree_utils.tree_get(network.opt_state, "total_notfinite")
    assert 0 < skipped < 0.3 * network.step
    assert SkipNotFinite(optax.adam) == SkipNotFinite(optax.adam)


def test_an_optimizer_that_waits_for_its_first_loss_is_no_harm():
    plateau = optax.contrib.reduce_on_plateau(accumulation_size=1_000)
    state = optax.chain(optax.adam(1e-3), plateau).init(jnp.zeros(2))
    assert not_finite({"optimizer": state}) == []
    spoilt = state[1]._replace(avg_value=jnp.array(jnp.nan))
    assert not_finite({"optimizer": (state[0], spoilt)}) == ["optimizer"]
