"""Runs on several devices; the suite tests that every agent can."""

import functools
import re

import jax
import numpy as np
import optax
import pytest
import trees
from compilations import collectives_in, collectives_of, lowered_updates
from probes import MatchSign
from registry import AGENTS

from jaxagents.engine.executors import OnMesh
from jaxagents.envs.play import play_episodes
from jaxagents.learners import fit as fitting
from jaxagents.learners.optimizer import OptimizerParams
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}


def in_groups(name, evaluated=False, **fields):
    case = CASES[name]
    sizes = {"batch_size": 16} if case.config().batch_size else {}
    agent = case.make(MatchSign, evaluated, n_groups=8, **{**sizes, **fields})
    return agent, case.hyperparams()


def params_of(runner):
    return runner.actor_training.params, runner.critic_training.params


SGD = OptimizerParams(learning_rate=0.5, grad_clip=np.inf)


def descending(**files):
    """A2C by plain gradient descent without clipping: Adam would hide a wrong factor."""
    agent, _ = in_groups("A2C", optimizer=optax.sgd, rollout_length=10, n_steps=20, **files)
    optimizers = {"actor_optimizer_params": SGD, "critic_optimizer_params": SGD}
    return agent, CASES["A2C"].hyperparams(**optimizers)


def test_goes_on_on_a_mesh_that_brings_gradients_in_parts_together_once(monkeypatch, tmp_path):
    monkeypatch.setattr(fitting, "_SAMPLES_OF_A_PART", 5)
    folder = {"checkpoint_dir": tmp_path, "restore_agent": True}
    mesh = jax.make_mesh((2, 2), ("model", "data"))  # whose axes are explicit; "model" holds copies
    agent, hyperparams = descending()
    alone, _ = agent.train(KEY, hyperparams, progress=False)
    before, _ = descending(**folder)[0].train(KEY, hyperparams, n_steps=10, progress=False)
    runner, _ = descending(**folder)[0].resume(KEY, hyperparams, progress=False, mesh=mesh)
    assert len(runner.obs.sharding.device_set) == 4
    assert not runner.obs.sharding.is_fully_replicated
    assert runner.actor_training.step.sharding.is_fully_replicated
    trees.assert_close(params_of(alone), params_of(runner))
    leaves = [jax.tree.leaves(params_of(it)) for it in (before, alone)]
    assert min(abs(x - y).max() for x, y in zip(*leaves, strict=True)) > 1e-4
    lowered = lowered_updates(OnMesh(agent, mesh), KEY, hyperparams)
    # The random keys of an update, by two; its gradients of both networks; the variance of errors.
    assert collectives_of(lowered) == {"all-reduce": 3, "collective-permute": 1}


# That 2 devices make the updates of one bit for bit is in the suite.
@pytest.mark.optimised
@pytest.mark.slow  # programs that are compiled as for users
def test_replicated_updates_are_those_of_one_device_bit_for_bit_as_users_compile_them(monkeypatch):
    monkeypatch.setattr(fitting, "_SAMPLES_OF_A_PART", 5)
    agent, hyperparams = in_groups("PPO", rollout_length=20, replicated_updates=True)
    alone, shared = (
        agent.train(KEY, hyperparams, progress=False, mesh=mesh) for mesh in (None, make_mesh(8))
    )
    trees.assert_equal(alone, shared)


@pytest.mark.slow  # the program for a mesh takes ten seconds
def test_devices_tell_each_other_gradients_alone():
    agent, hyperparams = in_groups("SAC")
    lowered = lowered_updates(OnMesh(agent, make_mesh(2)), KEY, hyperparams)
    assert collectives_of(lowered) == {"all-reduce": 2}  # those of the critic and of the actor


@pytest.mark.optimised
@pytest.mark.slow
def test_devices_bring_gradients_together_and_draw_the_noise_of_their_own_environments():
    agent, hyperparams = in_groups("PPO", rollout_length=10)
    lowered = lowered_updates(OnMesh(agent, make_mesh(8)), KEY, hyperparams)
    compiled = lowered.compile().as_text()
    # Of a minibatch: three numbers to standardise advantages, and the gradients of actor and critic.
    # Of an update: mean and variance of returns and errors.
    assert collectives_in(compiled) == {"all-reduce": 4 + 2}
    drawn = re.findall(r"f32\[([\d,]+)\]\S* log\(.*gumbel", compiled)
    assert set(drawn) == {"10,2,2"}  # steps, environments of a device, actions


def test_each_device_plays_its_own_episodes_of_an_evaluation():
    agent, hyperparams = descending()

    def play(training, rng):
        act = functools.partial(agent.act, training)
        return play_episodes(agent.episodes, act, (), rng, 16)

    training = agent.start(KEY, hyperparams).actor_training
    alone = jax.jit(play)(training, KEY)
    with jax.set_mesh(make_mesh(8)):
        compiled = jax.jit(play).lower(training, KEY).compile()
        shared = compiled(training, KEY)
    assert not collectives_in(compiled.as_text())
    assert not shared.returns.sharding.is_fully_replicated
    trees.assert_equal(alone, shared)
