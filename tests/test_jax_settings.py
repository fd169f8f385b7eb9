"""JAX settings that users change."""

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import MatchSign
from registry import AGENTS, FAMILIES

from jaxagents import A2C, a2c
from jaxagents.core.arrays import in_32_bits, with_widths_of
from jaxagents.core.compilation import jit_in_place
from jaxagents.sharding import make_mesh

KEY = jax.random.key(0)
CASES = {case.name: case for case in AGENTS}


def test_trains_and_finds_nan_while_it_is_looked_for_and_numbers_may_have_64_bits():
    case = CASES["DQN"]
    agent, hyperparams = case.make(MatchSign, features=()), case.hyperparams()
    with jax.enable_x64(True):
        with jax.debug_nans(True):
            runner, metrics = agent.train(KEY, hyperparams, n_steps=2, progress=False)
            runner, _ = agent.train(None, hyperparams, runner, n_steps=1, progress=False)
        spoilt = case.hyperparams(learning_rate=np.nan)
        runner = jax.jit(agent.program.restart)(runner, spoilt)  # agents refuse such a number
        with jax.debug_nans(True), pytest.raises(FloatingPointError):
            agent.advance(runner, 2)
    losses = metrics[case.loss]
    assert np.isnan(losses[0])
    assert np.isfinite(losses[1:]).all()


@pytest.mark.slow  # compiles a sweep and a training on a mesh
def test_nan_is_looked_for_where_many_train(tmp_path):
    case = CASES["DQN"]
    agent = case.make(MatchSign, n_groups=2, checkpoint_dir=tmp_path, checkpoint_buffer=False)
    with jax.debug_nans(True):
        agent.sweep(jax.random.split(KEY, 2), case.hyperparams(), n_steps=1, progress=False)
        agent.train(KEY, case.hyperparams(), n_steps=1, progress=False, mesh=make_mesh(2))
        runner, _ = agent.restore(0)
        agent.refill(runner)


@pytest.mark.parametrize(
    ("looks_for", "bad"), [(jax.debug_nans, jnp.nan), (jax.debug_infs, jnp.inf)]
)
def test_what_is_not_finite_is_found_in_a_program_that_works_in_place(looks_for, bad):
    x = jnp.ones(3)
    with looks_for(True), pytest.raises(FloatingPointError):
        jit_in_place(lambda x: x * bad)(x)
    assert not x.is_deleted()


def check_dtypes_of_training(agent, hyperparams):
    """Traces a run, whose loops may not change a dtype, and checks for 64-bit numbers."""
    program = agent.program.with_data(agent.data)
    runner = jax.eval_shape(program.start, KEY, hyperparams)
    after, _ = jax.eval_shape(program.advance, runner, np.int32(1))
    assert after.replace(info={}) == runner
    outcomes = jax.eval_shape(program.evaluate, after)
    for path, leaf in jax.tree_util.tree_leaves_with_path((after, outcomes)):
        of_env = "envstate" in jax.tree_util.keystr(path)
        assert of_env or leaf.dtype not in (jnp.float64, jnp.int64)


@pytest.mark.parametrize("case", [cases[0] for cases in FAMILIES], ids=lambda case: case.name)
def test_trains_while_numbers_may_have_64_bits(case):
    with jax.enable_x64(True):
        check_dtypes_of_training(case.make(MatchSign), case.hyperparams())


def test_trains_in_gymnax_while_numbers_may_have_64_bits():
    with jax.enable_x64(True):
        config = a2c.AgentConfig(n_steps=1, n_evals=2)
        agent = A2C(*gymnax.make("Breakout-MinAtar"), config)
        check_dtypes_of_training(agent, a2c.HyperParameters())


def test_numbers_of_32_bits_are_left_alone():
    tree = {"x": jnp.ones(2), "n": jnp.ones((), jnp.int32), "key": KEY, "half": jnp.ones(1, "f2")}
    for same in (in_32_bits(tree), with_widths_of(tree, tree)):
        assert all(same[name] is leaf for name, leaf in tree.items())


def test_states_keep_the_widths_that_they_have_at_reset():
    with jax.enable_x64(True):
        like = {"x": jnp.float32(0), "n": jnp.int64(0), "b": jnp.bool(True)}
        given = {"x": jnp.float64(0), "n": jnp.int32(0), "b": jnp.int64(1)}
        found = with_widths_of(like, given)
        assert [found[name].dtype for name in "xnb"] == [jnp.float32, jnp.int64, jnp.int64]
        assert with_widths_of((), given) is given
