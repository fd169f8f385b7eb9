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

from jaxagents import load_policy
from jaxagents.networks import PerActor
from jaxagents.ppo import AgentConfig
from jaxagents.sac import SACConfig
from jaxagents.sharding import make_mesh

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
NETWORKS = {
    "PPO": {"actor_network": ACTOR, "critic_network": CRITIC},
    "IPPO": {
        "actor_network": PerActor(ACTOR, 2, own_observations=False),
        "critic_network": PerActor(CRITIC, 2, own_observations=False),
    },
    "DQN": {"critic_network": to_linen(Net, 2, 2)},
}
SHARED = {"normalise_observations": True, "n_groups": 2, "replicated_updates": True}
"""Further fields of PPO, which normalises and which two devices may share."""


def make(name, **fields):
    """A small agent with such networks; those of a name are equal, and share programs."""
    further = SHARED if name == "PPO" else {}
    return CASES[name].make(MatchSign, False, **NETWORKS[name], **further, **fields)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.slow_except("DQN")
def test_agents_learn_with_them(name):
    case = CASES[name]
    agent = make(name)
    runner = agent.start(KEY, case.hyperparams())
    agent.collect_training(agent.advance(runner, np.int32(150 * case.updates)), {})
    np.testing.assert_array_equal(agent.eval(jax.random.key(1), n_evals=64)["returns"], 1.0)


def test_checkpoints_files_and_normalisation_keep_them(tmp_path):
    hyperparams = CASES["PPO"].hyperparams()
    whole, _ = make("PPO").train(KEY, hyperparams, n_steps=4)
    agent = make("PPO", checkpoint_dir=tmp_path / "run")
    agent.train(KEY, hyperparams, n_steps=2)
    again = make("PPO", checkpoint_dir=tmp_path / "run", restore_agent=True)
    runner, _ = again.restore("last")
    resumed, _ = again.train(None, hyperparams, runner, n_steps=2)
    trees.assert_equal(whole, resumed)
    again.export_policy(tmp_path / "policy")
    obs = np.float32([0.3, 0.0])
    expected = jax.jit(again.policy)(again.actor_training, obs)
    np.testing.assert_array_equal(load_policy(tmp_path / "policy")(obs), expected)


@pytest.mark.slow
def test_devices_share_a_training():
    agent = make("PPO")
    alone, shared = (
        agent.train(KEY, CASES["PPO"].hyperparams(), n_steps=2, mesh=mesh)[0]
        for mesh in (None, make_mesh(2))
    )
    trees.assert_equal(alone.actor_training.params, shared.actor_training.params)


def test_learners_of_them_can_be_pickled_and_equal_ones_are_equal():
    assert to_linen(Net, 2, 2) == ACTOR
    runner, _ = make("DQN").train(KEY, CASES["DQN"].hyperparams(), n_steps=2)
    twin = pickle.loads(pickle.dumps(runner.learner))
    trees.assert_equal(twin.q(jnp.ones(2)), runner.learner.q(jnp.ones(2)))


@pytest.mark.parametrize("config", [AgentConfig, SACConfig])
@pytest.mark.parametrize("given", [Net, Net(2, 2, rngs=nnx.Rngs(0))], ids=["class", "module"])
def test_modules_without_the_bridge_are_refused_with_what_to_write(config, given):
    case = CASES["PPO"]

    def make():
        return case.agent(case.env(MatchSign), None, config(actor_network=given))

    with pytest.raises(TypeError, match=r"give flax\.nnx\.bridge\.to_linen\(Net, \.\.\.\)"):
        make()


class BatchNormalised(Net):
    """Normalises by statistics, those that it keeps or those of its inputs."""

    def __init__(self, n_inputs: int, n_outputs: int, keeps: bool, *, rngs: nnx.Rngs):
        super().__init__(n_inputs, n_outputs, rngs=rngs)
        self.norm = nnx.BatchNorm(n_inputs, use_running_average=keeps, rngs=rngs)

    def __call__(self, x):
        return super().__call__(self.norm(x))


@pytest.mark.parametrize(("name", "field"), [("PPO", "actor_network"), ("DQN", "critic_network")])
def test_those_whose_calls_change_variables_are_refused(name, field):
    case = CASES[name]

    def start(keeps):
        network = to_linen(BatchNormalised, 2, 2, keeps)
        agent = case.make(MatchSign, False, **{field: network})
        return jax.eval_shape(agent.program.start, KEY, case.hyperparams())

    assert start(True).update_step.shape == ()
    with pytest.raises(
        ValueError, match=r"flax\.nnx that changes .*batch_stats.*/mean.*needs use_ru"
    ):
        start(False)


class Dropping(Net):
    """Drops some of its inputs."""

    def __init__(self, n_inputs: int, n_outputs: int, *, rngs: nnx.Rngs):
        super().__init__(n_inputs, n_outputs, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return super().__call__(self.dropout(x))


class Noisy(Net):
    """Adds noise to its inputs."""

    def __init__(self, n_inputs: int, n_outputs: int, *, rngs: nnx.Rngs):
        super().__init__(n_inputs, n_outputs, rngs=rngs)
        self.noise = rngs.noise()


@pytest.mark.parametrize(("module", "stream"), [(Dropping, "dropout"), (Noisy, "noise")])
@pytest.mark.parametrize(("name", "field"), [("PPO", "actor_network"), ("DQN", "critic_network")])
def test_those_that_draw_random_numbers_are_refused(name, field, module, stream):
    case = CASES[name]

    def start():
        agent = case.make(MatchSign, False, **{field: to_linen(module, 2, 2)})
        return jax.eval_shape(agent.program.start, KEY, case.hyperparams())

    with pytest.raises(ValueError, match=rf"flax\.nnx that takes .* from rngs\.{stream}, of which"):
        start()


@pytest.mark.parametrize(("name", "field"), [("PPO", "actor_network"), ("DQN", "critic_network")])
def test_errors_of_networks_have_a_note_of_what_they_were_given(name, field):
    case = CASES[name]

    def start():
        agent = case.make(MatchSign, False, **{field: to_linen(Net, 3, 2)})
        return jax.eval_shape(agent.program.start, KEY, case.hyperparams())

    with pytest.raises(TypeError, match="contracting dimensions") as found:
        start()
    assert "This happened in Net, given inputs of shape (2,)." in found.value.__notes__
