"""Environments that change as training goes on."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import registry
from flax import linen as nn
from probes import Pennies

from jaxagents import DQN, PPO, dqn
from jaxagents.envs import FrameStack, Opponents

CASE = registry.ON_POLICY[0]
KEY = jax.random.key(0)


class Adapting(PPO):
    """Opponents that choose the number of the update."""

    def _rollout_environment(self, runner):
        return self.episodes.env.against(lambda number, key, obs, allowed: runner.update_step)


def test_a_rollout_is_played_in_the_environment_of_its_update():
    critic = nn.Sequential((nn.Dense(1), jnp.squeeze))
    config = CASE.config(actor_network=nn.Dense(4), critic_network=critic)
    agent = Adapting(Opponents(Pennies(), 2), None, config, eval_during_training=False)
    runner = jax.jit(agent.program.start)(KEY, CASE.hyperparams())
    collect = jax.jit(agent._collect)
    for update in range(3):
        _, traj, _ = collect(runner.replace(update_step=np.int32(update)))
        wins = np.asarray(traj.action) == update
        np.testing.assert_array_equal(traj.reward, np.where(wins, 1.0, -1.0))
        assert wins.any()


def test_what_is_no_environment_is_refused():
    class Forgetful(PPO):
        def _rollout_environment(self, runner):
            self.episodes.env.against(lambda number, key, obs, allowed: runner.update_step)

    config = CASE.config(actor_network=nn.Dense(4))
    agent = Forgetful(Opponents(Pennies(), 2), None, config, eval_during_training=False)
    runner = jax.eval_shape(agent._create_runner, KEY, CASE.hyperparams())
    with pytest.raises(TypeError, match=r"must be a jaxagents\.envs\.Environment, .* got None"):
        jax.eval_shape(agent._collect, runner)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            lambda env: env.env,
            "The state of the agent's own environment and Other.* differ",
        ),
        (lambda env: FrameStack(env, 2), "The observation.* from Other._rollout_environment"),
    ],
)
def test_environments_in_which_episodes_cannot_go_on_are_refused(changed, message):
    class Other(PPO):
        def _rollout_environment(self, runner):
            return changed(self.episodes.env)

    config = CASE.config(actor_network=nn.Dense(4))
    agent = Other(Opponents(Pennies(), 2), None, config, eval_during_training=False)
    runner = jax.eval_shape(agent.program.start, KEY, CASE.hyperparams())
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(agent.program.advance, runner, 1)


def test_environments_on_the_host_do_not_change():
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(TypeError, match="overrides _rollout_environment, which"):
        Adapting(env, None, CASE.config(n_evals=1))


def test_agents_around_learners_refuse_the_hook():
    class AdaptingDQN(DQN):
        _rollout_environment = Adapting._rollout_environment

    with pytest.raises(TypeError, match="would never be called: it is a hook of PPO"):
        AdaptingDQN(Opponents(Pennies(), 2), None, dqn.AgentConfig(n_steps=1))
