"""Environments that change: by hyperparameters, curricula, random draws, and the update step."""

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import registry
import trees
from flax import linen as nn
from flax import struct
from probes import Pennies, Probe

from jaxagents import PPO, LinearSchedule, ppo
from jaxagents.agents.config import PlayingHyperparameters
from jaxagents.checkpoints.notes import notes_of_schedules, structured_as_saved
from jaxagents.envs import Episodes, FrameStack, Opponents, RandomParams, as_environment
from jaxagents.envs.adapters.functional import with_numbers
from jaxagents.envs.checks import check_numbers
from jaxagents.envs.environment import Moment

KEY = jax.random.key(0)
CASE, ON_POLICY = registry.VALUE_BASED[0], registry.ON_POLICY[0]
N_STEPS = 3


@struct.dataclass
class Pay:
    wage: float = 1.0
    bonus: int = 0
    is_cold: bool = False
    max_steps_in_episode: int = 5


class Paid(Probe):
    """Episodes of three steps, each rewarded with a wage and a bonus."""

    n_steps = N_STEPS

    @property
    def default_params(self):
        return Pay()

    def step_env(self, key, state, action, params):
        obs, state, _, terminated, info = super().step_env(key, state, action, params)
        return obs, state, params.wage + params.bonus, terminated, info


class Sized(Paid):
    """An environment with a parameter that is the shape of an array."""

    def step_env(self, key, state, action, params):
        jnp.zeros(params.bonus)
        return super().step_env(key, state, action, params)


def make(**fields):
    return CASE.make(Paid, n_steps=4, n_evals=2, **fields)


@pytest.fixture(scope="module")
def agent():
    return make()


def returns(metrics):
    return metrics["returns"][..., 0] / N_STEPS


def test_members_of_a_sweep_have_parameters_of_their_own(agent):
    hyperparams = CASE.hyperparams(env_params={"wage": np.array([2.0, 5.0])})
    result = agent.sweep(KEY[None], hyperparams, progress=False)
    np.testing.assert_allclose(returns(result.metrics)[:, 0], [[2.0] * 3, [5.0] * 3])
    assert result.best_hyperparams.env_params == {"wage": 5.0}
    for wage, member in zip((2.0, 5.0), result.runners.buffer.storage["rewards"], strict=True):
        member = np.asarray(member)
        assert set(member.ravel()) == {0.0, wage}


def test_curricula_go_on_exactly(tmp_path):
    raises = {"wage": lambda step: 1.0 + step + (2.1 + step) // 1.0}
    hyperparams = CASE.hyperparams(env_params=raises)
    whole, metrics = make().train(KEY, hyperparams, progress=False)
    np.testing.assert_allclose(returns(metrics), [1 + 2, 3 + 4, 5 + 6])
    rewards = np.asarray(whole.buffer.storage["rewards"]).ravel()
    assert set(rewards) == {0.0, *(1.0 + step + 2 + step for step in range(4))}
    folder = {"checkpoint_dir": tmp_path, "restore_agent": True}
    make(**folder).train(KEY, hyperparams, n_steps=2, progress=False)
    with pytest.raises(ValueError, match=r"wage.* was a FunctionSchedule .* pass the hyper"):
        make(**folder).restore("last")
    make(**folder).restore("last", hyperparams=hyperparams)
    resumed, resumed_metrics = make(**folder).resume(KEY, hyperparams, progress=False)
    trees.assert_equal((resumed, resumed_metrics), (whole, metrics))


def test_checkpoints_tell_which_parameters_there_were():
    given = PlayingHyperparameters(env_params={"wage": LinearSchedule(1.0, 2.0, 3), "bonus": 4.0})
    found = structured_as_saved(PlayingHyperparameters(), notes_of_schedules(given))
    assert jax.tree.structure(found) == jax.tree.structure(given)
    assert notes_of_schedules(PlayingHyperparameters()) == {}
    assert structured_as_saved(given, {}).env_params == {}


def test_draws_depend_on_the_update_step_and_on_hyperparameters():
    def draw(key, params, update_step):
        return params.replace(wage=params.wage + update_step, bonus=7)

    env = FrameStack(RandomParams(Paid(), draw), 2)
    episodes = Episodes(as_environment(env), 5)

    @jax.jit
    def reward(moment):
        now = episodes if moment is None else episodes.at_update(*moment)
        return now.play(KEY, now.reset(KEY)[1], jnp.zeros((), int)).reward

    assert reward(None) == reward(Moment(np.int32(0), {})) == 1 + 7
    assert reward(Moment(jnp.int32(3), {"wage": 0.5})) == 3.5 + 7


def test_an_environment_that_stays_the_same_is_itself(agent):
    assert agent.at(Moment(3, {})) is agent
    drawn = Episodes(as_environment(RandomParams(Paid(), lambda key, params: params)), 5)
    assert drawn.at_update(3, {}) is drawn


def test_parameters_may_be_dicts_and_tuples_and_whole_numbers_are_rounded():
    params = with_numbers({"wage": 1.0, "bonus": 2}, {"bonus": 3})
    assert params == {"wage": 1.0, "bonus": 3}
    assert params["bonus"].dtype == jnp.int32
    assert with_numbers(Moment(1, 2.0), {"params": 3.0}) == Moment(1, 3.0)
    schedule, steps = LinearSchedule(0.0, 50.0, 50), jnp.arange(51)
    bonus = jax.vmap(lambda step: with_numbers(Pay(), {"bonus": schedule(step)}).bonus)
    np.testing.assert_array_equal(jax.jit(bonus)(steps), steps)


@pytest.mark.parametrize(
    ("env_params", "error", "message"),
    [
        ({"wages": 1.0}, TypeError, "Pay has no field 'wages'. Did you mean 'wage'?"),
        ({"is_cold": 1.0}, TypeError, "Pay has no field 'is_cold'"),
        ({"max_steps_in_episode": 3.0}, TypeError, "the time limit is the same throughout"),
        ({"wage": np.nan}, ValueError, r"env_params\['wage'\] must lie in"),
        (Pay(), TypeError, "must be a dict of environment parameters"),
        (Moment(0, {}), TypeError, "must be a dict of environment parameters"),
    ],
)
def test_what_is_no_hyperparameter_is_refused(agent, env_params, error, message):
    with pytest.raises(error, match=message):
        agent.train(KEY, CASE.hyperparams(env_params=env_params), progress=False)


def test_environments_without_such_parameters_and_traced_agents_are_refused():
    env, params = gymnax.make("Pendulum-v1")
    with pytest.raises(TypeError, match=r"Make the agent outside jax\.vmap"):
        jax.vmap(lambda g: PPO(env, params.replace(g=g), ppo.AgentConfig()))(jnp.ones(2))
    for probe, message in (
        (Probe, "has no separate parameters"),
        (Sized, "needs the value of one"),
    ):
        episodes = Episodes(as_environment(probe()), 5)
        with pytest.raises(TypeError, match=message):
            check_numbers(episodes, {"bonus": 1.0})


# Environments of the update.


class Adapting(PPO):
    """Opponents that play the number of the update."""

    def _rollout_environment(self, runner):
        return self.episodes.env.against(lambda number, key, obs, allowed: runner.update_step)


def test_a_rollout_is_played_in_the_environment_of_its_update():
    critic = nn.Sequential((nn.Dense(1), jnp.squeeze))
    config = ON_POLICY.config(actor_network=nn.Dense(4), critic_network=critic)
    agent = Adapting(Opponents(Pennies(), 2), None, config, eval_during_training=False)
    runner = trees.zeros(agent.program.start, KEY, ON_POLICY.hyperparams())
    collect = jax.jit(agent._collect)
    for update in range(3):
        _, traj, _ = collect(runner.replace(update_step=np.int32(update)))
        wins = np.asarray(traj.action) == update
        np.testing.assert_array_equal(traj.reward, np.where(wins, 1.0, -1.0))
        assert wins.any()


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        (lambda env: None, TypeError, r"must be a jaxagents\.envs\.Environment, .* got None"),
        (
            lambda env: env.env,
            ValueError,
            "state of the agent's own environment and Other.* differ",
        ),
        (
            lambda env: FrameStack(env, 2),
            ValueError,
            "observation.* from Other._rollout_environmen",
        ),
    ],
)
def test_environments_in_which_episodes_cannot_go_on_are_refused(changed, error, message):
    class Other(PPO):
        def _rollout_environment(self, runner):
            return changed(self.episodes.env)

    config = ON_POLICY.config(actor_network=nn.Dense(4))
    agent = Other(Opponents(Pennies(), 2), None, config, eval_during_training=False)
    runner = jax.eval_shape(agent._create_runner, KEY, ON_POLICY.hyperparams())
    with pytest.raises(error, match=message):
        jax.eval_shape(agent._collect, runner)
