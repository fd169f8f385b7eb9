"""Infos of environments, in metrics and in rollouts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import registry
from probes import Probe

from jaxagents import A2C
from jaxagents.checkpoints.records import SWEEP, saved_steps

KEY = jax.random.key(0)
A2C_CASE = next(case for case in registry.ON_POLICY if case.name == "A2C")
DQN_CASE = registry.VALUE_BASED[0]
NAMES = {"final_info": ("won",), "summed_info": ("cost",)}


class Costly(Probe):
    """Episodes of three steps that are won if the sign is positive, at a cost of the time."""

    n_steps = 3

    def step_env(self, key, state, action, params):
        *outcome, _ = super().step_env(key, state, action, params)
        time = outcome[1].time
        won = (time == 3) & (state.sign > 0)
        return *outcome, {"won": won, "cost": time, "other": jnp.zeros((2, 2))}


@pytest.mark.parametrize("case", [A2C_CASE, DQN_CASE], ids=lambda case: case.name)
@pytest.mark.slow_except("DQN")
def test_metrics_have_the_last_values_and_the_sums_that_are_asked_for(case):
    names = {"final_info": ("won",), "summed_info": ["cost"]}  # a list is as good as a tuple
    agent = case.make(Costly, n_steps=2, n_evals=32, **names)
    _, metrics = agent.train(KEY, case.hyperparams(), progress=False)
    assert metrics["won"].shape == metrics["cost"].shape == (2, 32)
    assert metrics["won"].dtype == bool
    assert 0.0 < metrics["won"].mean() < 1.0
    np.testing.assert_array_equal(metrics["cost"], 1 + 2 + 3)
    assert "other" not in metrics
    assert agent.eval(KEY, n_evals=4)["cost"].shape == (4,)


def test_rollouts_hold_what_is_asked_for():
    class Weighing(A2C):
        def _actor_loss_input(self, runner, traj):
            *inputs, advantage = super()._actor_loss_input(runner, traj)
            return *inputs, jnp.where(traj.info["cost"] < 3, advantage, 0.0)

    plain = A2C_CASE.make(Costly, n_steps=2, n_evals=32, **NAMES)
    weighing = Weighing(Costly(), None, A2C_CASE.config(n_steps=2, summed_info=("cost",)), False)
    runners = [
        agent.train(KEY, A2C_CASE.hyperparams(), progress=False)[0] for agent in (plain, weighing)
    ]
    first, second = (jax.tree.leaves(runner.actor_training.params) for runner in runners)
    assert all(np.isfinite(x).all() for x in second)
    assert any((x != y).any() for x, y in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ({"final_info": ("win",)}, ValueError, r"\['win'\], but the info of .* has \['cost', 'oth"),
        ({"final_info": "won"}, TypeError, r"tuple of names, such as \('won',\), got 'won'"),
        ({"final_info": ("won",), "summed_info": ("won",)}, ValueError, "named twice"),
    ],
)
def test_names_that_do_not_serve_are_refused(names, error, message):
    with pytest.raises(error, match=message):
        A2C_CASE.make(Costly, **names)


class WithRates(A2C):
    def _eval_metrics(self, terminated, truncated, final_rewards, returns, info):
        metrics = super()._eval_metrics(terminated, truncated, final_rewards, returns)
        return {**metrics, "won": info["won"].mean(), "price": info["cost"] * info["won"]}


def test_evaluation_metrics_may_be_made_of_it():
    agent = WithRates(Costly(), None, A2C_CASE.config(n_steps=1, n_evals=32, **NAMES))
    metrics = agent.evaluate(agent.start(KEY, A2C_CASE.hyperparams()))
    assert 0.0 < metrics["won"] < 1.0
    assert metrics["won"] == np.mean(metrics["price"] == 6)
    assert set(np.asarray(metrics["price"])) == {0, 6}
    np.testing.assert_array_equal(metrics["cost"], 6)


def test_metrics_go_on_in_the_shapes_that_they_began_with():
    agent = WithRates(Costly(), None, A2C_CASE.config(n_steps=1, n_evals=32, **NAMES))
    runner, metrics = agent.train(KEY, A2C_CASE.hyperparams(), progress=False)
    agent.collect_training(runner, {**metrics, "price": metrics["price"][:, 0]})
    with pytest.raises(ValueError, match=r"'price' .* the shape \(\) .* the agent's has \(32,\)"):
        agent.train(None, None, runner, progress=False)


def test_evaluation_metrics_keep_the_returns():
    class Renamed(A2C):
        def _eval_metrics(self, terminated, truncated, final_rewards, returns):
            return {"scores": returns}

    agent = Renamed(Costly(), None, A2C_CASE.config())
    with pytest.raises(
        ValueError, match=r"Renamed._eval_metrics must give 'returns'.*\['scores'\]"
    ):
        agent.train(KEY, A2C_CASE.hyperparams())


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda returns: None, TypeError, "dict of arrays, got a NoneType"),
        (
            lambda returns: {"returns": returns, "task": "easy"},
            TypeError,
            "gives 'easy' for 'task'",
        ),
        (lambda returns: {"returns": returns, "of": [returns]}, TypeError, r"gives \[.* for 'of'"),
        (lambda returns: {"returns": returns, 1: returns}, TypeError, "for 1: give an array"),
        (
            lambda returns: {"returns": returns, "update_step": returns, "seed": returns},
            ValueError,
            r"gives \['update_step', 'seed'\], which names another metric",
        ),
        (
            lambda returns: {"returns": returns, "actor_loss": returns},
            ValueError,
            r"gives \['actor_loss'\], which updates report already",
        ),
        (
            lambda returns: {"returns": returns.mean()},
            ValueError,
            r"each of the 3 .* got shape \(\)",
        ),
    ],
)
def test_metrics_that_are_no_dict_of_arrays_with_returns_of_episodes_are_named(
    given, error, message
):
    class Odd(A2C):
        def _eval_metrics(self, terminated, truncated, final_rewards, returns):
            return given(returns)

    program = Odd(Costly(), None, A2C_CASE.config(n_evals=3)).program
    fresh = jax.eval_shape(program.start, KEY, A2C_CASE.hyperparams())
    runner, _ = jax.eval_shape(program.advance, fresh, 1)
    with pytest.raises(error, match=rf"Odd\._eval_metrics .*{message}"):
        program.shapes_of_metrics(runner)


def test_evaluation_metrics_that_need_what_is_not_kept_are_refused():
    with pytest.raises(ValueError, match=r"name the entries in final_info or summed_info"):
        WithRates(Costly(), None, A2C_CASE.config())

    class MayDoWithout(WithRates):
        def _eval_metrics(self, terminated, truncated, final_rewards, returns, info=None):
            return A2C._eval_metrics(self, terminated, truncated, final_rewards, returns)

    MayDoWithout(Costly(), None, A2C_CASE.config())


def train(agent):
    return agent.train(KEY, A2C_CASE.hyperparams(), n_steps=1, progress=False)


def resume(agent):
    return agent.resume(KEY, A2C_CASE.hyperparams(), progress=False)


def restore_and_train(agent):
    return agent.train(None, None, agent.restore("last")[0], n_steps=1, progress=False)


def sweep(agent, n_steps=2):
    sets = A2C_CASE.hyperparams(gamma=np.float32([0.5, 0.9]))
    return agent.sweep(jax.random.split(KEY, 1), sets, n_steps=n_steps, progress=False)


def begin_sweep(agent):
    return sweep(agent, n_steps=1)


@pytest.mark.parametrize(
    ("begin", "go_on", "folder"),
    [(train, resume, ""), (train, restore_and_train, ""), (begin_sweep, sweep, SWEEP)],
)
@pytest.mark.slow_except("restore_and_train", "begin_sweep")
def test_metrics_go_on_with_the_entries_that_they_began_with(begin, go_on, folder, tmp_path):
    def make(**names):
        folder = {"checkpoint_dir": tmp_path, "restore_agent": True}
        return A2C_CASE.make(Costly, n_steps=2, **folder, **names)

    begin(make(final_info=("won",)))
    for names, message in (
        ({}, r"had \['won'\] so far, which the agent lacks\. Set final_info"),
        ({"final_info": ("cost",)}, r"\['won'\] .* lacks, and lacked \['cost'\] so far, which the"),
        (
            {"final_info": ("won", "cost")},
            r"training lacked \['cost'\] so far, which the agent has",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            go_on(make(**names))
    assert saved_steps(tmp_path / folder) == [0, 1]
    go_on(make(final_info=("won",)))
    assert saved_steps(tmp_path / folder)[-1] > 1
