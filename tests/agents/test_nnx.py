"""Networks of flax.nnx, behind flax's bridge."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import registry
import trees
from flax import nnx
from flax.nnx.bridge import to_linen
from probes import MatchSign

from jaxagents import DQNLearner, load_policy
from jaxagents.ppo import AgentConfig
from jaxagents.sac import SACConfig

KEY = jax.random.key(0)
CASES = {case.name: case for case in registry.AGENTS}


class Net(nnx.Module):
    """Two layers."""

    def __init__(self, n_inputs: int, n_outputs: int, *, rngs: nnx.Rngs):
        self.first = nnx.Linear(n_inputs, 16, rngs=rngs)
        self.last = nnx.Linear(16, n_outputs, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.tanh(self.first(x)))


class Value(Net):
    """One number."""

    def __init__(self, n_inputs: int, *, rngs: nnx.Rngs):
        super().__init__(n_inputs, 1, rngs=rngs)

    def __call__(self, x):
        return super().__call__(x)[..., 0]


ACTOR, CRITIC = to_linen(Net, 2, 2), to_linen(Value, 2)


def make(**fields):
    """A small agent with such networks, which normalises observations."""
    networks = {"actor_network": ACTOR, "critic_network": CRITIC}
    return CASES["A2C"].make(MatchSign, False, normalise_observations=True, **networks, **fields)


def test_agents_learn_with_them_which_checkpoints_and_files_keep(tmp_path):
    folder = {"checkpoint_dir": tmp_path / "run"}
    make(**folder).train(KEY, CASES["A2C"].hyperparams(), n_steps=100, progress=False)
    again = make(restore_agent=True, **folder)
    again.restore("last")
    again.export_policy(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    np.testing.assert_array_equal(policy(np.float32([[1.0, 0.0], [-1.0, 0.0]])), [1, 0])


def test_learners_can_be_pickled_and_equal_networks_are_equal():
    network = to_linen(Net, 2, 2)
    assert network == ACTOR
    learner = DQNLearner.create(0, jnp.zeros(2), 0, n_actions=2, critic_network=network)
    twin = pickle.loads(pickle.dumps(learner))
    trees.assert_equal(twin.q(jnp.ones(2)), learner.q(jnp.ones(2)))


@pytest.mark.parametrize("config", [AgentConfig, SACConfig])
@pytest.mark.parametrize("given", [Net, Net(2, 2, rngs=nnx.Rngs(0))], ids=["class", "module"])
def test_modules_without_the_bridge_are_refused_with_what_to_write(config, given):
    case = CASES["PPO"]

    def make():
        return case.agent(case.env(MatchSign), None, config(actor_network=given))

    with pytest.raises(TypeError, match=r"pass flax\.nnx\.bridge\.to_linen\(Net, \.\.\.\)"):
        make()


class BatchNormalised(Net):
    """Normalises by running statistics, or by the statistics of its inputs."""

    def __init__(self, n_inputs: int, n_outputs: int, keeps: bool, *, rngs: nnx.Rngs):
        super().__init__(n_inputs, n_outputs, rngs=rngs)
        self.norm = nnx.BatchNorm(n_inputs, use_running_average=keeps, rngs=rngs)

    def __call__(self, x):
        return super().__call__(self.norm(x))


class Dropping(Net):
    """Drops some of its inputs."""

    def __init__(self, n_inputs: int, n_outputs: int, *, rngs: nnx.Rngs):
        super().__init__(n_inputs, n_outputs, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return super().__call__(self.dropout(x))


def started(name, network):
    """The shapes of a fresh runner."""
    field = {"PPO": "actor_network", "DQN": "critic_network"}[name]
    program = CASES[name].make(MatchSign, False, **{field: network}).program
    return jax.eval_shape(program.start, KEY, CASES[name].hyperparams())


@pytest.mark.parametrize(
    ("name", "network", "message"),
    [
        (
            "DQN",
            to_linen(BatchNormalised, 2, 2, keeps=False),
            r"flax\.nnx module that changes .*batch_stats.*/mean.*needs use_ru",
        ),
        (
            "PPO",
            to_linen(Dropping, 2, 2),
            r"flax\.nnx module that takes .* from rngs\.dropout, but there is only",
        ),
    ],
    ids=["changing", "dropping"],
)
def test_those_whose_calls_change_variables_or_draw_are_refused(name, network, message):
    with pytest.raises(ValueError, match=message):
        started(name, network)


def test_others_start():
    for name in ("PPO", "DQN"):
        network = to_linen(BatchNormalised, 2, 2, keeps=True)
        assert started(name, network).update_step.shape == ()
