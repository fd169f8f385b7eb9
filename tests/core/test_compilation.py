"""How programs are compiled."""

import pickle
import weakref
from typing import NamedTuple

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trees
from compilations import compilations
from probes import MatchSign
from registry import AGENTS

from jaxagents import SAC, sac
from jaxagents.core import compilation
from jaxagents.core.compilation import Programs, compile_at_once, jit_by_structure, quick_jit
from jaxagents.engine.executors import OnDevice

KEY = jax.random.key(0)
SMALL = next(case for case in AGENTS if case.name == "discrete BC")


@pytest.mark.optimised
def test_a_quick_program_computes_the_same_and_is_compiled_once():
    n_traces = 0

    def draw(key):
        nonlocal n_traces
        n_traces += 1
        return jax.random.normal(key, (7,))

    quick = quick_jit(draw)
    trees.assert_equal(quick(KEY), quick(KEY))
    assert n_traces == 1
    trees.assert_equal(quick(KEY), jax.jit(draw)(KEY))


def test_options_that_a_release_of_the_compiler_lacks_are_left_out(monkeypatch):
    options = {"xla_backend_optimization_level": 1, "xla_cpu_option_of_another_release": True}
    monkeypatch.setitem(compilation._QUICK, "a platform", options)
    known = compilation._known_options("a platform")
    assert known == {"xla_backend_optimization_level": 1}
    assert jax.jit(jnp.cos, compiler_options=known)(0.0) == 1.0
    assert compilation._known_options("another") == {}


@pytest.mark.optimised
def test_a_quick_program_may_be_a_part_of_another():
    quick = quick_jit(lambda x: jnp.sin(x) ** 2)
    xs = jnp.arange(3.0)
    for outer in (jax.jit(quick), jax.jit(lambda _: quick(xs)), jax.vmap(quick)):
        trees.assert_close(outer(xs), jnp.sin(xs) ** 2)
    trees.assert_close(jax.vmap(jax.grad(quick))(xs), jnp.sin(2 * xs))
    shaped = quick_jit(lambda x, n: x.reshape(n, -1), static_argnames="n")
    assert shaped(jnp.arange(6), n=2).shape == (2, 3)


def test_programs_compiled_at_once_are_there_when_their_functions_are_called():
    quick, plain = quick_jit(lambda x: jnp.sin(x) ** 3), jax.jit(lambda x: jnp.cos(x) ** 3)
    compile_at_once([plain.trace(1.0), quick.trace(1.0)])
    with compilations() as made:
        quick(1.0), plain(1.0)
    assert made == []


class Behaviour(NamedTuple):
    """Something compiled that is compared by value."""

    factor: float

    @property
    def programs(self):
        return Programs.of(self)


def scaled(programs, x):
    return programs.get("scaled", lambda behaviour: jax.jit(lambda x: behaviour.factor * x))(x)


def test_equal_objects_share_programs():
    assert Programs.of(Behaviour(2.0)) is Programs.of(Behaviour(2.0))
    assert Programs.of(Behaviour(2.0)) is not Programs.of(Behaviour(3.0))
    programs = Programs.of(Behaviour(2.0))
    assert scaled(programs, 3.0) == 6.0
    with compilations() as made:
        assert scaled(Programs.of(Behaviour(2.0)), 3.0) == 6.0
    assert not made
    assert pickle.loads(pickle.dumps(programs)) is programs


def test_programs_that_nobody_holds_are_released_but_for_those_used_last():
    held = Programs.of(Behaviour(-1.0))
    scaled(held, 1.0)
    dropped = [weakref.ref(Programs.of(Behaviour(-1.0)))]
    for factor in range(20):
        programs = Programs.of(Behaviour(factor))
        scaled(programs, 1.0)
        dropped.append(weakref.ref(programs))
    del programs
    alive = [programs() is not None for programs in dropped]
    assert alive == [True] + 12 * [False] + 8 * [True]
    with compilations() as made:
        scaled(Programs.of(Behaviour(-1.0)), 1.0)
        scaled(Programs.of(Behaviour(19)), 1.0)
    assert not made


def test_what_is_compiled_ahead_is_not_compiled_again():
    agent = SMALL.make(MatchSign, features=(), n_evals=7)  # which no other test has
    executor, hyperparams = OnDevice(agent), SMALL.hyperparams()
    executor.compile(KEY, hyperparams)
    with compilations() as made:
        runner, _ = executor.advance(executor.start(KEY, hyperparams), np.int32(1))
        executor.evaluate(runner)
    assert made == []


@pytest.mark.optimised
@pytest.mark.slow  # programs that are compiled as for users
def test_fresh_runners_are_those_of_traced_programs_bit_for_bit():
    """Which a quickly compiled loop over environments would not make."""
    fields = {"batch_size": 4, "eval_frequency": 10, "features": (16,)}
    agent = SAC(*gymnax.make("Pendulum-v1"), sac.AgentConfig(**fields))
    trees.assert_equal(agent.start(KEY), jax.jit(agent.start)(KEY))


def test_programs_of_structures_that_were_not_used_lately_are_released(monkeypatch):
    monkeypatch.setattr(compilation, "_N_STRUCTURES", 2)

    @jit_by_structure
    def total(tree, factor):
        return factor * sum(tree)

    assert total([1.0, 2.0], factor=2.0) == 6.0
    before = len(jax.devices()[0].client.live_executables())
    for length in range(3, 9):
        assert total([1.0] * length, 1.0) == length
    assert len(jax.devices()[0].client.live_executables()) <= before + 2
    with compilations() as made:
        total([0.0] * 8, 1.0)
    assert made == []
