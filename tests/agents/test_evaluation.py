"""Evaluations: greedy or sampled actions, and metrics, also from `info`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import registry
import trees
from flax import linen as nn
from probes import BestAction, Probe

from jaxagents import A2C
from jaxagents.checkpoints.records import saved_steps

KEY = jax.random.key(0)
A2C_CASE = next(case for case in registry.ON_POLICY if case.name == "A2C")
PPO_CASE, DQN_CASE = registry.ON_POLICY[0], registry.VALUE_BASED[0]
NAMES = {"final_info": ("won",), "summed_info": ["cost"]}  # a list is as good as a tuple


class Costly(Probe):
    """Episodes of three steps, won if the sign is positive; each step costs the time."""

    n_steps = 3

    def step_env(self, key, state, action, params):
        *outcome, _ = super().step_env(key, state, action, params)
        time = outcome[1].time
        won = (time == 3) & (state.sign > 0)
        return *outcome, {"won": won, "late": time > 1, "cost": time, "other": jnp.zeros((2, 2))}


class WithRates(A2C):
    """Computes metrics from infos, and zeroes advantages by them."""

    def _eval_metrics(self, terminated, truncated, final_rewards, returns, info):
        metrics = super()._eval_metrics(terminated, truncated, final_rewards, returns)
        return {**metrics, "mean": info["cost"].mean(), "price": info["cost"] * returns}

    def _actor_loss_input(self, runner, traj):
        *inputs, advantage = super()._actor_loss_input(runner, traj)
        return *inputs, jnp.where(traj.info["cost"] < 0, advantage, 0.0)


def with_rates(**fields):
    return WithRates(Costly(), None, A2C_CASE.config(n_steps=2, n_evals=32, **fields))


def test_metrics_have_the_last_values_and_the_sums_and_rollouts_hold_them():
    agent = with_rates(**NAMES)
    runner, metrics = agent.train(KEY, A2C_CASE.hyperparams(ent_coeff=0.0), progress=False)
    assert runner.info["actor_gradient_norm"] == 0.0
    assert metrics["won"].shape == metrics["cost"].shape == (2, 32)
    assert metrics["won"].dtype == bool
    assert 0.0 < metrics["won"].mean() < 1.0
    np.testing.assert_array_equal(metrics["cost"], 1 + 2 + 3)
    np.testing.assert_array_equal(metrics["price"], 6 * metrics["returns"])
    np.testing.assert_array_equal(metrics["mean"], [6, 6])
    assert "other" not in metrics
    agent.collect_training(runner, {**metrics, "price": metrics["price"][:, 0]})
    with pytest.raises(ValueError, match=r"'price' .* the shape \(\) .* the agent's has \(32,\)"):
        agent.train(None, None, runner, progress=False)


def test_evaluation_metrics_that_need_what_is_not_kept_are_refused():
    with pytest.raises(ValueError, match=r"name its entries in final_info or summed_info"):
        with_rates()

    class MayDoWithout(WithRates):
        def _eval_metrics(self, terminated, truncated, final_rewards, returns, info=None):
            return A2C._eval_metrics(self, terminated, truncated, final_rewards, returns)

    MayDoWithout(Costly(), None, A2C_CASE.config())


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (
            {"final_info": ("win",)},
            ValueError,
            r"\['win'\], but the info of .* has \['cost', 'late",
        ),
        ({"final_info": "won"}, TypeError, r"tuple of names, such as \('won',\), got 'won'"),
    ],
)
def test_names_that_do_not_serve_are_refused(names, error, message):
    with pytest.raises(error, match=message):
        A2C_CASE.make(Costly, **names)


class Odd(A2C):
    """Returns metrics of any kind."""

    given = None

    def _eval_metrics(self, terminated, truncated, final_rewards, returns):
        return type(self).given(returns)


@pytest.fixture(scope="module")
def shapes_after_an_update():
    """The shapes of a runner."""
    program = A2C_CASE.make(Costly, n_evals=3).program
    fresh = jax.eval_shape(program.start, KEY, A2C_CASE.hyperparams())
    return jax.eval_shape(program.advance, fresh, 1)[0]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda x: {"scores": x}, ValueError, r"must return 'returns'.*\['scores'\]"),
        (lambda x: None, TypeError, "dict of arrays, got a NoneType"),
        (lambda x: {"returns": x, "task": "easy"}, TypeError, "returns 'easy' for 'task'"),
        (lambda x: {"returns": x, 1: x}, TypeError, "for 1: return an array"),
        (
            lambda x: {"returns": x, "update_step": x, "seed": x},
            ValueError,
            r"gives \['update_step', 'seed'\], which is the name of another metric",
        ),
        (
            lambda x: {"returns": x, "actor_loss": x},
            ValueError,
            r"gives \['actor_loss'\], which updates already report",
        ),
        (lambda x: {"returns": x.mean()}, ValueError, r"each of the 3 .* got shape \(\)"),
    ],
)
def test_metrics_that_are_no_dict_of_arrays_with_returns_of_episodes_are_named(
    shapes_after_an_update, given, error, message
):
    agent = type("Own", (Odd,), {"given": given})(Costly(), None, A2C_CASE.config(n_evals=3))
    with pytest.raises(error, match=rf"Own\._eval_metrics .*{message}"):
        agent.program.shapes_of_metrics(shapes_after_an_update)


def test_metrics_go_on_with_the_entries_that_they_began_with(tmp_path):
    def make(*names):
        fields = {"summed_info": ["cost"], "checkpoint_dir": tmp_path, "restore_agent": True}
        return with_rates(final_info=names, **fields)

    hyperparams = A2C_CASE.hyperparams()
    make("won").train(KEY, hyperparams, n_steps=1, progress=False)
    with pytest.raises(
        ValueError, match=r"\['won'\] .* lacks, and lacked \['late'\] so far, which"
    ):
        make("late").resume(KEY, hyperparams, progress=False)
    assert saved_steps(tmp_path) == [0, 1]
    make("won").resume(KEY, hyperparams, progress=False)
    assert saved_steps(tmp_path)[-1] > 1


# Actions.


N = 4096


class ThreeToOne(nn.Module):
    """Logits that give action 1 a probability of 3/4."""

    config: object

    @nn.compact
    def __call__(self, obs):
        bias = self.param("bias", lambda key: jnp.zeros(2))
        return bias + jnp.array([0.0, jnp.log(3.0)])


class ThreeSteps(BestAction):
    n_steps = 3


@pytest.fixture(scope="module")
def drawing():
    """An agent that takes the rewarded action with a probability of 3/4."""
    evaluation = {"n_evals": N, "eval_rng": jax.random.key(1), "eval_deterministic": False}
    agent = PPO_CASE.make(ThreeSteps, n_steps=1, actor_network=ThreeToOne, **evaluation)
    agent.collect_training(trees.zeros(agent.program.start, KEY, PPO_CASE.hyperparams()), {})
    return agent


def test_draws_actions_as_often_as_the_policy_says_for_each_step_and_episode_anew(drawing):
    returns = np.asarray(drawing.eval(0, n_evals=N, deterministic=False)["returns"])
    binomial = [1 / 64, 9 / 64, 27 / 64, 27 / 64]
    np.testing.assert_allclose(np.bincount(returns.astype(int)) / N, binomial, atol=0.03)
    np.testing.assert_array_equal(drawing.eval(KEY, n_evals=64)["returns"], 3.0)


def test_evaluations_during_training_draw_if_configured_by_the_configured_key(drawing):
    found = drawing.evaluate(drawing.training_runner)["returns"]
    same, other = (drawing.eval(seed, N, deterministic=False)["returns"] for seed in (1, 2))
    np.testing.assert_array_equal(found, same)
    assert (found != other).any()
